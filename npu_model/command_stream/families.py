"""The command layouts of the families of NPUs: registers, their meanings, and how operations set them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npu_model.command_stream.registers import LongRegister, RegisterFile, ShortRegister
from npu_model.command_stream.writer import RegisterWriter, Widths
from npu_model.front import later
from npu_model.program import Operation

if TYPE_CHECKING:
    from npu_model.command_stream import u55, u85
else:
    # A command stream is of one family.
    u55, u85 = later("npu_model.command_stream.u55"), later("npu_model.command_stream.u85")

U55 = "u55"
"""The layout of the U55 and the U65."""


class CommandSet(Struct, frozen=True):
    """One layout: the commands of one and two words by their codes, and the functions from registers to operations and back.

    ``kernels`` are the codes of the kernel operations, ``bases`` the operand and the number of the tile whose base a register holds;
    ``unread`` names the codes of two-word commands of the hardware that are not read here.
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


def _shared(layout: Any, unread: Mapping[int, str]) -> CommandSet:
    """The layout of a package with the parts that all families share."""
    return CommandSet(
        shorts={register.value: register for register in layout.Short},
        longs={register.value: register for register in layout.Long},
        kernels=frozenset(layout.KERNELS),
        bases=_bases(layout.Long),
        decode=layout.decode_operation,
        set_registers=layout.set_registers,
        widths=layout.WIDTHS,
        unread=unread,
    )


_PACKAGES: Mapping[str, tuple[Any, Mapping[int, str]]] = {U55: (u55, {}), "u85": (u85, {0x100: "NPU_OP_BRANCH"})}


@cache
def command_set(family: str) -> CommandSet:
    """The layout of an accelerator's ``commands``."""
    return _shared(*_PACKAGES[family])
