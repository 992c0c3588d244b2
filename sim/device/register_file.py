"""The register file: words read and written by the access rules of their fields, and nothing else."""

from __future__ import annotations

from npu_model.errors import InputError
from npu_model.programmer_registers import REGISTER_BYTES, WORD, Register, RegisterAccess, registers

_WORD_MASK = (1 << 32) - 1


def require_word(offset: int) -> None:
    """InputError unless ``offset`` is the offset of a word in the register file."""
    if offset % WORD or not 0 <= offset < REGISTER_BYTES:
        raise InputError(f"Offset {offset:#x} is not a register: multiples of {WORD} from 0 to {REGISTER_BYTES - WORD:#x} are.")


class Words:
    """The words of a register file, by the register's name. Offsets without a register read as 0 and store nothing."""

    def __init__(self, accelerator_name: str) -> None:
        self.registers = registers(accelerator_name)
        self._at = {register.offset: register for register in self.registers}
        self._named = {register.name: register for register in self.registers}
        self.values: dict[str, int] = {}
        self.reset()

    def reset(self) -> None:
        """Set every register to its reset value."""
        self.values = {register.name: register.reset for register in self.registers}

    def at(self, offset: int) -> Register | None:
        """The register at a byte offset; None if there is none. InputError if the offset is not a word's."""
        require_word(offset)
        return self._at.get(offset)

    def store(self, register: Register, value: int) -> None:
        """Write the readable fields; the other fields stay."""
        kept = register.mask(RegisterAccess.READ_WRITE)
        self.values[register.name] = self.values[register.name] & ~kept | value & _WORD_MASK & kept

    def field(self, register: str, field: str) -> int:
        """The value of a field."""
        return self._named[register].field(field).of(self.values[register])

    def set_field(self, register: str, field: str, value: int) -> None:
        """Set a field, even if a core may not write it."""
        found = self._named[register].field(field)
        self.values[register] = self.values[register] & ~found.mask | found.at(value)
