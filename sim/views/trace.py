"""Trace: a replay's events as Chrome Trace Event JSON, which ui.perfetto.dev opens.

One process is the NPU. Every unit has two tracks, in pipeline order: its work and its waits. A counter shows the live bytes of SRAM, arrows
lead from every copy to the kernel that first reads it. Times are real times at the clock of the memory system; each slice has its
``cycles`` as an argument. The ports and the buffers of the arena are processes of their own (:mod:`sim.views.trace_memory`).
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from npu_model.printable import printable
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from sim.events import Unit
from sim.replay import NetworkReplay, Replay
from sim.views.recorder import EventRecorder, Key, Stretch
from sim.views.trace_memory import TraceBuffer, buffer_slices, port_counters, processes

_PROCESS = 1


def _track(unit: Unit, *, waits: bool) -> int:
    """Thread number of a unit's track."""
    return 2 * list(Unit).index(unit) + 1 + waits


def _metadata() -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": "NPU"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": _PROCESS, "args": {"sort_index": _PROCESS}}
    for unit in Unit:
        for waits in (False, True):
            track = _track(unit, waits=waits)
            name = f"{unit.value}: waits" if waits else unit.value
            yield {"ph": "M", "name": "thread_name", "pid": _PROCESS, "tid": track, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": track, "args": {"sort_index": track}}


def _title(program: Program, index: int) -> str:
    op = program.operations[index]
    if isinstance(op, KernelOperation):
        return printable(program.name(index)) or f"#{index} {op.mnemonic}"
    return printable(program.name(index)) or f"#{index} {'DMA' if isinstance(op, DmaOperation) else type(op).__name__}"


def _operation_args(program: Program, index: int) -> dict[str, Any]:
    op = program.operations[index]
    args: dict[str, Any] = {"operation": index}
    if isinstance(op, KernelOperation):
        args |= {"operator": op.mnemonic, "OFM": str(op.ofm.shape), "block": str(op.block)}
    elif isinstance(op, DmaOperation):
        args["bytes"] = op.length
    return args


def _slice(unit: Unit, name: str, start: int, end: int, args: dict[str, Any], *, waits: bool) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": "wait" if waits else "busy",
        "pid": _PROCESS,
        "tid": _track(unit, waits=waits),
        "ts": start,
        "dur": end - start,
        "args": {"cycles": end - start} | args,
    }


def _each(program: Program, events: list[tuple[Key, int, int]], origin: int) -> Iterator[dict[str, Any]]:
    """One slice per event."""
    titles = [_title(program, i) for i in range(len(program.operations))]
    details = [_operation_args(program, i) for i in range(len(program.operations))]
    for (unit, cause, operation), start, end in events:
        args = details[operation] if cause is None else {"operation": operation, "for": titles[operation]}
        name = titles[operation] if cause is None else cause.value
        yield _slice(unit, name, start + origin, end + origin, args, waits=cause is not None)


def _merged(program: Program, joined: dict[Key, Stretch], origin: int) -> Iterator[dict[str, Any]]:
    """One slice per unit and operation, from the first event to the last. A wait is named after its largest cause."""
    merged: dict[tuple[Unit, bool, int], dict[str, Stretch]] = {}
    for (unit, cause, operation), stretch in joined.items():
        merged.setdefault((unit, cause is not None, operation), {})["" if cause is None else cause.value] = stretch
    for (unit, waits, operation), stretches in merged.items():
        args = _operation_args(program, operation) | {"cycles": sum(one.cycles for one in stretches.values())}
        name = _title(program, operation)
        if waits:
            causes = sorted(stretches, key=lambda cause: -stretches[cause].cycles)
            args |= {"for": name, "causes": {cause: stretches[cause].cycles for cause in causes}}
            name = causes[0]
        start, end = min(one.start for one in stretches.values()), max(one.end for one in stretches.values())
        yield _slice(unit, name, start + origin, end + origin, args, waits=waits)


def _uses(program: Program) -> Iterator[tuple[int, int]]:
    """Pairs of a copy and the first kernel that reads its bytes, unless another operation overwrites them first."""
    waiting: list[tuple[int, ByteRange]] = []
    for index, op in enumerate(program.operations):
        if isinstance(op, DmaOperation):
            written = op.writes()
            waiting = [(copy, place) for copy, place in waiting if not any(place.overlaps(one) for one in written)]
            waiting += [(index, place) for place in written]
        elif isinstance(op, KernelOperation):
            read = op.reads()
            used = [entry for entry in waiting if any(entry[1].overlaps(one) for one in read)]
            yield from ((copy, index) for copy, _ in used)
            gone = op.writes()
            waiting = [entry for entry in waiting if entry not in used and not any(entry[1].overlaps(one) for one in gone)]


