"""Tolerances in words: the figures of the fastest schedule, and the savings of a slightly slower one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cascader.ethosu.search.task import Size
from cascader.ethosu.search.tolerance import worth_a_tolerance

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Choice
    from npu_testbed.searches.frontiers import Frontier


def percent_slower(cycles: int, fastest: int) -> float:
    """The tolerance in tenths of a per cent that allows ``cycles`` above the fewest.

    >>> percent_slower(1003, 1000), percent_slower(10001, 10000), percent_slower(1000, 1000)
    (0.3, 0.1, 0.0)
    """
    return -(-(cycles - fastest) * 1000 // max(fastest, 1)) / 10


def _saved(memory: int, other: int) -> str:
    return f"{100 - memory * 100 / max(other, 1):.0f} % of the bytes"


def fastest_text(memory: int, cycles: int, fastest: Size) -> str:
    """A sentence that compares the schedule that a tolerance chose with the fastest one.

    >>> from cascader.ethosu.search.task import Size
    >>> fastest_text(76288, 179049, Size(121024, 178112))
    'The fastest schedule takes 178,112 cycles in 121,024 bytes: this one is 0.6 % slower and saves 37 % of the bytes.'
    >>> fastest_text(4096, 1000, Size(4096, 1000))
    'No smaller arena was found within the tolerance: this is the fastest schedule.'
    """
    if (memory, cycles) == (fastest.memory, fastest.cycles):
        return "No smaller arena was found within the tolerance: this is the fastest schedule."
    slower = f"this one is {percent_slower(cycles, fastest.cycles):g} % slower and saves {_saved(memory, fastest.memory)}"
    return f"The fastest schedule takes {fastest.cycles:,} cycles in {fastest.memory:,} bytes: {slower}."


def smaller_text(memory: int, cycles: int, smaller: Size) -> str:
    """A sentence on a schedule that a small tolerance would choose.

    >>> from cascader.ethosu.search.task import Size
    >>> smaller_text(121024, 178112, Size(76288, 179049))
    'A schedule 0.6 % slower than the fastest saves 37 % of the bytes: pass --within 0.6 to `schedule`.'
    """
    percent = percent_slower(smaller.cycles, cycles)
    saved = _saved(smaller.memory, memory)
    return f"A schedule {percent:g} % slower than the fastest saves {saved}: pass --within {percent:g} to `schedule`."


def tolerance_text(choice: Choice) -> str:
    """The sentence on slower or faster schedules of a choice's search; "" without one."""
    memory, cycles = choice.point.memory, choice.point.cycles
    if choice.fastest is not None:
        return fastest_text(memory, cycles, choice.fastest)
    return "" if choice.smaller is None else smaller_text(memory, cycles, choice.smaller)


def frontier_within(frontier: Frontier, within: float) -> str:
    """The smallest schedule of a frontier within a share of the fastest one's cycles, in a sentence."""
    fastest = frontier.points[-1]
    point = frontier.at_most(int(fastest.cycles * (1 + within)))
    chosen = fastest if point is None else point
    said = f"Within {within * 100:g} % of the fewest cycles: {chosen.cycles:,} cycles in {chosen.memory:,} bytes."
    if chosen is fastest:
        return f"{said} This is the fastest schedule of all."
    percent = percent_slower(chosen.cycles, fastest.cycles)
    return f"{said} The fastest schedule of all needs {fastest.memory:,} bytes: this one is {percent:g} % slower."


def frontier_hint(frontier: Frontier) -> str:
    """A sentence on the bytes that a slightly slower schedule of a frontier saves; "" if they are few."""
    fastest, *others = (Size(point.memory, point.cycles) for point in reversed(frontier.points))
    smaller = worth_a_tolerance(fastest, others)
    return "" if smaller is None else smaller_text(fastest.memory, fastest.cycles, smaller)
