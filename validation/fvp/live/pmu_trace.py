"""The FVP's PMU trace: the NPU's position in its command stream over time.

``-C ethosu.extra_args="--pmu-trace FILE"`` makes the FVP write Chrome trace JSON, gzipped. Its events named ``qread`` carry the NPU's byte
offset in the command stream, the QREAD register.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError
from validation.fvp.live.json_events import events

MAX_ENTRIES = 1 << 20
"""Most entries that are read: an inference of a tenth of a second at 1 GHz that reads every 100 cycles."""

_MOST_TIME = 1 << 62
"""Bound of a trace's times, in any unit: sums beyond it have no meaning."""


class StreamTrace(Struct, frozen=True):
    """One run of one command stream: byte offsets in rising order, and the trace's time at which each was reached."""

    offsets: tuple[int, ...]
    times: tuple[float, ...]

    @property
    def start(self) -> float:
        """Time of the first entry."""
        return self.times[0]

    @property
    def end(self) -> float:
        """Time of the last entry."""
        return self.times[-1]

    def passed(self, offset: int) -> float:
        """Time at which the NPU had read past the word at ``offset``; the end if the trace does not show it."""
        index = bisect_right(self.offsets, offset)
        return self.times[index] if index < len(self.times) else self.end


def _offset(arguments: Any) -> int | None:
    """The value of a ``qread`` event: under its own name, or the only one; decimal, or hexadecimal with 0x."""
    if not isinstance(arguments, dict):
        return None
    value = arguments.get("qread", next(iter(arguments.values())) if len(arguments) == 1 else None)
    if isinstance(value, str):
        try:
            value = int(value, 0)
        except ValueError:
            return None
    return value if type(value) is int and value >= 0 else None


def _entries(data: bytes) -> Iterator[tuple[float, int]]:
    for event in events(data):
        if isinstance(event, dict) and event.get("name") == "qread":
            time, offset = event.get("ts"), _offset(event.get("args"))
            # A time beyond the bound, or one that is not a number, does not count.
            if isinstance(time, (int, float)) and abs(time) < _MOST_TIME and offset is not None:
                yield float(time), offset


def split_streams(entries: Iterable[tuple[float, int]]) -> tuple[StreamTrace, ...]:
    """The streams that ran, from times and offsets in order of time: a new stream begins where the offset falls.

    >>> split_streams([(0, 4), (5, 60), (9, 0), (12, 60)])
    (StreamTrace(offsets=(4, 60), times=(0, 5)), StreamTrace(offsets=(0, 60), times=(9, 12)))
    """
    streams: list[list[tuple[float, int]]] = []
    for time, offset in entries:
        if not streams or offset < streams[-1][-1][1]:
            streams.append([])
        streams[-1].append((time, offset))
    return tuple(StreamTrace(tuple(o for _, o in stream), tuple(t for t, _ in stream)) for stream in streams)


def read_pmu_trace(data: bytes) -> tuple[StreamTrace, ...]:
    """The streams that ran, in order. InputError if there is no ``qread`` event."""
    entries = list(islice(_entries(data), MAX_ENTRIES + 1))
    if len(entries) > MAX_ENTRIES:
        raise InputError(f"The PMU trace has more than {MAX_ENTRIES} qread events: trace a shorter inference.")
    streams = split_streams(sorted(entries, key=lambda entry: entry[0]))
    if not streams:
        raise InputError("The PMU trace has 0 qread events: let an FVP write it that knows --pmu-trace, while the NPU runs.")
    return streams
