"""Finding: one sentence on a replay, the change that was tried, and its saving."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from npu_testbed.documents.inference import FindingEntry

MOST = 5
"""Largest number of findings that a report names, because a reader changes one thing at a time."""

LEAST = 0.01
"""Part of the cycles, or of the bytes, below which a saving is not worth a sentence."""


class Finding(FindingEntry, frozen=True):
    """One possible change.

    ``text`` says it in a sentence, and ``changed`` names the change in the replay. ``cycles`` and ``bytes`` are its savings of NPU cycles
    and of the peak of live bytes; ``share`` (0 to 1) is the larger of the two shares. ``needs`` are the replay's bytes of SRAM for feature
    maps and copies: the planned ones, or more if the change copies more.
    """

    share: float


def with_needs(found: Finding, planned: int, budget: int | None = None) -> Finding:
    """The finding with its need of SRAM, if that exceeds ``planned``, and with the bytes beyond a ``budget``.

    >>> with_needs(Finding("weights", "A copy saves 9 cycles (3.0%).", "", 9, 0, 4096, 0.03), 4000, 4080).text
    'A copy saves 9 cycles (3.0%); it needs 4,096 bytes of SRAM in all, 16 more than the budget.'
    """
    if found.needs <= planned:
        return found
    beyond = "" if budget is None or found.needs <= budget else f", {found.needs - budget:,} more than the budget"
    return replace(found, text=f"{found.text.removesuffix('.')}; it needs {found.needs:,} bytes of SRAM in all{beyond}.")


def largest(found: Iterable[Finding], most: int = MOST, least: float = LEAST) -> tuple[Finding, ...]:
    """The findings with the largest share, at most ``most``, none below ``least``. Equal ones keep their order."""
    worth = [one for one in found if one.share >= least]
    return tuple(sorted(worth, key=lambda one: -one.share)[:most])


def part(value: int, whole: int) -> float:
    """The share of a value in a whole, 0 for an empty whole."""
    return value / whole if whole else 0.0


def percent(share: float) -> str:
    """A share as text for a sentence.

    >>> percent(0.314), percent(0.0314)
    ('31%', '3.1%')
    """
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "pool"), count(96, "pool")
    ('1 pool', '96 pools')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
