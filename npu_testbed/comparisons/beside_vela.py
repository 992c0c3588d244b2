"""Many networks beside Vela: its schedules replayed, and ours compared with them; what fails on one network costs no other its results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.documents import plain, typed
from npu_testbed.answers import Answers, key_of
from npu_testbed.comparisons.comparison import Comparison, compare
from npu_testbed.comparisons.summary import ComparisonSummary
from npu_testbed.configs import vela_ini_text
from npu_testbed.device_memory import system_of
from npu_testbed.failures import Failure, attempt
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.models import Model, load_model
from npu_testbed.one_memory import require_one_memory
from npu_testbed.peers import validate_vela
from npu_testbed.progress import Progress, silent
from validation.vela.replays import OPTIMISE, VelaScore
from validation.vela.replays import passed as scores_passed


class BesideVela(Struct, frozen=True):
    """Vela's schedules replayed (on what Vela compiles for by default), and a summary of comparisons per accelerator."""

    scores: tuple[VelaScore, ...]
    failures: tuple[Failure, ...]
    summaries: tuple[ComparisonSummary, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed, no difference in SRAM is unexplained and every summary passes."""
        return not self.failures and scores_passed(self.scores) and all(summary.passed for summary in self.summaries)


Sources = Sequence[tuple[str, Model]]
"""Where each network comes from (a path or ``zoo:NAME``), with the network."""


def _score(source: str, model: Model, device: str, strategy: str, answers: Answers | None, progress: Progress) -> VelaScore:
    """One of Vela's schedules replayed, unless that is known."""

    def work() -> VelaScore:
        (score,) = validate_vela((source,), (device,), (strategy,), progress)
        return score

    if answers is None:
        return work()
    key = key_of(["score", model.name, device, strategy, vela_ini_text()], model.data)

    return answers.known(key, plain, partial(typed, VelaScore), work)


def _scores(
    sources: Sources, devices: Sequence[str], optimise: Sequence[str], answers: Answers | None, progress: Progress
) -> tuple[tuple[VelaScore, ...], tuple[Failure, ...]]:
    scores: list[VelaScore] = []
    failures: list[Failure] = []
    for (source, model), device, strategy in product(sources, devices, optimise):
        replay = partial(_score, source, model, device, strategy, answers, progress)
        outcome = attempt(replay, model.name, device, f"The replay of Vela {strategy}")
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            scores.append(outcome)
    return tuple(scores), tuple(failures)


def _placed(progress: Progress, place: str) -> Progress:
    """Progress that says, too, where in the list of networks it is."""
    return lambda doing: progress(f"{place}: {doing}")


def _summary(
    sources: Sources, device: str, memory: MemoryOptions, processes: int | None, progress: Progress, results: Path | None
) -> ComparisonSummary:
    comparisons: list[Comparison] = []
    failures: list[Failure] = []
    for number, (source, model) in enumerate(sources, 1):
        show = _placed(progress, f"{model.name}, {device}, {number} of {len(sources)}")
        comparison = partial(compare, source, device, memory=memory, processes=processes, progress=show, results=results)
        outcome = attempt(comparison, model.name, device, "The comparison")
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            comparisons.append(outcome)
    return ComparisonSummary(device, system_of(device, memory).name, tuple(comparisons), tuple(failures))


def beside_vela(
    models: Sequence[str],
    accelerators: Sequence[str],
    optimise: Sequence[str] = OPTIMISE,
    *,
    memory: MemoryOptions = NO_OPTIONS,
    processes: int | None = None,
    progress: Progress = silent,
    results: Path | None = None,
) -> BesideVela:
    """Vela's schedules of ``models`` (paths or ``zoo:NAME``) by the strategies ``optimise``, and the comparisons with ours on ``memory``.

    In the folder ``results`` each answer is kept as soon as it is known, and what it holds is not asked for again.
    A network that fails is reported in place of its row. InputError before anything takes time if a model cannot be read or a name is
    wrong; if nothing at all could be done, the first failure is raised.
    """
    for name in accelerators:
        require_one_memory(system_of(name, memory))
    sources = [(source, load_model(source)) for source in models]
    devices = tuple(accelerator(name).name for name in accelerators)
    answers = None if results is None else Answers(results)
    scores, failures = _scores(sources, devices, optimise, answers, progress)
    summaries = tuple(_summary(sources, device, memory, processes, progress, results) for device in devices)
    failed = (*failures, *(failure for summary in summaries for failure in summary.failures))
    if failed and not scores and not any(summary.comparisons for summary in summaries):
        raise failed[0].error
    return BesideVela(scores, failures, summaries)
