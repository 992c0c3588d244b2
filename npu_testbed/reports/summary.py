"""The summary of a Simulation: its figures, as values, as a text and as JSON."""

from __future__ import annotations

from collections import Counter

from npu_model.compiled.network import CpuOperator
from npu_model.memory.outer_arena import ARENA, CONSTANTS, FAST_SCRATCH
from npu_model.printable import printable
from npu_model.program import RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.cpu_time.estimate import basis_text, inference_json, inference_text
from npu_testbed.devices.memory_options import memory_system_json
from npu_testbed.devices.timing import timing_json, timing_text
from npu_testbed.documents.document import extended
from npu_testbed.documents.replay import ReplayDocument, SummaryEntry
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.carried import carried_bytes, carried_text
from npu_testbed.reports.inputs_outputs import inputs_outputs_json, inputs_outputs_text
from npu_testbed.reports.macs import macs_of
from npu_testbed.reports.unseen import unproven_text, unseen_text
from sim.views.layers import layer_rows
from validation.layout import filled

PORTS = ("axi0_read", "axi0_write", "axi1_read", "axi1_write")
"""Ports and directions, as :class:`sim.Beats` names them."""

_VALUE = 400
"""Characters of a value in one line of the summary."""


class Summary(SummaryEntry, frozen=True, kw_only=True):
    """The figures of one replay.

    ``cycles`` is NPU ACTIVE; ``milliseconds`` is that time at the memory system's clock. ``peak_bytes`` is the SRAM for feature maps that
    the replay touches, ``live_peak_bytes`` its most bytes that are still needed, and ``planned_bytes`` the bytes that the plan sets aside.
    ``constant_bytes`` are the weights, scales and tables. ``beats`` are data beats of 8 bytes per port and direction. ``mac_utilisation``
    is the share (0 to 1) of the accelerator's multiply-accumulates that the network's mathematics needs. ``cpu_operators`` take no NPU
    cycles. ``as_planned`` says whether the touched bytes, rounded up to the arena's alignment, are the planned ones.
    """

    beats: dict[str, int]  # type: ignore[assignment]  # by port and direction


def summarise(simulation: Simulation) -> Summary:
    """The summary of a simulation."""
    replay = simulation.replay
    programs = simulation.network.programs
    macs = macs_of(simulation.network)
    operators = Counter(step.code for step in simulation.network.steps if isinstance(step, CpuOperator))
    return Summary(
        cycles=replay.cycles,
        milliseconds=replay.cycles / simulation.system.clock_hz * 1000,
        peak_bytes=replay.footprint.peak,
        live_peak_bytes=replay.footprint.live_peak,
        planned_bytes=simulation.planned_bytes,
        constant_bytes=max((r.size for program in programs for r in program.regions if r.role is RegionRole.CONSTANTS), default=0),
        beats={port: getattr(replay.beats, port) for port in PORTS},
        macs=macs,
        mac_utilisation=macs / (replay.cycles * simulation.device.macs_per_cycle) if replay.cycles else 0.0,
        kernels=sum(len(program.kernels) for program in programs),
        transfers=sum(len(program.transfers) for program in programs),
        cpu_operators=dict(sorted(operators.items())),
        as_planned=round_up(replay.footprint.peak, ALIGNMENT) == simulation.planned_bytes,
    )


def _planned(summary: Summary, planner: str) -> str:
    if summary.as_planned:
        rounded = "" if summary.peak_bytes == summary.planned_bytes else f" when rounded up to {ALIGNMENT}"
        return f"{summary.planned_bytes:,} bytes by {planner}: equal{rounded}"
    return f"{summary.planned_bytes:,} bytes by {planner}: {summary.peak_bytes - summary.planned_bytes:+,} in the replay"


def _granted(simulation: Simulation, granted: int) -> str:
    over = simulation.planned_bytes - granted
    return f"{granted:,} bytes by the memory mode or --arena-cache-size{f': exceeded by {over:,}' if over > 0 else ''}"


