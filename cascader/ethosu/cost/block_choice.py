"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import chain, pairwise, product

import numpy as np
import numpy.typing as npt

from cascader.ethosu.cost.memory_path import Source, Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import MacPace, mac_pace, ofm_ublock, output_rate
from npu_model.cost.shram import BlockQuery, ShramQuery, ifm_depth_step
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.cost.traversal import keeps_ifm, reduces_depth, sub_kernels
from npu_model.native import native
from npu_model.program import BRICK, KernelOperation, Layout, OperationKind, Upscale
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.values import dataclass

_NATIVE = native("cascader.ethosu")
"""Compiled: the estimates of many blocks; None if it is not built."""

Numbers = npt.NDArray[np.int64]
Cycles = npt.NDArray[np.float64]

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried besides even divisions of the OFM; a search over all gains less than 1 % more."""

PROMISING = 0.98
"""Share of the own block's estimate below which another block is looked at."""

WORTHWHILE = 1.05
"""Share of the own block's estimate below which a block is looked at for its partition."""


def _sides(extent: int, ublock: int, limit: int) -> list[int]:
    """Block sides worth a try: whole ublocks, up to the OFM's extent."""
    even = (ceil_div(extent, parts) for parts in range(1, 5))
    rounded = {round_up(side, ublock) for side in (*SIDES, *even)}
    return sorted(side for side in rounded if side <= min(limit, round_up(extent, ublock)))


@lru_cache(maxsize=4096)
def _grid(extent: Shape3D, depths: tuple[int, ...], accelerator: Accelerator) -> Numbers:
    """Blocks of the given depths for an OFM of ``extent``: a row of height, width and depth each."""
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _sides(extent.height, ublock.height, limit.height), _sides(extent.width, ublock.width, limit.width)
    found = np.array(list(product(heights, widths, depths)), np.int64).reshape(-1, 3)
    found.flags.writeable = False
    return found


def candidates(op: KernelOperation, accelerator: Accelerator) -> Numbers:
    """Blocks of the depth that the weights are encoded for, of any allowed depth where there are none."""
    ofm, limit = op.ofm.shape, accelerator.max_block
    depths = {op.block.depth}
    if not op.weights:
        depths |= {min(limit.depth, round_up(d, BRICK)) for d in (16, 32, 64, 128) if d < ofm.depth}
        if ofm.depth <= limit.depth:
            depths.add(round_up(ofm.depth, accelerator.ofm_ublock.depth))
    return _grid(ofm, tuple(sorted(depths)), accelerator)


