"""The least cycles of a form's jobs in a row: the flow of each kernel behind the one before it, in whatever blocks are fastest for both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.stripes import Place, stripe
from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP, Dependency, shares_tables
from cascader.ethosu.network.network import ARENA, CONSTANTS, EthosuPart, ethosu_part
from cascader.ethosu.proof.least_flow import START, LeastFlow, Times
from cascader.ethosu.proof.least_work import WorkModel
from cascader.ethosu.search.bound import Pace, demand
from cascader.plan.depth_first import StripeJob
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.cost.flat_operation import flat_operation
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import BlockdepRule
from npu_model.values import dataclass

_APART = 1 << 48
"""Bytes from one tensor to the next, in an arena where each has room for all of its rows."""

_NEVER = Times(*[1 << 60] * 5)

Staged = frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A job in one of its blocks, with the flow of its work."""

    operation: KernelOperation
    flow: LeastFlow


class State:
    """The least times behind some jobs, one for each block that the last kernel may have been made in, and how they got there.

    ``words`` of constants have passed their port since the Program began at cycle ``begin`` (None: nobody counts them); ``copied`` are the
    parts whose copies did.
    """

    __slots__ = ("begin", "copied", "segment", "times", "words")

    def __init__(self, times: Sequence[tuple[Kernel | None, Times]], begin: int, words: int | None, copied: Staged, segment: int) -> None:
        self.times = times
        self.begin = begin
        self.words = words
        self.copied = copied
        self.segment = segment

    @property
    def least(self) -> Times:
        """The least of each time."""
        first, *others = [times for _, times in self.times]
        return Times(*map(min, first, *others)) if others else first

    @property
    def cycles(self) -> int:
        """Cycles of the jobs at least."""
        return self.least.finish


