"""Chains of transactions, of which each waits for an earlier one: the least cycles that they take."""

from __future__ import annotations

from math import ceil

from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import Memory
from npu_model.shapes import ceil_div


def of_chain(memory: Memory, words: int, transactions: int, latency: int, limit: int) -> int:
    """Least cycles from the first issue of a transfer to its end.

    With at most ``limit`` transactions outstanding, each waits for the one so many places before: the mean of these chains is a bound.
    """
    moving = words * memory.cycles_per_word
    chained = (transactions * latency + moving) / limit if limit else 0
    return ceil(max(latency + moving, chained))


def least_read(memory: Memory, words: int) -> int:
    """Least cycles from the first issue until so many words that lie together are read."""
    return of_chain(memory, words, ceil_div(words, max(1, memory.burst_bytes // BEAT_BYTES)), memory.read_latency, memory.max_reads)
