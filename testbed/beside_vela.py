"""Many networks beside Vela: its schedules replayed, and ours compared with them; what fails on one network costs no other its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from npu_model.accelerator import accelerator, require_schedulable
from testbed.compare import Comparison, compare
from testbed.compare_summary import Summary
from testbed.failures import Failure, attempt
from testbed.memory_options import NO_OPTIONS, MemoryOptions
from testbed.memory_use import require_one_memory
from testbed.models import load_model
from testbed.peers import validate_vela
from testbed.progress import Progress, silent
from validation.vela import OPTIMISE, VelaScore
from validation.vela import passed as scores_passed


@dataclass(frozen=True, slots=True)
class BesideVela:
    """Vela's schedules replayed (on what Vela compiles for by default), and a summary of comparisons per accelerator."""

    scores: tuple[VelaScore, ...]
    failures: tuple[Failure, ...]
    summaries: tuple[Summary, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed, no difference in SRAM is unexplained and every summary passes."""
        return not self.failures and scores_passed(self.scores) and all(summary.passed for summary in self.summaries)


def _scores(
    models: Sequence[str], devices: Sequence[str], optimise: Sequence[str], progress: Progress
) -> tuple[tuple[VelaScore, ...], tuple[Failure, ...]]:
    scores: list[VelaScore] = []
    failures: list[Failure] = []
    for model, device, strategy in product(models, devices, optimise):
        outcome = attempt(
            partial(validate_vela, (model,), (device,), (strategy,), progress), model, device, f"The replay of Vela {strategy}"
        )
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            scores += outcome
    return tuple(scores), tuple(failures)


def _summary(models: Sequence[str], device: str, memory: MemoryOptions, processes: int | None, progress: Progress) -> Summary:
    comparisons: list[Comparison] = []
    failures: list[Failure] = []
    for number, model in enumerate(models, 1):

        def show(doing: str, place: str = f"{model}, {device}, {number} of {len(models)}") -> None:
            progress(f"{place}: {doing}")

        outcome = attempt(
            partial(compare, model, device, memory=memory, processes=processes, progress=show), model, device, "The comparison"
        )
        if isinstance(outcome, Failure):
            failures.append(outcome)
        else:
            comparisons.append(outcome)
    return Summary(device, memory.memory_system().name, tuple(comparisons), tuple(failures))


def beside_vela(
    models: Sequence[str],
    accelerators: Sequence[str],
    optimise: Sequence[str] = OPTIMISE,
    *,
    memory: MemoryOptions = NO_OPTIONS,
    processes: int | None = None,
    progress: Progress = silent,
) -> BesideVela:
    """Vela's schedules of ``models`` (paths or ``zoo:NAME``) by the strategies ``optimise``, and the comparisons with ours on ``memory``.

    A network that fails is reported in place of its row. InputError before anything takes time if a model cannot be read or a name is
    wrong; if nothing at all could be done, the first failure is raised.
    """
    for name in accelerators:
        require_schedulable(name)
    require_one_memory(memory.memory_system())
    for model in models:
        load_model(model)
    devices = tuple(accelerator(name).name for name in accelerators)
    scores, failures = _scores(models, devices, optimise, progress)
    summaries = tuple(_summary(models, device, memory, processes, progress) for device in devices)
    failed = (*failures, *(failure for summary in summaries for failure in summary.failures))
    if failed and not scores and not any(summary.comparisons for summary in summaries):
        raise failed[0].error
    return BesideVela(scores, failures, summaries)
