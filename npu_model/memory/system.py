"""MemorySystem: the memories behind the NPU's AXI ports and the map from regions to ports."""

from __future__ import annotations

from fractions import Fraction

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import shown

AXI0 = 0
AXI1 = 1

DRIVER_BURST_BYTES = 64
"""Largest transaction of the NPU: the core driver's default for the AXI_LIMIT registers (max_beats 64 B)."""

DRIVER_BURST_BEATS = 8
"""The same in beats.

The U55's data word has 8 bytes. The U65's has 16, and its transactions of up to 128 bytes have the same number of beats.
"""

NPU_MAX_READS = 32
NPU_MAX_WRITES = 16
"""The most outstanding transactions that the U55's AXI_LIMIT registers permit (core driver)."""

_MAX_CYCLES = 1_000_000
_MAX_OUTSTANDING = 4096
_MAX_BURST = 4096
_MAX_CLOCK_HZ = 100_000_000_000
_MAX_TERM = 1 << 160
"""Numbers whose ratio is a memory's speed: an exact decimal of a ``vela.ini`` has at most some dozens of digits."""
_REGIONS = 8


def _require(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{what} is {shown(value)}: it ranges from {low} to {high}; give a value in that range.")


class Pulse(Struct, frozen=True):
    """The timing adapter's gate: addresses pass in the first ``on`` cycles of every ``on + off`` cycles.

    No address passes while ``cap_words`` data words were accepted in the last ``on + off`` cycles; the transaction that
    crosses the cap passes whole. Reads and writes count together. ``cap_words`` 0 means no cap.
    InputError if no address would ever pass.
    Source: ML embedded evaluation kit, timing adapter (PULSE_ON, PULSE_OFF, BWCAP).
    """

    on: int
    off: int
    cap_words: int

    def __post_init__(self) -> None:
        if self.on < 1:
            raise InputError(f"A pulse is on for {self.on} cycles: 1 or more are needed for an address to pass; raise it.")
        for what, value in (("on", self.on), ("off", self.off), ("capped", self.cap_words)):
            _require(f"What a pulse is {what} for", value, 0, _MAX_CYCLES)


class Memory(Struct, frozen=True):
    """One memory as an AXI port sees it.

    A data word is as wide as the port (8 bytes on the U55) and takes ``cycles_per_word`` cycles; with ``shared`` reads and writes share one
    data path, else each direction has its own. Latencies are cycles from the acceptance of a transaction to its first data word (reads), or
    from its last data word to its response (writes). ``max_reads`` and ``max_writes`` bound the outstanding transactions of at most
    ``burst_bytes`` each; 0 means no bound. InputError for a value that no memory has, because a schedule file may hold any.
    """

    name: str
    read_latency: int
    write_latency: int
    max_reads: int = 0
    max_writes: int = 0
    burst_bytes: int = DRIVER_BURST_BYTES
    cycles_per_word: Fraction = Fraction(1)
    shared: bool = True
    pulse: Pulse | None = None

    def __post_init__(self) -> None:
        for key in ("read_latency", "write_latency"):
            _require(f"{key} of memory {shown(self.name)}", getattr(self, key), 0, _MAX_CYCLES)
        for key in ("max_reads", "max_writes"):
            _require(f"{key} of memory {shown(self.name)}", getattr(self, key), 0, _MAX_OUTSTANDING)
        _require(f"burst_bytes of memory {shown(self.name)}", self.burst_bytes, 1, _MAX_BURST)
        speed = self.cycles_per_word
        if speed.numerator >= _MAX_TERM or speed.denominator >= _MAX_TERM or not 0 < speed <= _MAX_CYCLES:
            raise InputError(f"cycles_per_word of memory {shown(self.name)} is out of range: give a ratio above 0, up to {_MAX_CYCLES}.")

    def burst_words(self, word_bytes: int, ifm_divisor: int = 0) -> int:
        """Words of the memory's longest transaction through a port of the given bytes.

        With a divisor it is the IFM's transaction, a part of the default burst.
        """
        words = self.burst_bytes // word_bytes
        return max(1, min(words, DRIVER_BURST_BEATS) // ifm_divisor if ifm_divisor else words)

    @property
    def writable(self) -> bool:
        """Whether the NPU can write it: Vela's OnChipFlash and OffChipFlash are read-only."""
        return not self.name.endswith("Flash")


class MemorySystem(Struct, frozen=True):
    """The two AXI ports' memories, and the port of each base-pointer region.

    ``name`` gives the source of the values (system config, memory mode, timing-adapter profile). ``region_ports[i]`` is AXI0 or AXI1 for
    region ``i``; ``command_port`` is the port of the command stream's fetch. InputError for a system that cannot exist, because a schedule
    file may hold any.
    """

    name: str
    clock_hz: int
    ports: tuple[Memory, Memory]
    region_ports: tuple[int, ...]
    command_port: int = AXI1

    def __post_init__(self) -> None:
        _require("clock_hz", self.clock_hz, 1, _MAX_CLOCK_HZ)
        _require("The number of regions", len(self.region_ports), _REGIONS, _REGIONS)
        for port in (*self.region_ports, self.command_port):
            _require("The port of a region", port, AXI0, AXI1)

    def port_of(self, region: int) -> int:
        """AXI0 or AXI1 for a base-pointer region (0 to 7)."""
        return self.region_ports[region]
