"""Whether a network reads only bytes that were written, and weights that can be decoded: masks are followed, nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.accelerator import Accelerator, accelerator, require_use
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import ActivationKind, Binding, ByteRange, DmaOperation, KernelOperation, MapStorage, Program
from npu_model.program.region_numbers import ARENA
from npu_model.weight_stream.kernels import kernel_scales, kernel_weights
from sim.functional.activation import table_range
from sim.functional.copies import is_copy
from sim.functional.hazards import require_no_hazard
from sim.functional.memory import RegionBytes
from sim.functional.origins import Origins
from sim.functional.regions import Regions, Store, home_stores


def _touched(program: Program) -> Iterable[ByteRange]:
    """Addresses that a program's operations and bindings reach."""
    for op in program.operations:
        if isinstance(op, (KernelOperation, DmaOperation)):
            yield from op.reads()
            yield from op.writes()
    for binding in program.inputs + program.outputs:
        yield binding.byte_range


def _arena(network: CompiledNetwork) -> Store:
    """The arena as far as anything reaches: the rest, of which files may claim gigabytes, needs no mask."""
    bindings = [binding for step in network.steps if isinstance(step, CpuOperator) for binding in step.inputs + step.outputs]
    ranges = [binding.byte_range for binding in (*bindings, *network.inputs, *network.outputs)]
    ranges += [part for program in network.programs for part in _touched(program)]
    shared = {region.index for program in network.programs for region in program.regions if region.size == network.arena_size} | {ARENA}
    return Store(min(max((part.end for part in ranges if part.region in shared), default=0), network.arena_size))


def _define(regions: Regions, bindings: Iterable[Binding], origins: Origins) -> None:
    """Note that arrays of the arena are written from outside of the NPU."""
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
        kernel_weights(op, streams, device)
    except InputError as error:
        raise InputError(f"{user} has weights that cannot be decoded. {error}") from None


def _require_kernel(op: KernelOperation, memory: RegionBytes, origins: Origins, device: Accelerator, user: str) -> None:
    for fm in (op.ifm, op.ifm2):
        if fm is not None and fm.storage is MapStorage.TILES:
            memory.require_defined(fm, user)
    memory.require_inside(op.stored, user)
    require_no_hazard(op, user)
    _require_weights(op, memory, origins, device, user)
    kernel_scales(op, [memory.read(part, user) for part in op.scales], device)
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
    """InputError at the first operation that reads a byte that nothing wrote, weights that cannot be decoded, or overwrites its own input.

    An output that nothing wrote is such a read, too.

    This is what :func:`sim.functional.run` finds, without its arithmetic, and what operators on the CPU write counts as written. It cannot
    find a wrong value: a schedule may overwrite a value that is still needed with another defined value.
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
