"""The promise of a compilation, and the check of it.

Without an arena size ours is never larger and never slower than Vela's: the budget is the arena that Vela plans. With one it is the
fastest in that size, and never slower than Vela's; it may be larger. With ``--optimise Size`` the promise is the fewest bytes of those
schedules that are no larger and no slower than Vela Size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.request import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.search.workers import processes_for, workers
from npu_model.errors import InputError
from npu_model.front import later
from npu_testbed.compilation.compile_options import FEWEST_BYTES, FEWEST_CYCLES, CompileOptions
from npu_testbed.compilation.peer import PeerFigures
from npu_testbed.progress import Progress
from npu_testbed.scheduling import OPTIMISE, choice_of, with_effort

if TYPE_CHECKING:
    from npu_testbed import frontiers
else:
    frontiers = later("npu_testbed.frontiers")  # only the smallest schedule that is as fast as Vela's is looked for on a frontier

SIZE = OPTIMISE[1]


def fits(figures: PeerFigures, bound: int | None) -> bool:
    """Whether a schedule keeps to an arena size (None: there is none)."""
    return bound is None or figures.memory <= bound


def shortfall(ours: PeerFigures, vela: PeerFigures, options: CompileOptions, bound: int | None) -> str:
    """The clause that says in what ours breaks the promise; "" if it is kept, or if Vela's does not keep to the arena size.

    >>> vela, asked = PeerFigures(16000, 1000), CompileOptions()
    >>> shortfall(PeerFigures(16000, 1001), vela, asked, None), shortfall(PeerFigures(16016, 1000), vela, asked, None)
    ('takes 1,001 cycles and Vela 1,000', 'needs 16,016 bytes and Vela 16,000')
    >>> shortfall(PeerFigures(20000, 900), vela, asked, 20000), shortfall(PeerFigures(16000, 1001), vela, asked, 12000)
    ('', '')
    """
    if not fits(vela, bound):
        return ""
    in_budget = bound is not None and options.optimise != SIZE and options.aim != FEWEST_BYTES
    if ours.memory > vela.memory and not in_budget and options.aim != FEWEST_CYCLES:
        return f"needs {ours.memory:,} bytes and Vela {vela.memory:,}"
    if ours.cycles > vela.cycles and options.aim != FEWEST_BYTES:
        return f"takes {ours.cycles:,} cycles and Vela {vela.cycles:,}"
    return ""


def in_words(options: CompileOptions, bound: int | None, vela: PeerFigures | None) -> str:
    """The promise of a compilation as a clause."""
    if not options.cascade:
        return "every layer whole, one after the other, whatever Vela's takes"
    arena = "" if bound is None else f" in at most {bound:,} bytes"
    if options.aim == FEWEST_BYTES or (options.optimise == SIZE and vela is None):
        return f"the fewest bytes{arena}, however many cycles"
    if options.aim == FEWEST_CYCLES or (vela is None and bound is None):
        return "the fewest cycles, however many bytes"
    if options.optimise == SIZE:
        return f"the fewest bytes{arena} of what is no larger and no slower than Vela Size"
    if bound is not None:
        return f"the fewest cycles{arena}"
    return f"the fewest cycles in the {0 if vela is None else vela.memory:,} bytes that Vela plans"


def best_schedule(task: Task, options: CompileOptions, vela: PeerFigures | None, bound: int | None, progress: Progress) -> Schedule:
    """Our schedule for the promise; InputError that names the smallest arena if none fits ``bound``."""
    if options.optimise == SIZE and options.aim not in (FEWEST_BYTES, FEWEST_CYCLES) and vela is not None and fits(vela, bound):
        return _smallest_as_fast(task, options, vela, progress)
    smallest = options.aim == FEWEST_BYTES or (options.optimise == SIZE and options.aim != FEWEST_CYCLES)
    budget = vela.memory if bound is None and vela is not None and options.aim not in (FEWEST_BYTES, FEWEST_CYCLES) else bound
    made = choice_of(
        task,
        arena_cache_size=budget,
        optimise=SIZE if smallest else OPTIMISE[0],
        effort=options.effort,
        processes=options.processes,
        progress=progress,
        bounds=False,
    )
    return made.point.schedule


def _smallest_as_fast(task: Task, options: CompileOptions, vela: PeerFigures, progress: Progress) -> Schedule:
    """The smallest schedule of a frontier that takes no more cycles than Vela's, searched more closely where that is."""
    task = with_effort(task, options.effort)
    # Few forms may hold more than Vela's.
    task = replace(task, options=replace(task.options, few_forms=False))
    progress(f"Scheduling {task.provenance.model}")
    with workers(processes_for(len(task.network.graph.parts), options.processes), takes_part=True) as executor:
        found = search(explore(task, executor, progress), EVERYTHING, executor, progress)
        frontier = frontiers.replayed_frontier(task, found, executor, (vela.memory,), (vela.cycles,), progress)
    return _least(frontier.at_most(vela.cycles), vela).schedule


def _least(point: frontiers.FrontierPoint | None, vela: PeerFigures) -> frontiers.FrontierPoint:
    if point is None or point.memory > vela.memory:
        raise InputError(f"No schedule was found that takes at most Vela's {vela.cycles} cycles in its {vela.memory} bytes.")
    return point
