"""The content of a report on one replay, as values that JSON can hold.

- The headline has time, memory, whether it fits, and Vela's schedule of the same network if known.
- The timeline has layers, stripes, units with their blocks and waits, and each port's traffic, over the cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import to_builtins

from npu_model.compiled.network import CpuOperator
from npu_model.printable import printable
from npu_model.program import KernelOperation
from npu_testbed.findings import Finding
from npu_testbed.html.beside import measured_data
from npu_testbed.html.graph import NAME, graph_data
from npu_testbed.measured.rows import Beside
from npu_testbed.replays.layer_names import all_shortened, first_operator, short_layers
from npu_testbed.replays.recurrent import recurrent_layers, steps_text
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.cpu_operators import cpu_reasons
from npu_testbed.reports.findings import nothing_found
from npu_testbed.reports.headline import Rival, kibibytes, milliseconds
from npu_testbed.reports.summary import summary_lines
from npu_testbed.reports.tables import shown_rows
from npu_testbed.views.arena_map import ArenaMap
from sim import Cause, OperationReplay, Replay, Unit
from sim.views.layers import LayerRow, label, layer_rows
from sim.views.recorder import EventRecorder, Recording

_UNITS = {unit: number for number, unit in enumerate(Unit)}
_CAUSES = {None: -1} | {cause: number for number, cause in enumerate(Cause)}


def _figure(value: str, words: str, state: str = "") -> dict[str, str]:
    return {"value": value, "words": words, "state": state}


def _fit(size: int, limit: int) -> dict[str, str]:
    if size <= limit:
        return _figure("fits", f"{limit - size:,} of {limit:,} bytes stay free", "good")
    return _figure("does not fit", f"{size - limit:,} bytes more than the {limit:,} that are granted", "bad")


def headline_data(simulation: Simulation, budget: int | None = None, rival: Rival | None = None) -> list[dict[str, Any]]:
    """The first figures of a report: a value, its name, and ``good``, ``bad`` or nothing.

    The limit is the memory mode's, or else the ``budget`` in bytes, if any.
    """
    cycles, size, clock = simulation.replay.cycles, simulation.planned_bytes, simulation.system.clock_hz
    limit = budget if simulation.granted_bytes is None else simulation.granted_bytes
    on_cpu = any(isinstance(step, CpuOperator) for step in simulation.network.steps)
    figures = [
        _figure(milliseconds(cycles, clock), f"{cycles:,} {'NPU ' if on_cpu else ''}cycles at {clock / 1e6:g} MHz"),
        _figure(kibibytes(size), f"{size:,} bytes of {simulation.memory_name}"),
        *([] if limit is None else [_fit(size, limit)]),
    ]
    if rival is not None:
        faster, smaller = cycles <= rival.cycles, size <= rival.bytes
        words = f"of the cycles of {rival.name} ({rival.cycles:,}), in {size / rival.bytes:.0%} of its {rival.bytes:,} bytes"
        figures.append(_figure(f"{cycles / rival.cycles:.1%}", words, "good" if faster and smaller else "" if faster or smaller else "bad"))
    return figures


_PORTS = (("AXI0 read", "axi0_read"), ("AXI0 write", "axi0_write"), ("AXI1 read", "axi1_read"), ("AXI1 write", "axi1_write"))


def _detail(one: OperationReplay) -> str:
    if isinstance(one.op, KernelOperation):
        return f"{one.op.mnemonic} {one.op.ofm.shape}, block {one.op.block}"
    return f"DMA of {one.op.length:,} bytes"


def _events(recording: Recording, now: int, first: dict[int, int]) -> Iterator[list[int]]:
    """Unit, cause (-1: busy), start and length of each event, and its operation, as lists, which are shorter in JSON than objects."""
    if recording.events is not None:
        for (unit, cause, operation), start, end in recording.events:
            yield [_UNITS[unit], _CAUSES[cause], now + start, end - start, first.get(operation, -1)]
    else:
        for (unit, cause, operation), stretch in recording.joined.items():
            times = (now + stretch.start, stretch.end - stretch.start)
            yield [_UNITS[unit], _CAUSES[cause], *times, first.get(operation, -1), stretch.cycles]


def _operations(replay: Replay, now: int, layers: dict[str, int]) -> Iterator[list[Any]]:
    """Layer, start, length, detail and bytes per port of each operation; a kernel starts where the one before it ends."""
    done = now
    for one in replay.operations:
        is_kernel = isinstance(one.op, KernelOperation)
        start = max(done, now + one.issued) if is_kernel else now + one.issued
        moved = [getattr(one.beats, key) * replay.accelerator.port_bytes_per_cycle for _, key in _PORTS]
        layer = layers.setdefault(printable(label(one)), len(layers))
        yield [layer, start, now + one.finished - start, _detail(one), int(is_kernel), moved]
        done = now + one.finished if is_kernel else done


def timeline_data(simulation: Simulation, recorder: EventRecorder) -> dict[str, Any]:
    """Data of the page's timeline; the Programs of a network are drawn one after the other."""
    layers: dict[str, int] = {}
    operations: list[list[Any]] = []
    events: list[list[int]] = []
    now = 0
    for replay, recording in zip(simulation.replay.replays, recorder.recordings, strict=True):
        first = {one.index: len(operations) + place for place, one in enumerate(replay.operations)}
        operations += _operations(replay, now, layers)
        events += _events(recording, now, first)
        now += replay.cycles
    return {
        "cycles": now,
        "units": [unit.value for unit in Unit],
        "causes": [cause.value for cause in Cause],
        "ports": [name for name, _ in _PORTS],
        "layers": list(layers),
        "short": all_shortened(list(layers)),
        "operations": operations,
        "events": events,
        "every_event": recorder.every_event,
    }


