"""SysTick: the core's timer, which counts down and pends its exception. Source: Armv8-M Architecture Reference Manual, SysTick."""

from __future__ import annotations

CSR, RVR, CVR = 0xE010, 0xE014, 0xE018
"""Offsets from 0xE0000000."""

_ENABLE, _INTERRUPT, _COUNTED = 1, 2, 1 << 16
_BITS = (1 << 24) - 1


class SysTick:
    """The timer; ``cycle`` is always the core's, since its reset."""

    def __init__(self) -> None:
        self._control = self._reload = 0
        self._from = self._periods = 0
        self._counted = False

    @property
    def _period(self) -> int:
        return self._reload + 1

    @property
    def _counts(self) -> bool:
        return bool(self._control & _ENABLE) and self._reload > 0

    def advance(self, cycle: int) -> bool:
        """Advance the clock to ``cycle``; return whether to pend the exception."""
        if not self._counts:
            return False
        periods = (cycle - self._from) // self._period
        comes = periods > self._periods
        self._periods = periods
        self._counted |= comes
        return comes and bool(self._control & _INTERRUPT)

    def idle_for(self, cycle: int) -> int | None:
        """Core cycles until the exception is pended; None if it will not be."""
        if not self._counts or not self._control & _INTERRUPT:
            return None
        return self._period - (cycle - self._from) % self._period

    def read(self, offset: int, cycle: int) -> int:
        """Read a register; reading the control register clears its flag."""
        if offset == RVR:
            return self._reload
        if offset == CVR:
            return self._reload - (cycle - self._from) % self._period if self._counts else 0
        value = self._control | (_COUNTED if self._counted else 0)
        self._counted = False
        return value

    def write(self, offset: int, value: int, cycle: int) -> None:
        """Write a register; any value in the counter starts it again."""
        starts = offset == CSR and value & ~self._control & _ENABLE
        if offset == CSR:
            self._control = value & 7
        elif offset == RVR:
            self._reload = value & _BITS
        if starts or offset == CVR:
            self._from, self._periods, self._counted = cycle, 0, False
