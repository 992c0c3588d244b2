"""UARTs: bytes that firmware writes to the data register are its output. UARTs are always ready, and never receive anything."""

from __future__ import annotations

from collections.abc import Callable

_DATA = 0x00
_CMSDK_STATE, _CMSDK_BAUD = 0x04, 0x10
_PL011_FLAGS, _PL011_EMPTY = 0x18, 0x90
"""PL011 UARTFR: transmit FIFO empty, receive FIFO empty."""


class Uart:
    """One UART of a kind (cmsdk, pl011). ``put`` takes each byte that is sent."""

    def __init__(self, kind: str, put: Callable[[int], None]) -> None:
        self._kind, self._put = kind, put
        self._kept: dict[int, int] = {}

    def read(self, offset: int) -> int:
        """The register at an offset; 0 for registers that only a real line would change."""
        if self._kind == "pl011":
            return _PL011_EMPTY if offset == _PL011_FLAGS else 0 if offset == _DATA else self._kept.get(offset, 0)
        return 0 if offset in (_DATA, _CMSDK_STATE) else self._kept.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Send a byte, or store a written register."""
        if offset == _DATA:
            self._put(value & 0xFF)
        else:
            self._kept[offset] = value
