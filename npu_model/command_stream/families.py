"""The command layouts of the families of NPUs: registers, their meanings, and how operations set them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from npu_model.command_stream.registers import LongRegister, RegisterFile, ShortRegister
from npu_model.command_stream.writer import RegisterWriter, Widths
from npu_model.front import later
from npu_model.program import Control, ControlKind, DmaOperation, DmaWait, KernelOperation, KernelWait, Operation

with later():
    # A command stream is of one family.
    from npu_model.command_stream import u55, u85

U55 = "u55"
"""The layout of the U55 and the U65."""


_TRANSFER = "DMA_START"
_WAITS: Mapping[str, type[DmaWait | KernelWait]] = {"DMA_WAIT": DmaWait, "KERNEL_WAIT": KernelWait}
"""The names of commands that all families have."""


class CommandSet(Struct, frozen=True):
    """One layout: the commands of one and two words by their codes, and the functions from registers to operations and back.

    ``kernels`` are the codes of the kernel operations; ``unread`` names the codes of two-word commands of the hardware that are not read
    here.
    """

    shorts: Mapping[int, ShortRegister]
    longs: Mapping[int, LongRegister]
    kernels: frozenset[int]
    decode_kernel: Callable[[RegisterFile, ShortRegister, int], KernelOperation]
    decode_transfer: Callable[[RegisterFile], DmaOperation]
    set_kernel: Callable[[RegisterWriter, KernelOperation], tuple[ShortRegister, int]]
    set_transfer: Callable[[RegisterWriter, DmaOperation], tuple[ShortRegister, int]]
    widths: Widths
    unread: Mapping[int, str]

    def decode(self, registers: RegisterFile, command: ShortRegister, parameter: int) -> Operation:
        """The operation that ``command`` starts with the current registers; InputError if they are inconsistent."""
        if command in self.kernels:
            return self.decode_kernel(registers, command, parameter)
        if command.name == _TRANSFER:
            return self.decode_transfer(registers)
        wait = _WAITS.get(command.name)
        return Control(ControlKind(command.value), parameter) if wait is None else wait(parameter)

    def set_registers(self, writer: RegisterWriter, operation: Operation) -> tuple[ShortRegister, int]:
        """SET all registers of an operation; return its command and parameter."""
        if isinstance(operation, KernelOperation):
            return self.set_kernel(writer, operation)
        if isinstance(operation, DmaOperation):
            return self.set_transfer(writer, operation)
        if isinstance(operation, Control):
            return self.shorts[operation.kind.value], operation.parameter
        name = next(name for name, kind in _WAITS.items() if isinstance(operation, kind))
        return next(command for command in self.shorts.values() if command.name == name), operation.outstanding


def _shared(layout: Any, unread: Mapping[int, str]) -> CommandSet:
    """The layout of a package with the parts that all families share."""
    return CommandSet(
        shorts={register.value: register for register in layout.SHORTS},
        longs={register.value: register for register in layout.LONGS},
        kernels=frozenset(layout.KERNELS),
        decode_kernel=layout.decode_kernel,
        decode_transfer=layout.decode_transfer,
        set_kernel=layout.set_kernel,
        set_transfer=layout.set_transfer,
        widths=layout.WIDTHS,
        unread=unread,
    )


_PACKAGES: Mapping[str, tuple[Any, Mapping[int, str]]] = {U55: (u55, {}), "u85": (u85, {0x100: "NPU_OP_BRANCH"})}


@cache
def command_set(family: str) -> CommandSet:
    """The layout of an accelerator's ``commands``."""
    return _shared(*_PACKAGES[family])
