"""Flat jobs: what the twin's units need of a kernel's block jobs, in the turns of the ports.

Kernels that differ by addresses alone share them, as far as the transactions do not depend on those.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import PHASES, BlockJob, Read, block_jobs
from npu_model.cost.traffic import Runs
from npu_model.memory.system import MemorySystem
from npu_model.program import ByteRange, DmaOperation, FeatureMap, KernelOperation, Layout
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork
from sim.engine.commands import copy_chunks
from sim.engine.ports import transactions
from sim.engine.terms import Channel, burst_beats
from sim.engine.weights import weight_bursts
from sim.fast.lane import Lane, LaneTurn, Transfer

_MAX_BLOCKS = 200_000
"""Blocks that are kept before all are forgotten: some hundred megabytes."""

_ADDRESSED = ("ifm", "ifm2", "ofm", "weights", "scales", "blockdep")
_unaddressed = attrgetter(*(name for name in KernelOperation.__struct_fields__ if name not in _ADDRESSED))


class Request(Struct, frozen=True):
    """A read: its port, channel and transfer."""

    port: int
    channel: Channel
    transfer: Transfer | None


class FlatStep(Struct, frozen=True):
    """One MAC step; ``weights`` are the scales too if it is the block's first, burst by burst where a core has so many under way.

    ``continues`` says that it works on the IFM block of the step before, ``frees_input`` that the next one does not on its own.
    """

    fetches: tuple[Request, ...]
    weights: tuple[Request, ...]
    mac_cycles: int
    is_first: bool
    is_last: bool
    continues: bool
    frees_input: bool


class FlatBlock(Struct, frozen=True):
    """One OFM block."""

    steps: tuple[FlatStep, ...]
    output_cycles: int
    writes: Transfer | None


Words = tuple[int, int, int, int]
"""Data words of port 0, read and written, and of port 1."""


class FlatKernel(Struct, frozen=True):
    """A kernel operation: its blocks, the port that they are stored through, and the data words that it moves."""

    blocks: tuple[FlatBlock, ...]
    port: int
    words: Words


def _words(block: FlatBlock, port: int) -> list[int]:
    """Data words that a block moves, by port and direction."""
    words = [0, 0, 0, 0]
    for step in block.steps:
        for request in step.fetches + step.weights:
            words[2 * request.port] += request.transfer.whole.words if request.transfer else 0
    words[2 * port + 1] += block.writes.whole.words if block.writes else 0
    return words


def _place(feature_map: FeatureMap | None, word: int) -> object:
    """Facts of a feature map that the runs that move it depend on: of its addresses the place inside a word alone, in bricks none."""
    if feature_map is None:
        return None
    fixed = feature_map.region, feature_map.shape, feature_map.dtype
    if feature_map.layout is Layout.NHCWB16:
        return fixed
    tiles, strides = feature_map.tiles, feature_map.strides
    bases = tuple(base % word for base in tiles.bases)
    if not any(bases) and strides.y % word == 0 and tiles.width0 >= feature_map.shape.width:
        return fixed, strides.x
    return fixed, strides.x, strides.y % word, bases, tiles.height0, tiles.height1, tiles.width0


def _phases(ranges: tuple[ByteRange, ...], word: int) -> tuple[tuple[int, int, int], ...]:
    """Facts of constants that their reads depend on: region, length and alignment."""
    return tuple((where.region, where.length, where.start % (PHASES * word)) for where in ranges)


class ReplayCache:
    """Work that replays on one device with one memory system share: lanes, transfers in turns, and flat jobs."""

    def __init__(self, accelerator: Accelerator, system: MemorySystem, timing: TimingParameters) -> None:
        self.accelerator = accelerator
        self.system = system
        self.timing = timing
        self.lanes = tuple((Lane(memory, timing, reads=True), Lane(memory, timing, reads=False)) for memory in system.ports)
        self._bursts = tuple([burst_beats(memory, channel, accelerator, timing) for channel in Channel] for memory in system.ports)
        self._kernels: dict[object, FlatKernel] = {}
        self._transfers: dict[tuple[int, int, Runs, int], Transfer] = {}
        self._copies: dict[object, tuple[tuple[Transfer | None, ...], tuple[Transfer | None, ...]]] = {}
        self._turns: dict[tuple[tuple[int, ...], int], LaneTurn] = {}
        self._blocks = 0

    def kernel(self, op: KernelOperation, work: tuple[DecoderWork, ...]) -> FlatKernel:
        """A kernel operation as the units run it; ``work`` is that of the weight decoder as far as it is known."""
        word = self.accelerator.port_bytes_per_cycle
        places = tuple(_place(feature_map, word) for feature_map in (op.ifm, op.ifm2, op.ofm))
        key = _unaddressed(op), places, _phases(op.weights, word), _phases(op.scales, word), work
        found = self._kernels.get(key)
        if found is None:
            jobs = block_jobs(op, self.accelerator, self.timing, work)
            self._make_room(len(jobs))
            found = self._kernels[key] = self._flat(jobs, self.system.port_of(op.ofm.region))
        return found

    def transfer(self, port: int, channel: Channel, runs: Runs, phase: int = 0) -> Transfer | None:
        """A transfer over a port, None if it is empty; ``phase`` is the word address of the first run as far as alignment goes."""
        if not any(runs):
            return None
        burst = self._bursts[port][channel]
        pace = self.accelerator.ifm_cycles_per_word if channel is Channel.IFM else 0
        key = burst, phase % burst, runs, pace
        found = self._transfers.get(key)
        if found is None:
            beats, grant = tuple(transactions(runs, burst, phase)), self.timing.grant
            turns = tuple(self._turn(beats[i : i + grant], pace) for i in range(0, len(beats), grant))
            whole = turns[0] if len(turns) == 1 else LaneTurn(beats, (len(turns) - 1) * grant, pace)
            found = self._transfers[key] = Transfer(turns, whole)
        return found

    def copy(self, op: DmaOperation) -> tuple[tuple[Transfer | None, ...], tuple[Transfer | None, ...]]:
        """The transfers that read and those that write the chunks of a DMA operation."""
        source = self.system.port_of(op.source.region)
        target = source if op.to_shram else self.system.port_of(op.destination_region)
        word = self.accelerator.port_bytes_per_cycle
        chunks = copy_chunks(op, word, aligned=self.timing.aligned_bursts)
        # The first two tell all phases: the others follow at equal distances.
        key = source, target, ceil_div(op.length, word), tuple((a % PHASES, b % PHASES, beats) for a, b, beats in chunks[:2])
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = (
                tuple(self.transfer(source, Channel.MEM2MEM, (beats,), phase) for phase, _, beats in chunks),
                tuple(self.transfer(target, Channel.MEM2MEM, (beats,), phase) for _, phase, beats in chunks),
            )
        return found

    def _turn(self, beats: tuple[int, ...], pace: int) -> LaneTurn:
        found = self._turns.get((beats, pace))
        if found is None:
            found = self._turns[beats, pace] = LaneTurn(beats, pace=pace)
        return found

    def _make_room(self, blocks: int) -> None:
        self._blocks += blocks
        if self._blocks > _MAX_BLOCKS:
            self._blocks = blocks
            for kept in (self._kernels, self._copies, self._transfers, self._turns):
                kept.clear()

    def _request(self, channel: Channel, read: Read) -> Request:
        port = self.system.port_of(read.region)
        return Request(port, channel, self.transfer(port, channel, read.runs, read.phase))

    def _flat(self, jobs: tuple[BlockJob, ...], port: int) -> FlatKernel:
        """The jobs of a kernel made flat; those that share their parts become one block."""
        known: dict[tuple[int, int, int, int], tuple[FlatBlock, list[int]]] = {}
        blocks, words = [], [0, 0, 0, 0]
        for job in jobs:
            parts = id(job.steps), id(job.scales), id(job.writes), job.output_cycles
            if parts not in known:
                block = self._block(job, port)
                known[parts] = block, _words(block, port)
            block, moved = known[parts]
            blocks.append(block)
            words = [a + b for a, b in zip(words, moved, strict=True)]
        return FlatKernel(tuple(blocks), port, (words[0], words[1], words[2], words[3]))

    def _block(self, job: BlockJob, port: int) -> FlatBlock:
        steps, last = [], len(job.steps) - 1
        for number, step in enumerate(job.steps):
            scales = job.scales if number == 0 else ()
            if self.accelerator.access.weight_bursts:
                reads = weight_bursts(step.weights, scales, self.system, self.accelerator, self.timing)
            else:
                reads = [(Channel.WEIGHTS, read) for read in step.weights] + [(Channel.SCALES, read) for read in scales]
            weights = [self._request(channel, read) for channel, read in reads]
            fetches = tuple([self._request(Channel.IFM, read) for read in step.fetches])
            frees_input = number == last or not job.steps[number + 1].continues
            steps.append(FlatStep(fetches, tuple(weights), step.mac_cycles, number == 0, number == last, step.continues, frees_input))
        return FlatBlock(tuple(steps), job.output_cycles, self.transfer(port, Channel.OFM, job.writes))


@lru_cache(maxsize=8)
def replay_cache(accelerator: Accelerator, system: MemorySystem, timing: TimingParameters) -> ReplayCache:
    """The cache that all replays on these share."""
    return ReplayCache(accelerator, system, timing)
