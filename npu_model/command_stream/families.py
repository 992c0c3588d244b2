"""The command layouts of the families of NPUs: registers, what they mean, and how an operation sets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from npu_model.command_stream import u55, u85
from npu_model.command_stream.registers import LongRegister, RegisterFile, ShortRegister
from npu_model.command_stream.writer import RegisterWriter, Widths
from npu_model.program import Operation

U55 = "u55"
"""The layout of the U55 and the U65."""


class CommandSet(Struct, frozen=True):
    """One layout: the commands of one and two words by their codes, and the functions from registers to operations and back.

    ``kernels`` are the codes of the kernel operations, ``bases`` the operand and the number of the tile whose base a register holds;
    ``unread`` are the codes of two-word commands that the hardware has and nothing here reads, by name.
    """

    shorts: Mapping[int, ShortRegister]
    longs: Mapping[int, LongRegister]
    kernels: frozenset[int]
    bases: Mapping[int, tuple[str, int]]
    decode: Callable[[RegisterFile, ShortRegister, int], Operation]
    set_registers: Callable[[RegisterWriter, Operation], tuple[ShortRegister, int]]
    widths: Widths
    unread: Mapping[int, str]


def _bases(longs: type[LongRegister]) -> dict[int, tuple[str, int]]:
    maps = ("ifm", "IFM"), ("ifm2", "IFM2"), ("ofm", "OFM")
    return {longs[f"{prefix}_BASE{number}"].value: (field, number) for field, prefix in maps for number in range(4)}


_SETS = {
    U55: CommandSet(
        shorts={register.value: register for register in u55.Short},
        longs={register.value: register for register in u55.Long},
        kernels=frozenset(u55.KERNELS),
        bases=_bases(u55.Long),
        decode=u55.decode_operation,
        set_registers=u55.set_registers,
        widths=u55.WIDTHS,
        unread={},
    ),
    "u85": CommandSet(
        shorts={register.value: register for register in u85.Short},
        longs={register.value: register for register in u85.Long},
        kernels=frozenset(u85.KERNELS),
        bases=_bases(u85.Long),
        decode=u85.decode_operation,
        set_registers=u85.set_registers,
        widths=u85.WIDTHS,
        unread={0x100: "NPU_OP_BRANCH"},
    ),
}


def command_set(family: str) -> CommandSet:
    """The layout of an accelerator's ``commands``."""
    return _SETS[family]
