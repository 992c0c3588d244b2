"""The core's own registers (0xE0000000 up): interrupt controller, system control block and the cycle counter of the DWT.

Source: Armv8-M Architecture Reference Manual, system address map. Other registers read as 0 and keep written values.
"""

from __future__ import annotations

from collections.abc import Callable

from npu_testbed.firmware import systick

BASE, SIZE = 0xE000_0000, 0x10_0000
FIRST_IRQ = 16
PENDSV, SYSTICK, SVCALL = 14, 15, 11
THREAD = 256
"""Priority of code outside all exceptions: below every exception."""

_CYCCNT = 0x1004
_ISER, _ICER, _ISPR, _ICPR, _IABR, _IPR, _IPR_END = 0xE100, 0xE180, 0xE200, 0xE280, 0xE300, 0xE400, 0xE5F0
_CPUID, _ICSR, _VTOR, _AIRCR = 0xED00, 0xED04, 0xED08, 0xED0C
_SHPR, _SHPR_END = 0xED18, 0xED24
_KEY = 0x05FA
"""AIRCR.VECTKEY; a write of AIRCR without it has no effect."""

_CPUID_VALUES = {
    "cortex-m0": 0x410CC200,
    "cortex-m3": 0x412FC231,
    "cortex-m4": 0x410FC241,
    "cortex-m7": 0x411FC272,
    "cortex-m33": 0x410FD213,
}


class SystemSpace:
    """State of the exceptions of a core. Cycles are the core's, since reset."""

    def __init__(self, cpu: str, vector_table: int, reset: Callable[[], None]) -> None:
        self.vector_table = vector_table
        self.cycle = 0
        self.enabled: set[int] = set()
        self.pending: set[int] = set()
        self.active: list[int] = []
        self._lines: set[int] = set()
        self._priority: dict[int, int] = {}
        self._reset, self._cpuid = reset, _CPUID_VALUES[cpu]
        self._kept: dict[int, int] = {}
        self._timer = systick.SysTick()

    # -- exceptions

    def line(self, irq: int, *, level: bool) -> None:
        """An interrupt line changes; while it is high, the interrupt stays pending."""
        number = FIRST_IRQ + irq
        if level:
            self._lines.add(number)
            self.pending.add(number)
        else:
            self._lines.discard(number)

    def pend(self, number: int) -> None:
        """Make an exception pending."""
        self.pending.add(number)

    def priority(self, number: int) -> int:
        """Priority of an exception: the lower, the more urgent."""
        return {1: -3, 2: -2, 3: -1}.get(number, self._priority.get(number, 0))

    def running_priority(self, primask: int, basepri: int, faultmask: int) -> int:
        """Priority that an exception must exceed to be taken."""
        now = min([THREAD, *(self.priority(number) for number in self.active)])
        if faultmask & 1:
            return min(now, -1)
        if primask & 1:
            return min(now, 0)
        return min(now, basepri) if basepri else now

    def next(self, floor: int = THREAD) -> int | None:
        """The most urgent pending and enabled exception above a priority; None if there is none."""
        ready = [n for n in self.pending if (n < FIRST_IRQ or n - FIRST_IRQ in self.enabled) and n not in self.active]
        best = min(ready, key=lambda n: (self.priority(n), n), default=None)
        return best if best is not None and self.priority(best) < floor else None

    def enter(self, number: int) -> None:
        """Make an exception active."""
        self.pending.discard(number)
        self.active.append(number)

    def leave(self, number: int) -> None:
        """Return from an exception; its line may still be high."""
        if number in self.active:
            self.active.remove(number)
        if number in self._lines:
            self.pending.add(number)

    # -- time

    def advance(self, cycles: int) -> None:
        """Advance the core's clock; SysTick counts down and pends its exception."""
        self.cycle += cycles
        if self._timer.advance(self.cycle):
            self.pend(SYSTICK)

    def idle_for(self) -> int | None:
        """Core cycles until SysTick pends its exception; None if it will not."""
        return self._timer.idle_for(self.cycle)

    # -- registers

    def _group(self, first: int, numbers: set[int]) -> int:
        return sum(1 << bit for bit in range(32) if 8 * first + bit in numbers)

    def read(self, offset: int) -> int:
        """The word at an offset from 0xE0000000."""
        if _ISER <= offset < _IABR + 0x80:
            return self._interrupts((offset - _ISER) // 0x80, offset & 0x7F)
        if systick.CSR <= offset <= systick.CVR:
            return self._timer.read(offset, self.cycle)
        if priorities := self._priorities(offset):
            return sum(self._priority.get(number, 0) << 8 * i for i, number in enumerate(priorities))
        simple = {_CYCCNT: self.cycle & 0xFFFF_FFFF, _VTOR: self.vector_table, _CPUID: self._cpuid, _ICSR: self._state()}
        return simple.get(offset, self._kept.get(offset, 0))

    def _interrupts(self, kind: int, first: int) -> int:
        """Registers for a group of 32 interrupts: two for enabled, two for pending, one for active interrupts."""
        if kind < 2:
            return self._group(first, self.enabled)
        return self._group(first, {number - FIRST_IRQ for number in (self.active if kind == 4 else self.pending)})

    def _state(self) -> int:
        """ICSR: the active exception, the pending one, and whether PendSV and SysTick are pending."""
        pended = (PENDSV in self.pending) << 28 | (SYSTICK in self.pending) << 26
        return (self.active[-1] if self.active else 0) | (self.next() or 0) << 12 | pended

    @staticmethod
    def _priorities(offset: int) -> range:
        """The four exceptions whose priorities a register holds; none for another register."""
        if _IPR <= offset < _IPR_END:
            first = offset - _IPR + FIRST_IRQ
        elif _SHPR <= offset < _SHPR_END:
            first = offset - _SHPR + 4
        else:
            return range(0)
        return range(first, first + 4)

    def write(self, offset: int, value: int) -> None:
        """Write the word at an offset from 0xE0000000."""
        if _ISER <= offset < _IABR:
            self._set_or_clear((offset - _ISER) // 0x80, offset & 0x7F, value)
        elif systick.CSR <= offset <= systick.CVR:
            self._timer.write(offset, value, self.cycle)
        elif priorities := self._priorities(offset):
            self._priority |= {number: value >> 8 * i & 0xFF for i, number in enumerate(priorities)}
        elif offset == _VTOR:
            self.vector_table = value & ~0x7F
        elif offset == _ICSR:
            self._pend_by(value)
        elif offset == _AIRCR:
            if value >> 16 == _KEY and value >> 2 & 1:
                self._reset()
        else:
            self._kept[offset] = value

    def _pend_by(self, value: int) -> None:
        for bit, number, pends in ((28, PENDSV, True), (27, PENDSV, False), (26, SYSTICK, True), (25, SYSTICK, False)):
            if value >> bit & 1:
                (self.pending.add if pends else self.pending.discard)(number)

    def _set_or_clear(self, kind: int, first: int, value: int) -> None:
        irqs = {8 * first + bit for bit in range(32) if value >> bit & 1}
        if kind == 0:
            self.enabled |= irqs
        elif kind == 1:
            self.enabled -= irqs
        elif kind == 2:
            self.pending |= {FIRST_IRQ + irq for irq in irqs}
        else:
            self.pending -= {FIRST_IRQ + irq for irq in irqs} - self._lines
