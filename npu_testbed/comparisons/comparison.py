"""Comparison: our frontier and Vela's schedules of the same network, all replayed by one simulator.

By a table of energies, each answer also has the ratio of energies, ours to Vela's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.floor import require_interface
from cascader.ethosu.search.limits import EVERYTHING
from cascader.ethosu.search.request import ModelSource, Request, Run
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.frontends.vela.known_tensors import with_own_shapes
from cascader.frontends.vela.model_changes import without_constant_outputs
from cascader.search.workers import processes_for, workers
from npu_model.errors import BudgetError, InputError
from npu_model.memory.outer_arena import has_outer_arena
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_testbed.comparisons.answer import AT_PERFORMANCE_CYCLES, AT_SIZE_CYCLES, IN_PERFORMANCE_BYTES, SMALLEST, BestAnswer
from npu_testbed.comparisons.robust import RobustAnswer, robust_answers
from npu_testbed.comparisons.vela_points import on_cores, operators_on_cpu, vela_points
from npu_testbed.documents.comparison import EnergyRatios
from npu_testbed.energy import Energy, EnergyTable, energy, energy_ratio
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.legalise import load_task
from npu_testbed.replays.separate_regions import end_ports
from npu_testbed.replays.vela_runs import VelaFailure, VelaPoint, VelaRun, VelaTask, vela_network
from npu_testbed.searches.frontiers import Frontier, FrontierPoint, replayed_frontier, within_bound
from npu_testbed.searches.other_ways import with_other_ways
from npu_testbed.searches.resume import Resumed, resumed
from sim import counted_network


def our_energy(schedule: Schedule, task: VelaTask, table: EnergyTable) -> Energy:
    """The energy of a schedule on the memories and with the timing of a task."""
    return energy(counted_network(lower(schedule), task.system, task.timing), table)


def vela_energy(run: VelaRun, task: VelaTask, table: EnergyTable) -> Energy:
    """The energy of one compilation of Vela's."""
    network = vela_network(task, run)
    return energy(counted_network(network, task.replayed_on(network), task.timing), table)


def energy_ratios(
    answers: Sequence[BestAnswer], task: VelaTask, table: EnergyTable, executor: Executor, show: Progress = silent
) -> EnergyRatios:
    """The ratio of each answer. InputError if the table lacks a memory or makes Vela's energy 0."""
    show(f"Weighing {len(answers)} answers by the energy table {table.name}")
    schedules = {answer.ours.digest: answer.ours.schedule for answer in answers if answer.ours is not None}
    ours = {name: executor.submit(our_energy, schedule, task, table) for name, schedule in schedules.items()}
    vela = {run: executor.submit(vela_energy, run, task, table) for run in dict.fromkeys(answer.vela.run for answer in answers)}
    return EnergyRatios(
        table.name,
        tuple(
            None if answer.ours is None else energy_ratio(ours[answer.ours.digest].result(), vela[answer.vela.run].result())
            for answer in answers
        ),
    )


NOISE = 0.03
"""Relative difference in cycles below which neither side is called faster: our search picks by the simulator that judges it."""

SWEEP = 8
"""Arena sizes at which both are compared."""


class SweepRow(Struct, frozen=True):
    """Both at one arena size: the best of Vela's cores, which may overflow it, and our fastest that fits."""

    arena_cache_size: int
    vela: VelaPoint | None
    ours: FrontierPoint | None

    @property
    def cycles_ratio(self) -> float | None:
        """Our cycles per cycle of Vela's; None unless both fit."""
        if self.ours is None or self.vela is None or self.vela.overflows:
            return None
        return self.ours.cycles / self.vela.cycles


class Comparison(Struct, frozen=True):
    """Our frontier, all of Vela's points, and the conclusions.

    ``size`` and ``performance`` are the better of Vela's cores; None where both fail.
    """

    frontier: Frontier
    points: tuple[VelaPoint, ...]
    failures: tuple[VelaFailure, ...]
    size: VelaPoint | None
    performance: VelaPoint | None
    answers: tuple[BestAnswer, ...]
    sweep: tuple[SweepRow, ...]
    separate_io_regions: bool = False
    """Whether Vela's inputs and outputs are outside its arena, because ours have homes."""
    robust: tuple[RobustAnswer | None, ...] | None = None
    """Each answer under other timings, if requested."""
    energy: EnergyRatios | None = None
    """The ratio of energies for each answer, if requested."""

    @property
    def chosen(self) -> FrontierPoint:
        """Our point that a report details: the one at Vela Performance's bytes or fewer, else our smallest.

        If Vela Performance fails, our fastest.
        """
        if self.performance is None:
            return self.frontier.points[-1]
        within = self.frontier.within(self.performance.memory)
        return self.frontier.points[0] if within is None else within


