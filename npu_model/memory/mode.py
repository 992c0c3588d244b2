"""MemoryMode: which AXI port holds the constants, the arena and the fast scratch, in Vela's terms."""

from __future__ import annotations

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.memory.system import AXI0, AXI1, Memory, MemorySystem
from npu_model.printable import shown

PORTS = {"Axi0": AXI0, "Axi1": AXI1}
"""Vela's spelling of the ports."""
_REGIONS = 8


def port_number(key: str, value: object) -> int:
    """AXI0 or AXI1 for the value of ``const_mem_area``, ``arena_mem_area`` or ``cache_mem_area``."""
    if not isinstance(value, str) or value not in PORTS:
        raise InputError(f"{key} is {shown(value)}: a port of the NPU is needed; write {' or '.join(PORTS)}.")
    return PORTS[value]


class MemoryMode(Struct, frozen=True):
    """The port (AXI0 or AXI1) behind each storage area."""

    const_port: int
    arena_port: int
    cache_port: int

    @property
    def region_ports(self) -> tuple[int, ...]:
        """Port per region: 0 constants, 1 arena, 2 fast scratch; 3 to 7 (input and output buffers) lie with the arena.

        Source: Vela's use of the base pointers and the driver's REGIONCFG.
        """
        return (self.const_port, self.arena_port, self.cache_port, *(self.arena_port,) * (_REGIONS - 3))

    @property
    def used_ports(self) -> tuple[int, ...]:
        """The ports that lead to a storage area, in ascending order."""
        return tuple(sorted({self.const_port, self.arena_port, self.cache_port}))

    def system(self, name: str, clock_hz: int, memories: dict[int, Memory]) -> MemorySystem:
        """The memory system with ``memories`` behind the used ports; an unused port leads to the other port's memory.

        The command stream is fetched with the constants (driver default QCONFIG; PMU beats of the FVP agree).
        """
        first, last = memories[self.used_ports[0]], memories[self.used_ports[-1]]
        return MemorySystem(
            name=name,
            clock_hz=clock_hz,
            ports=(memories.get(AXI0, last), memories.get(AXI1, first)),
            region_ports=self.region_ports,
            command_port=self.const_port,
        )
