"""Block configs chosen by cycles, together with the stripe that they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from cascader.ethosu.cost.memory_path import Source, Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import MacPace, mac_pace, ofm_ublock, output_rate
from npu_model.cost.shram import BlockQuery, ifm_depth_step, shram_partition
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.cost.traversal import keeps_ifm, reduces_depth, sub_kernels
from npu_model.program import BRICK, KernelOperation, Layout, OperationKind, Upscale
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D, ceil_div, round_up

Numbers = npt.NDArray[np.int64]
Cycles = npt.NDArray[np.float64]

SIDES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
"""Heights and widths that are tried besides even divisions of the OFM; a search over all gains less than 1 % more."""

PROMISING = 0.98
"""What part of the own block's estimate another one may have to be looked at."""

WORTHWHILE = 1.05
"""What part of the own block's estimate one may have to be looked at for its partition."""


def _sides(extent: int, ublock: int, limit: int) -> list[int]:
    """Block sides worth a try: whole ublocks, up to the OFM's extent."""
    even = (ceil_div(extent, parts) for parts in range(1, 5))
    rounded = {round_up(side, ublock) for side in (*SIDES, *even)}
    return sorted(side for side in rounded if side <= min(limit, round_up(extent, ublock)))


@lru_cache(maxsize=4096)
def _grid(extent: Shape3D, depths: tuple[int, ...], accelerator: Accelerator) -> tuple[Shape3D, ...]:
    """Blocks of the given depths for an OFM of ``extent``."""
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _sides(extent.height, ublock.height, limit.height), _sides(extent.width, ublock.width, limit.width)
    return tuple(Shape3D(*sides) for sides in product(heights, widths, depths))


def _candidates(op: KernelOperation, accelerator: Accelerator) -> tuple[Shape3D, ...]:
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

    ``least`` are the cycles of the output unit and of everything that moves.
    """

    inner: Cycles
    last: Cycles
    first: Cycles
    least: Cycles

    def before(self, following: Cycles) -> Cycles:
        """Cycles of these blocks if those of the first step behind them take so long to be brought."""
        cycles: Cycles = np.maximum(self.least, self.inner + np.maximum(self.last, following))
        return cycles


def _transfer(source: Source, words: Numbers, transactions: Numbers) -> Cycles:
    """:meth:`Source.cycles` of several transfers."""
    path: Cycles = words.astype(np.float64) * source.word
    cycles: Cycles = np.maximum(path, (transactions * source.latency + path) / source.reads) if source.reads else path
    return cycles


class Estimator:
    """Cycles of one kernel for any block; what does not depend on the block is worked out once.

    While the MAC array works on a step the data of the next one are brought, so that the longer of the two counts. Closed form over the
    at most eight kinds of blocks (whole or rest in each dimension); borders are counted as if they were read.
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
        self._output = output_rate(op, accelerator).as_integer_ratio()
        self._steps = self._all_steps(accelerator)
        self._kept = keeps_ifm(op, len(self._steps))

    def _all_steps(self, accelerator: Accelerator) -> tuple[_Step, ...]:
        """The steps of an OFM block in their order."""
        op, kernels = self._op, sub_kernels(self._op)
        known = self._decoding is not None
        if not reduces_depth(op):
            channels, shares = [op.ifm.shape.depth], [1]
        else:
            depth, step = op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
            channels = shares = [min(step, depth - first) for first in range(0, depth, step)]
        return tuple(
            _Step(
                mac_pace(op, accelerator, part.taps, count, is_known=known),
                count if reduces_depth(op) else 0,
                part.taps * share,
                number == index == 0,
            )
            for number, (count, share) in enumerate(zip(channels, shares, strict=True))
            for index, part in enumerate(kernels)
        )

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
        part: Cycles = depth * step.share / (self._op.ofm.shape.depth * sum(step.share for step in self._steps))
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
        moved = _ceil(height * width * (_ceil(depth, BRICK) * BRICK) * op.ofm.dtype.bytes, BEAT_BYTES)
        sizes = height, width, depth
        macs: dict[_Step, Cycles] = {}
        readies: dict[_Step, Cycles] = {}
        for step, times in Counter(self._steps).items():
            words, transactions = self._fetch(step, *sizes)
            constants, read = self._constants(step, depth)
            brought = _transfer(sources.maps, words, transactions) if fetches else np.zeros(moved.shape)
            macs[step] = self._mac(step, *sizes)
            readies[step] = np.maximum(brought + (sources.maps.latency if fetches else 0), read)
            if sources.shared:
                # One transfer's latency passes while another one moves.
                readies[step] = np.maximum(readies[step], brought + read - sources.constants.latency)
                moved = moved + times * constants
            moved = moved + (times * words if fetches else 0)
        inner = np.zeros(moved.shape)
        for (one, two), times in Counter(pairwise(self._steps)).items():
            inner += times * np.maximum(macs[one], readies[two])
        output = _ceil(height * width * depth * numerator, denominator)
        return _Block(inner, macs[self._steps[-1]], readies[self._steps[0]], np.maximum(output, moved * sources.pace))

    def cycles(self, blocks: Sequence[Shape3D]) -> Cycles:
        """For each block config the sum over its blocks of the slowest unit; the last output and the last store stand alone."""
        ofm, size = self._op.ofm.shape, self._op.ofm.dtype.bytes
        sides = np.array([(block.height, block.width, block.depth) for block in blocks], dtype=np.int64).T
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


def shortlist(
    op: KernelOperation,
    accelerator: Accelerator,
    sources: Sources,
    count: int,
    decoding: int | None = None,
    *,
    partitions: bool = False,
) -> list[tuple[Shape3D, Shram]]:
    """The ``count`` fastest blocks by :class:`Estimator` that fit and beat the operation's own, the fastest first.

    With ``partitions`` they are the fastest ones of as many partitions of the shared buffer, and may be slower than the own one by
    as much as neighbours of one partition may save.
    """
    query, blocks = BlockQuery.of(op), _candidates(op, accelerator)
    own, *others = Estimator(op, accelerator, sources, decoding).cycles((op.block, *blocks)).tolist()
    limit = own * (WORTHWHILE if partitions else PROMISING)
    faster = [(cycles, block) for cycles, block in zip(others, blocks, strict=True) if cycles < limit]
    found: list[tuple[Shape3D, Shram]] = []
    seen: set[Shram] = set()
    for _, block in sorted(faster, key=lambda entry: entry[0]):
        shram = shram_partition(query, block, accelerator) if len(found) < count else None
        if shram is not None and not (partitions and shram in seen):
            seen.add(shram)
            found.append((block, shram))
    return found


def choose_block(op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> tuple[Shape3D, float]:
    """The block that :class:`Estimator` finds fastest among those that fit and the operation's own, with its cycles."""
    best = next((block for block, _ in shortlist(op, accelerator, sources, 1, decoding)), op.block)
    return best, float(Estimator(op, accelerator, sources, decoding).cycles((best,))[0])
