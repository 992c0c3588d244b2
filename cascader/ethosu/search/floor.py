"""Floor of a budget: bytes that every schedule of a network needs, with the tensors that take them, and the refusal of a smaller budget.

The floor is asked for twice. Before the search it counts only the bytes that the application and the CPU hold. After the forms are planned
it also counts the bytes that each form needs (:mod:`cascader.ethosu.search.byte_bound`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from cascader.ethosu.network.network import CpuPart, Network, Port
from cascader.ethosu.network.wanted_homes import home_options, outer_ends
from npu_model.errors import FloorError
from npu_model.printable import printable

if TYPE_CHECKING:
    from cascader.ethosu.search.request import Request
    from cascader.ethosu.search.task import Task
    from cascader.graph.row_graph import RowGraph
    from npu_model.memory.system import MemorySystem

_NAMED = 4
"""The most tensors that a sentence names."""


class Floor(Struct, frozen=True):
    """Bytes of the arena that are needed at one step at least for ``tensors``; ``what`` says what they are there."""

    bytes: int
    what: str
    tensors: tuple[str, ...]

    @property
    def named(self) -> str:
        """The tensors, the largest first, as a clause."""
        listed = ", ".join(repr(printable(name)) for name in self.tensors[:_NAMED])
        return listed + (f" and {len(self.tensors) - _NAMED} more" if len(self.tensors) > _NAMED else "")


NOTHING = Floor(0, "", ())


def _together(ports: Iterable[Port], outside: frozenset[str]) -> tuple[int, tuple[str, ...]]:
    """Bytes of arrays that the arena holds at once, with their names, the largest first; arrays of one tensor share their bytes."""
    found: dict[str, Port] = {}
    for port in ports:
        if port.tensor not in outside and (port.tensor not in found or port.size > found[port.tensor].size):
            found[port.tensor] = port
    ordered = sorted(found.values(), key=lambda port: -port.size)
    return sum(port.size for port in ordered), tuple(port.name for port in ordered)


def _needs(network: Network, outside: frozenset[str]) -> Iterator[Floor]:
    states = network.variables
    yield Floor(*_split("inputs", _together((*network.inputs, *states), outside)))
    yield Floor(*_split("outputs", _together((*network.outputs, *states), outside)))
    for part in network.graph.parts:
        if isinstance(part.payload, CpuPart):
            ports = (*part.payload.inputs, *part.payload.outputs)
            yield Floor(*_split(f"operands and results of {printable(part.payload.code)} on the CPU", _together(ports, outside)))


def _split(what: str, found: tuple[int, tuple[str, ...]]) -> tuple[int, str, tuple[str, ...]]:
    return found[0], what, found[1]


def interface_floor(network: Network, outside: frozenset[str] = frozenset()) -> Floor:
    """The bytes that every schedule needs, in any form.

    They are the inputs before the first part, the outputs after the last one, and tensors of CPU operators. ``outside`` names tensors of
    the graph that need not lie in the arena. They never count, just like tensors with homes of their own. States exist all the time.
    """
    elsewhere = outside | {home.tensor for home in network.homes}
    return max(_needs(network, elsewhere), key=lambda one: one.bytes, default=NOTHING)


def job_floor(graph: RowGraph, number: int, needed: int) -> Floor:
    """The bytes ``needed`` by one job of a part, as a floor that names its tensors."""
    part = graph.parts[number]
    used = dict.fromkeys([*(tensor for tensor, _ in part.inputs), *part.outputs])
    ordered = sorted(used, key=lambda tensor: -graph.tensors[tensor].size)
    return Floor(needed, f"operands and results of layer {printable(part.name)!r}", tuple(graph.tensors[tensor].name for tensor in ordered))


def remedies(network: Network, system: MemorySystem, budget: int) -> tuple[tuple[str, str], ...]:
    """The options by which inputs or outputs leave the arena, each with a clause of how many bytes these are; none if none helps.

    An option helps if it lowers the floor to at most the budget. It needs a memory on another port, which the application must have.
    """
    ends = {"input": network.inputs, "output": network.outputs}
    whole, found = interface_floor(network).bytes, []
    for homes in outer_ends(system):
        ports = [port for home in homes for port in ends[home.partition("=")[0]]]
        outside = frozenset(port.tensor for port in ports)
        if interface_floor(network, outside).bytes <= min(budget, whole - 1):
            gone = _together((port for some in ends.values() for port in some if port.tensor in outside), frozenset())[0]
            found.append((home_options(homes), f"{gone} bytes out of the arena"))
    return tuple(found)


def require_room(budget: int | None, floor: Floor, ways: tuple[tuple[str, str], ...] = (), *, of_forms: bool = False) -> None:
    """FloorError if the budget (None: any number) is below the floor: no search would find anything. ``ways`` are options for it.

    With ``of_forms``, the floor is the lowest of the search's forms, which other options may change.
    """
    if budget is not None and budget < floor.bytes:
        raise FloorError(
            f"--arena-cache-size {budget} is below {floor.bytes} bytes, which every schedule needs at once for the {floor.what} "
            f"({floor.named})",
            ways,
            of_forms=of_forms,
        )


def require_interface(task: Task, request: Request) -> None:
    """FloorError with remedies if the budget is below what the application and the CPU hold of the network, in any form."""
    network, budget = task.network, request.budget
    if budget is not None:
        require_room(budget, interface_floor(network), remedies(network, task.system, budget))
