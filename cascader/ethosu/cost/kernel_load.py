"""The load of a kernel on the NPU's units: the words, transactions and MAC cycles of each step of its blocks."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork

_WORK, _LOAD = native("npu_model"), native("cascader.ethosu")
"""The compiled work and load of an operation's blocks; None if they are not built."""


BlockLoad = Sequence[int]
"""The load of an OFM block on the units: output cycles, stored words, the number of its steps, its stores, and six numbers for each step.

They are words and transactions of its fetches, words and transactions of its constants (the first step includes the scales), MAC cycles,
and whether it continues in the slot of the previous step.
"""

_HEAD, _BLOCK, STEP = 5, 4, 6
"""Integers before the blocks of a flat load, before the steps of a block, and of a step."""


def _fetched(block: BlockLoad) -> int:
    """Words that a block fetches."""
    return sum(block[_BLOCK::STEP])


def _constants(block: BlockLoad) -> int:
    """Words of a block's constants."""
    return sum(block[_BLOCK + 2 :: STEP])


class KernelLoad(Struct, frozen=True):
    """The load of a kernel on the units, block by block, as a row of integers; equal blocks are stored once.

    The row has the number of positions and of kinds of blocks; ``maps``, ``constants`` and ``fetching``; the kind at every position; where
    each kind begins; and the kinds.
    """

    flat: memoryview

    @classmethod
    def of(cls, order: Sequence[int], kinds: Sequence[BlockLoad]) -> KernelLoad:
        """The load of a kernel whose blocks are of these ``kinds`` in this ``order``."""
        times = Counter(order)
        maps = sum(times[number] * (block[1] + _fetched(block)) for number, block in enumerate(kinds))
        constants = sum(times[number] * _constants(block) for number, block in enumerate(kinds))
        fetching = sum(times[number] for number, block in enumerate(kinds) if _fetched(block))
        *begins, _ = accumulate((len(block) for block in kinds), initial=_HEAD + len(order) + len(kinds))
        flat = array("q", (len(order), len(kinds), maps, constants, fetching, *order, *begins, *chain.from_iterable(kinds)))
        return cls(memoryview(flat.tobytes()).cast("q"))

    @property
    def maps(self) -> int:
        """Words of the kernel's feature maps, read and written."""
        return self.flat[2]

    @property
    def constants(self) -> int:
        """Words of the kernel's constants."""
        return self.flat[3]

    @property
    def fetching(self) -> int:
        """Blocks that fetch."""
        return self.flat[4]

    @property
    def places(self) -> int:
        """Number of blocks."""
        return self.flat[0]

    @property
    def kinds(self) -> tuple[BlockLoad, ...]:
        """Number of distinct blocks."""
        flat, count = self.flat, self.flat[1]
        begins = flat[_HEAD + self.places : _HEAD + self.places + count]
        return tuple(flat[begin : begin + _BLOCK + STEP * flat[begin + 2]] for begin in begins)

    @property
    def order(self) -> Sequence[int]:
        """The kind of each block, in their order."""
        return self.flat[_HEAD : _HEAD + self.places]

    @property
    def stored(self) -> int:
        """Words that the kernel writes to its feature maps."""
        return self.words(0, self.places)[1]

    def words(self, first: int, last: int) -> tuple[int, int, int]:
        """Words of feature maps read and written, and of constants, of some blocks alone."""
        kinds = self.kinds
        blocks = [kinds[number] for number in self.order[first:last]]
        return sum(map(_fetched, blocks)), sum(block[1] for block in blocks), sum(map(_constants, blocks))


def _words(reads: Iterable[Read], burst: int) -> tuple[int, int]:
    """Words of some reads, and transactions of at most ``burst`` words, without alignment at borders."""
    runs = [run for read in reads for run in read.runs]
    return sum(runs), sum([-(-run // burst) for run in runs])


def _block_load(job: BlockJob, map_burst: int, burst: int) -> BlockLoad:
    load = [job.output_cycles, sum(job.writes), len(job.steps), sum([-(-run // burst) for run in job.writes])]
    for number, step in enumerate(job.steps):
        constants = step.weights if number else step.weights + job.scales
        load += (*_words(step.fetches, map_burst), *_words(constants, burst), step.mac_cycles, step.continues)
    return load


def kernel_load(jobs: Sequence[BlockJob], map_burst: int = 4, burst: int = 8) -> KernelLoad:
    """The load of a kernel's jobs, with transactions of ``burst`` words for feature maps and constants; equal jobs are counted once."""
    numbers: dict[int, int] = {}
    kinds: list[BlockLoad] = []
    for job in jobs:
        if id(job) not in numbers:
            numbers[id(job)] = len(kinds)
            kinds.append(_block_load(job, map_burst, burst))
    return KernelLoad.of([numbers[id(job)] for job in jobs], kinds)


def operation_loads(
    op: KernelOperation,
    accelerator: Accelerator,
    work: tuple[DecoderWork, ...],
    bursts: Iterable[tuple[int, int]],
    timing: TimingParameters = DEFAULT_TIMING,
) -> list[KernelLoad]:
    """The load of an operation for each pair of bursts, as :func:`kernel_load` takes them.

    ``work`` is the decoder's work for the weight stream of each core, none if unknown.
    """
    if _WORK is None or _LOAD is None:
        jobs = like_jobs(op, accelerator, timing, work)
        return [kernel_load(jobs, *one) for one in bursts]
    row = flat_operation(op, accelerator, timing, is_known=bool(work))
    blocks = memoryview(_WORK.block_work(row, flat_decoding(work))).cast("q")
    return [KernelLoad(memoryview(_LOAD.kernel_load(blocks, *one)).cast("q")) for one in bursts]


def operation_load(
    op: KernelOperation,
    accelerator: Accelerator,
    work: tuple[DecoderWork, ...] = (),
    map_burst: int = 4,
    burst: int = 8,
    timing: TimingParameters = DEFAULT_TIMING,
) -> KernelLoad:
    """The only one of :func:`operation_loads`."""
    return operation_loads(op, accelerator, work, [(map_burst, burst)], timing)[0]
