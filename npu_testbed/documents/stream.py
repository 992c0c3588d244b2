"""The part of a replay's document that holds its run while the rows of an input arrive."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import Entry, meaning
from npu_testbed.documents.units import Bytes, Cycles


class PieceEntry(Entry, frozen=True):
    """A command stream of the run."""

    until_row: Annotated[int, meaning("Rows that must have arrived when it begins.")]
    cycles: Cycles


class StreamEntry(Entry, frozen=True):
    """The run while the rows of an input arrive one by one."""

    input: str
    rows: int
    row_bytes: Bytes
    cycles_per_row: Cycles
    latency_cycles: Annotated[int, meaning("NPU cycles from the arrival of the last row to the result.")]
    waiting_cycles: Cycles
    never_waits_cycles_per_row: Annotated[
        int | None, meaning("Most NPU cycles from row to row at which the NPU never waits once it has begun.")
    ]
    held_rows: Annotated[int, meaning("Most rows that have arrived and are still to be read at one time.")]
    ring_rows: Annotated[int, meaning("Rows of the ring in which the input lies; all of its rows where it lies in a whole frame.")]
    pieces: Annotated[tuple[PieceEntry, ...], meaning("The command streams in order.")]


Stream = Annotated[StreamEntry, meaning("The run while the rows of an input arrive, with --stream.")]
