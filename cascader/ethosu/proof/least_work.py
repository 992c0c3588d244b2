"""The least work of a kernel: what each step and block of it takes of its unit if no other unit is in the way.

The replay makes a unit wait for ports that others use too, for gates and for places in queues. Without these waits a transfer takes its
latency and then its words one by one, and where only so many transactions may be outstanding, the share of each of their chains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import floor
from typing import NamedTuple

from msgspec import Struct

from cascader.ethosu.network.network import CONSTANTS
from cascader.ethosu.proof.chains import of_chain, of_transactions
from cascader.ethosu.proof.home_port import HomePort
from npu_model.accelerator import Accelerator
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.memory.system import DRIVER_BURST_BYTES, Memory, MemorySystem
from npu_model.program import FeatureMap, KernelOperation, Layout
from npu_model.shapes import ceil_div
from npu_model.timing import TimingParameters
from npu_model.weight_stream.mlw_work import DecoderWork

Step = tuple[int, int, int, bool]
"""Least cycles of a step's fetches, of its constants and of its MACs; whether it goes on with the IFM of the step before."""

Reads = tuple[tuple[int, ...], tuple[int, ...]]
"""Words of a step's transactions at home, those of its weights and those of its scales."""


class Block(NamedTuple):
    """A block: its steps, the output unit's cycles, the least cycles until its words are handed over to be written, and reads at home."""

    steps: tuple[Step, ...]
    output: int
    stored: int
    reads: tuple[Reads, ...] = ()
    """Those of each step if the constants are at home."""
    together: tuple[int, ...] = ()
    """Cycles in which the words of each step's IFM and constants pass, if they come through one port."""


class LeastWork(Struct, frozen=True):
    """A kernel's blocks in order, ``words`` of constants that pass their port, and cycles from the last word to the last ``response``.

    ``spared`` are the words by which its odd transactions count less at the port of the constants.
    """

    blocks: tuple[Block, ...]
    words: int
    response: int
    latency: int = 0
    """Cycles before the first word of all where IFM and constants come through one port."""
    spared: int = 0


def _transactions(runs: Iterable[int], burst: int) -> int:
    return sum(ceil_div(run, burst) for run in runs)


def _pieces(reads: Iterable[Read], burst: int) -> tuple[int, ...]:
    """Words of the transactions of some reads, which end at multiples of a burst."""
    pieces = []
    for read in reads:
        head, *runs = read.runs
        first = min(-read.phase % burst, head)
        pieces += [first] if first else []
        pieces += [min(burst, run - done) for run in (head - first, *runs) for done in range(0, run, burst)]
    return tuple(pieces)


def _is_aligned(feature_map: FeatureMap, word: int) -> bool:
    """Whether each row begins at a whole word wherever the feature map lies."""
    return feature_map.layout is Layout.NHCWB16 or feature_map.strides.y % word == 0


