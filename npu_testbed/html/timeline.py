"""The timeline of a replay as data: layers, stripes, units with their blocks and waits, and each port's traffic, over the cycles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_model.printable import printable
from npu_model.program import KernelOperation
from npu_testbed.html.recorder import Recording, TimelineEvents
from npu_testbed.replays.layer_names import all_shortened
from npu_testbed.replays.simulation import Simulation
from sim import Cause, OperationReplay, Replay, Unit

_PORTS = (("AXI0 read", "axi0_read"), ("AXI0 write", "axi0_write"), ("AXI1 read", "axi1_read"), ("AXI1 write", "axi1_write"))


def _name(one: OperationReplay) -> str:
    return printable(one.name) or f"#{one.index} {_operator(one)}"


def _operator(one: OperationReplay) -> str:
    return one.op.mnemonic if isinstance(one.op, KernelOperation) else "DMA"


def _detail(one: OperationReplay) -> str:
    if isinstance(one.op, KernelOperation):
        return f"{one.op.mnemonic} {one.op.ofm.shape}, block {one.op.block}"
    return f"DMA of {one.op.length:,} bytes"


def _events(recording: Recording, now: int, first: dict[int, int]) -> Iterator[list[int]]:
    """Unit, cause, start and length of each event, and its operation, as lists, which are shorter in JSON than objects."""
    if recording.events is not None:
        for (unit, cause, operation), start, end in recording.events:
            yield [unit, cause, now + start, end - start, first.get(operation, -1)]
    else:
        for (unit, cause, operation), stretch in recording.joined.items():
            yield [unit, cause, now + stretch.start, stretch.end - stretch.start, first.get(operation, -1), stretch.cycles]


def _operations(replay: Replay, now: int, layers: dict[str, int]) -> Iterator[list[Any]]:
    """Layer, start, length, detail and bytes per port of each operation; a kernel starts where the one before it ends."""
    done = now
    for one in replay.operations:
        is_kernel = isinstance(one.op, KernelOperation)
        start = max(done, now + one.issued) if is_kernel else now + one.issued
        moved = [getattr(one.beats, key) * replay.accelerator.port_bytes_per_cycle for _, key in _PORTS]
        layer = layers.setdefault(_name(one), len(layers))
        yield [layer, start, now + one.finished - start, _detail(one), int(is_kernel), moved]
        done = now + one.finished if is_kernel else done


def timeline_data(simulation: Simulation, recorder: TimelineEvents) -> dict[str, Any]:
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
