"""The work of each OFM block of a kernel operation: IFM fetches, weights, MAC steps, output and write-back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import mac_cycles, ofm_ublock, output_cycles, output_elements
from npu_model.cost.traffic import Runs, placement, read_runs, write_runs
from npu_model.cost.traversal import (
    Box,
    SubKernel,
    ifm2_box,
    ifm_box,
    ifm_channel_steps,
    keeps_ifm,
    ofm_blocks,
    ofm_columns,
    reduces_depth,
    sub_kernels,
)
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Program
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import WeightShare, dealt_shares, decoded_shares
from npu_model.weight_stream.weights import RECORD_BYTES
from npu_model.weight_stream.work import StreamWork, stream_work

PHASES = 32
"""Words in 256 bytes of the U55, the longest burst that the AXI_LIMIT registers know, so that phases describe every alignment."""


class Read(Struct, frozen=True):
    """Runs to read from one region; ``phase`` is the first run's word address modulo :data:`PHASES`, 0 if transactions are not aligned."""

    region: int
    runs: Runs
    phase: int = 0


class MacStep(Struct, frozen=True):
    """One MAC step: the IFM blocks to fetch first (none if still buffered), the weights, and the MAC cycles.

    ``continues`` says that it is a further part of the previous step, in the same slot of the input buffer.
    """

    fetches: tuple[Read, ...]
    weights: tuple[Read, ...]
    mac_cycles: int
    continues: bool = False


class BlockJob(Struct, frozen=True):
    """One OFM block: its steps, the scales it needs first, the output unit's cycles and the runs that store it."""

    box: Box
    steps: tuple[MacStep, ...]
    scales: tuple[Read, ...]
    output_cycles: int
    writes: Runs


class _Pass(Struct, frozen=True):
    """A step of all blocks of one depth: sub-kernel, IFM channels, OFM channels, its reads of weights, decoder cycles (None: unknown).

    ``fetches`` says that it is the first step of its IFM channels and sub-kernel.
    """

    part: SubKernel
    channels: tuple[int, int]
    depth: int
    weights: tuple[Read, ...]
    decoding: int | None
    fetches: bool


class _Depth(Struct, frozen=True):
    """Work common to the blocks of channels ``c0`` to ``c1`` at any position: their steps, and the scales that they need first."""

    c0: int
    c1: int
    passes: tuple[_Pass, ...]
    scales: tuple[Read, ...]


Fetches = list[tuple[Read, ...]]
"""Reads of each step of an OFM block, all parts of a step together."""
Areas = list[tuple[FeatureMap, Box]]


def _scale_offset(length: int, channels: int, depth: int, cores: int) -> int:
    """Bytes of a scale table of ``length`` before channel ``channels``; its padding belongs to the last block."""
    return length if channels == depth else min(length, RECORD_BYTES * ceil_div(channels, cores))