def report_title(simulation: Simulation) -> str:
    """The heading of a report on one replay."""
    return f"{simulation.model} on {simulation.device.name}, {simulation.system.name}, by {simulation.planner}"


def map_data(arena: ArenaMap, budget: int | None) -> dict[str, Any]:
    """The areas of an arena with their slabs as (start, end, low, high)."""
    areas = [
        {
            "name": printable(area.name, NAME),
            "short": short,
            "kind": area.kind.value,
            "slabs": [[s.start, s.end, s.low, s.high] for s in area.slabs],
        }
        for area, short in zip(arena.areas, all_shortened([area.name for area in arena.areas]), strict=True)
    ]
    return {"cycles": arena.cycles, "bytes": arena.arena_size, "budget": budget, "areas": areas}


def replay_data(  # noqa: PLR0913  # a replay, and what a report shows next to it
    simulation: Simulation,
    arena: ArenaMap,
    recorder: EventRecorder,
    found: Sequence[Finding] | None,
    budget: int | None = None,
    beside: Beside | None = None,
    rival: Rival | None = None,
) -> dict[str, Any]:
    """A replay's headline, summary, layers, findings (None if not requested), map, timeline and network.

    ``beside`` is a measurement, and ``rival`` is Vela's schedule; None if unknown.
    """
    short, granted = short_layers(simulation.replay), simulation.granted_bytes
    # A limit far above the arena would leave the map only a strip. So it is drawn only if it is exceeded.
    exceeded = granted if granted is not None and granted < simulation.planned_bytes else None

    def rows(found: Sequence[LayerRow]) -> list[dict[str, Any]]:
        return [
            to_builtins(row) | {"layer": printable(row.layer, NAME), "short": short[row.layer], "operator": first_operator(row.operator)}
            for row in found
        ]

    return {
        "headline": headline_data(simulation, budget, rival),
        "clock_hz": simulation.system.clock_hz,
        "facts": [
            *([name, printable(value, 400)] for name, value in summary_lines(simulation)),
            *([f"On the CPU: {who}", why] for who, why in cpu_reasons(simulation.network)),
        ],
        "layers": rows(layer_rows(simulation.replay)),
        "rows": rows(shown_rows(simulation.replay)),
        "steps": [steps_text(one, short[one.layer]) for one in recurrent_layers(simulation.replay)],
        "hazards": [printable(one.text, 1000) for one in simulation.hazards],
        "measured": None if beside is None else measured_data(beside),
        "findings": None if found is None else [one.text for one in found],
        "bounds": nothing_found(simulation) if found is not None and not found else "",
        "map": map_data(arena, exceeded if budget is None else budget),
        "timeline": timeline_data(simulation, recorder),
        "graph": graph_data(simulation),
    }
