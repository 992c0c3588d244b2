"""Vela's points: its schedules of a network on both cores, as far as they can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor

from cascader.ethosu.network.network import CpuPart, Network
from cascader.frontends.vela import CORES
from cascader.search.workers import in_order
from npu_model.compiled.network import COPIES
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.replays.separate_regions import SEPARATE_CORES
from npu_testbed.replays.vela_runs import VelaBatch, VelaFailure, VelaOutcome, VelaPoint, VelaRun, VelaTask, outcomes


def _comparable(outcomes: Sequence[VelaOutcome | VelaFailure], ours: int | None) -> Iterator[VelaPoint | VelaFailure]:
    """The points, without cores that leave more operators on the CPU than another core or ``ours``: their cycles count less work."""
    fewest = min((len(one.on_cpu) for one in outcomes if isinstance(one, VelaOutcome)), default=0)
    other = "another one" if ours is None or fewest <= ours else "ours"
    fewest = fewest if ours is None else min(fewest, ours)
    for one in outcomes:
        if isinstance(one, VelaFailure):
            yield one
        elif len(one.on_cpu) > fewest:
            codes = ", ".join(sorted(set(one.on_cpu)))
            left = f"{len(one.on_cpu)} operator{'s' if len(one.on_cpu) > 1 else ''}"
            point = one.point
            yield VelaFailure(
                point.run,
                f"the {point.run.core} core leaves {left} on the CPU ({codes}), {other} {fewest}: its figures are of another network",
            )
        else:
            yield one.point


def operators_on_cpu(network: Network) -> int:
    """The number of operators that a network of ours leaves to the CPU, copies aside."""
    left = [part.payload for part in network.graph.parts if isinstance(part.payload, CpuPart)]
    return sum(operator.code not in COPIES or (len(operator.inputs), len(operator.outputs)) != (1, 1) for operator in left)


def _batches(task: VelaTask, runs: Sequence[VelaRun], at_once: int) -> Iterator[VelaBatch]:
    """One batch for all runs of the Python core, and one for each run of the C++ core."""
    if slow := tuple(run for run in runs if run.core == CORES[1]):
        yield VelaBatch(task, slow, at_once)
    for run in runs:
        if run.core != CORES[1]:
            yield VelaBatch(task, (run,))


def _text(batch: VelaBatch) -> str:
    core = batch.runs[0].core
    what = batch.runs[0].name if len(batch.runs) == 1 else f"{len(batch.runs)} schedules of Vela's"
    return f"Compiling and replaying {what} ({core} core)"


def vela_points(
    task: VelaTask,
    runs: Sequence[VelaRun],
    executor: Executor,
    show: Progress = silent,
    at_once: int = 1,
    *,
    on_cpu: int | None = None,
) -> tuple[tuple[VelaPoint, ...], tuple[VelaFailure, ...]]:
    """The points of ``runs`` in their order, and the runs that failed, are wrong or cannot be compared.

    ``at_once`` is the number of runs that the Python core compiles together, on any executor. ``on_cpu`` is the number of operators that
    ours leaves on the CPU, if known.
    """
    batches = tuple(_batches(task, runs, at_once))
    answers = in_order([executor.submit(outcomes, batch) for batch in batches])
    known: dict[VelaRun, VelaOutcome | VelaFailure] = {}
    for batch in batches:
        show(_text(batch))
        known.update(zip(batch.runs, next(answers), strict=True))
    found = tuple(_comparable([known[run] for run in runs], on_cpu))
    points = tuple(one for one in found if isinstance(one, VelaPoint))
    return points, tuple(one for one in found if isinstance(one, VelaFailure))


def on_cores(task: VelaTask, optimise: str, arena_cache_size: int | None = None) -> tuple[VelaRun, ...]:
    """The same compilation on each core that takes the task's options."""
    cores = CORES if task.end_ports is None else SEPARATE_CORES
    return tuple(VelaRun(core, optimise, arena_cache_size) for core in cores)
