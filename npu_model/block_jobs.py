"""The work of each OFM block of a kernel operation: IFM fetches, weights, MAC steps, output and write-back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from npu_model.accelerator import Accelerator
from npu_model.cost import mac_cycles, output_cycles
from npu_model.program import FeatureMap, KernelOperation, OperationKind
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.traffic import Runs, read_runs, write_runs
from npu_model.traversal import Box, ifm2_box, ifm_box, ifm_channel_steps, keeps_ifm, ofm_blocks, sub_kernels
from npu_model.weights import RECORD_BYTES


@dataclass(frozen=True, slots=True)
class Read:
    """Runs to read from one region."""

    region: int
    runs: Runs


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
    """One fetch of an OFM block before the weights are dealt out: the IFM box, its taps and its share of the weights."""

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


def _slice(length: int, part: int, whole: int) -> int:
    """Bytes of a compressed stream before ``part`` of ``whole`` equal shares: a stream's own slices lie on 16 bytes."""
    return length if part == whole else length * part // whole // 16 * 16


def _weight_bytes(op: KernelOperation, ofm_box: Box) -> tuple[tuple[int, int], ...]:
    """(region, bytes) of each core's stream that belong to the block's OFM channels, in proportion to the depth."""
    depth = op.ofm.shape.depth
    return tuple((r.region, _slice(r.length, ofm_box.c1, depth) - _slice(r.length, ofm_box.c0, depth)) for r in op.weights)


def _scale_offset(length: int, channels: int, depth: int, cores: int) -> int:
    """Bytes of a scale table of ``length`` before channel ``channels``; its padding belongs to the last block."""
    return length if channels == depth else min(length, RECORD_BYTES * ceil_div(channels, cores))


def _scale_reads(op: KernelOperation, ofm_box: Box, word: int) -> tuple[Read, ...]:
    depth, cores = op.ofm.shape.depth, len(op.scales)
    reads = []
    for table in op.scales:
        first, last = (_scale_offset(table.length, channels, depth, cores) for channels in (ofm_box.c0, ofm_box.c1))
        if last > first:
            reads.append(Read(table.region, (ceil_div(last - first, word),)))
    return tuple(reads)


def _steps(
    op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, ofm_box: Box, passes: tuple[_Pass, ...], *, kept: bool
) -> tuple[Step, ...]:
    """The MAC steps of one OFM block, its weights dealt out in proportion to taps and channels."""
    total = sum(p.share for p in passes)
    weights, word = _weight_bytes(op, ofm_box), accelerator.port_bytes_per_cycle
    steps = []
    done = 0
    for one in passes:
        runs = () if kept else read_runs(op.ifm, one.box, word)
        beats = [
            (region, ceil_div(length * (done + one.share) // total, word) - ceil_div(length * done // total, word))
            for region, length in weights
        ]
        done += one.share
        steps.append(
            Step(
                fetches=(Read(op.ifm.region, runs),) if runs else (),
                weights=tuple(Read(region, (n,)) for region, n in beats if n),
                mac_cycles=mac_cycles(op, accelerator, ofm_box.shape, one.taps, one.box.c1 - one.box.c0, timing),
            )
        )
    return tuple(steps)


def _operand_reads(op: KernelOperation, ofm_box: Box, word: int) -> tuple[Read, ...]:
    """Both operands' reads of an elementwise block."""
    first = Box(ofm_box.y0, ofm_box.y1, ofm_box.x0, ofm_box.x1, *ifm_channel_steps(op, ofm_box)[0])
    reads = [_read(op.ifm, first, word)]
    if op.ifm2 is not None:
        reads.append(_read(op.ifm2, ifm2_box(op.ifm2.shape, ofm_box), word))
    return tuple(reads)


def _read(feature_map: FeatureMap, box: Box, word: int) -> Read:
    return Read(feature_map.region, read_runs(feature_map, box, word))


@lru_cache(maxsize=1024)
def block_jobs(op: KernelOperation, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING) -> tuple[BlockJob, ...]:
    """The jobs of a kernel operation, one per OFM block, in the hardware's order."""
    jobs, word = [], accelerator.port_bytes_per_cycle
    previous: tuple[_Pass, ...] = ()
    for ofm_box in ofm_blocks(op):
        if op.kind is OperationKind.ELEMENTWISE:
            steps: tuple[Step, ...] = (Step(_operand_reads(op, ofm_box, word), (), 0),)
        else:
            passes = _passes(op, ofm_box)
            kept = passes == previous and keeps_ifm(op, len(passes), timing)
            steps = _steps(op, accelerator, timing, ofm_box, passes, kept=kept)
            previous = passes
        jobs.append(
            BlockJob(
                box=ofm_box,
                steps=steps,
                scales=_scale_reads(op, ofm_box, word),
                output_cycles=output_cycles(op, accelerator, ofm_box.shape.elements, timing),
                writes=write_runs(op.ofm, ofm_box, word),
            )
        )
    return tuple(jobs)
