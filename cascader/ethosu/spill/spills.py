"""Spilled forms: the forms with the fewest bytes, with tensors in an outer memory, for some targets of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.forms.planned import planned_bytes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Outer, Wanted
from cascader.ethosu.spill.carried import CarriedCut
from cascader.ethosu.spill.choice import Spiller
from npu_model.accelerator import Accelerator
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up

_OF_BUDGET = ((Fraction(92, 100), Fraction(3, 4)), (Fraction(3, 4), Fraction(1, 2)))
"""Targets of plans: parts of a budget, and of the bytes without spills if these are fewer. Addresses and copies take more than plans."""
_OF_LADDER = (Fraction(3, 4), Fraction(1, 2), Fraction(1, 3))
"""Targets without a budget, as parts of the bytes without spills. The least possible target is tried, too."""
_UPWARDS = (Fraction(0), Fraction(1, 16), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2))
"""Parts of the way from the least target to the bytes without spills. The first part with possible forms is taken.

Groups that fit alone may share a tensor that cannot be cut between them, or hold more bytes together.
"""
_NEAR = 2
"""Multiple of the least target below which a budget is near it.

Forms with so few bytes take long to search, and only such budgets need them.
"""
_LEFT = (Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))
"""Parts of a budget for plans with tensors left in the outer memory. Copies of constants and larger rows take the rest."""
_FEW = Fraction(5, 4)
"""Multiple of the fewest bytes of any form without spills. Forms up to it may need the fewest bytes with spills."""
_AHEAD = (16, 8, 4, 1)
"""Rows by which transfers may run ahead. For each target the first number that fits is tried, and transfers just in time."""


class Spills(Struct, frozen=True):
    """The allowed spills: the ``outer`` memory, and the ``budget`` of the arena in bytes (None: any number).

    With ``smallest`` the spills are for the fewest possible bytes.
    """

    outer: Outer
    budget: int | None = None
    smallest: bool = False

    def within(self, budget: int | None, *, smallest: bool) -> Spills:
        """The spills for an aim."""
        return replace(self, budget=budget, smallest=smallest)

    def targets(self, whole: int, least: int) -> tuple[int, ...]:
        """Bytes for plans of a network that holds ``whole`` bytes without spills and ``least`` with them."""
        ladder = [] if self.smallest else [int(whole * part) for part in _OF_LADDER]
        if self.budget is not None and not self.smallest:
            ladder = [int(min(self.budget * part, whole * other)) for part, other in _OF_BUDGET]
        # A budget near the smallest one has the forms of the smallest schedule, so no budget that this schedule meets is refused. Larger
        # budgets do not need them.
        lowest = round_up(least, ALIGNMENT)
        if self.smallest or self.budget is None or self.budget < _NEAR * lowest:
            ladder.append(lowest)
        found = dict.fromkeys(target // ALIGNMENT * ALIGNMENT for target in ladder)
        return tuple(target for target in found if lowest <= target < whole)


def _spillers(forms: Sequence[Network], homes: Sequence[Wanted], outer: Outer, device: Accelerator) -> Iterator[tuple[int, int, Spiller]]:
    """For each form that recomputes nothing and holds few bytes: its fewest bytes with spills, its bytes without, and its spiller."""
    once = [(planned_bytes(form, homes), form) for form in forms if not form.recomputed_macs]
    fewest = min(size for size, _ in once)
    for size, form in once:
        if size <= fewest * _FEW:
            spiller = Spiller(form, homes, outer, device)
            yield spiller.least(size), size, spiller


def spilled_forms(forms: Sequence[Network], homes: Sequence[Wanted], spills: Spills, device: Accelerator) -> tuple[Network, ...]:
    """Spilled forms of the form with the fewest bytes. Its other tensors are where ``homes`` want them."""
    least, whole, spiller = min(_spillers(forms, homes, spills.outer, device), key=lambda found: (*found[:2], found[2].parts))
    found, targets = dict[tuple[tuple[CarriedCut, ...], int], Network](), spills.targets(whole, least)
    for target in targets:
        rungs = (target,) if target > targets[-1] else [target + int((whole - target) * part) for part in _UPWARDS]
        fitting = next(((made, rung) for rung in rungs if (made := spiller.fitting(rung)) is not None), None)
        for one in () if fitting is None else spiller.possible(*fitting, _AHEAD):
            found.setdefault((one.cuts, one.ahead), spiller.placed(one))
    return tuple(found.values())


def left_forms(forms: Sequence[Network], homes: Sequence[Wanted], spills: Spills, device: Accelerator) -> tuple[Network, ...]:
    """Forms with some tensors in the outer memory, where kernels read and write them, for a budget. None without a budget.

    Each of ``forms`` that recomputes nothing is tried, because a form with many copies of constants may be the fastest.
    """
    if spills.budget is None or spills.smallest:
        return ()
    found = dict[tuple[int, int, tuple[str, ...]], Network]()
    for number, form in enumerate(forms):
        if form.recomputed_macs:
            continue
        spiller = Spiller(form, homes, spills.outer, device)
        for part, weighed in product(_LEFT, (False, True)):
            left = spiller.left(int(spills.budget * part), weighed=weighed)
            if left is not None:
                found.setdefault((number, len(left.graph.parts), tuple(home.tensor for home in left.homes)), left)
    return tuple(found.values())
