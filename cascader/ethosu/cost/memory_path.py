"""Sources: the cost of a unit's reads from a memory, transaction by transaction and in the long run."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.accelerator import Accelerator, PortRates, accelerator
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import Memory, MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters

Words = TypeVar("Words", float, npt.NDArray[np.float64])
"""Words of one block, or of several blocks."""

EQUAL_SHARE = 0.5
"""Share of its memory's bandwidth for a kernel during a copy: two readers with constant demand take turns."""


class Source(Struct, frozen=True):
    """A memory as one unit reads it: ``word`` cycles per data word of a burst, ``latency`` cycles until the first one.

    At most ``reads`` transactions of up to ``burst`` words are outstanding (0: any number). ``sustained`` is the cycles per word of a long
    stream, if that is slower than the memory's bursts.
    """

    word: float
    latency: int
    reads: int = 0
    burst: int = 8
    sustained: float = 0.0
    word_bytes: int = BEAT_BYTES

    @classmethod
    def of(cls, memory: Memory, word_bytes: int = BEAT_BYTES, ifm_divisor: int = 0) -> Source:
        """The memory on ports of the given width in bytes, read in whole bursts or in the IFM's transactions.

        The IFM's transactions are a part of the default burst.
        """
        burst = memory.burst_words(word_bytes, ifm_divisor)
        return cls(float(memory.cycles_per_word), memory.read_latency, memory.max_reads, burst, sustained(memory, word_bytes), word_bytes)

    def cycles(self, words: int, transactions: int) -> float:
        """Cycles of a transfer after its latency: the data path's, or the cycles of transactions that wait for each other.

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
        """Cycles per word in a long stream."""
        return max(self.word, self.sustained)

    @property
    def flat(self) -> tuple[float, ...]:
        """The source in the compiled cores' form."""
        return self.word, self.latency, self.reads, self.burst, self.sustained

    def moving(self, size: int) -> int:
        """Cycles in which a transfer reads a number of bytes, in a long stream."""
        return ceil(ceil_div(size, self.word_bytes) * self.rate)


def sustained(memory: Memory, word_bytes: int = BEAT_BYTES) -> float:
    """Cycles per word that the pulse gate lets pass for long; 0 without a gate.

    The transaction that crosses the cap passes whole.
    """
    if memory.pulse is None or not memory.pulse.cap_words:
        return 0.0
    words = memory.burst_words(word_bytes)
    return (memory.pulse.on + memory.pulse.off) / (ceil_div(memory.pulse.cap_words, words) * words)


def _mean(sources: Sequence[Source], *, at_once: bool) -> Source:
    """One source for equally large operands in several memories that are read in turn; the memory's own source if all are in one.

    If the device requests them ahead, they are read ``at_once``.
    """
    first = sources[0]
    if all(source == first for source in sources):
        return first
    count = len(sources)
    if at_once:
        slowest = max(sources, key=lambda source: source.pace)
        one = replace(slowest, word=slowest.word / count, sustained=slowest.sustained / count)
        return replace(one, latency=max(source.latency for source in sources), reads=slowest.reads * count)
    return Source(
        word=sum(source.word for source in sources) / count,
        latency=max(source.latency for source in sources),
        reads=min((source.reads for source in sources if source.reads), default=0),
        burst=min(source.burst for source in sources),
        sustained=sum(source.pace for source in sources) / count,
        word_bytes=first.word_bytes,
    )


_MUCH_SMALLER = 4
"""Times that the other operand is at least as large, so that reads of it take all of the time."""


class Where(Struct, frozen=True):
    """The regions of a kernel's operands that are not constants, and of its result."""

    reads: tuple[int, ...] = (ARENA,)
    writes: int = ARENA

    @classmethod
    def of(cls, operation: KernelOperation, *, by_size: bool = False) -> Where:
        """The regions of an operation; ``by_size`` leaves out an operand that is much smaller than the other one."""
        maps = [one for one in (operation.ifm, operation.ifm2) if one is not None and one.region != CONSTANTS]
        if by_size:
            most = max((one.shape.elements for one in maps), default=0)
            maps = [one for one in maps if one.shape.elements * _MUCH_SMALLER > most]
        return cls(tuple(one.region for one in maps) or (ARENA,), operation.ofm.region)


