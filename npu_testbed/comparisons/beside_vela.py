"""Many networks compared with Vela: its schedules replayed, and ours next to them. If one network fails, the others keep their results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.search.request import Request, Run
from npu_model.documents import plain, typed
from npu_testbed.comparisons.comparison import Comparison, Folders, compare
from npu_testbed.comparisons.summary import ComparisonSummary
from npu_testbed.devices.configs import vela_ini_text
from npu_testbed.ground.answers import Answers, key_of
from npu_testbed.ground.failures import Failure, attempt, parted
from npu_testbed.ground.progress import Progress
from npu_testbed.models.sources import Model, load_model
from npu_testbed.proofs.peers import validate_vela
from validation.vela.replays import OPTIMISE, VelaScore
from validation.vela.replays import passed as scores_passed


class BesideVela(Struct, frozen=True):
    """Vela's schedules replayed on Vela's default memories, and a summary of the requested comparisons per accelerator."""

    scores: tuple[VelaScore, ...]
    failures: tuple[Failure, ...] = ()
    summaries: tuple[ComparisonSummary, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed, no difference in SRAM is unexplained and every summary passes."""
        return not self.failures and scores_passed(self.scores) and all(summary.passed for summary in self.summaries)


Sources = Sequence[tuple[str, Model]]
"""The source of each network (a path or ``zoo:NAME``), with the network."""


def _score(source: str, model: Model, device: str, strategy: str, answers: Answers | None, progress: Progress) -> VelaScore:
    """The replay of one of Vela's schedules, unless it is already known."""

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
    def score(source: str, model: Model, device: str, strategy: str) -> VelaScore | Failure:
        replay = partial(_score, source, model, device, strategy, answers, progress)
        return attempt(replay, model.name, device, f"The replay of Vela {strategy}")

    return parted(score(*source, device, strategy) for source, device, strategy in product(sources, devices, optimise))


def _placed(progress: Progress, position: str) -> Progress:
    """Progress that also says which network of the list is at work."""
    return lambda doing: progress(f"{position}: {doing}")


def _summary(requests: Sequence[Request], run: Run, results: Path | None) -> ComparisonSummary:
    device = requests[0].device

    def compared(number: int, request: Request) -> Comparison | Failure:
        name = request.source.name
        there = replace(run, show=_placed(run.show, f"{name}, {device}, {number} of {len(requests)}"))
        return attempt(partial(compare, request, there, folders=Folders(results=results)), name, device, "The comparison")

    return ComparisonSummary(device, requests[0].memory.name, *parted(compared(*one) for one in enumerate(requests, 1)))


_ALONE = Run(None)


def beside_vela(
    models: Sequence[str], requests: Sequence[Request], optimise: Sequence[str] = OPTIMISE, run: Run = _ALONE, results: Path | None = None
) -> BesideVela:
    """Vela's schedules of ``models`` (paths or ``zoo:NAME``) by the strategies ``optimise``, and the requested comparisons.

    The folder ``results`` keeps each answer as soon as it is known, and kept answers are not computed again. A network that fails is
    reported in place of its row. If every network fails, the first failure is raised.
    """
    sources = [(source, load_model(source)) for source in models]
    devices = tuple(dict.fromkeys(request.device for request in requests))
    answers = None if results is None else Answers(results)
    scores, failures = _scores(sources, devices, optimise, answers, run.show)
    summaries = tuple(_summary([one for one in requests if one.device == device], run, results) for device in devices)
    failed = (*failures, *(failure for summary in summaries for failure in summary.failures))
    if failed and not scores and not any(summary.comparisons for summary in summaries):
        raise failed[0].error
    return BesideVela(scores, failures, summaries)