class WorkModel:
    """Makes the least work of kernels on one device with one memory system.

    All that passes the port of the constants, but the constants that kernels read there, is a multiple of ``even`` words.
    """

    def __init__(self, accelerator: Accelerator, system: MemorySystem, timing: TimingParameters, even: int = 1) -> None:
        self._accelerator = accelerator
        self._system = system
        self._timing = timing
        self._word = accelerator.port_bytes_per_cycle
        self._known: dict[tuple[object, ...], int] = {}
        self.home = HomePort.of(system, timing.lookahead, even)

    def of(self, operation: KernelOperation, decoding: tuple[DecoderWork, ...], constants: int) -> LeastWork:
        """The least work of a kernel that reads its constants from region ``constants``; ``decoding`` is its weight decoder's work."""
        maps = [one for one in (operation.ifm, operation.ifm2, operation.ofm) if one is not None]
        spare = 0 if all(_is_aligned(one, self._word) for one in maps) else 1
        memory = self._system.ports[self._system.port_of(operation.ofm.region)]
        known: dict[int, tuple[Block, int]] = {}
        blocks, words, odd = list[Block](), 0, 0
        for job in like_jobs(operation, self._accelerator, self._timing, decoding):
            if id(job) not in known:
                known[id(job)] = self._block(job, memory, spare, constants)
            block, moved = known[id(job)]
            blocks.append(block)
            words += moved
            odd += sum(count % self.home.even > 0 for some in block.reads for beats in some for count in beats)
        latency = self._system.ports[self._system.port_of(constants)].read_latency
        return LeastWork(tuple(blocks), words, memory.write_latency, latency, odd * self.home.spare)

    def _block(self, job: BlockJob, memory: Memory, spare: int, constants: int) -> tuple[Block, int]:
        """The block, and the words of its constants."""
        steps = tuple(self._steps(job, spare, constants))
        burst = max(1, self._system.ports[self._system.port_of(constants)].burst_bytes // self._word)
        reads = tuple((_pieces(step.weights, burst), () if number else _pieces(job.scales, burst)) for number, step in enumerate(job.steps))
        words = sum(sum(map(sum, some)) for some in reads)
        at_home = constants == CONSTANTS
        together = () if at_home else tuple(self._together(job, spare, constants))
        return Block(steps, job.output_cycles, self._stored(job, memory, spare), reads if at_home else (), together), words

    def _together(self, job: BlockJob, spare: int, constants: int) -> Iterator[int]:
        """Cycles of each step's words that come through the port of the constants."""
        at = self._system.port_of(constants)
        for number, step in enumerate(job.steps):
            fetched = sum(max(1, run - spare) for read in step.fetches if self._system.port_of(read.region) == at for run in read.runs)
            constant = sum(run for read in (*step.weights, *(() if number else job.scales)) for run in read.runs)
            yield floor((fetched + constant) * self._system.ports[at].cycles_per_word)

    def _steps(self, job: BlockJob, spare: int, constants: int) -> Iterator[Step]:
        for number, step in enumerate(job.steps):
            weights = (*step.weights, *(() if number else job.scales))
            at = self._system.port_of(constants)
            fetched = max((self._read(port, reads, spare) for port, reads in self._by_port(step.fetches)), default=0)
            yield fetched, self._weights(at, weights), step.mac_cycles, step.continues

    def _by_port(self, reads: Iterable[Read]) -> Iterator[tuple[int, list[Read]]]:
        found: dict[int, list[Read]] = {}
        for read in reads:
            found.setdefault(self._system.port_of(read.region), []).append(read)
        yield from found.items()

    def _read(self, port: int, reads: Iterable[Read], spare: int) -> int:
        """Cycles of IFM reads; ``spare`` words of each run may be saved where its rows lie better."""
        memory = self._system.ports[port]
        runs = [max(1, run - spare) for read in reads for run in read.runs]
        burst = max(1, min(memory.burst_bytes, DRIVER_BURST_BYTES) // self._word // self._timing.ifm_burst_divisor)
        if not spare and runs:
            return self._of_runs(memory, tuple(runs), burst, reads=True)
        return of_chain(memory, sum(runs), _transactions(runs, burst), memory.read_latency, memory.max_reads) if runs else 0

    def _of_runs(self, memory: Memory, runs: tuple[int, ...], burst: int, *, reads: bool) -> int:
        """Cycles of runs that begin at a burst each, wherever their rows lie."""
        key = runs, burst, reads, id(memory)
        if key not in self._known:
            beats = [min(burst, run - done) for run in runs for done in range(0, run, burst)]
            ways = (memory.read_latency, 0, memory.max_reads) if reads else (0, memory.write_latency, memory.max_writes)
            self._known[key] = of_transactions(memory, beats, *ways)
        return self._known[key]

    def _weights(self, port: int, reads: Iterable[Read]) -> int:
        """Cycles of a step's constants; a decoder that asks burst by burst, ahead of its slots, is only known to pass the words."""
        memory = self._system.ports[port]
        runs = [run for read in reads for run in read.runs]
        if self._accelerator.access.weight_bursts:
            return 0
        burst = max(1, memory.burst_bytes // self._word)
        return of_chain(memory, sum(runs), _transactions(runs, burst), memory.read_latency, memory.max_reads) if runs else 0

    def _stored(self, job: BlockJob, memory: Memory, spare: int) -> int:
        """Cycles until a block's words are handed over, each response waited for where only so many writes may be outstanding."""
        runs = [max(1, run - spare) for run in job.writes]
        burst = max(1, memory.burst_bytes // self._word)
        response = memory.write_latency
        if not spare and runs:
            return self._of_runs(memory, tuple(runs), burst, reads=False)
        return max(0, of_chain(memory, sum(runs), _transactions(runs, burst), response, memory.max_writes) - response) if runs else 0
