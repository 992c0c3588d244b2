"""Sources: what reads from a memory cost one unit of the NPU, transaction by transaction and in the long run."""

from __future__ import annotations

from array import array
from dataclasses import field, replace

from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import DRIVER_BURST_BYTES, Memory, MemorySystem
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Source:
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


def sustained(memory: Memory) -> float:
    """Cycles per word that the pulse gate lets pass for long; 0 if there is none.

    The transaction that crosses the cap passes whole.
    """
    if memory.pulse is None or not memory.pulse.cap_words:
        return 0.0
    words = memory.burst_bytes // BEAT_BYTES
    return (memory.pulse.on + memory.pulse.off) / (ceil_div(memory.pulse.cap_words, words) * words)


def _flat(source: Source) -> tuple[float, ...]:
    return source.word, source.latency, source.reads, source.burst, source.sustained


@dataclass(frozen=True, slots=True)
class Sources:
    """Memories from which a kernel reads its feature maps and its constants; ``shared`` if they pass the same port.

    ``timing`` are the parameters of the NPU that reads. A block that is stored keeps its slot of the output buffer, and the write-back, for
    ``slot_response`` cycles beyond its last word.
    """

    maps: Source
    constants: Source
    shared: bool
    timing: TimingParameters = field(default=DEFAULT_TIMING, hash=False)  # a hash of its two dozen values takes longer than a flow
    slot_response: int = 0
    flat: array[float] = field(init=False, repr=False, compare=False)
    """As the compiled cores take them: numbers of the feature maps', numbers of the constants', shared or not, and the timing."""

    def __post_init__(self) -> None:
        """Work out what the cores take."""
        timing = self.timing
        units = timing.drain_responses, self.slot_response, self.single, timing.kernel_start_cycles, timing.weights_ahead
        flat = array("d", (*_flat(self.maps), *_flat(self.constants), self.shared, timing.shared_cap, *units))
        object.__setattr__(self, "flat", flat)

    @property
    def pace(self) -> float:
        """Cycles per word at which the feature maps' memory keeps up."""
        return max(self.maps.word, self.maps.sustained)

    @property
    def single(self) -> bool:
        """Whether a unit waits for the one behind it, as there is one slot between them; more than two count as two."""
        return self.timing.buffer_slots == 1

    def moving(self, read: float, written: float) -> float:
        """Cycles in which so many words of the feature maps pass their port, no faster than its memory keeps up."""
        if self.timing.shared_cap:
            return (read + written) * self.pace
        # Each direction has its own cap: the path alone is common to both.
        return max((read + written) * self.maps.word, max(read, written) * self.pace)

    @classmethod
    def staged(cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> Sources:
        """Sources with the constants copied into the arena."""
        arena = system.ports[system.port_of(ARENA)]
        maps = Source.of(arena, timing.ifm_burst_divisor)
        slot_response = 0 if timing.posted_writes else arena.write_latency
        return cls(maps, Source.of(arena), shared=True, timing=timing, slot_response=slot_response)

    @classmethod
    def direct(cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> Sources:
        """Sources with the constants read from their home."""
        home = Source.of(system.ports[system.port_of(CONSTANTS)])
        return replace(cls.staged(system, timing), constants=home, shared=system.port_of(CONSTANTS) == system.port_of(ARENA))
