"""Other ways to meet a budget that a search could not meet: options, each tried, with the resulting figures."""

from __future__ import annotations

from collections.abc import Container, Iterator
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


def _ways(request: Request) -> Iterator[tuple[str, Request]]:
    """Options that were not given, and the request with each: recomputation, tensors in an outer memory, inputs and outputs there."""
    if request.recompute is None:
        yield f"--recompute {_RECOMPUTE}", replace(request, recompute=Fraction(_RECOMPUTE))
    outer = memory_beyond(request.memory)
    if request.spill is None and outer is not None and outer.writable:
        yield f"--spill {outer.name}", replace(request, spill=outer.name)
    for homes in () if request.homes else outer_ends(request.memory):
        yield home_options(homes), replace(request, homes=homes)


def other_ways(request: Request, run: Run, only: Container[str] | None = None) -> Iterator[str]:
    """Options with which a quick search meets the request's budget, each with its bytes and cycles. It tries ``only`` these, if given.

    Inputs and outputs leave the arena together only if neither helps alone.
    """
    helped = False
    for option, changed in _ways(request):
        if (helped and option.count("--home") > 1) or (only is not None and option not in only):
            continue
        run.show(f"Trying {option}")
        tried = replace(changed, effort=QUICK, optimise=PERFORMANCE)
        try:
            point = choice_of(load_task(tried, run.show), tried, Run(run.processes, run.show, bounds=False)).point
        except InputError:
            continue
        helped = helped or option.startswith("--home")
        yield f"{option} ({point.memory:,} bytes, {point.cycles:,} cycles)"


def ways_for(error: BudgetError, request: Request, run: Run) -> Iterator[str]:
    """Like :func:`other_ways`, with the options that may help after this error."""
    if isinstance(error, FloorError):
        return other_ways(request, run, [option for option, _ in error.ways])
    return other_ways(request, run) if isinstance(error, SearchedError) else iter(())


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


def with_other_ways(error: BudgetError, request: Request, run: Run) -> InputError:
    """The refusal of a budget, with the options under which a quick search meets it; the ``error`` itself if there is no time.

    Below what every schedule needs, it tries only the options that lower that need, and searches for the smallest arena. It names no option
    that it tried in vain.
    """
    try:
        found = list(ways_for(error, request, run))
        plain = _without_ways(error, request, run)
    except TimeIsUp:
        return error
    if found:
        return InputError(f"{plain} With other options it fits: {', or '.join(found)}.")
    return InputError(plain) if isinstance(plain, str) else plain
