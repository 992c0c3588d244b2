"""Whether a network reads only bytes that were written: its masks alone are followed, nothing is computed."""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import ActivationKind, Binding, ByteRange, DmaOperation, KernelOperation, Program
from npu_model.program.region_numbers import ARENA
from npu_model.weight_stream.order import check_format
from npu_model.weight_stream.weights import core_channels, core_format, require_scales
from sim.functional.activation import table_range
from sim.functional.hazards import require_no_hazard
from sim.functional.memory import Memory
from sim.functional.network import is_copy
from sim.functional.regions import Regions, Store


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


def _define(store: Store, bindings: Iterable[Binding]) -> None:
    for binding in bindings:
        store.written[binding.byte_range.start : binding.byte_range.end] = 1


def _require_kernel(op: KernelOperation, memory: Memory, device: Accelerator, user: str) -> None:
    for fm in (op.ifm, op.ifm2):
        if fm is not None:
            memory.require_defined(fm, user)
    memory.require_inside(op.ofm, user)
    require_no_hazard(op, user)
    for core, part in enumerate(op.weights):
        memory.read(part, user)
        shape, layout = core_format(op, core)
        # A core without a channel has no weights.
        if shape[0]:
            check_format(shape, layout, device)
    for core, part in enumerate(op.scales):
        require_scales(memory.read(part, user), core_channels(op.ofm.shape.depth, core, len(op.scales)))
    if op.activation.kind is ActivationKind.LUT:
        memory.read_shram(*table_range(op, device.lut_address), user)
    memory.define(op.ofm, user)


def _follow(program: Program, memory: Memory) -> None:
    device = accelerator(program.accelerator)
    for index, op in enumerate(program.operations):
        if isinstance(op, KernelOperation):
            _require_kernel(op, memory, device, f"Operation {index} ({' '.join(filter(None, (op.mnemonic, program.name(index))))})")
        elif isinstance(op, DmaOperation):
            memory.transfer(op, f"Operation {index} (DMA)")


def _follow_cpu(operator: CpuOperator, arena: Regions) -> None:
    if is_copy(operator):
        arena.move(operator.inputs[0], operator.outputs[0])
        return
    for binding in operator.inputs:
        arena.read(binding.byte_range, f"{operator.code} on the CPU, input {binding.name!r}")
    _define(arena.regions[ARENA], operator.outputs)


def require_defined(network: CompiledNetwork) -> None:
    """InputError at the first operation that reads a byte that nothing wrote or overwrites its own input, or at such an output.

    This is what :func:`sim.functional.run` finds, without its arithmetic, and what operators on the CPU write counts as written. What it
    cannot find is a wrong value, such as that of a schedule that overwrites what is still needed with what is also defined.
    """
    arena = _arena(network)
    regions = Regions({ARENA: arena})
    _define(arena, network.inputs + network.variables)
    for step in network.steps:
        if isinstance(step, CpuOperator):
            _follow_cpu(step, regions)
        else:
            _follow(step, Memory(step, arena))
    for binding in network.outputs:
        regions.read(binding.byte_range, f"Output {binding.name!r}")
