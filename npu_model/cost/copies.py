"""Words that a DMA transfer moves."""

from __future__ import annotations

from npu_model.program import DmaOperation
from npu_model.shapes import ceil_div


def copied_words(op: DmaOperation, word: int) -> int:
    """Words of ``word`` bytes that a transfer moves: from its whole length, or from each of its rows."""
    rows = 1 if op.rows is None else op.rows.count * op.rows.planes
    return rows * ceil_div(op.length, word)
