"""Removal of transfers within the arena: kernels that read a copy read its source instead.

Vela's C++ core copies a whole tensor where one operator reads the same bytes in two shapes (a product of two batched matrices).
No byte of a legalised compilation is written twice, so that the copy and what it was made of hold the same bytes until the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cascader.ethosu.codegen.feature_maps import rebase
from cascader.ethosu.network.network import ARENA
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import Binding, ByteRange, DmaOperation, FeatureMap, KernelOperation, Program


@dataclass(frozen=True, slots=True)
class ArenaCopy:
    """A transfer from ``source`` to ``destination``, both in the arena: ``index`` is its operation's in step ``step``."""

    step: int
    index: int
    source: ByteRange
    destination: ByteRange

    @property
    def delta(self) -> int:
        """Bytes from the copy to what was copied."""
        return self.source.start - self.destination.start


def is_arena_copy(operation: DmaOperation) -> bool:
    """Whether the transfer stays within the arena."""
    return not operation.to_shram and operation.source.region == operation.destination_region == ARENA


def _copies(network: CompiledNetwork) -> Iterator[ArenaCopy]:
    for number, step in enumerate(network.steps):
        if isinstance(step, Program):
            for index, operation in enumerate(step.operations):
                if isinstance(operation, DmaOperation) and is_arena_copy(operation):
                    end = operation.destination + operation.length
                    yield ArenaCopy(number, index, operation.source, ByteRange(ARENA, operation.destination, end))


def _bound(network: CompiledNetwork) -> Iterator[Binding]:
    """The tensors that the application or a CPU operator holds at an address of its own."""
    yield from (*network.inputs, *network.outputs, *network.variables)
    for step in network.steps:
        if isinstance(step, CpuOperator):
            yield from (*step.inputs, *step.outputs)


def _writes(network: CompiledNetwork) -> Iterator[tuple[int, int, ByteRange]]:
    """(step, operation, bytes) of everything that the NPU writes into the arena."""
    for number, step in enumerate(network.steps):
        if isinstance(step, Program):
            for index, operation in enumerate(step.operations):
                if isinstance(operation, KernelOperation) and operation.ofm.region == ARENA:
                    yield from ((number, index, r) for r in operation.ofm.byte_ranges())
    yield from ((copy.step, copy.index, copy.destination) for copy in _copies(network))


def _fault(network: CompiledNetwork, copy: ArenaCopy) -> str:
    """The reason why the copy cannot be left out, as a clause; "" if it can."""
    if any(b.byte_range.overlaps(copy.destination) for b in _bound(network)):
        return "the application reads it there"
    for step, index, written in _writes(network):
        if (step, index) != (copy.step, copy.index) and written.overlaps(copy.destination):
            return "another operation writes there, too"
        if (step, index) > (copy.step, copy.index) and written.overlaps(copy.source):
            return "its source is overwritten later"
    return ""


def _redirected(feature_map: FeatureMap, copies: Sequence[ArenaCopy]) -> FeatureMap:
    """The map, of what was copied where it read a copy; a copy of a copy is followed back."""
    for copy in reversed(copies):
        ranges = feature_map.byte_ranges() if feature_map.region == ARENA else ()
        if any(r.overlaps(copy.destination) for r in ranges):
            feature_map = rebase(feature_map, copy.delta)
    return feature_map


def _kernel(operation: KernelOperation, copies: Sequence[ArenaCopy]) -> KernelOperation:
    ifm2 = operation.ifm2
    return replace(operation, ifm=_redirected(operation.ifm, copies), ifm2=_redirected(ifm2, copies) if ifm2 else None)


def _without(program: Program, copies: Sequence[ArenaCopy], indices: Iterable[int]) -> Program:
    left_out = set(indices)
    kept = [i for i in range(len(program.operations)) if i not in left_out]
    operations = (program.operations[i] for i in kept)
    return replace(
        program,
        operations=tuple(_kernel(o, copies) if isinstance(o, KernelOperation) else o for o in operations),
        words=tuple(program.words[i] for i in kept),
        names=tuple(program.names[i] for i in kept) if program.names else (),
    )


def without_arena_copies(network: CompiledNetwork) -> CompiledNetwork:
    """The legalised ``network`` with every transfer within the arena left out, its readers reading the source.

    InputError if the copy is needed: an output lies there, or one of the two is written again.
    """
    copies = tuple(_copies(network))
    if not copies:
        return network
    for copy in copies:
        fault = _fault(network, copy)
        if fault:
            size = f"{copy.source.length} bytes within the arena"
            raise InputError(f"Operation {copy.index} copies {size}, and {fault}: compile with the legalising options.")
    steps = tuple(
        _without(step, copies, (c.index for c in copies if c.step == number)) if isinstance(step, Program) else step
        for number, step in enumerate(network.steps)
    )
    return replace(network, steps=steps)
