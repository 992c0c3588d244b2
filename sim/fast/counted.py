"""Counted replays: what the engine counts of every unit, from the compiled twin where it is built."""

from __future__ import annotations

from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation, Program
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import StreamWork, stream_work
from sim.fast.compiled import compiled_cache
from sim.fast.quick import command_and_copy_beats
from sim.footprint import footprint
from sim.replay import Counted, NetworkReplay, Replay, check_work, operation_beats, replay, replay_of


def counted_replay(
    program: Program, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, work: StreamWork | None = None
) -> Replay:
    """As :func:`sim.replay` without listeners, to which it is equal; the engine itself runs where the core is not built.

    InputError if the Program's accelerator is unknown, a weight stream is damaged or it is absurdly large.
    """
    device = accelerator(program.accelerator)
    compiled = compiled_cache(device, system, timing)
    if not compiled.is_usable:
        return replay(program, system, timing=timing, work=work)
    check_work(program)
    known = {} if not timing.decodes_streams else stream_work(program, device) if work is None else work
    found = compiled.replay(program, known, counted=True)
    beats = {
        index: found.kernel_beats(index) if isinstance(op, KernelOperation) else operation_beats(op, device, system)
        for index, op in enumerate(program.operations)
    }
    total = found.beats + command_and_copy_beats(program, device, system)
    return replay_of(program, device, system, Counted(found.cycles, total, beats, found.times, found.busy, found.waits), timing)


def counted_network(network: CompiledNetwork, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> NetworkReplay:
    """As :func:`sim.replay_network` without listeners."""
    return NetworkReplay(
        replays=tuple(counted_replay(program, system, timing) for program in network.programs),
        footprint=footprint(network.programs, network.inputs, network.outputs),
    )
