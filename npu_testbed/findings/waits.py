"""Replays without findings: what the MAC array waits for, and the effect of a larger NPU or a faster memory."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import Program
from npu_testbed.findings.finding import LEAST, Finding, part, percent
from npu_testbed.findings.memories import faster_memories
from npu_testbed.replays.simulation import Simulation
from sim import Cause, Unit, quick_cycles
from sim.views.stalls import stall_report

_WAITS = {Cause.IB: "input", Cause.WEIGHTS: "weights", Cause.ACC: "the output unit"}


def next_accelerator(device: Accelerator) -> Accelerator | None:
    """The next larger configuration of the family with the same number of cores; None after the largest."""
    larger = [accelerator(name) for name in accelerator_names(device.family)]
    fitting = [one for one in larger if one.macs > device.macs and one.cores == device.cores]
    return min(fitting, key=lambda one: one.macs, default=None)


def on_accelerator(network: CompiledNetwork, device: Accelerator) -> CompiledNetwork:
    """The same operations on another configuration."""
    steps = tuple(replace(step, accelerator=device.name) if isinstance(step, Program) else step for step in network.steps)
    return replace(network, steps=steps)


def _mac_array(simulation: Simulation) -> str:
    """A sentence on the cycles of the MAC array: work, waits, and the time without a kernel."""
    cycles = simulation.replay.cycles
    row = next(row for row in stall_report(simulation.replay) if row.unit is Unit.MAC)
    waits = [(_WAITS.get(cause, cause.value), amount) for cause, amount in row.waits] + [("the next kernel", row.idle)]
    long = sorted((wait for wait in waits if part(wait[1], cycles) >= LEAST), key=lambda wait: -wait[1])
    said = ", ".join(f"for {what} in {percent(part(amount, cycles))}" for what, amount in long)
    return f"The MAC array works in {percent(part(row.busy, cycles))} of the cycles" + (f" and waits {said}." if said else ".")


def _larger(simulation: Simulation) -> str:
    """A sentence on the cycles of the same operations on the next larger configuration, from a replay.

    A configuration that computes more channels at once may need longer weight streams.
    """
    device, cycles = next_accelerator(simulation.device), simulation.replay.cycles
    if device is None:
        return f"No {simulation.device.family.upper()} with as many cores is larger than the {simulation.device.name}."
    try:
        larger = quick_cycles(on_accelerator(simulation.network, device), simulation.system, simulation.timing)
    except InputError:
        return f"The {device.name} needs other weight streams: schedule the network for it."
    change = f"{percent(part(cycles - larger, cycles))} fewer" if larger <= cycles else f"{percent(part(larger - cycles, cycles))} more"
    return f"On the {device.name} the same operations take {larger:,} cycles, {change}."


def _faster(simulation: Simulation) -> Iterator[str]:
    """The faster memory that saves most, from replays."""
    best: Finding | None = max(faster_memories(simulation), key=lambda one: one.share, default=None)
    if best is not None:
        yield f"Of faster memories, {best.changed} saves most: {percent(best.share)} of the cycles."


def what_bounds(simulation: Simulation) -> str:
    """Sentences for a replay without findings; nothing for a network without an NPU cycle."""
    if not simulation.replay.cycles:
        return ""
    return " ".join([_mac_array(simulation), _larger(simulation), *_faster(simulation)])
