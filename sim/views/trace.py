"""Trace: a replay's events as Chrome Trace Event JSON, which ui.perfetto.dev opens.

One process is the NPU. Every unit has two tracks, in pipeline order: its work and its waits. A counter shows the live bytes of SRAM, arrows
lead from every copy to the kernel that first reads it. Times are real times at the clock of the memory system; each slice has its
``cycles`` as an argument. The ports and the buffers of the arena are processes of their own (:mod:`sim.views.trace_memory`).
"""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from npu_model.printable import printable
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from sim.events import Busy, Cause, Event, Unit, Wait
from sim.replay import NetworkReplay, Replay
from sim.views.trace_memory import TraceBuffer, buffer_slices, port_counters, processes

MAX_EVENTS = 300_000
"""Largest number of events that a trace shows one by one. Browsers easily open about 100 MB of JSON."""

_PROCESS = 1


@dataclass(slots=True)
class _Span:
    """All work, or all waits, of one unit for one operation."""

    start: int
    end: int
    cycles: int = 0
    causes: Counter[Cause] = field(default_factory=Counter)


@dataclass(slots=True)
class _Recording:
    """The events of one Program: each of them (None once there are too many), and merged per operation."""

    events: list[Event] | None = field(default_factory=list)
    spans: dict[tuple[Unit, bool, int], _Span] = field(default_factory=dict)


class TraceRecorder:
    """A listener that keeps the content of a trace; it keeps at most ``max_events`` one by one."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self.max_events = max_events
        self.count = 0
        self._recordings: list[_Recording] = []

    def on_start(self, program: Program) -> None:  # noqa: ARG002  # the replay, which the trace is written with, has the Program
        """Begin a Program."""
        self._recordings.append(_Recording())

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        recording = self._recordings[-1]
        self.count += 1
        if self.count > self.max_events:
            for one in self._recordings:
                one.events = None
        if recording.events is not None:
            recording.events.append(event)
        key = (event.unit, isinstance(event, Wait), event.operation)
        span = recording.spans.setdefault(key, _Span(event.start, event.end))
        span.end = event.end
        span.cycles += event.end - event.start
        if isinstance(event, Wait):
            span.causes[event.cause] += event.end - event.start

    @property
    def level_of_detail(self) -> str:
        """Kinds of slices of the trace."""
        if self.count <= self.max_events:
            return "every event"
        return f"merged per unit and operation ({self.count} events are more than {self.max_events})"

    def recordings(self) -> tuple[_Recording, ...]:
        """One recording per Program."""
        return tuple(self._recordings)


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


def _each(program: Program, events: list[Event], origin: int) -> Iterator[dict[str, Any]]:
    """One slice per event."""
    titles = [_title(program, i) for i in range(len(program.operations))]
    details = [_operation_args(program, i) for i in range(len(program.operations))]
    for event in events:
        start, end = event.start + origin, event.end + origin
        if isinstance(event, Busy):
            yield _slice(event.unit, titles[event.operation], start, end, details[event.operation], waits=False)
        else:
            args = {"operation": event.operation, "for": titles[event.operation]}
            yield _slice(event.unit, event.cause.value, start, end, args, waits=True)


def _merged(program: Program, spans: dict[tuple[Unit, bool, int], _Span], origin: int) -> Iterator[dict[str, Any]]:
    """One slice per unit and operation, from the first event to the last. A wait is named after its largest cause."""
    for (unit, waits, operation), span in spans.items():
        args = _operation_args(program, operation) | {"cycles": span.cycles}
        name = _title(program, operation)
        if waits:
            args["for"] = name
            args["causes"] = {cause.value: cycles for cause, cycles in span.causes.most_common()}
            name = span.causes.most_common(1)[0][0].value
        yield _slice(unit, name, span.start + origin, span.end + origin, args, waits=waits)


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


def _flows(program: Program, spans: dict[tuple[Unit, bool, int], _Span], origin: int, first: int) -> Iterator[dict[str, Any]]:
    """An arrow from every copy to its first reader: from the DMA's slice to the reading unit's."""
    for number, (copy, kernel) in enumerate(_uses(program), start=first):
        readers = (unit for unit in (Unit.WD, Unit.IFM, Unit.MAC) if (unit, False, kernel) in spans)
        unit = next(readers, None)
        source = spans.get((Unit.DMA, False, copy))
        if unit is None or source is None:
            continue
        arrow = {"name": "copy to use", "cat": "copy", "id": number, "pid": _PROCESS}
        yield arrow | {"ph": "s", "tid": _track(Unit.DMA, waits=False), "ts": source.start + origin}
        yield arrow | {"ph": "f", "bp": "e", "tid": _track(unit, waits=False), "ts": spans[unit, False, kernel].start + origin}


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


def _events(network: NetworkReplay, recorder: TraceRecorder, buffers: Sequence[TraceBuffer]) -> Iterator[dict[str, Any]]:
    yield from _metadata()
    yield from processes(buffers)
    yield from buffer_slices(buffers)
    origin = first = 0
    moved: dict[str, int] = {}
    for replay, recording in zip(network.replays, recorder.recordings(), strict=True):
        count = len(replay.program.operations)
        if recording.events is not None:
            yield from _each(replay.program, recording.events, origin)
        else:
            yield from _merged(replay.program, recording.spans, origin)
        yield from _flows(replay.program, recording.spans, origin, first)
        yield from port_counters(replay, origin, moved)
        yield from _live(replay, network.footprint.live[first : first + count], origin)
        origin += replay.cycles
        first += count


def trace_json(network: NetworkReplay, recorder: TraceRecorder, buffers: Sequence[TraceBuffer] = ()) -> str:
    """The trace of a replay that ``recorder`` has heard, as JSON; the same replay gives the same text.

    ``buffers`` are the arena's, in the order of their tracks. ValueError if it listened to another number of Programs.
    """
    devices = dict.fromkeys(replay.accelerator.name for replay in network.replays)
    systems = dict.fromkeys(replay.system.name for replay in network.replays)
    clock_hz = next((replay.system.clock_hz for replay in network.replays), 1)
    other = {
        "clock": f"{clock_hz / 1e6:g} MHz",
        "accelerator": ", ".join(devices),
        "memory system": ", ".join(systems),
        "cycles": network.cycles,
        "level of detail": recorder.level_of_detail,
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