def cycles_verdict(ratio: float) -> str:
    """Who is faster, if the difference is more than noise.

    >>> cycles_verdict(0.98), cycles_verdict(0.9), cycles_verdict(1.1)
    ('even', 'ours', 'Vela')
    """
    if abs(ratio - 1) < NOISE:
        return "even"
    return "ours" if ratio < 1 else "Vela"


def sweep_sizes(low: int, high: int, count: int = SWEEP) -> tuple[int, ...]:
    """``count`` arena sizes in bytes from ``low`` to ``high``, geometrically spaced, both included; fewer if the range is short.

    >>> sweep_sizes(1024, 4096, 3)
    (1024, 2048, 4096)
    """
    low, high = round_up(low, ALIGNMENT), round_up(high, ALIGNMENT)
    if low >= high:
        return (low,)
    step = (high / low) ** (1 / (count - 1))
    inner = {round_up(int(low * step**i), ALIGNMENT) for i in range(1, count - 1)}
    return tuple(sorted({low, high} | {size for size in inner if low < size < high}))


def _best(points: Iterable[VelaPoint], optimise: str) -> VelaPoint | None:
    """The point of the core that did better on the optimised figure; None without points."""
    chosen = [point for point in points if point.optimise == optimise and point.arena_cache_size is None]
    return min(chosen, key=lambda p: (p.memory, p.cycles) if optimise == "Size" else (p.cycles, p.memory), default=None)


def _best_at(points: Iterable[VelaPoint], size: int) -> VelaPoint | None:
    """The fastest point that fits, or else the point that overflows least."""
    tried = [point for point in points if point.arena_cache_size == size]
    fitting = [point for point in tried if not point.overflows]
    if fitting:
        return min(fitting, key=lambda p: (p.cycles, p.memory))
    return min(tried, key=lambda p: (p.memory, p.cycles), default=None)


def answers(frontier: Frontier, size: VelaPoint | None, performance: VelaPoint | None) -> tuple[BestAnswer, ...]:
    """The answers of our frontier to Vela's two strategies, as far as Vela has schedules."""
    found = []
    if size is not None:
        found += [
            BestAnswer(AT_SIZE_CYCLES, size, frontier.at_most(size.cycles)),
            BestAnswer(SMALLEST, size, frontier.points[0]),
        ]
    if performance is not None:
        found += [
            BestAnswer(AT_PERFORMANCE_CYCLES, performance, frontier.at_most(performance.cycles)),
            BestAnswer(IN_PERFORMANCE_BYTES, performance, frontier.within(performance.memory)),
        ]
    return tuple(found)


def arenas_below(points: Iterable[VelaPoint], smallest: int) -> tuple[int, ...]:
    """The largest reachable arenas below Vela's. If a win in bytes depends on the timing, a larger arena may still hold it."""
    return tuple(point.memory - ALIGNMENT for point in points if point.memory - ALIGNMENT > smallest)


def _largest(performance: VelaPoint, bound: int | None) -> int:
    return performance.memory if bound is None else min(performance.memory, bound)


class Sides(Struct, frozen=True):
    """The parts of a comparison in addition to the four answers.

    ``sweep`` is a number of arena sizes at which both are compared (0: none). With ``robust``, answers are also replayed under other
    timings, and the steadiest of equally good answers is taken. With ``energy``, each answer has a ratio of energies by that table.
    """

    sweep: int = SWEEP
    robust: bool = False
    energy: EnergyTable | None = None


class Folders(Struct, frozen=True):
    """Folders of a comparison: ``schedules`` as :func:`npu_testbed.searches.frontiers.frontier` has one.

    ``results`` keeps each answer, Vela's or ours, as soon as it is known; kept answers are not computed again.
    """

    schedules: Path | None = None
    results: Path | None = None


_ALONE, _SIDES, _NOWHERE = Run(None), Sides(), Folders()


