"""Check that a network reads only written bytes and weights that can be decoded: it follows masks and computes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.accelerator import Accelerator, accelerator, require_use
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import ActivationKind, Binding, ByteRange, DmaOperation, FeatureMap, KernelOperation, MapStorage, Program
from npu_model.program.region_numbers import ARENA
from npu_model.weight_stream.kernels import require_kernel_scales, require_weights
from sim.functional.activation import table_range
from sim.functional.boxes import boxes
from sim.functional.copies import is_copy
from sim.functional.hazards import require_no_hazard
from sim.functional.memory import RegionBytes
from sim.functional.regions import Regions, Store, home_stores

_MASKS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}


class Origins:
    """For each byte of each memory, whether it was computed: by a kernel, by an operator on the CPU, or as an input of the network."""

    def __init__(self) -> None:
        self._computed: dict[Store, NDArray[np.uint8]] = {}

    def _of(self, store: Store) -> NDArray[np.uint8]:
        if store not in self._computed:
            self._computed[store] = np.zeros(len(store), np.uint8)
        return self._computed[store]

    def compute(self, memory: RegionBytes, fm: FeatureMap) -> None:
        """Note that a kernel has written a feature map, which lies inside its region."""
        mask, kind = self._of(memory.regions[fm.region]), _MASKS[fm.dtype.bytes]
        for box in boxes(fm):
            np.ndarray(box.shape, kind, mask.data, box.start, box.strides)[...] = (1 << 8 * fm.dtype.bytes) - 1

    def compute_arrays(self, regions: Regions, bindings: Iterable[Binding]) -> None:
        """Record that arrays were written from outside the NPU."""
        for binding in bindings:
            self._of(regions.regions[binding.region])[binding.byte_range.start : binding.byte_range.end] = 1

    def transfer(self, memory: RegionBytes, dma: DmaOperation) -> None:
        """Copy the origins of a transfer's bytes."""
        if not dma.to_shram:
            source = self._of(memory.regions[dma.source.region])[dma.source.start : dma.source.end].copy()
            self._of(memory.regions[dma.destination_region])[dma.destination : dma.destination + dma.length] = source

    def require_constant(self, memory: RegionBytes, span: ByteRange, user: str) -> None:
        """InputError if a byte of a weight stream was computed, because only the compiler makes streams."""
        computed = self._of(memory.regions[span.region])[span.start : span.end]
        if computed.any():
            byte = span.start + int(np.argmax(computed))
            raise InputError(
                f"{user} reads weights at bytes {span.start:#x} to {span.end:#x} of region {span.region}, of which byte {byte:#x} was "
                "computed and is not a copy of a constant: such weights cannot be decoded; the stream is wrong."
            )


def _touched(program: Program) -> Iterable[ByteRange]:
    """Addresses that a program's operations and bindings reach."""
    for op in program.operations:
        if isinstance(op, (KernelOperation, DmaOperation)):
            yield from op.reads()
            yield from op.writes()
    for binding in program.inputs + program.outputs:
        yield binding.byte_range


def _arena(network: CompiledNetwork) -> Store:
    """The part of the arena that is ever accessed. Files may claim gigabytes, but the rest needs no mask."""
    bindings = [binding for step in network.steps if isinstance(step, CpuOperator) for binding in step.inputs + step.outputs]
    ranges = [binding.byte_range for binding in (*bindings, *network.inputs, *network.outputs)]
    ranges += [part for program in network.programs for part in _touched(program)]
    shared = {region.index for program in network.programs for region in program.regions if region.size == network.arena_size} | {ARENA}
    return Store(min(max((part.end for part in ranges if part.region in shared), default=0), network.arena_size))


def _define(regions: Regions, bindings: Iterable[Binding], origins: Origins) -> None:
    """Record that arrays of the arena are written from outside the NPU."""
    bindings = tuple(bindings)
    for binding in bindings:
        regions.regions[binding.region].written[binding.byte_range.start : binding.byte_range.end] = 1
    origins.compute_arrays(regions, bindings)


def _require_weights(op: KernelOperation, memory: RegionBytes, origins: Origins, device: Accelerator, user: str) -> None:
    if not op.weights:
        return
    streams = [memory.read(part, user) for part in op.weights]
    for part in op.weights:
        # A core without a channel has no weights.
        if part.length:
            origins.require_constant(memory, part, user)
    try:
        require_weights(op, streams, device)
    except InputError as error:
        raise InputError(f"{user} has weights that cannot be decoded. {error}") from None


def _require_kernel(op: KernelOperation, memory: RegionBytes, origins: Origins, device: Accelerator, user: str) -> None:
    for fm in (op.ifm, op.ifm2):
        if fm is not None and fm.storage is MapStorage.TILES:
            memory.require_defined(fm, user)
    memory.require_inside(op.stored, user)
    require_no_hazard(op, user)
    _require_weights(op, memory, origins, device, user)
    require_kernel_scales(op, [memory.read(part, user) for part in op.scales], device)
    if op.activation.kind is ActivationKind.LUT:
        memory.read_shram(*table_range(op, device.lut_address), user)
    if op.ofm.storage is MapStorage.TILES:
        memory.define(op.stored, user)
        origins.compute(memory, op.stored)


def _follow(program: Program, memory: RegionBytes, origins: Origins) -> None:
    require_use(program.accelerator, "run")
    device = accelerator(program.accelerator)
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            _require_kernel(
                op, memory, origins, device, f"Operation {index} ({' '.join(filter(None, (op.mnemonic, program.name(index))))})"
            )
        elif isinstance(op, DmaOperation):
            memory.transfer(op, f"Operation {index} (DMA)")
            origins.transfer(memory, op)


def _follow_cpu(operator: CpuOperator, arena: Regions, origins: Origins) -> None:
    if is_copy(operator):
        arena.move(operator.inputs[0], operator.outputs[0])
        origins.compute_arrays(arena, operator.outputs)
        return
    for binding in operator.inputs:
        arena.read(binding.byte_range, f"{operator.code} on the CPU, input {binding.name!r}")
    _define(arena, operator.outputs, origins)


def require_defined(network: CompiledNetwork) -> None:
    """InputError at the first operation that reads an unwritten byte, reads weights that cannot be decoded, or overwrites its own input.

    An unwritten output counts as such a read, too. :func:`sim.functional.run` finds the same errors with arithmetic. Results of CPU
    operators count as written. It cannot find a wrong value: a schedule may overwrite a value that is still needed with another defined
    value.
    """
    arena = _arena(network)
    homes = home_stores(network.programs)
    regions, origins = Regions({**homes, ARENA: arena}), Origins()
    _define(regions, network.inputs + network.variables, origins)
    for step in network.steps:
        if isinstance(step, CpuOperator):
            _follow_cpu(step, regions, origins)
        else:
            _follow(step, RegionBytes(step, arena, homes), origins)
    for binding in network.outputs:
        regions.read(binding.byte_range, f"Output {binding.name!r}")