def _constants(summary: Summary, simulation: Simulation) -> str:
    system = simulation.system
    port = system.port_of(CONSTANTS)
    text = f"{summary.constant_bytes:,} bytes behind AXI{port} ({system.ports[port].name})"
    feature_maps = FAST_SCRATCH if simulation.fast_scratch else ARENA
    return f"{text}, in the same memory on top of the peak" if system.port_of(feature_maps) == port else text


def summary_lines(simulation: Simulation) -> list[tuple[str, str]]:
    """The figures of the summary, each as a name and a value."""
    summary = summarise(simulation)
    clock = simulation.system.clock_hz / 1e6
    lines = [
        ("Model", simulation.model),
        ("Accelerator", simulation.device.name),
        ("Memory system", simulation.system.name),
        *([("Timing", timing_text(simulation.timing))] if simulation.timing != DEFAULT_TIMING else []),
        ("NPU cycles", f"{summary.cycles:,} ({summary.milliseconds:.3f} ms at {clock:g} MHz)"),
        *([("Off by", text)] if (text := unseen_text(simulation.device.name, simulation.system, simulation.timing)) else []),
        (
            f"Peak {simulation.memory_name}",
            f"{summary.peak_bytes:,} bytes in the replay, of which {summary.live_peak_bytes:,} live at once",
        ),
        ("Planned", _planned(summary, simulation.planner)),
        *([] if simulation.granted_bytes is None else [("Granted", _granted(simulation, simulation.granted_bytes))]),
        ("I/O tensors", inputs_outputs_text(simulation.network, simulation.system, summary.planned_bytes)),
        *([("Carried", text)] if (text := carried_text(simulation.network)) else []),
        ("Constants", _constants(summary, simulation)),
        ("MACs", f"{summary.macs:,} ({summary.mac_utilisation:.1%} of the MAC array)"),
    ]
    for port in PORTS:
        beats = summary.beats[port]
        lines.append(
            (port.replace("axi", "AXI").replace("_", " "), f"{beats * simulation.device.port_bytes_per_cycle:,} bytes in {beats:,} beats")
        )
    lines.append(
        (
            "Operations",
            f"{summary.kernels} kernel{'s' * (summary.kernels != 1)}, {summary.transfers} DMA transfer{'s' * (summary.transfers != 1)}",
        )
    )
    if unproven := unproven_text(simulation):
        lines.append(("Unproven", unproven))
    if simulation.fast_scratch:
        lines.append(
            ("Arena", f"{simulation.network.arena_size:,} bytes apart from the {simulation.memory_name}, as the memory mode asks for")
        )
    if simulation.network.resources:
        size = sum(variable.size for variable in simulation.network.resources)
        count = len(simulation.network.resources)
        lines.append(("States", f"{size:,} bytes in {count} resource variables, which the runtime keeps beside the arena"))
    if summary.cpu_operators:
        names = ", ".join(f"{count} {name}" for name, count in summary.cpu_operators.items())
        lines.append(("On the CPU", f"{names} (no NPU cycles are counted for them)"))
        lines += [("Inference", inference_text(simulation.inference)), ("CPU times", basis_text(simulation.inference))]
    if simulation.network.others:
        lines.append(("Subgraphs", f"{simulation.network.others} beside the first, on the CPU alone: not simulated, outside the arena"))
    return lines


def summary_text(simulation: Simulation) -> str:
    """The summary as lines of a name and a value; a long value continues on the next line."""
    lines = summary_lines(simulation)
    width = max(len(name) for name, _ in lines)
    return "\n".join(filled(f"{name:<{width}}  {printable(value, _VALUE)}", " " * (width + 2)) for name, value in lines)


def replay_json(simulation: Simulation) -> ReplayDocument:
    """The simulation's inputs, summary and layers."""
    return extended(
        ReplayDocument,
        simulation,
        accelerator=simulation.device.name,
        memory_system=memory_system_json(simulation.system),
        timing=timing_json(simulation.timing),
        tools=dict(simulation.tools),
        summary=summarise(simulation),
        inputs_outputs=inputs_outputs_json(simulation.network, simulation.system),
        carried_bytes=carried_bytes(simulation.network),
        inference=inference_json(simulation.inference),
        layers=layer_rows(simulation.replay),
    )
