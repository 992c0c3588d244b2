"""The cycles of one kernel in any of its blocks, in closed form. They rank blocks before any block is simulated unit by unit."""

from __future__ import annotations

from array import array
from copy import copy
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.ethosu.cost.block_steps import Step, Steps
from cascader.ethosu.cost.memory_path import Source, Sources
from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import ofm_ublock, output_rate
from npu_model.cost.traversal import keeps_ifm
from npu_model.native import native
from npu_model.program import BRICK, KernelOperation, Layout, OperationKind, Upscale

_NATIVE = native("cascader.ethosu")
"""The compiled estimates of many blocks; None if they are not built."""

_WEIGHT_SLOTS = 3
"""Steps whose weights are requested early, on a device that requests ahead: one slot beyond the two of the weight buffer."""

Numbers = npt.NDArray[np.int64]
Cycles = npt.NDArray[np.float64]


def _ceil(numerators: Numbers, denominator: int) -> Numbers:
    return -(-numerators // denominator)


_NO_LOAD_BETWEEN = 2
"""Blocks that fetch in a kernel without a load between two stores."""


class _Cuts(Struct, frozen=True):
    """The parts into which each block cuts one dimension of the OFM: whole ones and a rest (size 0 if there is none).

    ``sizes`` and ``counts`` have a row for whole parts and a row for rests; ``last`` is the size of the last part.
    """

    sizes: Numbers
    counts: Numbers
    last: Numbers

    @classmethod
    def of(cls, extent: int, sides: Numbers) -> _Cuts:
        wholes, rests = extent // sides, extent % sides
        return cls(np.stack((sides, rests)), np.stack((wholes, np.minimum(rests, 1))), np.where(rests, rests, sides))


class _Block(Struct, frozen=True):
    """OFM blocks of several sizes: cycles up to the last step, cycles of the last step, and cycles that bring the first step's data.

    ``least`` is the cycles of the output unit and of all transfers. ``single`` says that nothing overlaps.
    """

    inner: Cycles
    last: Cycles
    first: Cycles
    least: Cycles
    single: bool = False

    def before(self, following: Cycles) -> Cycles:
        """Cycles of these blocks if the constants of the next step take the given cycles to arrive."""
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
    """Cycles of one kernel for any block; results that do not depend on the block are computed once.

    While the MAC array works on a step, the next step's data arrive, so the longer of the two counts. With one slot between the units,
    their sum counts. The closed form covers the at most eight kinds of blocks (whole or rest in each dimension). Borders count as if they
    were read.
    """

    def __init__(self, op: KernelOperation, accelerator: Accelerator, sources: Sources, decoding: int | None = None) -> None:
        """``decoding`` is the cycles in which the decoder passes all weights of the kernel once, if its streams are known."""
        self._op = op
        self._sources = sources
        self._word = sources.maps.word_bytes
        self._ublock = ofm_ublock(op, accelerator)
        self._ublock_depth = self._ublock.depth * accelerator.cores
        # The cycles of a depthwise step do not depend on its stream.
        self._decoding = None if op.kind is OperationKind.DEPTHWISE else decoding
        self._weights, self._scales = (sum(span.length for span in spans) for spans in (op.weights, op.scales))
        self._timing = sources.timing
        self._output = output_rate(op, accelerator, self._timing).as_integer_ratio()
        self._steps = Steps.known(op, accelerator, self._timing, is_known=self._decoding is not None)
        self._kept = keeps_ifm(op, self._steps.count, self._timing)

    def over(self, sources: Sources) -> Estimator:
        """The estimator of the same kernel for constants in another place, under the same timing."""
        found = copy(self)
        found._sources, found._word = sources, sources.maps.word_bytes  # noqa: SLF001  # of its own class
        return found

    @cached_property
    def flat(self) -> array[int]:
        """The kernel for the compiled core."""
        op, (rate, divisor), ublock, steps = self._op, self._output, self._ublock, self._steps
        ofm, ifm, kernel = op.ofm, op.ifm, op.kernel
        head = (
            *(ofm.shape.height, ofm.shape.width, ofm.shape.depth, ofm.dtype.bytes, ifm.shape.height, ifm.shape.width, ifm.shape.depth),
            *(ifm.dtype.bytes, ifm.layout is Layout.NHCWB16, ifm.strides.x, 1 if op.ifm2 is None else 2),
            *(kernel.stride_y, kernel.stride_x, kernel.dilated_height, kernel.dilated_width, op.upscale is not Upscale.NONE),
            *(ublock.height, ublock.width, self._ublock_depth, self._weights, self._scales, rate, divisor, self._decoding or 0),
            *(steps.shares, self._kept, len(steps.kinds), len(steps.pairs), steps.first, steps.last),
            self._timing.output_start_cycles,
        )
        kinds = (
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
                steps.times[number],
            )
            for number, s in enumerate(steps.kinds)
        )
        pairs = ((one, two, times) for (one, two), times in steps.pairs.items())
        return array("q", chain(head, *kinds, *pairs))

    def _fetch(self, step: Step, height: Numbers, width: Numbers, depth: Numbers) -> tuple[Numbers, Numbers]:
        """Words and transactions with which a step of OFM blocks fetches its operands, without clipping at borders."""
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
        run = _ceil(columns * (BRICK * size), self._word) if bricks else _ceil(np.where(whole, columns, 1) * channels * size, self._word)
        runs = runs * (2 if op.ifm2 is not None else 1)
        return runs * run, runs * _ceil(run, self._sources.maps.burst)

    def _mac(self, step: Step, height: Numbers, width: Numbers, depth: Numbers) -> Cycles:
        """MAC cycles of a step of OFM blocks, or the decoder's cycles if they are more."""
        pace, ublocks = step.pace, _ceil(depth, self._ublock_depth)
        plane = _ceil(height, self._ublock.height) * _ceil(width, self._ublock.width)
        delays = pace.delay * ((pace.steps - 1) * ublocks + (ublocks == 1))
        used = depth % self._ublock_depth
        spared = pace.spared * plane * ((used > 0) & (used <= self._ublock_depth // 2))
        cycles = pace.fill + np.maximum(pace.floor, pace.plane * plane) * pace.steps * ublocks + delays - spared
        slowest: Cycles = np.maximum(cycles, (self._decoding or 0) * self._part(step, depth))
        return slowest

    def _part(self, step: Step, depth: Numbers) -> Cycles:
        """The part of all weights that a step of OFM blocks takes."""
        part: Cycles = depth * step.share / (self._op.ofm.shape.depth * self._steps.shares)
        return part

    def _constants(self, step: Step, depth: Numbers) -> tuple[Numbers, Cycles]:
        """Words of a step's constants, and the cycles of reading them."""
        home = self._sources.weights
        words = np.ceil(self._weights / self._word * self._part(step, depth)).astype(np.int64)
        if step.first:
            words = words + _ceil(self._scales * depth, self._op.ofm.shape.depth * self._word)
        cycles = home.latency + _transfer(home, words, _ceil(words, home.burst))
        if not self._sources.shared:
            cycles = np.maximum(cycles, words * home.sustained)
        return words, np.where(words > 0, cycles, 0.0)

    def _blocks(self, height: Numbers, width: Numbers, depth: Numbers, waits: Numbers, *, fetches: bool) -> _Block:
        """OFM blocks whose operands are fetched, or were fetched for the previous block; stores of some ``waits`` for loads."""
        op, sources = self._op, self._sources
        numerator, denominator = self._output
        stored = _ceil(height * width * (_ceil(depth, BRICK) * BRICK) * op.ofm.dtype.bytes, self._word)
        map_words, constant_words = np.zeros(stored.shape, np.int64), np.zeros(stored.shape, np.int64)
        sizes = height, width, depth
        macs: list[Cycles] = []
        readies: list[Cycles] = []
        for number, step in enumerate(self._steps.kinds):
            times = self._steps.times[number]
            words, transactions = self._fetch(step, *sizes)
            constants, read = self._constants(step, depth)
            brought = np.maximum(_transfer(sources.maps, words, transactions), words * sources.fill) if fetches else np.zeros(stored.shape)
            latency, mac = sources.maps.latency if fetches else 0, self._mac(step, *sizes)
            map_words = map_words + (times * words if fetches else 0)
            constant_words = constant_words + times * constants
            macs.append(mac)
            readies.append(self._ready(brought, latency, read, mac))
        inner = np.zeros(stored.shape)
        for (one, two), times in self._steps.pairs.items():
            inner += times * (macs[one] + readies[two] if sources.single else np.maximum(macs[one], readies[two]))
        output = _ceil(height * width * depth * numerator, denominator) + self._timing.output_start_cycles
        least = np.maximum(output, self._moving(map_words + (constant_words if sources.shared else 0), stored))
        if sources.stores_queue and fetches:
            # Between two stores a load passes that is requested ahead.
            least = np.where(waits, np.maximum(least, sources.maps.latency + stored * sources.target.word), least)
        if (sources.behind and fetches) or sources.constants_behind:
            reads = (constant_words > 0) | bool(sources.behind and fetches)
            moved = [words.astype(np.float64) for words in (map_words, constant_words, stored)]
            least = np.where(waits & reads, np.maximum(least, sources.stores_path(*moved) + sources.gap), least)
        return _Block(inner, macs[self._steps.last], readies[self._steps.first], least, single=sources.single)

    def _ready(self, brought: Cycles, latency: int, read: Cycles, mac: Cycles) -> Cycles:
        """Cycles in which a step's fetches and constants arrive, both latencies included; ``mac`` is the cycles of its work.

        If all slots are requested, the latency of one slot passes while the others work.
        """
        sources = self._sources
        waited = np.maximum(brought, (brought + latency + mac) / 2) if sources.access.ifm_ahead else brought + latency
        moved = np.maximum(read - sources.constants.latency, 0.0)
        if sources.access.weight_bursts:
            ready: Cycles = np.maximum(waited, (read + mac) / _WEIGHT_SLOTS)
            return np.maximum(ready, brought + moved if sources.shared else moved)
        ready = np.maximum(waited, read)
        # One transfer's latency passes while another one moves.
        return np.maximum(ready, brought + read - sources.constants.latency) if sources.shared else ready

    def _moving(self, read: Numbers, stored: Numbers) -> Cycles:
        """:meth:`Sources.moving` of several blocks."""
        sources = self._sources
        if sources.stores is not None:
            apart: Cycles = np.maximum(np.multiply(read, sources.maps.pace), np.multiply(stored, sources.target.pace))
            return apart
        cycles: Cycles = np.multiply(read + stored, sources.maps.pace)
        if not self._timing.shared_cap:
            cycles = np.maximum(np.multiply(read + stored, sources.maps.word), np.multiply(np.maximum(read, stored), sources.maps.pace))
        return cycles

    def cycles_of(self, blocks: Numbers) -> Cycles:
        """For each block (a row of height, width and depth) the sum over its blocks of the slowest unit.

        The last output and the last store stand alone.
        """
        start = float(self._sources.start_cycles)
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
        # Loads are requested behind the first block that fetches, and none behind the last one.
        fetching = counts.sum(axis=(0, 1)) * (1 if self._kept else depths.counts.sum(axis=0))
        waits = fetching > _NO_LOAD_BETWEEN
        # Later blocks find the first block's operands in the buffer if these are kept.
        w0, r0 = (self._blocks(*plane, depth, waits, fetches=True) for depth in (whole, rest))
        w1, r1 = (self._blocks(*plane, depth, waits, fetches=False) for depth in (whole, rest)) if self._kept else (w0, r0)
        after_wholes = np.where(rests > 0, r1.first, w0.first)
        many = w0.before(w1.first) + (wholes - 2) * w1.before(w1.first) + w1.before(after_wholes)
        column = np.where(wholes > 1, many, np.where(wholes > 0, w0.before(after_wholes), 0.0))
        column += np.where(rests > 0, np.where(wholes > 0, r1.before(w0.first), r0.before(r0.first)), 0.0)
        total = np.zeros(len(blocks))
        for each in (counts * column).reshape(-1, len(blocks)):
            total += each
        last = rows.last * columns.last * depths.last
        numerator, denominator = self._output
        return total + last * (numerator / denominator + size / self._word)
