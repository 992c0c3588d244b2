"""Words that the blocks of a kernel operation move, by region, from the compiled core's flat work if there is a core."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.cost.traffic import Runs
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork

_CORE = native("npu_model")


class MovedWords(Struct, frozen=True):
    """Data words that a kernel reads of feature maps and of weights, by region, and that it writes. Scales are not counted."""

    fetched: dict[int, int]
    weights: dict[int, int]
    written: int


def words_of_jobs(jobs: Sequence[BlockJob]) -> MovedWords:
    """The words that some blocks move."""
    fetched, weights = Counter[int](), Counter[int]()

    def count(reads: tuple[Read, ...], found: Counter[int]) -> None:
        for read in reads:
            found[read.region] += sum(read.runs)

    for job in jobs:
        for step in job.steps:
            count(step.fetches, fetched)
            count(step.weights, weights)
    return MovedWords(dict(fetched), dict(weights), sum(sum(job.writes) for job in jobs))


class _FlatJobs:
    """Jobs in the form of `npu_model/native/block_work.c`, each a column of its own; equal parts are written once."""

    def __init__(self) -> None:
        self.flat = array("q", bytes(8 * 6))
        self._reads: dict[tuple[Read, ...], int] = {(): 0}

    def runs(self, runs: Runs) -> list[int]:
        """The number of pairs, and the pairs."""
        pairs = [number for beats, equal in groupby(runs) for number in (len(list(equal)), beats)]
        return [len(pairs) // 2, *pairs]

    def reads(self, reads: tuple[Read, ...]) -> int:
        """The position of some reads, 0 for none."""
        if reads not in self._reads:
            self._reads[reads] = len(self.flat)
            self.flat.append(len(reads))
            for read in reads:
                self.flat.extend((read.region, read.phase, *self.runs(read.runs)))
        return self._reads[reads]

    def job(self, job: BlockJob) -> int:
        """The position of a job."""
        writes = len(self.flat)
        self.flat.extend(self.runs(job.writes))
        scales = self.reads(job.scales)
        steps = [(self.reads(step.fetches), self.reads(step.weights), step.mac_cycles) for step in job.steps]
        place = len(self.flat)
        self.flat.extend((job.output_cycles, writes, scales, len(steps), *chain.from_iterable(steps)))
        return place


def flat_jobs(jobs: Sequence[BlockJob]) -> memoryview:
    """Jobs in the compiled replay's form. None of their steps continues in the previous step's slot."""
    made, places = _FlatJobs(), list[int]()
    columns: dict[object, int] = {}
    for job in jobs:
        like = job.steps, job.scales, job.output_cycles, job.writes
        if columns.setdefault(like, len(places)) == len(places):
            places.append(made.job(job))
    order = [columns[job.steps, job.scales, job.output_cycles, job.writes] for job in jobs]
    made.flat[:6] = array("q", (len(order), 1, len(places), len(made.flat), len(made.flat) + len(order), 0))
    made.flat.extend((*order, *places))
    return memoryview(made.flat)


class _FlatWork:
    """The flat work of an operation's blocks, as `npu_model/native/block_work.c` writes it. Each position is summed once."""

    def __init__(self, flat: Sequence[int]) -> None:
        self._flat = flat
        self._reads: dict[int, list[tuple[int, int]]] = {0: []}

    def words(self) -> MovedWords:
        """The words of all blocks: the number of each column of blocks times its words."""
        places, depths, _, order, table = self._flat[:5]
        fetched, weights, written = Counter[int](), Counter[int](), 0
        for column, times in Counter(self._flat[order : order + places]).items():
            for job in self._flat[table + column * depths : table + (column + 1) * depths]:
                written += times * self._run_words(self._flat[job + 1])[0]
                for at in range(job + 4, job + 4 + 3 * self._flat[job + 3], 3):
                    fetches = self._flat[at]
                    self._add(fetched, fetches if fetches >= 0 else -1 - fetches, times)
                    self._add(weights, self._flat[at + 1], times)
        return MovedWords(dict(fetched), dict(weights), written)

    def _add(self, found: Counter[int], place: int, times: int) -> None:
        """Add the reads at a position, in a number of blocks."""
        if place not in self._reads:
            self._reads[place] = self._reads_at(place)
        for region, words in self._reads[place]:
            found[region] += times * words

    def _reads_at(self, place: int) -> list[tuple[int, int]]:
        """Region and words of each read."""
        found, at = [], place + 1
        for _ in range(self._flat[place]):
            words, end = self._run_words(at + 2)  # behind its region and its phase
            found.append((self._flat[at], words))
            at = end
        return found

    def _run_words(self, place: int) -> tuple[int, int]:
        """The words of the runs at a position, which are pairs of (how often, how many), and the position after them."""
        end = place + 1 + 2 * self._flat[place]
        pairs = self._flat[place + 1 : end]
        return sum([times * words for times, words in zip(pairs[::2], pairs[1::2], strict=True)]), end


def moved_words(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: tuple[DecoderWork, ...] = ()
) -> MovedWords:
    """The words that an operation moves; ``work`` is the decoder's work for the weight stream of each core, none if unknown."""
    if _CORE is None:
        return words_of_jobs(like_jobs(op, accelerator, timing, work))
    flat = _CORE.block_work(flat_operation(op, accelerator, timing, is_known=bool(work)), flat_decoding(work))
    return _FlatWork(memoryview(flat).cast("q").tolist()).words()
