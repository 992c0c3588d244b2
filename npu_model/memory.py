"""MemorySystem: the memories behind the NPU's AXI ports and the map from regions to ports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

AXI0 = 0
AXI1 = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as a port sees it.

    A data word is the port's width (8 bytes on the U55). At most ``cap_words`` words pass in every
    ``cap_period`` cycles, reads and writes together; ``cap_words`` 0 means no cap. Latencies are the cycles from
    the acceptance of a transaction to its first data word (reads) or to its response (writes). ``max_reads`` and
    ``max_writes`` bound the outstanding transactions of ``burst_bytes`` each; 0 means no bound.
    """

    name: str
    burst_bytes: int
    read_latency: int
    write_latency: int
    max_reads: int
    max_writes: int
    cap_words: int = 0
    cap_period: int = 1

    def words_per_cycle(self) -> Fraction:
        """Sustained data words per cycle under the cap; 1 at most.

        >>> Memory("flash", 64, 64, 0, 2, 0, cap_words=50, cap_period=400).words_per_cycle()
        Fraction(1, 8)
        """
        return min(Fraction(1), Fraction(self.cap_words, self.cap_period)) if self.cap_words else Fraction(1)


@dataclass(frozen=True, slots=True)
class MemorySystem:
    """The two AXI ports' memories and which port each base-pointer region is reached through.

    ``name`` says where the values are from (system config, memory mode, timing-adapter profile). ``region_ports[i]``
    is AXI0 or AXI1 for region ``i``; ``command_port`` is the port that the command stream is fetched through.
    Both ports may lead to one and the same memory (Sram_Only): then ``ports[0] == ports[1]`` and traffic is charged
    to AXI0 by the region map.
    """

    name: str
    clock_hz: int
    ports: tuple[Memory, Memory]
    region_ports: tuple[int, ...]
    command_port: int = AXI1

    def port_of(self, region: int) -> int:
        """AXI0 or AXI1 for a base-pointer region (0 to 7)."""
        return self.region_ports[region]
