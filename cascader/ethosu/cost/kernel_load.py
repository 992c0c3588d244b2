"""The load of a kernel on the NPU's units: the words, transactions and MAC cycles of each step of its blocks."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass
from npu_model.weight_stream.mlw_work import DecoderWork

_WORK, _LOAD = native("npu_model"), native("cascader.ethosu")
"""Compiled: the work of an operation's blocks, and what is made of it here; None if they are not built."""


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The load of a step on the units: words and transactions of its fetches, those of its constants, MAC cycles."""

    fetched: int
    fetches: int
    words: int
    reads: int
    mac_cycles: int


@dataclass(frozen=True, slots=True)
class BlockLoad:
    """The load of an OFM block on the units: its steps, output cycles, stored words. The scales are among the first step's constants."""

    steps: tuple[StepLoad, ...]
    output_cycles: int
    stored: int


_HEAD, _BLOCK, _STEP = 4, 3, 5
"""Integers before the blocks of a flat load, before the steps of a block, and of a step."""


@dataclass(frozen=True, slots=True)
class KernelLoad:
    """The load of a kernel on the units, block by block, as a row of integers; blocks that are equal are there once.

    The row has the number of places and of kinds of blocks; ``maps`` and ``constants``; at every place a kind; where each kind begins;
    and of each kind output cycles, stored words, number of steps and the integers of its steps.
    """

    flat: memoryview

    @classmethod
    def of(cls, order: Sequence[int], kinds: Sequence[BlockLoad]) -> KernelLoad:
        """The load of a kernel whose blocks are of these ``kinds`` in this ``order``."""
        maps = constants = 0
        for number, times in Counter(order).items():
            maps += times * (kinds[number].stored + sum([step.fetched for step in kinds[number].steps]))
            constants += times * sum([step.words for step in kinds[number].steps])
        flat = array("q", (len(order), len(kinds), maps, constants, *order))
        begin = len(flat) + len(kinds)
        for block in kinds:
            flat.append(begin)
            begin += _BLOCK + _STEP * len(block.steps)
        for block in kinds:
            flat.extend((block.output_cycles, block.stored, len(block.steps)))
            flat.extend(chain.from_iterable((s.fetched, s.fetches, s.words, s.reads, s.mac_cycles) for s in block.steps))
        return cls(memoryview(flat.tobytes()).cast("q"))

    @property
    def maps(self) -> int:
        """Words of its feature maps, read and written."""
        return self.flat[2]

    @property
    def constants(self) -> int:
        """Words of its constants."""
        return self.flat[3]

    @property
    def places(self) -> int:
        """Blocks."""
        return self.flat[0]

    @property
    def kinds(self) -> tuple[BlockLoad, ...]:
        """Blocks that are not equal."""
        flat, count = self.flat, self.flat[1]
        found = []
        for begin in flat[_HEAD + self.places : _HEAD + self.places + count]:
            output_cycles, stored, steps = flat[begin : begin + _BLOCK]
            numbers = iter(flat[begin + _BLOCK : begin + _BLOCK + _STEP * steps])
            found.append(BlockLoad(tuple(StepLoad(*five) for five in zip(*[numbers] * _STEP, strict=True)), output_cycles, stored))
        return tuple(found)

    @property
    def order(self) -> Sequence[int]:
        """The kind of each block, in their order."""
        return self.flat[_HEAD : _HEAD + self.places]

    @property
    def stored(self) -> int:
        """Words of its feature maps that it writes."""
        flat, table = self.flat, _HEAD + self.places
        return sum([flat[flat[table + number] + 1] for number in self.order])

    def words(self, first: int, last: int) -> tuple[int, int, int]:
        """Words of feature maps read and written, and of constants, of some blocks alone."""
        flat, table = self.flat, _HEAD + self.places
        fetched = stored = constants = 0
        for number in self.order[first:last]:
            begin = flat[table + number]
            steps = begin + _BLOCK
            end = steps + _STEP * flat[begin + 2]
            fetched += sum(flat[steps:end:_STEP])
            stored += flat[begin + 1]
            constants += sum(flat[steps + 2 : end : _STEP])
        return fetched, stored, constants


def _words(reads: Iterable[Read], burst: int) -> tuple[int, int]:
    """Words of some reads, and transactions of at most ``burst`` words, their borders not aligned."""
    runs = [run for read in reads for run in read.runs]
    return sum(runs), sum([-(-run // burst) for run in runs])


def _block_load(job: BlockJob, map_burst: int, burst: int) -> BlockLoad:
    steps = []
    for number, step in enumerate(job.steps):
        constants = step.weights if number else step.weights + job.scales
        steps.append(StepLoad(*_words(step.fetches, map_burst), *_words(constants, burst), step.mac_cycles))
    return BlockLoad(tuple(steps), job.output_cycles, sum(job.writes))


def kernel_load(jobs: Sequence[BlockJob], map_burst: int = 4, burst: int = 8) -> KernelLoad:
    """The load of a kernel's jobs, with transactions of so many words for feature maps and constants; equal jobs are counted once."""
    numbers: dict[int, int] = {}
    kinds: list[BlockLoad] = []
    for job in jobs:
        if id(job) not in numbers:
            numbers[id(job)] = len(kinds)
            kinds.append(_block_load(job, map_burst, burst))
    return KernelLoad.of([numbers[id(job)] for job in jobs], kinds)


def operation_load(
    op: KernelOperation,
    accelerator: Accelerator,
    work: tuple[DecoderWork, ...] = (),
    map_burst: int = 4,
    burst: int = 8,
    timing: TimingParameters = DEFAULT_TIMING,
) -> KernelLoad:
    """The load of an operation; ``work`` is the decoder's work for the weight stream of each core, none if unknown."""
    if _WORK is None or _LOAD is None:
        return kernel_load(like_jobs(op, accelerator, timing, work), map_burst, burst)
    row = flat_operation(op, accelerator, timing, is_known=bool(work))
    flat: bytes = _LOAD.kernel_load(memoryview(_WORK.block_work(row, flat_decoding(work))).cast("q"), map_burst, burst)
    return KernelLoad(memoryview(flat).cast("q"))