def _ceil(numerators: Numbers, denominator: int) -> Numbers:
    return -(-numerators // denominator)


@dataclass(frozen=True, slots=True)
class _Cuts:
    """The pieces that one dimension of the OFM is cut into by each of some blocks: whole ones and a rest (size 0 if there is none).

    ``sizes`` and ``counts`` have a row for whole pieces and one for rests; ``last`` is the size of the last piece.
    """

    sizes: Numbers
    counts: Numbers
    last: Numbers

    @classmethod
    def of(cls, extent: int, sides: Numbers) -> _Cuts:
        wholes, rests = extent // sides, extent % sides
        return cls(np.stack((sides, rests)), np.stack((wholes, np.minimum(rests, 1))), np.where(rests, rests, sides))


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of every OFM block: its MAC array's pace, the IFM channels that it fetches (0: those of the OFM) and its share of the weights.

    ``first`` steps read the scales too.
    """

    pace: MacPace
    channels: int
    share: int
    first: bool


@dataclass(frozen=True, slots=True)
class _Block:
    """OFM blocks of several sizes: cycles up to the last step, those of that, and those in which the first one's data are brought.

    ``least`` are the cycles of the output unit and of everything that moves. ``single`` says that nothing overlaps.
    """

    inner: Cycles
    last: Cycles
    first: Cycles
    least: Cycles
    single: bool = False

    def before(self, following: Cycles) -> Cycles:
        """Cycles of these blocks if those of the first step behind them take so long to be brought."""
        if self.single:
            return self.inner + self.last + following + self.least
        cycles: Cycles = np.maximum(self.least, self.inner + np.maximum(self.last, following))
        return cycles


def _transfer(source: Source, words: Numbers, transactions: Numbers) -> Cycles:
    """:meth:`Source.cycles` of several transfers."""
    path: Cycles = words.astype(np.float64) * source.word
    cycles: Cycles = np.maximum(path, (transactions * source.latency + path) / source.reads) if source.reads else path
    return cycles


class Estimator:
    """Cycles of one kernel for any block; what does not depend on the block is worked out once.

    While the MAC array works on a step the data of the next one are brought, so that the longer of the two counts, or with one slot
    between the units their sum. Closed form over the at most eight kinds of blocks (whole or rest in each dimension); borders are
    counted as if they were read.
    """

    def __init__(self, op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> None:
        """``decoding`` are the cycles in which the decoder passes all weights of the kernel once, where its streams are known."""
        self._op = op
        self._sources = sources
        self._ublock = ofm_ublock(op, accelerator)
        self._ublock_depth = self._ublock.depth * accelerator.cores
        # What a depthwise step takes does not depend on its stream.
        self._decoding = None if op.kind is OperationKind.DEPTHWISE else decoding
        self._weights, self._scales = (sum(span.length for span in spans) for spans in (op.weights, op.scales))
        self._timing = sources.timing
        self._output = output_rate(op, accelerator, self._timing).as_integer_ratio()
        self._steps, self._order = self._all_steps(accelerator)
        self._times = Counter(self._order)
        self._pairs = Counter(pairwise(self._order))
        self._shares = sum(self._steps[number].share * times for number, times in self._times.items())
        self._kept = keeps_ifm(op, len(self._order), self._timing)

    def beside(self, sources: Sources) -> Estimator:
        """The same kernel with its operands elsewhere, in an NPU of the same timing."""
        other: Estimator = Estimator.__new__(Estimator)  # as copy.copy does, in a fifth of its time
        other.__dict__.update(self.__dict__)
        other._sources = sources
        return other

    def _all_steps(self, accelerator: Accelerator) -> tuple[list[_Step], list[int]]:
        """The steps of an OFM block that are not equal, and for each step in its order which of them it is."""
        op, kernels, deep = self._op, sub_kernels(self._op), reduces_depth(self._op)
        known = self._decoding is not None
        depth, step = op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
        channels = [min(step, depth - first) for first in range(0, depth, step)] if deep else [depth]
        numbers: dict[_Step, int] = {}
        chunks: dict[tuple[int, bool], list[int]] = {}
        order: list[int] = []
        for number, count in enumerate(channels):
            chunk = count, number == 0
            if chunk not in chunks:
                steps = [
                    _Step(
                        mac_pace(op, accelerator, part.taps, count, self._timing, is_known=known),
                        count if deep else 0,
                        part.taps * (count if deep else 1),
                        number == index == 0,
                    )
                    for index, part in enumerate(kernels)
                ]
                chunks[chunk] = [numbers.setdefault(one, len(numbers)) for one in steps]
            order += chunks[chunk]
        return list(numbers), order

    @cached_property
    def flat(self) -> array[int]:
        """The kernel for the compiled core."""
        op, (rate, divisor), ublock = self._op, self._output, self._ublock
        ofm, ifm, kernel = op.ofm, op.ifm, op.kernel
        head = (
            *(ofm.shape.height, ofm.shape.width, ofm.shape.depth, ofm.dtype.bytes, ifm.shape.height, ifm.shape.width, ifm.shape.depth),
            *(ifm.dtype.bytes, ifm.layout is Layout.NHCWB16, ifm.strides.x, 1 if op.ifm2 is None else 2),
            *(kernel.stride_y, kernel.stride_x, kernel.dilated_height, kernel.dilated_width, op.upscale is not Upscale.NONE),
            *(ublock.height, ublock.width, self._ublock_depth, self._weights, self._scales, rate, divisor, self._decoding or 0),
            *(self._shares, self._kept, len(self._steps), len(self._pairs), self._order[0], self._order[-1]),
            self._timing.output_start_cycles,
        )
        steps = (
            (
                s.pace.floor,
                s.pace.plane,
                s.pace.steps,
                s.pace.delay,
                s.pace.fill,
                s.pace.spared,
                s.channels,
                s.share,
                s.first,
                self._times[number],
            )
            for number, s in enumerate(self._steps)
        )
        pairs = ((one, two, times) for (one, two), times in self._pairs.items())
        return array("q", chain(head, *steps, *pairs))

    def _fetch(self, step: _Step, height: Numbers, width: Numbers, depth: Numbers) -> tuple[Numbers, Numbers]:
        """Words and transactions in which a step of OFM blocks fetches its operands, borders not counted off."""
        op, kernel = self._op, self._op.kernel
        rows, columns = (height - 1) * kernel.stride_y + kernel.dilated_height, (width - 1) * kernel.stride_x + kernel.dilated_width
        if op.upscale is not Upscale.NONE:
            rows, columns = _ceil(rows, 2), _ceil(columns, 2)
        rows, columns = np.minimum(rows, op.ifm.shape.height), np.minimum(columns, op.ifm.shape.width)
        channels = np.minimum(np.asarray(step.channels) if step.channels else depth, op.ifm.shape.depth)
        size, bricks = op.ifm.dtype.bytes, op.ifm.layout is Layout.NHCWB16
        # Pixels that follow each other without a gap are fetched row by row.
        whole = (channels == op.ifm.shape.depth) & (op.ifm.strides.x == op.ifm.shape.depth * size)
        runs = rows * _ceil(channels, BRICK) if bricks else rows * np.where(whole, 1, columns)
        run = _ceil(columns * (BRICK * size), BEAT_BYTES) if bricks else _ceil(np.where(whole, columns, 1) * channels * size, BEAT_BYTES)
        runs = runs * (2 if op.ifm2 is not None else 1)
        return runs * run, runs * _ceil(run, self._sources.maps.burst)

    def _mac(self, step: _Step, height: Numbers, width: Numbers, depth: Numbers) -> Cycles:
        """MAC cycles of a step of OFM blocks, or the decoder's if these are more."""
        pace, ublocks = step.pace, _ceil(depth, self._ublock_depth)
        plane = _ceil(height, self._ublock.height) * _ceil(width, self._ublock.width)
        delays = pace.delay * ((pace.steps - 1) * ublocks + (ublocks == 1))
        used = depth % self._ublock_depth
        spared = pace.spared * plane * ((used > 0) & (used <= self._ublock_depth // 2))
        cycles = pace.fill + np.maximum(pace.floor, pace.plane * plane) * pace.steps * ublocks + delays - spared
        slowest: Cycles = np.maximum(cycles, (self._decoding or 0) * self._part(step, depth))
        return slowest

    def _part(self, step: _Step, depth: Numbers) -> Cycles:
        """The part of all weights that a step of OFM blocks takes."""
        part: Cycles = depth * step.share / (self._op.ofm.shape.depth * self._shares)
        return part

    def _constants(self, step: _Step, depth: Numbers) -> tuple[Numbers, Cycles]:
        """Words of a step's constants, and the cycles in which they are read."""
        home = self._sources.constants
        words = np.ceil(self._weights / BEAT_BYTES * self._part(step, depth)).astype(np.int64)
        if step.first:
            words = words + _ceil(self._scales * depth, self._op.ofm.shape.depth * BEAT_BYTES)
        cycles = home.latency + _transfer(home, words, _ceil(words, home.burst))
        if not self._sources.shared:
            cycles = np.maximum(cycles, words * home.sustained)
        return words, np.where(words > 0, cycles, 0.0)

    def _blocks(self, height: Numbers, width: Numbers, depth: Numbers, *, fetches: bool) -> _Block:
        """OFM blocks whose operands are fetched, or were for the block before."""
        op, sources = self._op, self._sources
        numerator, denominator = self._output
        stored = _ceil(height * width * (_ceil(depth, BRICK) * BRICK) * op.ofm.dtype.bytes, BEAT_BYTES)
        read_words = np.zeros(stored.shape, np.int64)
        sizes = height, width, depth
        macs: list[Cycles] = []
        readies: list[Cycles] = []
        for number, step in enumerate(self._steps):
            times = self._times[number]
            words, transactions = self._fetch(step, *sizes)
            constants, read = self._constants(step, depth)
            brought = _transfer(sources.maps, words, transactions) if fetches else np.zeros(stored.shape)
            ready: Cycles = np.maximum(brought + (sources.maps.latency if fetches else 0), read)
            if sources.shared:
                # One transfer's latency passes while another one moves.
                ready = np.maximum(ready, brought + read - sources.constants.latency)
                read_words = read_words + times * constants
            read_words = read_words + (times * words if fetches else 0)
            macs.append(self._mac(step, *sizes))
            readies.append(ready)
        inner = np.zeros(stored.shape)
        for (one, two), times in self._pairs.items():
            inner += times * (macs[one] + readies[two] if sources.single else np.maximum(macs[one], readies[two]))
        output = _ceil(height * width * depth * numerator, denominator) + self._timing.output_start_cycles
        least = np.maximum(output, self._moving(read_words, stored))
        return _Block(inner, macs[self._order[-1]], readies[self._order[0]], least, single=sources.single)

    def _moving(self, read: Numbers, stored: Numbers) -> Cycles:
        """:meth:`Sources.moving` of several blocks."""
        sources = self._sources
        cycles: Cycles = np.multiply(read + stored, sources.pace)
        if not self._timing.shared_cap:
            cycles = np.maximum(np.multiply(read + stored, sources.maps.word), np.multiply(np.maximum(read, stored), sources.pace))
        return cycles

    def cycles(self, blocks: Sequence[Shape3D]) -> Cycles:
        """For each block config the sum over its blocks of the slowest unit; the last output and the last store stand alone."""
        return self.cycles_of(np.array([(block.height, block.width, block.depth) for block in blocks], dtype=np.int64))

    def cycles_of(self, blocks: Numbers) -> Cycles:
        """As :meth:`cycles`, of rows of height, width and depth."""
        start = float(self._timing.kernel_start_cycles)
        if _NATIVE is None:
            return self._cycles(blocks) + start
        found = np.empty(len(blocks))
        _NATIVE.estimates(self.flat, self._sources.flat, blocks, found)
        return found + start if start else found

    def _cycles(self, blocks: Numbers) -> Cycles:
        ofm, size, sides = self._op.ofm.shape, self._op.ofm.dtype.bytes, blocks.T
        rows, columns, depths = (_Cuts.of(*each) for each in zip((ofm.height, ofm.width, ofm.depth), sides, strict=True))
        # Axes: whole or rest of height, of width, block.
        plane = rows.sizes[:, None], columns.sizes
        counts = rows.counts[:, None] * columns.counts
        (wholes, whole), (rests, rest) = zip(depths.counts, depths.sizes, strict=True)
        # The blocks behind the first one find its operands in the buffer if these are kept.
        w0, r0 = (self._blocks(*plane, depth, fetches=True) for depth in (whole, rest))
        w1, r1 = (self._blocks(*plane, depth, fetches=False) for depth in (whole, rest)) if self._kept else (w0, r0)
        after_wholes = np.where(rests > 0, r1.first, w0.first)
        many = w0.before(w1.first) + (wholes - 2) * w1.before(w1.first) + w1.before(after_wholes)
        column = np.where(wholes > 1, many, np.where(wholes > 0, w0.before(after_wholes), 0.0))
        column += np.where(rests > 0, np.where(wholes > 0, r1.before(w0.first), r0.before(r0.first)), 0.0)
        total = np.zeros(len(blocks))
        for each in (counts * column).reshape(-1, len(blocks)):
            total += each
        last = rows.last * columns.last * depths.last
        numerator, denominator = self._output
        return total + last * (numerator / denominator + size / BEAT_BYTES)


def block_counts(shape: Shape3D, blocks: Numbers) -> Numbers:
    """Numbers of OFM blocks of several sizes (rows of height, width and depth) that make an OFM."""
    counts: Numbers = np.prod(-(np.array([(shape.height, shape.width, shape.depth)], np.int64) // -blocks), axis=1)
    return counts


class Ranking:
    """The blocks that an operation may be made in, by their estimates."""

    def __init__(
        self, op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None, operand_latency: int = 0
    ) -> None:
        """Every block waits ``operand_latency`` cycles, one after the other, for an operand that is a constant."""
        own = op.block
        self._ofm = op.ofm.shape
        self._candidates = np.concatenate((np.array([(own.height, own.width, own.depth)], np.int64), candidates(op, accelerator)))
        self._query = ShramQuery(BlockQuery.of(op), accelerator)
        self._estimator = Estimator(op, accelerator, sources, decoding)
        self._rank(operand_latency)

    def beside(self, sources: Sources, operand_latency: int = 0) -> Ranking:
        """The ranking of the same operation with its operands elsewhere, in an NPU of the same timing."""
        other: Ranking = Ranking.__new__(Ranking)  # as copy.copy does, in a fifth of its time
        other.__dict__.update(self.__dict__)
        other._estimator = self._estimator.beside(sources)
        other._rank(operand_latency)
        return other

    def _rank(self, operand_latency: int) -> None:
        cycles = self._estimator.cycles_of(self._candidates)
        if operand_latency:
            cycles = np.maximum(cycles, operand_latency * block_counts(self._ofm, self._candidates))
        self.own_cycles = float(cycles[0])
        """The estimate of the operation's own block."""
        near = np.flatnonzero(cycles[1:] < self.own_cycles * WORTHWHILE) + 1
        order = near[np.argsort(cycles[near], kind="stable")]
        self._cycles: list[float] = cycles[order].tolist()
        self._blocks = array("q", self._candidates[order].tobytes())

    def listed(self, count: int, *, partitions: bool = False) -> list[tuple[float, Shape3D, Shram]]:
        """The ``count`` fastest blocks that fit and beat the operation's own, the fastest first, with their estimates.

        With ``partitions`` they are the fastest ones of as many partitions of the shared buffer, and may be slower than the own one by
        as much as neighbours of one partition may save.
        """
        promising = bisect_left(self._cycles, self.own_cycles * (WORTHWHILE if partitions else PROMISING))
        found = self._query.fitting(self._blocks[: 3 * promising], count, distinct=partitions)
        return [(self._cycles[number], Shape3D(*self._blocks[3 * number : 3 * number + 3]), shram) for number, shram in found]

    def fastest(self, count: int, *, partitions: bool = False) -> list[tuple[Shape3D, Shram]]:
        """As :meth:`listed`, without the estimates."""
        return [(block, shram) for _, block, shram in self.listed(count, partitions=partitions)]


def shortlist(
    op: KernelOperation,
    accelerator: Accelerator,
    sources: Sources,
    count: int,
    decoding: int | None = None,
    *,
    partitions: bool = False,
) -> list[tuple[Shape3D, Shram]]:
    """The ``count`` fastest blocks by :class:`Estimator` (:meth:`Ranking.fastest`)."""
    return Ranking(op, accelerator, sources, decoding).fastest(count, partitions=partitions)


def choose_block(op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> tuple[Shape3D, float]:
    """The block that :class:`Estimator` finds fastest among those that fit and the operation's own, with its cycles."""
    return choose_blocks(op, accelerator, (sources,), decoding)[0]


def choose_blocks(
    op: KernelOperation, accelerator: Accelerator, sources: Sequence[Sources], decoding: int | None = None
) -> list[tuple[Shape3D, float]]:
    """As :func:`choose_block` for each of some sources, all of one timing."""
    found: list[tuple[Shape3D, float]] = []
    ranking: Ranking | None = None
    for one in sources:
        ranking = Ranking(op, accelerator, one, decoding) if ranking is None else ranking.beside(one)
        best = next(((block, cycles) for cycles, block, _ in ranking.listed(1)), (op.block, ranking.own_cycles))
        found.append(best)
    return found
