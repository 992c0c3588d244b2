"""Other ways to meet a budget that a search could not meet: options, each tried, with the resulting figures."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from fractions import Fraction

from msgspec.structs import replace

from cascader.ethosu.network.wanted_homes import home_options, memory_beyond, outer_ends
from cascader.ethosu.search.effort import QUICK
from cascader.ethosu.search.request import PERFORMANCE, SIZE, Request, Run
from npu_model.errors import BudgetError, FloorError, InputError, SearchedError
from npu_testbed.ground.termination import TimeIsUp
from npu_testbed.models.legalise import load_task
from npu_testbed.replays.scheduling import choice_of

_RECOMPUTE = 2
"""Multiple of the multiply-accumulates that is tried; the search's default is 1.1."""


def _ways(request: Request, *, spills: bool = True) -> Iterator[tuple[str, Request]]:
    """Options that were not given, and the request with each: recomputation, tensors in an outer memory, inputs and outputs there.

    Inputs and outputs together come after either alone, and homes with spilled tensors come last. Without ``spills``, no tensor is spilled.
    """
    if request.recompute is None:
        yield f"--recompute {_RECOMPUTE}", replace(request, recompute=Fraction(_RECOMPUTE))
    outer = memory_beyond(request.memory)
    spills = spills and request.spill is None and outer is not None and outer.writable
    spilled = replace(request, spill=outer.name) if spills and outer is not None else request
    if spills:
        yield f"--spill {spilled.spill}", spilled
    all_homes = () if request.homes else outer_ends(request.memory)
    for homes in all_homes:
        yield home_options(homes), replace(request, homes=homes)
    for homes in all_homes if spills else ():
        yield f"{home_options(homes)} --spill {spilled.spill}", replace(spilled, homes=homes)


def _is_beaten(option: str, found: Collection[str]) -> bool:
    """Whether an option that was found is simpler: any one before homes with spilled tensors, one home before two."""
    if "--spill" in option and "--home" in option:
        return bool(found)
    return option.count("--home") > 1 and any("--home" in one for one in found)


def other_ways(request: Request, run: Run, only: Container[str] | None = None, *, spills: bool = True) -> Iterator[str]:
    """Options with which a quick search meets the request's budget, each with its bytes and cycles. It tries ``only`` these, if given.

    Homes with spilled tensors count as these homes. Options are combined only if no simpler one meets the budget.
    """
    found: list[str] = []
    for option, changed in _ways(request, spills=spills):
        if _is_beaten(option, found) or (only is not None and option.partition(" --spill")[0] not in only):
            continue
        run.show(f"Trying {option}")
        tried = replace(changed, effort=QUICK, optimise=PERFORMANCE)
        try:
            point = choice_of(load_task(tried, run.show), tried, Run(run.processes, run.show, bounds=False)).point
        except InputError:
            continue
        found.append(option)
        yield f"{option} ({point.memory:,} bytes, {point.cycles:,} cycles)"


def ways_for(error: BudgetError, request: Request, run: Run, *, spills: bool = True) -> Iterator[str]:
    """Like :func:`other_ways`, with the options that may help after this error."""
    if isinstance(error, FloorError) and not error.of_forms:
        return other_ways(request, run, [option for option, _ in error.ways], spills=spills)
    return other_ways(request, run, spills=spills) if isinstance(error, FloorError | SearchedError) else iter(())


def smallest_reached(request: Request, run: Run) -> int | None:
    """Bytes of the smallest arena that a quick search reaches; None if it fails."""
    run.show("Looking for the smallest arena")
    tried = replace(request, budget=None, within=Fraction(0), effort=QUICK, optimise=SIZE)
    try:
        # The command ends right after it: worker processes would end while Python exits.
        return choice_of(load_task(tried, run.show), tried, Run(1, run.show, bounds=False)).point.memory
    except InputError:
        return None


def _without_ways(error: BudgetError, request: Request, run: Run) -> BudgetError | str:
    """The refusal without other options. It names the smallest arena that was reached."""
    if not isinstance(error, FloorError):
        return error
    reached = smallest_reached(request, run)
    if reached is None:
        return FloorError(error.sentence)
    return f"{error.sentence}: {reached} bytes are the smallest arena reached; allow that much."


def with_other_ways(error: BudgetError, request: Request, run: Run, *, spills: bool = True) -> InputError:
    """The refusal of a budget, with the options under which a quick search meets it; the ``error`` itself if there is no time.

    Below what every schedule needs, it searches for the smallest arena. If the application or the CPU holds these bytes, it tries only the
    options that lower them. It names no option that it tried in vain, and without ``spills`` none that a .tflite file cannot say.
    """
    try:
        found = list(ways_for(error, request, run, spills=spills))
        plain = _without_ways(error, request, run)
    except TimeIsUp:
        return error
    if found:
        return InputError(f"{plain} With other options it fits: {', or '.join(found)}.")
    return InputError(plain) if isinstance(plain, str) else plain