def _vela_task(request: Request, task: Task) -> VelaTask:
    """The task of Vela: the model, and the memories by Vela's names."""
    source = request.source
    if not isinstance(source, ModelSource):
        raise InputError(f"{source.name} is not a model file, and Vela compiles nothing else: give a .tflite, zoo:NAME or portfolio:NAME.")
    model, _ = without_constant_outputs(with_own_shapes(source.data))
    names, parted = request.names, has_outer_arena(request.memory)
    # If a fast scratch is separate from the arena, Vela too has inputs and outputs in the arena, and its maps in either.
    ends, system = (None, request.memory) if parted else (end_ports(task.network), task.system)
    return VelaTask(model, task.accelerator, names.system_config, names.memory_mode, names.config, system, request.timing, ends)


def compare(request: Request, run: Run = _ALONE, sides: Sides = _SIDES, folders: Folders = _NOWHERE) -> Comparison:
    """Our frontier of a request, with Vela Size, Vela Performance and Vela at a sweep of arena sizes.

    The sweep goes from our smallest arena to Vela Performance's. We also search for our best at each size of the sweep and at Vela's own
    sizes, and more closely around Vela's cycles. If Vela fails on both cores, the comparison has our frontier and Vela's failures. If an
    input or output of ours has a home, Vela compiles with ``--separate-io-regions``, on the core that has this option. All of Vela's inputs
    and outputs are then outside its arena, in the same memory as ours. InputError if the model or a name is wrong. Our arenas and the
    sweep's sizes keep to the budget of the request; Vela may exceed it.
    """
    task = load_task(request, run.show)
    try:
        require_interface(task, request)
        return _compared(task, request, run, sides, folders)
    except BudgetError as error:
        raise with_other_ways(error, request, run) from None


def _compared(task: Task, request: Request, run: Run, sides: Sides, folders: Folders) -> Comparison:
    """Like :func:`compare`, of a loaded task; BudgetError if no point fits the budget."""
    bound, progress, sweep, robust = request.budget, run.show, sides.sweep, sides.robust
    vela = _vela_task(request, task)
    ends, energy = vela.end_ports, sides.energy
    many = processes_for(len(task.network.graph.parts), run.processes)
    with workers(many, takes_part=True) as pool:
        executor = resumed(pool, task, folders.schedules, folders.results)
        on_cpu = operators_on_cpu(task.network)
        both = (*on_cores(vela, "Size"), *on_cores(vela, "Performance"))
        plain, failures = vela_points(vela, both, executor, progress, many, on_cpu=on_cpu)
        size, performance = _best(plain, "Size"), _best(plain, "Performance")
        peers = tuple(point for point in (size, performance) if point is not None)
        everything = replace(EVERYTHING, thorough=request.thorough)
        found = search(explore(task, executor, progress), everything, executor, progress)
        smallest = min(draft.memory for draft in found.drafts)
        sizes = sweep_sizes(smallest, _largest(performance, bound), sweep) if sweep and performance is not None else ()
        at_sizes = [run for at in sizes for run in on_cores(vela, "Performance", at)]
        swept, more = vela_points(vela, at_sizes, executor, progress, many, on_cpu=on_cpu)
        budgets = tuple(sorted({*sizes, *(point.memory for point in plain), *(arenas_below(peers, smallest) if robust else ())}))
        budgets = budgets if bound is None else tuple(sorted({bound, *(budget for budget in budgets if budget < bound)}))
        targets = tuple(point.cycles for point in peers)
        frontier = within_bound(replayed_frontier(task, found, executor, budgets, targets, progress), bound)
        answered, judged = answers(frontier, size, performance), None
        if robust:
            both_sides = robust_answers(answered, frontier, vela, executor, progress)
            answered, judged = tuple(answer for answer, _ in both_sides), tuple(verdict for _, verdict in both_sides)
        if isinstance(executor, Resumed):
            chosen = [answer.ours for answer in answered if answer.ours is not None]
            executor.finish({point.memory: point.schedule for point in (*frontier.points, *chosen)})
        energies = None if energy is None else energy_ratios(answered, vela, energy, executor, progress)
    return Comparison(
        frontier=frontier,
        points=(*plain, *swept),
        failures=(*failures, *more),
        size=size,
        performance=performance,
        answers=answered,
        sweep=tuple(SweepRow(at, _best_at(swept, at), frontier.within(at)) for at in sizes),
        separate_io_regions=ends is not None,
        robust=judged,
        energy=energies,
    )
