"""A table of cycles that operators take on a CPU, each as a range: the shipped ones, or a user's TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.toml_text import read_toml
from npu_testbed.documents.inference import Counted
from validation.reading import read_configuration

DEFAULT_CPU = "cortex-m55"
SHIPPED = (DEFAULT_CPU, "cortex-m85")

OTHER = "other"
"""The kind for operators without an entry."""

_Cycles = Annotated[float, Meta(ge=0, le=10**9)]

Range = tuple[_Cycles, _Cycles]
"""The least and the most, in cycles."""


class OperatorKind(Struct, frozen=True):
    """Operators that take cycles ``per`` a byte, an element or a multiply-accumulate; ``wide`` is for elements of more than 8 bits."""

    name: str
    per: Counted
    cycles: Range
    wide: Range
    basis: str


class CpuTable(Struct, frozen=True):
    """A table: ``clock_hz`` is None for a core that runs at the NPU's clock; ``kinds`` are by operator, with :data:`OTHER`."""

    name: str
    title: str
    clock_hz: int | None
    call: Range
    invoke: Range
    copy: Range
    kinds: Mapping[str, OperatorKind]

    def kind(self, operator: str) -> OperatorKind:
        """The kind of an operator of a .tflite file."""
        return self.kinds.get(operator, self.kinds[OTHER])


class _Entry(Struct, forbid_unknown_fields=True):
    """An entry of the file: the operators of a kind."""

    names: tuple[str, ...]
    per: Counted
    cycles: Range
    wide: Range | None = None
    basis: str = ""


class _File(Struct, forbid_unknown_fields=True):
    """The content of the file."""

    title: str
    call: Range
    invoke: Range
    copy: Range
    operator: dict[str, _Entry]
    clock_hz: Annotated[int, Meta(ge=1, le=10**12)] | None = None


def _kinds(entries: Mapping[str, _Entry]) -> dict[str, OperatorKind]:
    """The kinds by operator."""
    if OTHER not in entries:
        raise InputError(f"The CPU table has no [operator.{OTHER}]: add it, for the operators that no other kind names.")
    kinds: dict[str, OperatorKind] = {}
    for key, entry in entries.items():
        kind = OperatorKind(key, entry.per, entry.cycles, entry.wide or entry.cycles, entry.basis)
        for operator in (OTHER,) if key == OTHER else entry.names:
            if operator in kinds:
                raise InputError(f"The CPU table names {printable(operator)} twice: leave one of them out.")
            kinds[operator] = kind
    return kinds


def parse_cpu_table(name: str, text: str) -> CpuTable:
    """The table that a TOML text describes; InputError names what is wrong with it."""
    table = read_toml(_File, text, "The CPU table", "write key = value lines, and cycles as [low, high]")
    kinds = _kinds(table.operator)
    ranges = (table.call, table.invoke, table.copy, *(one for kind in kinds.values() for one in (kind.cycles, kind.wide)))
    wrong = next((one for one in ranges if one[0] > one[1]), None)
    if wrong is not None:
        raise InputError(f"The CPU table has {shown(list(wrong))}: write [low, high].")
    return CpuTable(name, table.title, table.clock_hz, table.call, table.invoke, table.copy, kinds)


@cache
def _shipped(name: str) -> CpuTable:
    return parse_cpu_table(name, Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def load_cpu_table(source: str) -> CpuTable:
    """A shipped table by its name, or the one in a TOML file."""
    return _shipped(source) if source in SHIPPED else parse_cpu_table(Path(source).stem, read_configuration(source, "CPU table"))
