"""Sources: what reads from a memory cost one unit of the NPU, transaction by transaction and in the long run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from math import ceil

from msgspec import Struct

from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import DRIVER_BURST_BYTES, Memory, MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters


class Source(Struct, frozen=True):
    """A memory as one unit reads it: ``word`` cycles per data word of a burst, ``latency`` cycles until the first one.

    At most ``reads`` transactions of up to ``burst`` words are outstanding (0: any number). ``sustained`` are the cycles per
    word that the memory keeps up for long, where that is slower than its bursts.
    """

    word: float
    latency: int
    reads: int = 0
    burst: int = 8
    sustained: float = 0.0

    @classmethod
    def of(cls, memory: Memory, ifm_divisor: int = 0) -> Source:
        """The memory read in whole bursts, or in the IFM's transactions: a part of the driver's default burst."""
        longest = min(memory.burst_bytes, DRIVER_BURST_BYTES) // ifm_divisor if ifm_divisor else memory.burst_bytes
        burst = max(1, longest // BEAT_BYTES)
        return cls(float(memory.cycles_per_word), memory.read_latency, memory.max_reads, burst, sustained(memory))

    def cycles(self, words: int, transactions: int) -> float:
        """Cycles of one transfer behind its latency: the data path's, or those of the transactions that wait for each other.

        >>> Source(1.0, 32, reads=8, burst=4).cycles(40, 10)  # a transaction of 4 words takes 36 cycles, 8 are on their way
        45.0
        """
        path = words * self.word
        return max(path, (transactions * self.latency + path) / self.reads) if self.reads else path

    @property
    def rate(self) -> float:
        """Cycles of one data word in a long stream of reads: the slowest of data path, gate and latency."""
        return max(self.cycles(self.burst, 1) / self.burst, self.sustained)

    @property
    def pace(self) -> float:
        """Cycles per word at which the memory keeps up."""
        return max(self.word, self.sustained)

    @property
    def flat(self) -> tuple[float, ...]:
        """As the compiled cores take it."""
        return self.word, self.latency, self.reads, self.burst, self.sustained

    def moving(self, size: int) -> int:
        """Cycles in which a transfer reads so many bytes, in a long stream."""
        return ceil(ceil_div(size, BEAT_BYTES) * self.rate)


def sustained(memory: Memory) -> float:
    """Cycles per word that the pulse gate lets pass for long; 0 if there is none.

    The transaction that crosses the cap passes whole.
    """
    if memory.pulse is None or not memory.pulse.cap_words:
        return 0.0
    words = memory.burst_bytes // BEAT_BYTES
    return (memory.pulse.on + memory.pulse.off) / (ceil_div(memory.pulse.cap_words, words) * words)


def _mean(sources: Sequence[Source]) -> Source:
    """One source for operands of several memories that are read alternately, as large as each other; itself if all are one."""
    first = sources[0]
    if all(source == first for source in sources):
        return first
    count = len(sources)
    return Source(
        word=sum(source.word for source in sources) / count,
        latency=max(source.latency for source in sources),
        reads=min((source.reads for source in sources if source.reads), default=0),
        burst=min(source.burst for source in sources),
        sustained=sum(source.pace for source in sources) / count,
    )


class Where(Struct, frozen=True):
    """Regions in which a kernel's operands live that are no constants, and that in which its result does."""

    reads: tuple[int, ...] = (ARENA,)
    writes: int = ARENA

    @classmethod
    def of(cls, operation: KernelOperation) -> Where:
        """The regions of an operation."""
        maps = [one.region for one in (operation.ifm, operation.ifm2) if one is not None and one.region != CONSTANTS]
        return cls(tuple(maps) or (ARENA,), operation.ofm.region)


IN_ARENA = Where()


class Sources(Struct, frozen=True, dict=True):
    """Memories from which a kernel reads its feature maps and its constants; ``shared`` if they pass the same port.

    ``timing`` are the parameters of the NPU that reads. A block that is stored keeps its slot of the output buffer, and the write-back, for
    ``slot_response`` cycles beyond its last word. ``stores`` is the memory that results are written to, if that is another one.
    """

    maps: Source
    constants: Source
    shared: bool
    timing: TimingParameters = DEFAULT_TIMING
    slot_response: int = 0
    stores: Source | None = None

    def __hash__(self) -> int:
        """Without the timing, which is the same for nearly all and many numbers."""
        return hash((self.maps, self.constants, self.shared, self.slot_response, self.stores))

    @cached_property
    def flat(self) -> array[float]:
        """As the compiled cores take them: numbers of the feature maps' and the constants', shared or not, the timing, and the stores'."""
        timing = self.timing
        units = timing.drain_responses, self.slot_response, self.single, timing.kernel_start_cycles, timing.weights_ahead
        stores = self.stores is not None, self.target.word, self.target.pace
        return array("d", (*self.maps.flat, *self.constants.flat, self.shared, timing.shared_cap, *units, *stores))

    @property
    def target(self) -> Source:
        """The memory that results are written to."""
        return self.maps if self.stores is None else self.stores

    @property
    def single(self) -> bool:
        """Whether a unit waits for the one behind it, as there is one slot between them; more than two count as two."""
        return self.timing.buffer_slots == 1

    def moving(self, read: float, written: float) -> float:
        """Cycles in which so many words of the feature maps pass their port, no faster than its memory keeps up."""
        if self.stores is not None:
            return max(read * self.maps.pace, written * self.stores.pace)
        if self.timing.shared_cap:
            return (read + written) * self.maps.pace
        # Each direction has its own cap: the path alone is common to both.
        return max((read + written) * self.maps.word, max(read, written) * self.maps.pace)

    @classmethod
    def staged(cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, where: Where = IN_ARENA) -> Sources:
        """Sources with the constants copied into the arena, and the feature maps where they live."""
        return cls._of(system, timing, where, system.port_of(ARENA))

    @classmethod
    def direct(cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, where: Where = IN_ARENA) -> Sources:
        """Sources with the constants read from their home, and the feature maps where they live."""
        return cls._of(system, timing, where, system.port_of(CONSTANTS))

    @classmethod
    def _of(cls, system: MemorySystem, timing: TimingParameters, where: Where, constants: int) -> Sources:
        reads = [system.port_of(region) for region in where.reads]
        write = system.port_of(where.writes)
        maps = _mean([Source.of(system.ports[port], timing.ifm_burst_divisor) for port in reads])
        slot_response = 0 if timing.posted_writes else system.ports[write].write_latency
        stores = None if set(reads) == {write} else Source.of(system.ports[write])
        return cls(maps, Source.of(system.ports[constants]), constants in reads, timing, slot_response, stores)
