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

from fractions import Fraction
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from cascader.graph.cascader_graph import TensorKind
from cascader.plan.proposals import Proposal, frontier
from cascader.plan.stripe_plans import StripeOptions, StripeRates, all_plans
from cascader.plan.stripe_trace import StripedGroup
from cascader.tensorir.te_frontend import Matcher, StageSequence, TeGraph
from npu_model.errors import InputError
from npu_model.printable import shown
from npu_model.toml_text import read_toml

_REMEDY = "write name, work_per_cycle and memory, and if need be the tables home, work and search"
_KINDS = {"input": TensorKind.INPUT, "output": TensorKind.OUTPUT, "constants": TensorKind.CONSTANT}
_MOST = 1 << 40
_Count = Annotated[int, Meta(ge=0, le=_MOST)]
_Rate = Annotated[float, Meta(gt=0, le=_MOST)]


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


class _Elsewhere(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``home``."""

    tensors: tuple[str, ...] = ()
    bytes_per_cycle: _Rate | None = None
    double_buffers: bool = True


class _Search(Struct, frozen=True, forbid_unknown_fields=True):
    """The table ``search``: fields of :class:`StripeOptions`."""

    group_length: _Count = StripeOptions().group_length
    factors: _Count = StripeOptions().factors
    stripes: _Count = StripeOptions().stripes
    several_axes: bool = True
    orders: bool = True
    recompute: bool = True
    rolling: bool = True
    mixed: _Count = StripeOptions().mixed
    keep: bool = False


class _File(Struct, forbid_unknown_fields=True):
    """The content of the file."""

    work_per_cycle: _Rate
    memory: Annotated[int, Meta(ge=1, le=_MOST)]
    name: object = None
    elsewhere: _Elsewhere = field(default=_Elsewhere(), name="home")
    work: dict[str, _Count] = {}
    search: _Search = _Search()


def own_device(text: str, name: str) -> OwnDevice:
    """The device that a TOML text describes; InputError names a key that is missing, unknown, or out of its bounds."""
    what = f"Device {shown(name)}"
    file = read_toml(_File, text, what, _REMEDY)
    home = file.elsewhere
    if bool(home.tensors) != (home.bytes_per_cycle is not None):
        raise InputError(f"{what} has one of home.tensors and home.bytes_per_cycle: give both, or no table home.")
    rates = StripeRates(Fraction(str(file.work_per_cycle)), Fraction(str(home.bytes_per_cycle)) if home.bytes_per_cycle else 1)
    return OwnDevice(
        name=name if file.name is None else str(file.name),
        rates=rates,
        memory=file.memory,
        elsewhere=home.tensors,
        work=tuple(file.work.items()),
        options=StripeOptions(double=home.double_buffers, **asdict(file.search)),
    )


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
