"""The work of each OFM block of a kernel operation: IFM fetches, weights, MAC steps, output and write-back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from npu_model.accelerator import Accelerator
from npu_model.cost import mac_cycles, output_cycles
from npu_model.mlw_work import DecoderWork
from npu_model.program import FeatureMap, KernelOperation, OperationKind, Program
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.traffic import Runs, placement, read_runs, write_runs
from npu_model.traversal import Box, SubKernel, ifm2_box, ifm_box, ifm_channel_steps, keeps_ifm, ofm_blocks, reduces_depth, sub_kernels
from npu_model.weight_shares import dealt_shares, decoded_shares
from npu_model.weight_work import StreamWork, stream_work
from npu_model.weights import RECORD_BYTES

PHASES = 32
"""Words in 256 bytes of the U55: the longest burst that the AXI_LIMIT registers know, so that phases tell every alignment."""


@dataclass(frozen=True, slots=True)
class Read:
    """Runs to read from one region; ``phase`` is the first run's word address modulo :data:`PHASES`, 0 if transactions are not aligned."""

    region: int
    runs: Runs
    phase: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One MAC step: the IFM blocks to fetch first (none if still buffered), the weights, and the MAC cycles."""

    fetches: tuple[Read, ...]
    weights: tuple[Read, ...]
    mac_cycles: int


@dataclass(frozen=True, slots=True)
class BlockJob:
    """One OFM block: its steps, the scales it needs first, the output unit's cycles and the runs that store it."""

    box: Box
    steps: tuple[Step, ...]
    scales: tuple[Read, ...]
    output_cycles: int
    writes: Runs


@dataclass(frozen=True, slots=True)
class _Pass:
    """One fetch of an OFM block: the IFM box, its taps and its share of the weights."""

    box: Box
    taps: int
    share: int


def _passes(op: KernelOperation, ofm_box: Box) -> tuple[_Pass, ...]:
    """IFM depth blocks, and inside each the sub-kernels."""
    return tuple(
        _Pass(ifm_box(op, ofm_box, part, channels), part.taps, part.taps * (channels[1] - channels[0]))
        for channels in ifm_channel_steps(op, ofm_box)
        for part in sub_kernels(op)
    )


def _scale_offset(length: int, channels: int, depth: int, cores: int) -> int:
    """Bytes of a scale table of ``length`` before channel ``channels``; its padding belongs to the last block."""
    return length if channels == depth else min(length, RECORD_BYTES * ceil_div(channels, cores))


def _constants(region: int, start: int, words: int, timing: TimingParameters) -> Read:
    """A read of ``words`` consecutive words from word address ``start``."""
    return Read(region, (words,), start % PHASES if timing.aligned_bursts else 0)


