"""The FVP's PMU trace: how far the NPU had read its command stream at which time.

``-C ethosu.extra_args="--pmu-trace FILE"`` makes the FVP write Chrome trace JSON, gzipped. Its events named ``qread``
carry the byte offset in the command stream that the NPU reads at, the QREAD register.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from npu_model.errors import InputError
from npu_model.values import dataclass

MAX_BYTES = 512 << 20
"""Largest unpacked trace that is read."""

_MOST_TIME = 1 << 62
"""Bound of a trace's times, whatever their unit: beyond it sums of them have no meaning."""

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
"""zlib's number for gzip with its largest window."""


@dataclass(frozen=True, slots=True)
class StreamTrace:
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
        """Time at which the NPU had read beyond the word at ``offset``; the end if the trace does not show it."""
        index = bisect_right(self.offsets, offset)
        return self.times[index] if index < len(self.times) else self.end


def _unpack(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = unpacker.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise InputError(f"The PMU trace is not gzip ({error}): let the FVP write it again.") from None
    if unpacker.unconsumed_tail:
        raise InputError(f"The PMU trace unpacks to more than {MAX_BYTES} bytes: trace a shorter inference.")
    return text


def _parse(data: bytes) -> Any:
    text = _unpack(data).decode("utf-8", errors="replace").strip()
    if text.startswith("[") and not text.endswith("]"):
        # The trace format allows an array that is not closed, so that a simulator may end at any time.
        text = text.rstrip(",") + "]"
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The PMU trace is not JSON ({str(error)[:80]}): let the FVP write it again.") from None


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
    trace = _parse(data)
    events = trace.get("traceEvents") if isinstance(trace, dict) else trace
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == "qread":
            time, offset = event.get("ts"), _offset(event.get("args"))
            # A time beyond the bound, or that is no number, is no time.
            if isinstance(time, (int, float)) and abs(time) < _MOST_TIME and offset is not None:
                yield float(time), offset


def split_streams(entries: Iterable[tuple[float, int]]) -> tuple[StreamTrace, ...]:
    """The streams that ran, from times and offsets in the order of time: a new one begins where the offset falls.

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
    streams = split_streams(sorted(_entries(data), key=lambda entry: entry[0]))
    if not streams:
        raise InputError("The PMU trace has 0 qread events: let an FVP write it that knows --pmu-trace, while the NPU runs.")
    return streams
