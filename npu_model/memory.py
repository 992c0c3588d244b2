"""MemorySystem: the memories behind the NPU's AXI ports and the map from regions to ports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from npu_model.errors import InputError

AXI0 = 0
AXI1 = 1

DRIVER_BURST_BYTES = 64
"""Largest transaction of the NPU: the core driver's default for the AXI_LIMIT registers (max_beats 64 B)."""

NPU_MAX_READS = 32
NPU_MAX_WRITES = 16
"""Outstanding transactions that the U55's AXI_LIMIT registers allow at most (core driver)."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The timing adapter's gate: addresses pass in the first ``on`` cycles of every ``on + off`` cycles.

    In each such period no address passes once ``cap_words`` data words have been accepted; the transaction that
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


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as an AXI port sees it.

    A data word is as wide as the port (8 bytes on the U55) and takes ``cycles_per_word`` cycles; with ``shared``
    reads and writes share one data path, else each direction has its own. Latencies are cycles from the acceptance
    of a transaction to its first data word (reads), or from its last data word to its response (writes).
    ``max_reads`` and ``max_writes`` bound the outstanding transactions of at most ``burst_bytes`` each; 0 means no
    bound.
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


@dataclass(frozen=True, slots=True)
class MemorySystem:
    """The two AXI ports' memories and which port each base-pointer region is reached through.

    ``name`` says where the values are from (system config, memory mode, timing-adapter profile). ``region_ports[i]``
    is AXI0 or AXI1 for region ``i``; ``command_port`` is the port that the command stream is fetched through.
    """

    name: str
    clock_hz: int
    ports: tuple[Memory, Memory]
    region_ports: tuple[int, ...]
    command_port: int = AXI1

    def port_of(self, region: int) -> int:
        """AXI0 or AXI1 for a base-pointer region (0 to 7)."""
        return self.region_ports[region]