def _scale_reads(op: KernelOperation, ofm_box: Box, word: int, timing: TimingParameters) -> tuple[Read, ...]:
    depth, cores = op.ofm.shape.depth, len(op.scales)
    reads = []
    for table in op.scales:
        first, last = (_scale_offset(table.length, channels, depth, cores) for channels in (ofm_box.c0, ofm_box.c1))
        if last > first:
            reads.append(_constants(table.region, (table.start + first) // word, ceil_div(last - first, word), timing))
    return tuple(reads)


def _steps(
    op: KernelOperation,
    accelerator: Accelerator,
    timing: TimingParameters,
    ofm_box: Box,
    passes: tuple[_Pass, ...],
    work: tuple[DecoderWork, ...],
    *,
    kept: bool,
) -> tuple[Step, ...]:
    """The MAC steps of one OFM block."""
    word = accelerator.port_bytes_per_cycle
    if work and timing.decodes_streams:
        shares = decoded_shares(op, ofm_box, len(passes), work, accelerator, timing)
    else:
        shares = dealt_shares(op, ofm_box, tuple(p.share for p in passes), word)
    return tuple(
        Step(
            fetches=() if kept or one.box.is_empty else (_read(op.ifm, one.box, word),),
            weights=tuple(
                _constants(where.region, where.start // word + first, beats, timing)
                for where, first, beats in zip(op.weights, share.firsts, share.beats, strict=True)
                if beats
            ),
            mac_cycles=mac_cycles(op, accelerator, ofm_box.shape, one.taps, one.box.c1 - one.box.c0, timing, share.decoding),
        )
        for one, share in zip(passes, shares, strict=True)
    )


def _operands(op: KernelOperation, ofm_box: Box) -> tuple[tuple[FeatureMap, Box], ...]:
    """Both operands of an elementwise block."""
    first = Box(ofm_box.y0, ofm_box.y1, ofm_box.x0, ofm_box.x1, *ifm_channel_steps(op, ofm_box)[0])
    return ((op.ifm, first),) if op.ifm2 is None else ((op.ifm, first), (op.ifm2, ifm2_box(op.ifm2.shape, ofm_box)))


def _read(feature_map: FeatureMap, box: Box, word: int) -> Read:
    return Read(feature_map.region, read_runs(feature_map, box, word))


def _areas(op: KernelOperation, ofm_box: Box, parts: tuple[SubKernel, ...]) -> tuple[tuple[FeatureMap, Box], ...]:
    """What an OFM block reads: both operands, or the IFM behind each sub-kernel for the first IFM depth block."""
    if op.kind is OperationKind.ELEMENTWISE:
        return _operands(op, ofm_box)
    channels = ifm_channel_steps(op, ofm_box)[0]
    return tuple([(op.ifm, ifm_box(op, ofm_box, part, channels)) for part in parts])


def _likeness(op: KernelOperation, ofm_box: Box, areas: tuple[tuple[FeatureMap, Box], ...], word: int) -> object:
    """What the work of an OFM block depends on: blocks of one operation that are equal in this do equal work."""
    reads = tuple([(box.y1 - box.y0, box.x1 - box.x0, placement(feature_map, box, word)) for feature_map, box in areas])
    return ofm_box.y1 - ofm_box.y0, ofm_box.x1 - ofm_box.x0, ofm_box.c0, placement(op.ofm, ofm_box, word), reads


def _block_job(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, ofm_box: Box, work: tuple[DecoderWork, ...], *, kept: bool
) -> BlockJob:
    word = accelerator.port_bytes_per_cycle
    if op.kind is OperationKind.ELEMENTWISE:
        steps: tuple[Step, ...] = (Step(tuple(_read(feature_map, box, word) for feature_map, box in _operands(op, ofm_box)), (), 0),)
    else:
        steps = _steps(op, accelerator, timing, ofm_box, _passes(op, ofm_box), work, kept=kept)
    return BlockJob(
        box=ofm_box,
        steps=steps,
        scales=_scale_reads(op, ofm_box, word, timing),
        output_cycles=output_cycles(op, accelerator, ofm_box.shape.elements, timing),
        writes=write_runs(op.ofm, ofm_box, word),
    )


@lru_cache(maxsize=1024)
def block_jobs(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: tuple[DecoderWork, ...] = ()
) -> tuple[BlockJob, ...]:
    """The jobs of a kernel operation, one per OFM block, in the hardware's order; blocks that do equal work share its parts.

    ``work`` is the decoder's work for the weight stream of each core (:func:`npu_model.weight_work.stream_work`), none if unknown.
    """
    jobs: list[BlockJob] = []
    known: dict[object, BlockJob] = {}
    parts, deep, word = sub_kernels(op), reduces_depth(op), accelerator.port_bytes_per_cycle
    areas: tuple[tuple[FeatureMap, Box], ...] = ()
    for ofm_box in ofm_blocks(op):
        previous = areas
        if not (deep and ofm_box.c0):
            # The blocks below one another need the same of the IFM if they need all of its channels.
            areas = _areas(op, ofm_box, parts)
        kept = deep and areas == previous and keeps_ifm(op, len(areas) * len(ifm_channel_steps(op, ofm_box)), timing)
        like = _likeness(op, ofm_box, areas, word), kept
        job = known.get(like)
        if job is None:
            job = known[like] = _block_job(op, accelerator, timing, ofm_box, work, kept=kept)
        jobs.append(BlockJob(ofm_box, job.steps, job.scales, job.output_cycles, job.writes))
    return tuple(jobs)


def program_jobs(
    program: Program, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING, work: StreamWork | None = None
) -> dict[int, tuple[BlockJob, ...]]:
    """The jobs of every kernel operation of a program, by operation index.

    ``work`` is what is known of the weight streams; by default it is found from the program's constants, as far as it has them.
    InputError if a weight stream is damaged.
    """
    if not timing.decodes_streams:
        known: StreamWork = {}
    else:
        known = stream_work(program, accelerator) if work is None else work
    operations = enumerate(program.operations)
    return {i: block_jobs(op, accelerator, timing, known.get(i, ())) for i, op in operations if isinstance(op, KernelOperation)}
