"""A streamed input in words and as JSON."""

from __future__ import annotations

from npu_model.printable import printable
from npu_testbed.replays.streaming import StreamedInput
from validation.layout import filled


def stream_text(found: StreamedInput) -> str:
    """The run with its source: latency, waits, the pace without waits, and the largest number of held rows."""
    cycles = sum(piece.cycles for piece in found.pieces)
    pace = (
        "All rows that are read are read by one of them."
        if found.never_waits is None
        else f"It never waits once it has begun if a row comes every {found.never_waits:,} cycles or sooner."
    )
    return filled(
        f"Stream: {found.rows} rows of {printable(found.name)}, one every {found.cycles_per_row:,} cycles, in {len(found.pieces)} command "
        f"streams of {cycles:,} NPU cycles in all. The result is there {found.latency:,} cycles after the last row; the NPU waits "
        f"{found.waiting:,} cycles for rows. {pace} At most {found.held_rows} rows have arrived "
        f"and are still to be read at one time: {_place(found)}. No command stream reads a byte before it has arrived, or "
        "when another row may lie there: checked."
    )


def _place(found: StreamedInput) -> str:
    if found.ring < found.rows:
        return f"they lie in a ring of {found.ring} rows ({found.ring * found.row_bytes:,} bytes)"
    return f"the input lies in a whole frame ({found.rows * found.row_bytes:,} bytes)"
