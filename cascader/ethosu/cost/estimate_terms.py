"""Terms of estimates: the device with its memories as kernels read them, and the facts that an estimate states."""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import EQUAL_SHARE, IN_ARENA, Source, Sources, Where
from cascader.ethosu.network.network import ARENA, CONSTANTS
from npu_model.accelerator import Accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, DMA_CHUNK_BEATS, HIDDEN_LATENCY, TimingParameters

BLOCKS = 2
"""Blocks that are tried in addition to a layer's own."""

PARTITIONS = 4
"""Partitions of the shared buffer from which neighbours may choose a common one."""

READ_PENALTY = 0.05
"""Share of a block's read cycles at home that counts against the block. It separates two equally fast blocks if one reads twice as much."""

KERNEL_WORDS = 29
"""Words of the command stream for a kernel: the mean of the measured streams (25 to 37). Registers keep unchanged values."""

TRANSFER_WORDS = 8
"""Words of the command stream for a transfer, by the same streams (5 to 9)."""


class Facts(NamedTuple):
    """Cycles of a stripe, and how many fewer it takes if its first weights are fetched before it begins.

    ``tail`` is the cycles at its end in which the decoder reads for the next kernel. ``contended_cycles`` is its cycles while a copy keeps
    the constants' memory busy. ``home_cycles`` is the cycles in which the stripe itself does so, ``read_cycles`` the cycles in which its
    decoder reads all constants.
    """

    cycles: int
    lead: int
    tail: int
    contended_cycles: int
    home_cycles: int
    read_cycles: int


NOTHING = Facts(0, 0, 0, 0, 0, 0)


class Terms(Struct, frozen=True):
    """Terms of estimates: the device, and its memories as kernels read them; with ``choose_blocks`` off kernels keep their blocks.

    ``beside_constants`` says that operands live in the memory of the constants, but the arena does not. A fetch of the command stream takes
    ``fetch_cycles``. Other work ``hides_fetches`` of a near memory after the first ones.
    """

    accelerator: Accelerator
    staged: Sources
    direct: Sources
    overhead: int
    choose_blocks: bool = True
    beside_constants: bool = False
    fetch_cycles: int = 0
    hides_fetches: bool = True

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        system: MemorySystem,
        timing: TimingParameters = DEFAULT_TIMING,
        *,
        choose_blocks: bool = True,
        where: Where = IN_ARENA,
        own_channels: bool = False,
    ) -> Terms:
        """The terms of a device with its memories and its timing, for kernels whose feature maps live there.

        With ``own_channels`` their output channels need only their own input channels.
        """
        overhead = system.ports[system.port_of(where.writes)].write_latency
        sources = Sources.staged(system, timing, where, accelerator), Sources.direct(system, timing, where, accelerator)
        if own_channels:
            sources = sources[0].by_channels(accelerator), sources[1].by_channels(accelerator)
        # Maps that are read from the memory of the constants have to share it with a copy, unless the copy shares it with all maps anyway.
        beside = system.port_of(CONSTANTS) in {system.port_of(one) for one in where.reads if one != ARENA}
        beside = beside and system.port_of(CONSTANTS) != system.port_of(ARENA)
        commands = Source.of(system.ports[system.command_port], accelerator.port_bytes_per_cycle)
        fetch = commands.latency + commands.moving(accelerator.fetch_bytes)
        return cls(accelerator, *sources, overhead, choose_blocks, beside, fetch, commands.latency <= HIDDEN_LATENCY)

    @property
    def timing(self) -> TimingParameters:
        """The timing parameters."""
        return self.direct.timing

    @property
    def command_cycles(self) -> int:
        """Cycles in which the command processor takes the words of a kernel; 0 unless it has a pace of its own."""
        return self.timing.command_cycles_per_word * KERNEL_WORDS

    def operand_latency(self, operation: KernelOperation) -> int:
        """Cycles that every block of the operation waits for a constant operand; 0 without one."""
        maps = (operation.ifm, operation.ifm2)
        return self.direct.constants.latency if any(one is not None and one.region == CONSTANTS for one in maps) else 0

    def worst_operand_latency(self, operation: KernelOperation) -> int:
        """Like :meth:`operand_latency` while weights are copied from the same memory, so that no chosen block suffers from that."""
        return self.contended.constants.latency if self.operand_latency(operation) else 0

    def copy_cycles(self, size: int, ranges: int) -> int:
        """Cycles to copy constants of ``size`` bytes, in a number of ranges, from their home to the arena.

        If a device requests ahead, a kernel's requests may come first. The last words of each range wait for half of these on average.
        """
        home, moving = self.direct.constants, self.direct.constants.moving(size)
        if not self.direct.access.ifm_ahead:
            return moving + ranges * max(0, home.latency - HIDDEN_LATENCY) + self.overhead
        last_words = min(ranges * DMA_CHUNK_BEATS, ceil_div(size, home.word_bytes))
        waited = ranges * (home.latency + self.timing.lookahead // 2 + self.overhead)
        return moving + waited + ceil(last_words * self.staged.target.word)

    @property
    def contended(self) -> Sources:
        """Constants read at home during a copy, whose transactions take every other turn at the port."""
        return _contended(self.direct, maps=self.beside_constants)


@lru_cache(maxsize=8)
def _contended(direct: Sources, *, maps: bool) -> Sources:
    """Like :attr:`Terms.contended`; with ``maps`` the feature maps are read there, too."""
    constants: Source = direct.constants
    turn, grant = direct.turn_cycles, direct.timing.grant
    # A burst that is a request of its own takes a turn of the port alone, and a copy's turn has as many transactions as the port grants.
    share = 1 / (1 + grant) if direct.access.weight_bursts else EQUAL_SHARE
    slow = replace(constants, latency=constants.latency + turn, reads=0, sustained=constants.rate / share)
    found = replace(direct, constants=slow)
    if not maps:
        return found
    return replace(found, maps=replace(direct.maps, sustained=direct.maps.rate / direct.map_share))
