"""Chains of transactions, of which each waits for an earlier one: the least cycles that they take."""

from __future__ import annotations

from collections.abc import Sequence
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


def of_transactions(memory: Memory, beats: Sequence[int], latency: int, response: int, limit: int) -> int:
    """Cycles from the first issue of some transactions to the last word of all, if nothing else is on the port.

    A ``latency`` comes before the data of each, a ``response`` behind it. With at most ``limit`` outstanding, each waits for the one so
    many places before.

    >>> from npu_testbed.memory_options import MemoryOptions
    >>> arena = MemoryOptions().memory_system().ports[0]
    >>> of_transactions(arena, [4] * 8, 32, 0, 8), of_transactions(arena, [4] * 16, 32, 0, 8), of_chain(arena, 64, 16, 32, 8)
    (64, 100, 96)
    """
    words, cycles = memory.cycles_per_word.denominator, memory.cycles_per_word.numerator
    issue, path, ends = -1, 0, list[int]()
    for number, count in enumerate(beats):
        issue = max(issue + 1, ends[number - limit] if limit and number >= limit else 0)
        path = max(path, (issue + latency) * words) + count * cycles
        ends.append(ceil_div(path, words) + response)
    return ends[-1] - response
