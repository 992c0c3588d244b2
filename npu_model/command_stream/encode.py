"""From operations to register command-stream words: the inverse of the decoder.

Every operation is written as SETs followed by the waits before it and its NPU_OP. Registers are sticky, so a SET whose value the register
already holds is left out. The first SET of a register is always written, because the values that an earlier job left are unknown.

Each operation is decoded again from the registers just written. An operation that the registers cannot express is therefore an InputError
here, and never a different operation in the stream.

Encoding the operations of a decoded Vela stream gives the same commands per operation, in the order of the family's ``set_registers``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from npu_model.command_stream.decode import MAX_STREAM_BYTES
from npu_model.command_stream.families import U55, CommandSet, command_set
from npu_model.command_stream.registers import ShortRegister
from npu_model.command_stream.writer import RegisterWriter
from npu_model.errors import InputError
from npu_model.program import Control, ControlKind, DmaWait, KernelOperation, KernelWait, Operation


def _read_back(writer: RegisterWriter, commands: CommandSet, operation: Operation, command: ShortRegister, parameter: int) -> None:
    """InputError unless the registers now describe ``operation`` exactly."""
    try:
        decoded = commands.decode(writer.registers, command, parameter)
    except InputError:
        raise InputError(f"{writer.where} reads an IFM below 1 x 1 by its OFM, kernel and padding: correct the padding.") from None
    if decoded == operation:
        return
    for name in operation.__struct_fields__:
        given, said = getattr(operation, name), getattr(decoded, name)
        if given != said:
            raise InputError(f"{writer.where} has {name} {given} but its registers mean {said}: make the operation consistent.")


class _Groups:
    """The words of operations so far, in groups: the waits, and the operation that they delay."""

    def __init__(self, commands: CommandSet) -> None:
        self.writer = RegisterWriter(commands.widths)
        self._commands = commands

    def _issue(self, operation: Operation, command: ShortRegister, parameter: int) -> int:
        """Append the operation's own command and check it; return the number of words so far."""
        self.writer.operate(command, parameter)
        _read_back(self.writer, self._commands, operation, command, parameter)
        return len(self.writer.words)

    def _locate(self, number: int, operation: Operation) -> None:
        name = operation.mnemonic if isinstance(operation, KernelOperation) else type(operation).__name__
        self.writer.where = f"Operation {number} ({name})"

    def write(self, first: int, group: list[Operation]) -> list[int]:
        """Write a group whose first operation has this number; return the number of words after each.

        The command processor blocks in a wait, so the SETs go before it and run while the NPU is still busy.
        """
        *waits, last = group
        self._locate(first + len(waits), last)
        last_command = self._commands.set_registers(self.writer, last)
        ends = []
        for offset, operation in enumerate(waits):
            self._locate(first + offset, operation)
            ends.append(self._issue(operation, *self._commands.set_registers(self.writer, operation)))
        self._locate(first + len(waits), last)
        return [*ends, self._issue(last, *last_command)]


def length_error(size: int) -> InputError:
    """The error for a stream with more bytes than the NPU reads."""
    return InputError(f"The command stream has {size} bytes: the NPU reads less than {MAX_STREAM_BYTES}; use fewer stripes.")


def encode_operations(operations: Iterable[Operation], family: str = U55) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Register command-stream words of ``operations``, and the words from the end of one operation to the end of the next.

    ``family`` is the accelerator's ``commands``. ``decode_words(words, family)`` gives the operations and counts back. InputError names the
    operation and the register if a value does not fit. It also names operations after NPU_OP_STOP, and operations that contradict
    themselves: an IFM that kernel, stride and padding do not imply, or a kernel in an elementwise operation.
    """
    groups = _Groups(command_set(family))
    ends = [0]
    group: list[Operation] = []
    stopped = False
    for operation in operations:
        if stopped:
            raise InputError(f"Operation {len(ends) - 1} follows NPU_OP_STOP: the NPU would never reach it; put the stop last.")
        group.append(operation)
        if not isinstance(operation, (DmaWait, KernelWait)):
            ends += groups.write(len(ends) - 1, group)
            group = []
        stopped = isinstance(operation, Control) and operation.kind is ControlKind.STOP
    if group:
        ends += groups.write(len(ends) - 1, group)
    size = 4 * len(groups.writer.words)
    if size >= MAX_STREAM_BYTES:
        raise length_error(size)
    return tuple(groups.writer.words), tuple(end - start for start, end in pairwise(ends))
