"""The PMU: four counters of 32 bits and the cycle counter of 48, which count while they are enabled, and the registers that reach them."""

from __future__ import annotations

from collections.abc import Callable

from npu_model.programmer_registers import Register, RegisterAccess, event_numbers
from sim.device.register_file import Words

COUNTERS = 4
CYCLE_COUNTER = 31
"""Bit of the cycle counter in the enable, overflow and interrupt registers."""

_EVENT_BITS, _CYCLE_BITS = 32, 48
_WORD = (1 << 32) - 1

EventCount = Callable[[str], int]
"""The number of times that an event of this name has happened since the device was made."""


class Pmu:
    """The counters. Change settings only after :meth:`count`, which brings the counters up to date."""

    def __init__(self) -> None:
        self._names = {number: name for name, number in event_numbers().items()}
        self._seen: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0 and disable everything; earlier events no longer count."""
        self.enabled = False
        self.counting = 0
        self.overflowed = 0
        self.interrupting = 0
        self.types = [0] * COUNTERS
        self.start_event = self.stop_event = 0
        self.clear_events()
        self.clear_cycles()

    def clear_events(self) -> None:
        """PMCR.event_cnt_rst."""
        self.events = [0] * COUNTERS

    def clear_cycles(self) -> None:
        """PMCR.cycle_cnt_rst."""
        self.cycles = 0

    def _cycle_event(self) -> str | None:
        """The event whose cycles the cycle counter counts; None if its start event never comes.

        CYCLE, or no start event, starts it at once. NPU_ACTIVE starts it with a run; unless NPU_IDLE stops it, it continues after that run.
        """
        start, stop = (self._names.get(number, "") for number in (self.start_event, self.stop_event))
        if self.start_event == 0 or start == "CYCLE":
            return "NPU_ACTIVE" if stop == "NPU_IDLE" else "CYCLE"
        if start == "NPU_ACTIVE":
            return "NPU_ACTIVE" if stop == "NPU_IDLE" else "CYCLE_SINCE_ACTIVE"
        return None

    def count(self, event: EventCount) -> bool:
        """Add the events since the last call; return whether a counter wrapped whose interrupt is enabled."""
        before, self._seen = self._seen, {}
        names = {*map(self._type_name, range(COUNTERS)), self._cycle_event()} - {None}
        self._seen = {name: event(name) for name in names if name is not None}
        if not self.enabled:
            return False
        wrapped = 0
        for index in range(COUNTERS):
            name = self._type_name(index)
            if name is not None and self.counting >> index & 1:
                value = self.events[index] + self._seen[name] - before.get(name, self._seen[name])
                self.events[index] = value & _WORD
                wrapped |= (value >> _EVENT_BITS > 0) << index
        name = self._cycle_event()
        if name is not None and self.counting >> CYCLE_COUNTER & 1:
            value = self.cycles + self._seen[name] - before.get(name, self._seen[name])
            self.cycles = value & (1 << _CYCLE_BITS) - 1
            wrapped |= (value >> _CYCLE_BITS > 0) << CYCLE_COUNTER
        self.overflowed |= wrapped
        return bool(wrapped & self.interrupting)

    def _type_name(self, index: int) -> str | None:
        return self._names.get(self.types[index])


_LOW = (1 << 32) - 1
_SETS = {"PMCNTEN": "counting", "PMOVS": "overflowed", "PMINT": "interrupting"}
"""Sets of counters, each with a register that sets bits of it and one that clears them."""

_FIRST, _LAST = 0x180, 0x3FF
"""Offsets of the PMU's registers (Vela 5.2.0 ethos_u55_regs.py: PMU)."""


class PmuRegisters:
    """The PMU behind its registers."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._pmu = Pmu()

    def reset(self) -> None:
        """Set everything to its reset value."""
        self._pmu.reset()

    def count(self, event: EventCount) -> bool:
        """Bring the counters up to date; return whether to raise the interrupt."""
        return self._pmu.count(event)

    @staticmethod
    def owns(register: Register) -> bool:
        """Whether the register belongs to the PMU."""
        return _FIRST <= register.offset <= _LAST

    @staticmethod
    def _number(register: Register) -> int:
        return int(register.name[-1]) if register.name[-1].isdigit() else 0

    def read(self, register: Register) -> int | None:
        """The counters' value for a register; None if the register returns its written word."""
        name, pmu = register.name, self._pmu
        if name == "PMCCNTR_LO":
            return pmu.cycles & _LOW
        if name == "PMCCNTR_HI":
            return pmu.cycles >> 32
        if name.startswith("PMEVCNTR"):
            return pmu.events[self._number(register)]
        group = _SETS.get(name.removesuffix("SET").removesuffix("CLR"))
        return None if group is None else int(getattr(pmu, group))

    def write(self, register: Register, value: int) -> None:
        """Apply a write; the counters are up to date."""
        self._words.store(register, value)
        pmu, name, number = self._pmu, register.name, self._number(register)
        group = _SETS.get(name.removesuffix("SET").removesuffix("CLR"))
        if group is not None:
            bits = value & register.mask(RegisterAccess.SET, RegisterAccess.CLEAR)
            before = getattr(pmu, group)
            setattr(pmu, group, before | bits if register.access is RegisterAccess.SET else before & ~bits)
        elif name == "PMCR":
            pmu.enabled = bool(value & 1)
            if value >> 1 & 1:
                pmu.clear_events()
            if value >> 2 & 1:
                pmu.clear_cycles()
        elif name == "PMCCNTR_LO":
            pmu.cycles = pmu.cycles & ~_LOW | value
        elif name == "PMCCNTR_HI":
            pmu.cycles = pmu.cycles & _LOW | (value & register.mask(RegisterAccess.READ_WRITE)) << 32
        elif name == "PMCCNTR_CFG":
            pmu.start_event, pmu.stop_event = (register.field(f"cycle_cnt_cfg_{which}").of(value) for which in ("start", "stop"))
        elif name.startswith("PMEVCNTR"):
            pmu.events[number] = value
        elif name.startswith("PMEVTYPER"):
            pmu.types[number] = register.field("ev_type").of(value)