def _flows(program: Program, joined: dict[Key, Stretch], origin: int, first: int) -> Iterator[dict[str, Any]]:
    """An arrow from every copy to its first reader: from the DMA's slice to the reading unit's."""
    for number, (copy, kernel) in enumerate(_uses(program), start=first):
        readers = (unit for unit in (Unit.WD, Unit.IFM, Unit.MAC) if (unit, None, kernel) in joined)
        unit = next(readers, None)
        source = joined.get((Unit.DMA, None, copy))
        if unit is None or source is None:
            continue
        arrow = {"name": "copy to use", "cat": "copy", "id": number, "pid": _PROCESS}
        yield arrow | {"ph": "s", "tid": _track(Unit.DMA, waits=False), "ts": source.start + origin}
        yield arrow | {"ph": "f", "bp": "e", "tid": _track(unit, waits=False), "ts": joined[unit, None, kernel].start + origin}


def _live(replay: Replay, live: tuple[int, ...], origin: int) -> Iterator[dict[str, Any]]:
    """The live bytes of SRAM. An operation's bytes count from its issue and the end of the previous kernel."""
    time = finished = 0
    for one in replay.operations:
        time = max(time, one.issued, finished if isinstance(one.op, KernelOperation) else 0)
        if isinstance(one.op, KernelOperation):
            finished = one.finished
        args = {"bytes": live[one.index]}
        yield {"ph": "C", "name": "SRAM live bytes", "pid": _PROCESS, "ts": time + origin, "args": args}


def _nanoseconds(cycle: int, clock_hz: int) -> int:
    """The time of a cycle. Slices that meet in a cycle meet in a nanosecond."""
    return round(Fraction(cycle * 10**9, clock_hz))


def _timed(event: dict[str, Any], clock_hz: int) -> dict[str, Any]:
    """The event with its cycles as microseconds, which the format asks for."""
    if "ts" not in event:
        return event
    start = _nanoseconds(event["ts"], clock_hz)
    times = {"ts": start / 1000}
    if "dur" in event:
        times["dur"] = (_nanoseconds(event["ts"] + event["dur"], clock_hz) - start) / 1000
    return event | times


def _events(network: NetworkReplay, recorder: EventRecorder, buffers: Sequence[TraceBuffer]) -> Iterator[dict[str, Any]]:
    yield from _metadata()
    yield from processes(buffers)
    yield from buffer_slices(buffers)
    origin = first = 0
    moved: dict[str, int] = {}
    for replay, recording in zip(network.replays, recorder.recordings, strict=True):
        count = len(replay.program.operations)
        if recording.events is not None:
            yield from _each(replay.program, recording.events, origin)
        else:
            yield from _merged(replay.program, recording.joined, origin)
        yield from _flows(replay.program, recording.joined, origin, first)
        yield from port_counters(replay, origin, moved)
        yield from _live(replay, network.footprint.live[first : first + count], origin)
        origin += replay.cycles
        first += count


def trace_json(network: NetworkReplay, recorder: EventRecorder, buffers: Sequence[TraceBuffer] = ()) -> str:
    """The trace of a replay that ``recorder`` has heard, as JSON; the same replay gives the same text.

    ``buffers`` are the arena's, in the order of their tracks. ValueError if it listened to another number of Programs.
    """
    devices = dict.fromkeys(replay.accelerator.name for replay in network.replays)
    systems = dict.fromkeys(replay.system.name for replay in network.replays)
    clock_hz = next((replay.system.clock_hz for replay in network.replays), 1)
    merged = f"merged per unit and operation ({recorder.count} events are more than {recorder.most})"
    other = {
        "clock": f"{clock_hz / 1e6:g} MHz",
        "accelerator": ", ".join(devices),
        "memory system": ", ".join(systems),
        "cycles": network.cycles,
        "level of detail": "every event" if recorder.every_event else merged,
    }
    # One event a line: such a file can be compared and cut with plain text tools.
    lines = ",\n".join(json.dumps(_timed(event, clock_hz), separators=(",", ":")) for event in _events(network, recorder, buffers))
    return f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n{lines}\n]}}\n'


def compressed(text: str) -> bytes:
    """``text`` as a .gz file with the same bytes at any time."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(text.encode())
    return buffer.getvalue()
