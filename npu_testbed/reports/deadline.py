"""Deadlines: whether a schedule meets a time of one inference, in a sentence."""

from __future__ import annotations


def deadline_sentence(cycles: int, clock_hz: int, milliseconds: float) -> str:
    """A sentence that says whether ``cycles`` at a clock take at most ``milliseconds``.

    >>> deadline_sentence(500_000, 500_000_000, 2)
    'The NPU takes 1.000 ms at 500 MHz: the deadline of 2 ms is met.'
    """
    took = cycles * 1000 / clock_hz
    verdict = "met" if took <= milliseconds else "missed"
    return f"The NPU takes {took:.3f} ms at {clock_hz / 1e6:g} MHz: the deadline of {milliseconds:g} ms is {verdict}."


def cycles_in(milliseconds: float, clock_hz: int) -> int:
    """The whole cycles of a clock in ``milliseconds``."""
    return int(milliseconds * clock_hz / 1000)
