"""The promise of a compilation, and the check of it.

Without an arena size, ours is never larger and never slower than Vela's: the budget is the arena that Vela plans. With an arena size, ours
is the fastest in that size and never slower than Vela's, but may be larger. With ``--optimise Size``, ours has the fewest bytes of the
schedules that are no larger and no slower than Vela Size.
"""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.request import PERFORMANCE, SIZE, Request, Run
from cascader.ethosu.search.search import explore
from cascader.ethosu.search.task import Task
from cascader.search.workers import processes_for, workers
from npu_model.errors import BudgetError, InputError
from npu_model.front import later
from npu_testbed.compilation.compile_options import FEWEST_BYTES, FEWEST_CYCLES, PROMISE
from npu_testbed.compilation.peer import PeerFigures
from npu_testbed.replays.scheduling import choice_of
from npu_testbed.searches.other_ways import with_other_ways

with later():
    from cascader.ethosu.search import as_fast  # --optimise Size alone asks for it


def fits(figures: PeerFigures, bound: int | None) -> bool:
    """Whether a schedule keeps to an arena size (None: there is none)."""
    return bound is None or figures.memory <= bound


def shortfall(ours: PeerFigures, vela: PeerFigures, request: Request, aim: str = PROMISE) -> str:
    """The clause that says how ours breaks the promise; "" if it is kept, or if Vela's does not keep to the arena size.

    >>> from cascader.ethosu.search.request import Source
    >>> from npu_model.memory.timing_adapter import profile
    >>> vela, asked = PeerFigures(16000, 1000), Request(Source("a"), "ethos-u55-128", profile("off").memory_system())
    >>> shortfall(PeerFigures(16000, 1001), vela, asked), shortfall(PeerFigures(16016, 1000), vela, asked)
    ('takes 1,001 cycles and Vela 1,000', 'needs 16,016 bytes and Vela 16,000')
    >>> within = lambda budget: replace(asked, budget=budget)
    >>> shortfall(PeerFigures(20000, 900), vela, within(20000)), shortfall(PeerFigures(16000, 1001), vela, within(12000))
    ('', '')
    """
    bound = request.budget
    if not fits(vela, bound):
        return ""
    in_budget = bound is not None and not request.smallest and aim != FEWEST_BYTES
    if ours.memory > vela.memory and not in_budget and aim != FEWEST_CYCLES:
        return f"needs {ours.memory:,} bytes and Vela {vela.memory:,}"
    if ours.cycles > vela.cycles and aim != FEWEST_BYTES:
        return f"takes {ours.cycles:,} cycles and Vela {vela.cycles:,}"
    return ""


def described(request: Request, aim: str, vela: PeerFigures | None) -> str:
    """The promise of a compilation as a clause."""
    bound = request.budget
    if not request.cascade:
        return "every layer whole, one after the other, even if Vela's schedule is faster"
    arena = "" if bound is None else f" in at most {bound:,} bytes"
    if request.within:
        slower = "" if vela is None or aim == FEWEST_CYCLES else ", and no slower than Vela"
        return f"the fewest bytes{arena} at no more than {float(request.within * 100):g} % over the fewest cycles{slower}"
    if aim == FEWEST_BYTES or (request.smallest and vela is None):
        return f"the fewest bytes{arena}, however many cycles"
    if aim == FEWEST_CYCLES or (vela is None and bound is None):
        return "the fewest cycles, however many bytes"
    if request.smallest:
        return f"the fewest bytes{arena} with which a schedule is no larger and no slower than Vela Size"
    return f"the fewest cycles{arena or f' in the {0 if vela is None else vela.memory:,} bytes that Vela plans'}"


def best_schedule(task: Task, request: Request, aim: str, vela: PeerFigures | None, run: Run) -> Schedule:
    """Our schedule for the promise; InputError names the smallest arena if none fits the budget.

    If Vela's plan is the budget, no option is to blame, and InputError names the plan's bytes.
    """
    bound, alone = request.budget, aim in (FEWEST_BYTES, FEWEST_CYCLES)
    if request.smallest and not alone and vela is not None and fits(vela, bound):
        return _smallest_as_fast(task, request, vela, run)
    smallest = aim == FEWEST_BYTES or (request.smallest and aim != FEWEST_CYCLES)
    planned = vela.memory if bound is None and vela is not None and not alone else None
    most = None if vela is None or alone or not fits(vela, bound) else vela.cycles
    aims = {"optimise": SIZE if smallest else PERFORMANCE, "most_cycles": most if request.within else None}
    asked = replace(request, budget=bound if planned is None else planned, **aims)
    try:
        return choice_of(task, asked, replace(run, bounds=False)).point.schedule
    except BudgetError as error:
        if bound is not None and (vela is None or not fits(vela, bound)):
            raise with_other_ways(error, asked, run, spills=False) from None
        if planned is None:
            raise
        raise InputError(f"No schedule of ours was found in the {planned:,} bytes that Vela plans.") from error


def _smallest_as_fast(task: Task, request: Request, vela: PeerFigures, run: Run) -> Schedule:
    """The smallest schedule that takes no more cycles than Vela's; InputError if none is found in Vela's bytes."""
    # Few forms may hold more than Vela's.
    task = replace(task, options=replace(task.options, few_forms=False))
    run.show(f"Scheduling {task.provenance.model}")
    with workers(processes_for(len(task.network.graph.parts), run.processes), takes_part=True) as executor:
        explored = explore(task, executor, run.show, bounds=False)
        found = as_fast.smallest_as_fast(task, explored, vela.memory, vela.cycles, executor, run.show, thorough=request.thorough)
    if found is None:
        raise InputError(f"No schedule was found that takes at most Vela's {vela.cycles} cycles in its {vela.memory} bytes.")
    return found.schedule
