"""The memories in a trace: the traffic of each port over time, and each buffer of the arena as a track."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from npu_model.printable import printable
from sim.replay import Replay

PORTS, BUFFERS = 2, 3
"""Process numbers of both kinds of tracks; 1 is the NPU."""

_FIRST_TRACK = 101
"""Number of the first buffer's track. No unit has this number, because viewers may identify threads by number alone."""

_COUNTERS = (("AXI0 read", "axi0_read"), ("AXI0 write", "axi0_write"), ("AXI1 read", "axi1_read"), ("AXI1 write", "axi1_write"))


class TraceBuffer(Struct, frozen=True):
    """A buffer of the arena with a ``kind`` for the reader; it lives from cycle ``start`` to ``end`` in bytes ``low`` to ``high``."""

    name: str
    kind: str
    start: int
    end: int
    low: int
    high: int


def processes(buffers: Sequence[TraceBuffer]) -> Iterator[dict[str, Any]]:
    """Names and order of the processes and of the buffers' tracks."""
    for pid, name in ((PORTS, "AXI ports"), (BUFFERS, "SRAM buffers")):
        if pid == PORTS or buffers:
            yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    for number, buffer in enumerate(buffers, _FIRST_TRACK):
        yield {"ph": "M", "name": "thread_name", "pid": BUFFERS, "tid": number, "args": {"name": printable(buffer.name)}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": BUFFERS, "tid": number, "args": {"sort_index": number}}


def buffer_slices(buffers: Sequence[TraceBuffer]) -> Iterator[dict[str, Any]]:
    """One slice for each buffer, from the cycle of its first byte to the cycle without a byte."""
    for number, buffer in enumerate(buffers, _FIRST_TRACK):
        yield {
            "ph": "X",
            "name": printable(buffer.name),
            "cat": "buffer",
            "pid": BUFFERS,
            "tid": number,
            "ts": buffer.start,
            "dur": buffer.end - buffer.start,
            "args": {"cycles": buffer.end - buffer.start, "kind": buffer.kind, "bytes": buffer.high - buffer.low, "address": buffer.low},
        }


def port_counters(replay: Replay, origin: int, before: dict[str, int]) -> Iterator[dict[str, Any]]:
    """The bytes that finished operations moved through each port, without the command fetch.

    ``before`` holds the totals of earlier programs, and finally of this one.
    """
    for one in sorted(replay.operations, key=lambda one: one.finished):
        for name, key in _COUNTERS:
            moved = getattr(one.beats, key) * replay.accelerator.port_bytes_per_cycle
            if moved:
                before[name] = before.get(name, 0) + moved
                args = {"bytes": before[name]}
                yield {"ph": "C", "name": f"{name} bytes", "pid": PORTS, "ts": origin + one.finished, "args": args}