class LeastTimes:
    """Says for the jobs of one form how many cycles they take at least, whatever their addresses and copies.

    Each job is made in one of the blocks that the search chooses from.
    """

    def __init__(self, plans: Cascader, system: MemorySystem) -> None:
        self._plans = plans
        self._device = find_accelerator(plans.accelerator)
        self._timing = plans.cost.timing
        self._model = WorkModel(self._device, system, self._timing)
        self._payloads = [ethosu_part(part) for part in plans.network.graph.parts]
        self._places = {t.name: Place(index * _APART, 1, _APART) for index, t in enumerate(plans.graph.tensors)}
        self._home = system.ports[system.port_of(CONSTANTS)]
        self._pace = Pace.of(self._home)
        self._response = system.ports[system.port_of(ARENA)].write_latency
        self._kernels: dict[tuple[StripeJob, bool], tuple[Kernel, ...]] = {}
        self._flows: dict[tuple[object, ...], LeastFlow] = {}
        self._distances: dict[tuple[int, int], int | None] = {}
        self._rest = self._work_left(plans)

    def _work_left(self, plans: Cascader) -> list[tuple[int, int]]:
        """Cycles of MACs and of the output unit that the parts from each one on ask for at least."""
        left, rest = (Fraction(0), Fraction(0)), [(0, 0)]
        for number in range(len(self._payloads) - 1, -1, -1):
            payload, rows = self._payloads[number], plans.graph.parts[number].rows
            if payload is not None:
                asked = demand(payload, Fraction(plans.scheduler.needed[number], rows), self._device, self._timing)
                left = left[0] + asked.macs, left[1] + asked.output
            rest.append((floor(left[0]), floor(left[1])))
        return rest[::-1]

    def whole(self, state: State, part: int, rest: int) -> int:
        """Cycles of all jobs at least, those of the parts from ``part`` on made in any way behind a state.

        ``rest`` are the cycles that these parts take at least from the moment on at which the input load is free.
        """
        least, (macs, output) = state.least, self._rest[part]
        return max(least.finish, least.load + rest, least.mac + macs, least.output + output)

    def begin(self, part: int = 0) -> State:
        """Before the first job, or before those of a later part, where it is not known how many words its constants' port has passed."""
        return State([(None, START)], 0, None if part else 0, frozenset(), self._plans.graph.parts[part].segment)

    def constants(self, part: int) -> int:
        """Bytes of a part's constants."""
        return self._plans.cost.constant_bytes(part)

    def after(self, state: State, jobs: Iterable[StripeJob], staged: Staged | None = None) -> State:
        """The state behind some jobs; ``staged`` are the parts whose constants are copied (None: any)."""
        for job in jobs:
            state = self._after(state, job, staged)
        return state

    def _after(self, state: State, job: StripeJob, staged: Staged | None) -> State:
        segment = self._plans.graph.parts[job.part].segment
        if segment != state.segment:
            # Each Program begins when the one before it has ended.
            end = state.least.finish
            state = State([(None, Times(end, end, end, end, end))], end, 0, frozenset(), segment)
        ways = (False, True) if staged is None else (job.part in staged,)
        kernels = [kernel for way in ways for kernel in self._options(job, staged=way)]
        if not kernels:
            return state
        words, copied = (None, state.copied) if state.words is None else self._words(state.words, state.copied, job, staged)
        gated = state.begin + self._passed(words or 0)
        times = [(kernel, self._least(state, kernel, gated)) for kernel in kernels]
        return State(times, state.begin, words, copied, segment)

    def _words(self, words: int, copied: Staged, job: StripeJob, staged: Staged | None) -> tuple[int, Staged]:
        """Words of constants that have passed their port when a job's MACs are done, and the parts whose copies have."""
        direct = min(kernel.flow.work.words for kernel in self._options(job, staged=False))
        copy = ceil_div(self.constants(job.part), BEAT_BYTES)
        if staged is not None and job.part not in staged:
            return words + direct, copied
        source = self._plans.cost.same_constants(job.part)
        if source in copied:
            return words, copied
        return words + (copy if staged is not None else min(copy, direct)), copied | {source}

    def _passed(self, words: int) -> int:
        """Cycles in which the constants' port passes so many words at least, from a Program's beginning on."""
        return max(self._pace.gated(words * BEAT_BYTES), floor(words * self._home.cycles_per_word)) if words else 0

    def _least(self, state: State, kernel: Kernel, gated: int) -> Times:
        """The least of each time behind a kernel, whichever block the one before was made in; MACs end at cycle ``gated`` or later."""
        ways = (self._behind(kernel, before, times) for before, times in state.times)
        load, *others = map(min, *ways, _NEVER)
        return Times(load, *(max(gated, time) for time in others))

    def _behind(self, kernel: Kernel, before: Kernel | None, times: Times) -> Times:
        if before is None:
            return kernel.flow.behind(times, None)
        if self._timing.shram_drains and before.operation.shram != kernel.operation.shram:
            return kernel.flow.behind(times, 0)
        distance = self._distance(before.operation, kernel.operation)
        return kernel.flow.behind(times, distance, 0 if distance else self._timing.drain_responses * self._response)

    def _distance(self, before: KernelOperation, after: KernelOperation) -> int | None:
        """Blocks of a kernel before another one that may be unfinished when that begins, at most (None: it does not wait)."""
        key = id(before), id(after)
        if key not in self._distances:
            self._distances[key] = self._blockdep(before, after)
        return self._distances[key]

    def _blockdep(self, before: KernelOperation, after: KernelOperation) -> int | None:
        rule = self._timing.blockdep
        if rule is not BlockdepRule.HONOURED:
            return None if rule is BlockdepRule.IGNORED else 0
        if shares_tables(before, after, self._device):
            return 0
        return min(MAX_BLOCKDEP, Dependency(before, after).blocks(before.block, after.block))

    def _options(self, job: StripeJob, *, staged: bool) -> tuple[Kernel, ...]:
        """The job in each block that it may be made in; none for a transfer or a part on the CPU."""
        key = job, staged and self.constants(job.part) > 0
        if key not in self._kernels:
            payload = self._payloads[job.part]
            found = () if payload is None or payload.transfer else self._made(payload, job, staged=key[1])
            self._kernels[key] = found
        return self._kernels[key]

    def _made(self, payload: EthosuPart, job: StripeJob, *, staged: bool) -> tuple[Kernel, ...]:
        operation = stripe(payload, job.start, job.end, self._places)
        blocks = dict.fromkeys(option.block for option in self._plans.cost.options(*job, staged=staged))
        return tuple(self._kernel(_in_block(operation, block, self._device), job.part, staged=staged) for block in blocks)

    def _kernel(self, operation: KernelOperation, part: int, *, staged: bool) -> Kernel:
        decoding = self._plans.cost.decoder_work(part)
        row = flat_operation(operation, self._device, self._timing, is_known=bool(decoding), modulus=256)
        key = row.tobytes(), part, staged
        if key not in self._flows:
            work = self._model.of(operation, decoding, ARENA if staged else CONSTANTS)
            self._flows[key] = LeastFlow(work, self._timing)
        return Kernel(operation, self._flows[key])


def _in_block(operation: KernelOperation, block: Shape3D, device: Accelerator) -> KernelOperation:
    if block == operation.block:
        return operation
    return operation.having(block=block, shram=shram_partition(BlockQuery.of(operation), block, device))
