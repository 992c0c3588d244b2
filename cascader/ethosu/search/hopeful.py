"""Forms and limits that are searched on: those whose expected cycles are close enough to the fewest within the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from cascader.ethosu.search.form import Form

QUICKEST_CYCLES = 100_000
"""Cycles of a network up to which estimates err most, and replays take next to no time."""

QUICK_CYCLES = 800_000
"""Cycles up to which a network is quick to search."""

_NEVER = 1 << 62
"""More cycles than any schedule takes."""


class Closeness(Struct, frozen=True):
    """Largest ratios to the fewest expected cycles at which a form is searched on, one at each of :data:`STEPS`."""

    cycles: int
    """The fewest expected cycles up to which this counts."""
    ratios: tuple[Fraction, ...]


STEPS = Fraction(0), Fraction(1, 8), Fraction(1, 2)
"""Parts of the search at a budget after which forms are dropped. Forms with the usual bytes stay at the first step if bytes are scarce."""

NEAR, _FAR = Fraction(106, 100), Fraction(110, 100)

SCARCE = (
    Closeness(QUICK_CYCLES, (NEAR, _FAR, _FAR)),
    Closeness(_NEVER, (NEAR, NEAR, Fraction(1015, 1000))),
)
"""Ratios where more bytes would save cycles.

With 1.06 throughout, ds_cnn takes up to 4.6 % more cycles in scarce arenas. With the last row for all networks, it takes 1.9 % more in
15,632 bytes, and its int8 reference 4.8 % more in 17,008.
"""

ROOM = (
    Closeness(QUICKEST_CYCLES, (_FAR, _FAR, _FAR)),
    Closeness(QUICK_CYCLES, (NEAR, NEAR, NEAR)),
    Closeness(_NEVER, (Fraction(101, 100), Fraction(1005, 1000), Fraction(1005, 1000))),
)
"""Ratios where more bytes would save no cycles: changes save less there.

With 1.06 lstm_short takes 8 % more cycles in 2,450 bytes than in 2,300. With 1.10 a search for kws_micronet takes 17 % more CPU time, for
the same schedule. Of eight networks of the last row changes saved at most 0.33 %, and the errors of the estimates of two forms differed by
at most 0.35 %.
"""

ANYWHERE = ((Fraction(1, 4), Fraction(115, 100)), (Fraction(1, 2), Fraction(108, 100)))
"""Parts of the search for a frontier, each with its ratio: the schedule of a limit may be a point even if another limit has fewer estimated
cycles in the same bytes."""

SAME_FORM = Fraction(1002, 1000)
"""Largest multiple of the cycles expected of the same form of another core's network at which a form is searched on."""


def ratio(promised: Iterable[int | None], step: int, *, has_room: bool) -> Fraction:
    """The largest ratio to the fewest of the expected cycles at which a form is searched on after one of :data:`STEPS`."""
    fewest = min(filter(None, promised), default=_NEVER)
    return next(row.ratios[step] for row in (ROOM if has_room else SCARCE) if fewest <= row.cycles)


def hopeful(limits: Sequence[tuple[Form, int]], promised: Sequence[int | None], most: Fraction) -> Iterator[tuple[Form, int]]:
    """The forms and limits whose expected cycles are at most ``most`` times the fewest within the same bytes.

    A limit without an estimate stays if no limit within its bytes has one: a longer search may still find something there.
    """
    known = [(limit, cycles) for (_, limit), cycles in zip(limits, promised, strict=True) if cycles is not None]
    for (form, limit), cycles in zip(limits, promised, strict=True):
        fewest = min((other for at, other in known if at <= limit), default=None)
        if fewest is None or (cycles is not None and cycles <= most * fewest):
            yield form, limit


def of_better_core(limits: Sequence[tuple[Form, int]], promised: Sequence[int | None]) -> tuple[list[tuple[Form, int]], list[int | None]]:
    """The forms and limits, with their expected cycles, for which no other core's network is quicker in the same form and limit.

    Estimates of one form have the same errors for both networks, so a smaller difference decides than between forms.
    """
    found = [(form, limit, cycles) for (form, limit), cycles in zip(limits, promised, strict=True)]

    def is_beaten(form: Form, limit: int, cycles: int | None) -> bool:
        alike = [(other, one) for other, at, one in found if other.name == form.name and at == limit and one is not None]
        others = [one for other, one in alike if other.provenance != form.provenance]
        return bool(others) and (cycles is None or cycles > SAME_FORM * min(others))

    kept = [one for one in found if not is_beaten(*one)]
    return [(form, limit) for form, limit, _ in kept], [cycles for _, _, cycles in kept]
