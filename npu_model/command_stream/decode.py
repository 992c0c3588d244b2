"""The words of a register command stream, command by command, by the layout of a family.

Registers are sticky: an operation uses the values that earlier commands have set.
"""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.command_stream.families import U55, CommandSet, command_set
from npu_model.command_stream.registers import FIRST_SET, MAP_REGISTERS, PAYLOAD_BIT, LongRegister, RegisterFile, ShortRegister
from npu_model.errors import InputError
from npu_model.program import Control, ControlKind, FeatureMap, KernelOperation, MapStorage, Operation, Tiles

_BASES = {
    register.value: (prefix.lower(), number) for prefix, names in MAP_REGISTERS.items() for number, register in enumerate(names.bases)
}
"""The operand and the number of the tile whose base a register holds, in all families."""

MAX_STREAM_BYTES = 1 << 24
"""A command stream is shorter than 16 MiB (the hardware's limit; Vela 5.2.0 ``generate_command_stream`` has the same limit)."""


class _Like:
    """The last kernel operation, and the bases set since. An operation with only new bases is not decoded again.

    Vela's C++ core emits 65,790 of such kernels in a row for an ARG_MAX of 513 x 513 elements.
    """

    def __init__(self, commands: CommandSet) -> None:
        self._commands = commands
        self._last: KernelOperation | None = None
        self._command = (-1, -1)
        self._bases: list[tuple[str, int, int]] = []

    def set_short(self) -> None:
        """A register that holds no base was set."""
        self._last = None

    def set_long(self, register: LongRegister, parameter: int, payload: int) -> None:
        """A register that may hold a base was set."""
        base = _BASES.get(register)
        if base is None:
            self._last = None
        elif self._last is not None:
            self._bases.append((*base, parameter << 32 | payload))

    def operation(self, registers: RegisterFile, command: ShortRegister, parameter: int) -> Operation:
        """The operation that a command starts."""
        if command not in self._commands.kernels:
            return self._commands.decode(registers, command, parameter)
        last = self._last
        if last is None or self._command != (command, parameter):
            found = self._commands.decode(registers, command, parameter)
            if not isinstance(found, KernelOperation):
                return found
            last = found
        elif self._bases:
            last = _moved(last, self._bases)
        self._last, self._command = last, (command, parameter)
        self._bases.clear()
        return last


def _moved(operation: KernelOperation, bases: list[tuple[str, int, int]]) -> KernelOperation:
    """The operation with another base for one tile of an operand. Operands that it lacks are ignored."""
    maps: dict[str, FeatureMap] = {}
    for field, number, base in bases:
        fm = maps.get(field) or getattr(operation, field)
        if fm is not None and fm.storage is MapStorage.TILES:
            tiles = fm.tiles
            placed = (*tiles.bases[:number], base, *tiles.bases[number + 1 :])
            moved = Tiles(tiles.height0, tiles.height1, tiles.width0, placed)
            maps[field] = FeatureMap(fm.region, fm.shape, fm.dtype, fm.layout, moved, fm.strides, fm.zero_point)
    return operation.having(**maps)


def decoded(words: tuple[int, ...], family: str = U55) -> Iterator[tuple[Operation, int]]:
    """The operations of a register command stream, one by one, each with the words that it took (its SETs and itself).

    ``family`` is the accelerator's ``commands``. Words after NPU_OP_STOP are not read. InputError, after the operations before it, on an
    unknown command or a register used before it is set.
    """
    commands = command_set(family)
    registers, like = RegisterFile(), _Like(commands)
    position = start = 0
    while position < len(words):
        word = words[position]
        # Bits 10-13 and 15 are zero in every command. Kept in the code, they make it unknown.
        code, parameter = word & 0xFFFF & ~PAYLOAD_BIT, word >> 16
        if word & PAYLOAD_BIT:
            if position + 1 >= len(words):
                raise InputError(f"The command stream ends inside the two-word command at word {position}: the file is cut off.")
            register = commands.longs.get(code)
            if register is None:
                raise _unread(commands.unread[code], position) if code in commands.unread else _unknown(word, position)
            registers.set_long(register, parameter, words[position + 1])
            like.set_long(register, parameter, words[position + 1])
            position += 2
            continue
        command = commands.shorts.get(code)
        if command is None:
            raise _unknown(word, position)
        position += 1
        if code >= FIRST_SET:
            registers.set_short(command, parameter)
            like.set_short()
            continue
        operation = like.operation(registers, command, parameter)
        yield operation, position - start
        start = position
        if isinstance(operation, Control) and operation.kind is ControlKind.STOP:
            return


def _unknown(word: int, position: int) -> InputError:
    return InputError(f"Command {word:#010x} at word {position} is unknown: the file is damaged or for another NPU.")


def _unread(name: str, position: int) -> InputError:
    return InputError(f"{name} at word {position} is not read yet: compile the network without control flow on the NPU.")


def decode_words(words: tuple[int, ...], family: str = U55) -> tuple[tuple[Operation, ...], tuple[int, ...]]:
    """Operations of a register command stream, and the words that each took: see :func:`decoded`.

    InputError on an unknown command, a register used before it is set, or a stream that is too long for the hardware.
    """
    if 4 * len(words) >= MAX_STREAM_BYTES:
        raise InputError(f"The command stream has {4 * len(words)} bytes: the NPU reads less than {MAX_STREAM_BYTES}; the file is damaged.")
    found = list(decoded(words, family))
    return tuple(operation for operation, _ in found), tuple(count for _, count in found)
