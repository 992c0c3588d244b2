"""Counted words: the length of the command stream of each of some operations, without the stream.

Registers are sticky: an operation SETs those alone whose values are others. What it asks of the registers, and what of that it SETs behind
another operation, is kept for those who count the words of the same operations in many orders.
"""

from __future__ import annotations

from collections.abc import Iterable

from npu_model.command_stream.decode import MAX_STREAM_BYTES
from npu_model.command_stream.encode import length_error, set_registers
from npu_model.command_stream.registers import PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.writer import RegisterWriter
from npu_model.program import DmaOperation, DmaWait, KernelOperation, KernelWait, Operation

_Settings = dict[int, object]
"""Values of registers; the numbers of those that take two words have the bit of commands with a payload."""

_NOTHING: _Settings = {}
"""The values that are known to be set before the first operation: none."""

_Held = tuple[bool, bool, bool]
"""Whether IFM2_IB_START and OFM_SCALE have a value, and PARALLEL_MODE one that is not 0: what an operation SETs depends on that, too."""

_SECOND, _SCALE, _CORES = Cmd0.IFM2_IB_START.value, PAYLOAD_BIT | Cmd1.OFM_SCALE.value, Cmd0.PARALLEL_MODE.value

_UNKNOWN = -1
"""In place of a value that a register has and no operation asks for."""


class WordCounter:
    """Counts words; it knows kernels by their identity, and so keeps every kernel that it has counted."""

    def __init__(self) -> None:
        self._settings: dict[tuple[int, _Held], _Settings] = {}
        self._kernels: dict[int, KernelOperation] = {}
        self._changes: dict[tuple[int, int], int | None] = {}

    def words(self, operations: Iterable[Operation]) -> tuple[int, ...]:
        """The words of :func:`npu_model.command_stream.encode.encode_operations` without ``checked``."""
        counts: list[int] = []
        registers: _Settings = {}
        waits, newest = 0, _NOTHING
        for operation in operations:
            if isinstance(operation, (DmaWait, KernelWait)):
                waits += 1
                continue
            changed = 0
            if isinstance(operation, KernelOperation):
                settings = self._kernel(operation, registers)
                changed = self._changed(newest, settings, registers)
                newest = settings
            elif isinstance(operation, DmaOperation):
                settings = _asked(operation)
                changed = _words(settings, registers)
                registers.update(settings)
            # The SETs of an operation stand before the waits that it needs.
            counts += [changed + 1, *[1] * waits]
            waits = 0
        counts += [1] * waits
        size = 4 * sum(counts)
        if size >= MAX_STREAM_BYTES:
            raise length_error(size)
        return tuple(counts)

    def _kernel(self, operation: KernelOperation, registers: _Settings) -> _Settings:
        """The values that a kernel asks of the registers; some of them ask for something only where they have a value."""
        held = (_SECOND in registers, _SCALE in registers, bool(registers.get(_CORES)))
        found = self._settings.get((id(operation), held))
        if found is None:
            self._kernels[id(operation)] = operation
            found = self._settings[id(operation), held] = _asked(operation, held)
        return found

    def _changed(self, newest: _Settings, settings: _Settings, registers: _Settings) -> int:
        """Words of what is SET of some settings, which the registers have afterwards; ``newest`` are those of the kernel before."""
        key = id(newest), id(settings)
        if key not in self._changes:
            # Else it depends on kernels before that one.
            self._changes[key] = _words(settings, newest) if settings.keys() <= newest.keys() else None
        known = self._changes[key]
        words = _words(settings, registers) if known is None else known
        registers.update(settings)
        return words


def _words(settings: _Settings, registers: _Settings) -> int:
    return sum(2 if number & PAYLOAD_BIT else 1 for number, value in settings.items() if registers.get(number) != value)


def _asked(operation: KernelOperation | DmaOperation, held: _Held = (False, False, False)) -> _Settings:
    """The registers that an operation asks for behind those that have ``held`` a value."""
    writer = RegisterWriter()
    writer.where = f"A {type(operation).__name__}"
    second, scale, cores = held
    if second:
        writer.registers.set_short(Cmd0.IFM2_IB_START, _UNKNOWN)
    if scale:
        writer.registers.set_long(Cmd1.OFM_SCALE, _UNKNOWN, _UNKNOWN)
    if cores:
        writer.registers.set_short(Cmd0.PARALLEL_MODE, _UNKNOWN)
    set_registers(writer, operation)
    return writer.settings(but=_UNKNOWN)
