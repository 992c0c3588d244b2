"""A table of cycles that operators take on a CPU, each as a range: the shipped ones, or a user's TOML file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable, shown
from npu_model.toml_text import parse_toml
from npu_testbed.documents.inference import Counted
from validation.reading import read_configuration

DEFAULT_CPU = "cortex-m55"
SHIPPED = (DEFAULT_CPU, "cortex-m85")

COUNTS: tuple[Counted, ...] = get_args(Counted)
"""Units of cycle counts: a byte of inputs and outputs, an element of the outputs or the inputs, a multiply-accumulate."""

OTHER = "other"
"""The kind for operators without an entry."""

_MOST = 10**9
_MOST_CLOCK = 10**12

Range = tuple[float, float]
"""The least and the most, in cycles."""


class OperatorKind(Struct, frozen=True):
    """Operators that take cycles ``per`` one of :data:`COUNTS`; ``wide`` is for elements of more than 8 bits."""

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


def _keys(where: str, table: Any, needed: Collection[str], optional: Collection[str] = ()) -> dict[str, Any]:
    if not isinstance(table, dict) or not set(needed) <= set(table) <= {*needed, *optional}:
        found = printable(", ".join(sorted(table))) if isinstance(table, dict) else shown(table)
        also = f", and may have {', '.join(optional)}" if optional else ""
        raise InputError(f"{where} of the CPU table has {found or 'nothing'}: it takes {', '.join(needed)}{also}.")
    return table


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{printable(key)} of the CPU table is {shown(value)}: a text is needed.")
    return value


def _range(key: str, value: Any) -> Range:
    is_pair = isinstance(value, list) and len(value) == len(("low", "high")) and all(type(one) in (int, float) for one in value)
    if not is_pair or not 0 <= value[0] <= value[1] <= _MOST:
        raise InputError(f"{printable(key)} of the CPU table is {shown(value)}: write [low, high], two numbers from 0 to {_MOST}.")
    return float(value[0]), float(value[1])


def _kind(name: str, table: Any) -> tuple[OperatorKind, list[str]]:
    where = f"operator.{printable(name)}"
    found = _keys(f"[{where}]", table, ("names", "per", "cycles"), ("wide", "basis"))
    if found["per"] not in COUNTS:
        raise InputError(f"{where}.per of the CPU table is {shown(found['per'])}: it is one of {', '.join(COUNTS)}.")
    if not isinstance(found["names"], list) or not all(isinstance(one, str) for one in found["names"]):
        raise InputError(f"{where}.names of the CPU table is {shown(found['names'])}: a list of operators is needed.")
    cycles = _range(f"{where}.cycles", found["cycles"])
    wide = _range(f"{where}.wide", found["wide"]) if "wide" in found else cycles
    return OperatorKind(name, found["per"], cycles, wide, _text(f"{where}.basis", found.get("basis", ""))), found["names"]


def _clock(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 < value <= _MOST_CLOCK:
        raise InputError(f"clock_hz of the CPU table is {shown(value)}: an integer from 1 to {_MOST_CLOCK} is needed.")
    return value


def parse_cpu_table(name: str, text: str) -> CpuTable:
    """The table that a TOML text describes; InputError names what is wrong with it."""
    needed = ("title", "call", "invoke", "copy", "operator")
    table = _keys("The top level", parse_toml(text, "The CPU table", "write key = value lines"), needed, ("clock_hz",))
    every = table["operator"]
    if not isinstance(every, dict) or OTHER not in every:
        raise InputError(f"The CPU table has no [operator.{OTHER}]: add it, for the operators that no other kind names.")
    kinds: dict[str, OperatorKind] = {}
    for key, value in every.items():
        kind, names = _kind(key, value)
        for operator in (OTHER,) if key == OTHER else names:
            if operator in kinds:
                raise InputError(f"The CPU table names {printable(operator)} twice: leave one of them out.")
            kinds[operator] = kind
    call, invoke, copy = (_range(key, table[key]) for key in ("call", "invoke", "copy"))
    return CpuTable(name, _text("title", table["title"]), _clock(table.get("clock_hz")), call, invoke, copy, kinds)


@cache
def _shipped(name: str) -> CpuTable:
    return parse_cpu_table(name, Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def load_cpu_table(source: str) -> CpuTable:
    """A shipped table by its name, or the one in a TOML file."""
    return _shipped(source) if source in SHIPPED else parse_cpu_table(Path(source).stem, read_configuration(source, "CPU table"))