IN_ARENA = Where()


class Sources(Struct, frozen=True, dict=True):
    """Memories from which a kernel reads its feature maps and its constants; ``shared`` if they pass the same port.

    ``timing`` are the parameters of the NPU that reads. A block that is stored keeps its slot of the output buffer, and the write-back, for
    ``slot_response`` cycles beyond its last word. ``stores`` is the memory that results are written to, if that is another one. ``access``
    is the units' paths to memory, by default a U55's, on ``cores`` cores. The input buffer takes a word in ``fill`` cycles (0: as it
    comes). If ``stores_queue``, stores pass behind the reads that are requested ahead, because they share a data path.

    At most ``most_writes`` stores are under way (0: any number), each until its response after ``write_latency`` cycles. A U55's costs
    allow for that, as its replays confirm. A share ``behind`` of the feature maps is read on the path of the stores, and all constants
    if ``constants_behind``. Each block that reads there leaves the path idle for ``gap`` cycles: a read takes longer to come than the
    stores that are issued ahead.
    """

    maps: Source
    constants: Source
    shared: bool
    timing: TimingParameters = DEFAULT_TIMING
    slot_response: int = 0
    stores: Source | None = None
    access: PortRates = accelerator().access
    cores: int = 1
    fill: int = 0
    stores_queue: bool = False
    write_latency: int = 0
    most_writes: int = 0
    behind: float = 0.0
    constants_behind: bool = False
    gap: int = 0

    def __hash__(self) -> int:
        """All fields but the timing, which is nearly always the same and has many numbers."""
        return hash((self.maps, self.constants, self.shared, self.slot_response, self.stores))

    @cached_property
    def flat(self) -> array[float]:
        """The memories in the compiled cores' form.

        It has the numbers of the feature maps' memory, the constants', whether they are shared, the timing, and the stores'.
        """
        timing = self.timing
        units = timing.drain_responses, self.slot_response, self.single, self.start_cycles, timing.weights_ahead
        stores = self.stores is not None, self.target.word, self.target.pace
        ways = self.access.ifm_ahead, self.access.weight_bursts > 0, self.fill, self.maps.word_bytes, self.stores_queue
        writes = self.write_latency, self.most_writes
        paths = self.turn_share, self.issued_ahead, self.read_behind, self.constants_behind, self.gap
        memories = *self.maps.flat, *self.weights.flat, self.shared, timing.shared_cap
        return array("d", (*memories, *units, *stores, *ways, *writes, *paths))

    def by_channels(self, device: Accelerator) -> Sources:
        """The sources of a kernel whose output channels need only their own input channels, so that each core takes its part."""
        return replace(self, fill=device.ifm_cycles_per_word(own_channels=True))

    @property
    def turn_cycles(self) -> int:
        """Cycles of a whole turn of another channel at the constants' port."""
        return ceil(self.constants.rate * self.timing.grant * self.constants.burst)

    @property
    def map_share(self) -> float:
        """Share of the constants' memory for feature maps there during a copy.

        A turn of the port has a number of transactions. If maps are requested ahead, they fill their turns, but with shorter transactions.
        """
        if not self.access.ifm_ahead:
            return EQUAL_SHARE
        return self.maps.burst / (self.maps.burst + self.constants.burst)

    @property
    def held_cycles(self) -> int:
        """Cycles by which a copy holds up another channel's read at the constants' port: the words issued ahead, and half a turn."""
        return self.timing.lookahead + self.turn_cycles // 2

    @cached_property
    def writes(self) -> Source:
        """The memory that results are written to, with the latency and the limit of its writes."""
        return Source(self.target.word, self.write_latency, self.most_writes)

    @cached_property
    def read_behind(self) -> float:
        """Cycles in which a word of the feature maps that is read keeps the path of the stores from them."""
        return self.maps.rate if self.behind == 1 else self.behind * self.target.word

    @cached_property
    def turn_share(self) -> float:
        """Cycles of a burst of constants for each of its own, while a load fills the input buffer: its transactions take their turns."""
        load = self.timing.grant * self.maps.burst * self.fill
        return load / (self.constants.burst * self.constants.word) if self.shared and self.fill > self.maps.word else 1.0

    @cached_property
    def issued_ahead(self) -> int:
        """Cycles of a load's end in which all of its transactions are issued."""
        ahead = self.maps.latency + self.timing.lookahead
        return min(ahead, self.maps.reads * self.maps.burst * self.fill) if self.maps.reads else ahead

    @property
    def start_cycles(self) -> int:
        """Cycles between a kernel's dependencies and its first fetch."""
        return self.timing.kernel_start_cycles + self.access.kernel_start_cycles

    @cached_property
    def weights(self) -> Source:
        """The constants as the weight decoder reads them: a core may have at most the transactions under way that the device grants it."""
        most = self.access.weight_bursts * self.cores
        if not most:
            return self.constants
        return replace(self.constants, reads=min(most, self.constants.reads or most))

    @property
    def target(self) -> Source:
        """The memory that results are written to."""
        return self.maps if self.stores is None else self.stores

    @property
    def single(self) -> bool:
        """Whether a unit waits for its successor because there is one slot between them; more than two slots count as two."""
        return self.timing.buffer_slots == 1

    def moving(self, read: float, written: float) -> float:
        """Cycles in which a number of words pass the feature maps' port, no faster than its memory keeps up."""
        if self.stores is not None:
            return max(read * self.maps.pace, written * self.stores.pace)
        if self.timing.shared_cap:
            return (read + written) * self.maps.pace
        # Each direction has its own cap: only the path is common to both.
        return max((read + written) * self.maps.word, max(read, written) * self.maps.pace)

    def stores_path(self, read: Words, constants: Words, written: Words) -> Words:
        """Cycles in which the words of maps and constants that are read, and those that are written, pass the path of the stores."""
        return read * self.read_behind + (constants * float(self.constants_behind) + written) * self.target.word

    @classmethod
    def staged(
        cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, where: Where = IN_ARENA, device: Accelerator | None = None
    ) -> Sources:
        """Sources of a ``device``, by default a U55, with the constants copied into the arena, and the feature maps where they live.

        They are those of a kernel whose cores all need what it reads; see :meth:`by_channels`.
        """
        return cls._of(system, timing, where, system.port_of(ARENA), device or accelerator())

    @classmethod
    def direct(
        cls, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING, where: Where = IN_ARENA, device: Accelerator | None = None
    ) -> Sources:
        """Sources of a ``device``, by default a U55, with the constants read from their home, and the feature maps where they live."""
        return cls._of(system, timing, where, system.port_of(CONSTANTS), device or accelerator())

    @classmethod
    def _of(cls, system: MemorySystem, timing: TimingParameters, where: Where, constants: int, device: Accelerator) -> Sources:
        word = device.port_bytes_per_cycle
        reads = [system.port_of(region) for region in where.reads]
        write = system.port_of(where.writes)
        maps = _mean([Source.of(system.ports[port], word, timing.ifm_burst_divisor) for port in reads], at_once=device.access.ifm_ahead)
        slot_response = 0 if timing.posted_writes else system.ports[write].write_latency
        stores = None if set(reads) == {write} else Source.of(system.ports[write], word)
        home, ways = Source.of(system.ports[constants], word), (device.access, device.cores, device.ifm_cycles_per_word())
        ahead, memory = device.access.ifm_ahead, system.ports[write]
        queue = ahead and stores is None and memory.shared
        found = cls(maps, home, constants in reads, timing, slot_response, stores, *ways, stores_queue=queue)
        if not ahead:
            return found
        found = replace(found, write_latency=memory.write_latency, most_writes=memory.max_writes)
        if not memory.shared:
            return found
        gap = max(0, memory.read_latency - timing.lookahead)
        return replace(found, behind=reads.count(write) / len(reads), constants_behind=constants == write, gap=gap)
