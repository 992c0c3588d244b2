"""The blocks that the search chooses for all jobs of a schedule together, job by job.

The search's dynamic program (``cost/block_chain.py``) knows for each block of a kernel the one block of the kernel before that it comes
behind, whatever comes later. So of all ways to make some jobs as many are left as the last one has blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.coupling import Coupling
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.proof.spans import WordSpan, spans_of
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation


class Chain(NamedTuple):
    """The choice as far as it is known behind some jobs: the costs of the last kernel's blocks, each less that of the first.

    No costs: no kernel is right before. Not ``is_known``: any block may be chosen behind any.
    """

    is_known: bool
    costs: tuple[int, ...] = ()
    is_first: bool = False


FIRST = Chain(is_known=True, is_first=True)
"""Before the first job."""

CUT = Chain(is_known=True)
"""Behind a job that is no kernel."""

UNKNOWN = Chain(is_known=False)
"""Behind jobs that are not known, or whose constants may be copied or not."""

ANY = array("q")
"""In place of the blocks of the kernel before: any."""


class KernelJob(NamedTuple):
    """A kernel: its rows, the blocks that the search chooses from, and its operation in any of them."""

    job: StripeJob
    options: Sequence[BlockOption]
    operation: KernelOperation


class ChosenBlocks:
    """The search's choice of blocks for the kernels of one form."""

    def __init__(self, plans: Cascader, device: Accelerator) -> None:
        self._parts = plans.graph.parts
        self._device = device
        self._axes = [payload.axis if (payload := ethosu_part(part)) is not None else Axis.ROWS for part in plans.network.graph.parts]
        self._families = list(range(len(plans.graph.tensors)))
        for part in self._parts if plans.options.plans.in_place else ():
            if part.in_place is not None:
                self._join(part.in_place, part.outputs[0])
        self._sure: dict[tuple[StripeJob, StripeJob], bool] = {}
        self._steps: dict[tuple[object, ...], tuple[Chain, array[int]]] = {}

    def _join(self, one: int, two: int) -> None:
        old, new = self._families[two], self._families[one]
        self._families = [new if family == old else family for family in self._families]

    def behind(self, chain: Chain, before: KernelJob | None, job: KernelJob) -> tuple[Chain, array[int]]:
        """The choice behind a kernel, and for each of its blocks that of the kernel ``before`` (None: there is none right before)."""
        key = chain, before and id(before.options), id(job.options), before and before.job, job.job
        if key not in self._steps:
            self._steps[key] = self._step(chain, before, job)
        return self._steps[key]

    def _step(self, chain: Chain, before: KernelJob | None, job: KernelJob) -> tuple[Chain, array[int]]:
        if not chain.is_known:
            return UNKNOWN, ANY
        if before is None or not chain.costs:
            alone = [option.cost + (option.lead if chain.is_first else 0) for option in job.options]
            return _relative(alone), array("q", [0] * len(alone))
        if not self._is_sure(before, job):
            return UNKNOWN, ANY
        least = Coupling(before.operation, job.operation, self._device).least(chain.costs, before.options, job.options)
        costs = [cost + option.cost for (cost, _), option in zip(least, job.options, strict=True)]
        return _relative(costs), array("q", [at for _, at in least])

    def _is_sure(self, before: KernelJob, job: KernelJob) -> bool:
        """Whether a kernel depends on the one before wherever their tensors lie and roll as it does here."""
        key = before.job, job.job
        if key not in self._sure:
            self._sure[key] = self._is_steady(before, job)
        return self._sure[key]

    def _is_steady(self, before: KernelJob, job: KernelJob) -> bool:
        made = set(self._parts[before.job.part].outputs)
        others = {tensor for tensor, _ in self._parts[job.job.part].inputs} - made
        if {self._families[tensor] for tensor in made} & {self._families[tensor] for tensor in others}:
            return False
        one, two = self._axes[before.job.part], self._axes[job.job.part]
        written = list(spans_of(before.operation.ofm, one))
        read = [*spans_of(job.operation.ifm, two), *spans_of(job.operation.ifm2, two)]
        return not any(_may_interleave(a, b) for a in written for b in read)


def _may_interleave(one: WordSpan, two: WordSpan) -> bool:
    """Whether two maps may share no byte although the bytes from the first to the last of each meet, as one's lie in gaps of the other."""
    together = min(one.end, two.end) - max(one.start, two.start)
    return together > 0 and (min(one.gap, two.gap) > 0 or together <= max(one.gap, two.gap))


def _relative(costs: Sequence[int]) -> Chain:
    return Chain(is_known=True, costs=tuple(cost - costs[0] for cost in costs))