class _Blocks:
    """The work of the OFM blocks of one operation. Work that blocks of one depth share is computed once."""

    def __init__(self, op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, work: tuple[DecoderWork, ...]) -> None:
        self._op = op
        self._accelerator = accelerator
        self._timing = timing
        self._work = work
        self._word = accelerator.port_bytes_per_cycle
        self._parts = sub_kernels(op)
        self._is_deep = reduces_depth(op)
        self._places, depths = ofm_columns(op)
        self._depths = [self._depth(Box(*self._places[0], *channels)) for channels in depths]
        self._keeps = self._is_deep and keeps_ifm(op, sum(one.fetches for one in self._depths[0].passes), timing)
        self._output_cycles: dict[int, int] = {}

    def columns(self) -> Iterator[tuple[BlockJob, ...]]:
        """The jobs of each column of blocks. Columns with equal work share jobs, which have the first column's boxes."""
        known: dict[object, tuple[BlockJob, ...]] = {}
        areas: Areas = []
        for place in self._places:
            top = Box(*place, self._depths[0].c0, self._depths[0].c1)
            previous, areas = areas, self._areas(top)
            like = self._likeness(top, areas), areas == previous
            if like not in known:
                known[like] = self._column(place, is_kept=areas == previous)
            yield known[like]

    def _areas(self, ofm_box: Box) -> Areas:
        """The areas that an OFM block reads: both operands, or the IFM under each sub-kernel for the first IFM depth block."""
        op = self._op
        channels = ifm_channel_steps(op, ofm_box)[0]
        if op.kind is not OperationKind.ELEMENTWISE:
            return [(op.ifm, ifm_box(op, ofm_box, part, channels)) for part in self._parts]
        first = Box(ofm_box.y0, ofm_box.y1, ofm_box.x0, ofm_box.x1, *channels)
        return [(op.ifm, first)] if op.ifm2 is None else [(op.ifm, first), (op.ifm2, ifm2_box(op.ifm2.shape, ofm_box))]

    def _likeness(self, ofm_box: Box, areas: Areas) -> object:
        """The facts of a position that decide the work of its OFM block: columns with equal facts do equal work."""
        reads = tuple([(box.y1 - box.y0, box.x1 - box.x0, placement(feature_map, box, self._word)) for feature_map, box in areas])
        return ofm_box.y1 - ofm_box.y0, ofm_box.x1 - ofm_box.x0, placement(self._op.ofm, ofm_box, self._word), reads

    def _column(self, place: tuple[int, int, int, int], *, is_kept: bool) -> tuple[BlockJob, ...]:
        """The jobs at one position; ``is_kept`` says that the first one needs the same IFM as the previous block."""
        jobs, fetches = [], Fetches()
        for depth in self._depths:
            ofm_box = Box(*place, depth.c0, depth.c1)
            if self._keeps and (is_kept or depth.c0):
                fetches = [()] * sum(one.fetches for one in depth.passes)
            elif not (self._is_deep and depth.c0):
                # Blocks below one another need the same IFM bytes if they need all of its channels.
                fetches = self._fetches(ofm_box, depth)
            jobs.append(self._job(ofm_box, depth, fetches))
        return tuple(jobs)

    def _read(self, feature_map: FeatureMap, box: Box) -> Read:
        return Read(feature_map.region, read_runs(feature_map, box, self._word))

    def _fetches(self, ofm_box: Box, depth: _Depth) -> Fetches:
        op = self._op
        if op.kind is OperationKind.ELEMENTWISE:
            return [tuple([self._read(feature_map, box) for feature_map, box in self._areas(ofm_box)])]
        boxes = [ifm_box(op, ofm_box, one.part, one.channels) for one in depth.passes if one.fetches]
        return [() if box.is_empty else (self._read(op.ifm, box),) for box in boxes]

    def _constants(self, region: int, start: int, words: int) -> Read:
        """A read of ``words`` consecutive words from word address ``start``."""
        return Read(region, (words,), start % PHASES if self._timing.aligned_bursts else 0)

    def _scale_reads(self, ofm_box: Box) -> tuple[Read, ...]:
        depth, cores, word = self._op.ofm.shape.depth, len(self._op.scales), self._word
        reads = []
        for table in self._op.scales:
            first, last = (_scale_offset(table.length, channels, depth, cores) for channels in (ofm_box.c0, ofm_box.c1))
            if last > first:
                reads.append(self._constants(table.region, (table.start + first) // word, ceil_div(last - first, word)))
        return tuple(reads)

    def _depth(self, ofm_box: Box) -> _Depth:
        """Steps and scales of the blocks with the channels of ``ofm_box``: one (or its parts) for each IFM depth block and sub-kernel."""
        op, word = self._op, self._word
        steps = [(part, channels) for channels in ifm_channel_steps(op, ofm_box) for part in self._parts]
        if self._work and self._timing.decodes_streams:
            shares = decoded_shares(op, ofm_box, len(steps), self._work, self._accelerator, self._timing)
        else:
            shares = dealt_shares(op, ofm_box, tuple(part.taps * (last - first) for part, (first, last) in steps), word)
        passes = []
        for (part, channels), share in zip(steps, shares, strict=True):
            for number, (depth, piece) in enumerate(self._parts_of_step(part, channels, ofm_box.c1 - ofm_box.c0, share)):
                streams = zip(op.weights, piece.firsts, piece.beats, strict=True)
                reads = [self._constants(where.region, where.start // word + first, beats) for where, first, beats in streams if beats]
                passes.append(_Pass(part, channels, depth, tuple(reads), piece.decoding, number == 0))
        return _Depth(ofm_box.c0, ofm_box.c1, tuple(passes), self._scale_reads(ofm_box))

    def _parts_of_step(self, part: SubKernel, channels: tuple[int, int], depth: int, share: WeightShare) -> list[tuple[int, WeightShare]]:
        """A step, split to fit the weight buffer's slots: OFM channels and weights of each part, all in one if they fit."""
        op = self._op
        if op.kind is not OperationKind.CONV_2D:
            return [(depth, share)]
        ublock = ofm_ublock(op, self._accelerator).depth * self._accelerator.cores
        weights = part.taps * (channels[1] - channels[0]) * ublock
        most = max(1, self._timing.weights_at_once // weights) * ublock
        ends = [*range(most, depth, most), depth]
        return [(end - start, share.piece(start, end, depth)) for start, end in pairwise((0, *ends))]

    def _steps(self, ofm_box: Box, depth: _Depth, fetches: Fetches) -> tuple[MacStep, ...]:
        """The MAC steps of one OFM block."""
        op, steps = self._op, []
        if op.kind is OperationKind.ELEMENTWISE:
            return (MacStep(fetches[0], (), 0),)
        fetched = iter(fetches)
        for one in depth.passes:
            fetch = next(fetched) if one.fetches else ()
            channels = one.channels[1] - one.channels[0]
            shape = Shape3D(ofm_box.y1 - ofm_box.y0, ofm_box.x1 - ofm_box.x0, one.depth)
            cycles = mac_cycles(op, self._accelerator, shape, one.part.taps, channels, self._timing, one.decoding)
            shares = self._accelerator.access.ifm_ahead and one.part != self._parts[0]
            steps.append(MacStep(fetch, one.weights, cycles, shares or not one.fetches))
        return tuple(steps)

    def _job(self, ofm_box: Box, depth: _Depth, fetches: Fetches) -> BlockJob:
        elements = output_elements(ofm_box.shape, self._accelerator)
        if elements not in self._output_cycles:
            self._output_cycles[elements] = output_cycles(self._op, self._accelerator, elements, self._timing)
        writes = write_runs(self._op.ofm, ofm_box, self._word, self._accelerator.cores)
        return BlockJob(ofm_box, self._steps(ofm_box, depth, fetches), depth.scales, self._output_cycles[elements], writes)


def like_jobs(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: tuple[DecoderWork, ...] = ()
) -> tuple[BlockJob, ...]:
    """Like :func:`block_jobs`, but blocks with equal work share one job, which has the first block's box."""
    return tuple(job for column in _Blocks(op, accelerator, timing, work).columns() for job in column)


@lru_cache(maxsize=1024)
def block_jobs(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: tuple[DecoderWork, ...] = ()
) -> tuple[BlockJob, ...]:
    """The jobs of a kernel operation, one per OFM block, in the hardware's order; blocks that do equal work share its parts.

    ``work`` is the decoder's work for the weight stream of each core (:func:`npu_model.weight_stream.work.stream_work`), none if unknown.
    """
    jobs = zip(ofm_blocks(op), like_jobs(op, accelerator, timing, work), strict=True)
    return tuple(BlockJob(ofm_box, job.steps, job.scales, job.output_cycles, job.writes) for ofm_box, job in jobs)


def program_jobs(
    program: Program, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: StreamWork | None = None
) -> dict[int, tuple[BlockJob, ...]]:
    """The jobs of every kernel operation of a program, by operation index.

    ``work`` is the work of the weight streams, by default from the program's constants as far as it has them. InputError if a weight stream
    is damaged.
    """
    if not timing.decodes_streams:
        known: StreamWork = {}
    else:
        known = stream_work(program, accelerator) if work is None else work
    operations = enumerate(program.operations)
    return {i: block_jobs(op, accelerator, timing, known.get(i, ())) for i, op in operations if isinstance(op, KernelOperation)}
