"""The PMU's registers: the effect of each read and write on the counters."""

from __future__ import annotations

from npu_model.programmer_registers import Register, RegisterAccess
from sim.device.pmu import EventCount, Pmu
from sim.device.register_file import Words

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
