"""Lost inputs: inputs of a network that a run overwrites, and the outputs in their place."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import Binding, ByteRange, DmaOperation, KernelOperation


class LostInput(Struct, frozen=True):
    """Input ``number`` of a network, which a run overwrites, and the ``outputs`` (numbers) that overlap it."""

    number: int
    name: str
    outputs: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return a sentence that names the input and the outputs over it."""
        over = f": {', '.join(map(repr, self.names))} lies over it" if self.names else ""
        return f"Input {self.name!r} is gone after a run{over}. Write it before each run."


def _written(network: CompiledNetwork) -> Iterator[ByteRange]:
    """Every range that a step writes."""
    for step in network.steps:
        if isinstance(step, CpuOperator):
            yield from (binding.byte_range for binding in step.outputs)
        else:
            for operation in step.operations:
                if isinstance(operation, (KernelOperation, DmaOperation)):
                    yield from operation.writes()


def lost_inputs(network: CompiledNetwork) -> tuple[LostInput, ...]:
    """The inputs that a run overwrites, in order, with another tensor or an output."""
    written = set(_written(network))

    def lost(number: int, one: Binding) -> LostInput | None:
        if not any(one.byte_range.overlaps(span) for span in written):
            return None
        over = [(at, output) for at, output in enumerate(network.outputs) if one.byte_range.overlaps(output.byte_range)]
        return LostInput(number, one.name, tuple(at for at, _ in over), tuple(output.name for _, output in over))

    return tuple(found for number, one in enumerate(network.inputs) if (found := lost(number, one)) is not None)
