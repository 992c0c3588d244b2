"""A user's own device, not an NPU: its work and bytes per cycle, its memories, and the cost of its operators.

It is read from a TOML text::

    name = "vector-dsp"
    work_per_cycle = 4            # multiply-accumulates, or elements of stages without any
    memory = 8192                 # bytes in which stripes, whole tensors and results lie

    [home]                        # optional: a memory of its own for some tensors, copied from and to it by stripes
    tensors = ["input", "output", "constants"]
    bytes_per_cycle = 2
    double_buffers = true

    [work]                        # optional: units of work of an element of a stage with this op attribute
    squash = 24

    [search]                      # optional: the fields of StripeOptions
    factors = 6
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from cascader.graph.cascader_graph import TensorKind
from cascader.plan.proposals import Proposal, frontier
from cascader.plan.stripe_plans import StripeOptions, StripeRates, all_plans
from cascader.plan.stripe_trace import StripedGroup
from cascader.tensorir.te_frontend import Matcher, StageSequence, TeGraph
from npu_model.errors import InputError, did_you_mean
from npu_model.printable import shown
from npu_model.toml_text import parse_toml

_REMEDY = "write name, work_per_cycle and memory, and if need be the tables home, work and search"
_KINDS = {"input": TensorKind.INPUT, "output": TensorKind.OUTPUT, "constants": TensorKind.CONSTANT}
_MOST = 1 << 40
_SEARCH = tuple(field.name for field in fields(StripeOptions) if field.name not in {"external", "double", "cull"})


class OwnDevice(Struct, frozen=True):
    """A device: its rates, the bytes of its memory, the tensors with another home (kinds or names), and the work of its operators.

    ``options`` are the search's options, without the tensors that have another home.
    """

    name: str
    rates: StripeRates
    memory: int
    elsewhere: tuple[str, ...]
    work: tuple[tuple[str, int], ...]
    options: StripeOptions

    @property
    def matchers(self) -> tuple[Matcher, ...]:
        """Rules that make each stage with a work entry a Part."""
        return tuple(StageSequence(op, (op,), work) for op, work in self.work)

    def external(self, graph: TeGraph) -> frozenset[str]:
        """Names of the graph's tensors with another home; InputError if the graph lacks one."""
        tensors = {tensor.name: tensor for tensor in graph.affine.tensors}
        found: set[str] = set()
        for one in self.elsewhere:
            if one in _KINDS:
                found |= {name for name, tensor in tensors.items() if tensor.kind is _KINDS[one]}
            elif one in tensors and tensors[one].kind is not TensorKind.INTERMEDIATE:
                found.add(one)
            else:
                known = ", ".join(name for name, tensor in tensors.items() if tensor.kind is not TensorKind.INTERMEDIATE)
                raise InputError(f"{self.name} has tensor {shown(one)} at home elsewhere: write {', '.join(_KINDS)}, or one of {known}.")
        return frozenset(found)

    def proposals(self, graph: TeGraph) -> tuple[Proposal[StripedGroup], ...]:
        """Plans of stripes along any axes that cover the graph, by ascending bytes. No plan has more bytes and more cycles than another."""
        options = replace(self.options, external=self.external(graph))
        return frontier(all_plans(graph.affine, options, self.rates))


def own_device(text: str, name: str) -> OwnDevice:
    """The device that a TOML text describes; InputError names a key that is missing, unknown, or out of its bounds."""
    what = f"Device {shown(name)}"
    table = parse_toml(text, what, _REMEDY)
    _require_keys(table, what, "", ("name", "work_per_cycle", "memory", "home", "work", "search"))
    home, work, search = (_table(table, what, key) for key in ("home", "work", "search"))
    _require_keys(home, what, "home.", ("tensors", "bytes_per_cycle", "double_buffers"))
    _require_keys(search, what, "search.", _SEARCH)
    tensors = home.get("tensors", [])
    if not isinstance(tensors, list) or not all(isinstance(one, str) for one in tensors):
        raise InputError(f"{what} has home.tensors {shown(tensors)}: a list of names is needed, or of {', '.join(_KINDS)}.")
    if bool(tensors) != ("bytes_per_cycle" in home):
        raise InputError(f"{what} has one of home.tensors and home.bytes_per_cycle: give both, or no table home.")
    rates = StripeRates(_rate(table, what, "work_per_cycle"), _rate(home, what, "bytes_per_cycle", "home.") if tensors else 1)
    return OwnDevice(
        name=str(table.get("name", name)),
        rates=rates,
        memory=_integer(table, what, "memory"),
        elsewhere=tuple(tensors),
        work=tuple((op, _integer(work, what, op, "work.", least=0)) for op in work),
        options=StripeOptions(double=_switch(home, what, "double_buffers", "home."), **_search(search, what)),
    )


def _require_keys(table: Mapping[str, Any], what: str, prefix: str, known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise InputError(f"{what} has the key {shown(prefix + key)}{did_you_mean(key, known)}: {', '.join(known)} are known.")


def _table(table: Mapping[str, Any], what: str, key: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"{what} has {key} {shown(found)}: it is a table; begin it with [{key}].")
    return found


def _rate(table: Mapping[str, Any], what: str, key: str, prefix: str = "") -> Fraction:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST:
        raise InputError(f"{what} has {prefix}{key} {shown(value)}: a number above 0 is needed.")
    return Fraction(str(value))


def _integer(table: Mapping[str, Any], what: str, key: str, prefix: str = "", *, least: int = 1) -> int:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"{what} has {prefix}{key} {shown(value)}: an integer of {least} or more is needed.")
    return value


def _switch(table: Mapping[str, Any], what: str, key: str, prefix: str) -> bool:
    value = table.get(key, True)
    if not isinstance(value, bool):
        raise InputError(f"{what} has {prefix}{key} {shown(value)}: write true or false.")
    return value


def _search(table: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The search's options; a counting option is an integer, every other one a switch."""
    defaults = StripeOptions()
    found: dict[str, Any] = {}
    for key in table:
        is_switch = isinstance(getattr(defaults, key), bool)
        found[key] = _switch(table, what, key, "search.") if is_switch else _integer(table, what, key, "search.", least=0)
    return found


def chosen(device: OwnDevice, graph: TeGraph, budget: int | None, *, smallest: bool) -> Proposal[StripedGroup]:
    """The fastest proposal within the device's memory and a budget (None: the memory alone), or the smallest proposal.

    If none fits, InputError says the fewest bytes that can be reached.
    """
    limit = device.memory if budget is None else min(device.memory, budget)
    found = device.proposals(graph)
    fitting = [proposal for proposal in found if proposal.memory <= limit]
    if not fitting:
        least = min(proposal.memory for proposal in found)
        raise InputError(f"No plan fits into {limit} bytes of {device.name}: the smallest plan found takes {least}; allow that much.")
    return fitting[0] if smallest else min(fitting, key=lambda proposal: (proposal.cycles, proposal.memory))
