"""Carried rows: when transfers between the arena and a home run, among the rows that other parts make.

A transfer that takes a tensor away has no reader in its group that would need its rows: it would run when all of them are made. So the next
reader of the tensor needs these rows, too, as if it read them at their home. Transfers that run ahead bring rows early: their reader
requests some rows more than it reads, and has the room for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cascader.ethosu.network.network import EthosuPart, Network
from cascader.graph.row_graph import RowGraph, RowPart
from cascader.graph.row_maps import RowMap, RowPropagator


def carriers(network: Network) -> Iterator[tuple[int, EthosuPart, bool]]:
    """The transfers between the arena and a home: number of the part, its kernel, and whether it takes a tensor away."""
    outside = {home.tensor for home in network.homes}
    for number, part in enumerate(network.graph.parts):
        kernel = part.payload
        if isinstance(kernel, EthosuPart) and kernel.transfer and (kernel.ifm in outside) != (kernel.ofm in outside):
            yield number, kernel, kernel.ofm in outside


def _ahead(propagator: RowPropagator, rows: int) -> RowPropagator:
    """The propagator of a reader that needs some rows more, after those that it reads."""
    return replace(propagator, taps=propagator.taps + rows * propagator.upscale)


def _asking(part: RowPart, tensor: int, rows: int) -> RowPart:
    """The part with more rows needed of a tensor."""
    return replace(part, inputs=tuple((read, _ahead(needs, rows) if read == tensor else needs) for read, needs in part.inputs))


def _at_home(needs: RowPropagator, unit: int, home_unit: int) -> RowPropagator:
    """The same bytes of a tensor with rows of ``unit`` bytes, in a tensor with other rows."""
    at = RowMap(0, unit, unit, home_unit) if needs.at is None else replace(needs.at, unit=home_unit)
    return replace(needs, at=None if unit == home_unit and needs.at is None else at)


def asking_also(parts: list[RowPart], transfer: int, source: int, target: int, units: tuple[int, int] = (1, 1)) -> None:
    """Let the next reader of a transfer's ``source`` need the same bytes of its ``target``, so that the transfer runs in parallel with it.

    ``units`` holds the bytes of a row of each.
    """
    for at in range(transfer + 1, len(parts)):
        needs = next((needs for tensor, needs in parts[at].inputs if tensor == source), None)
        if needs is not None:
            parts[at] = replace(parts[at], inputs=(*parts[at].inputs, (target, _at_home(needs, *units))))
            return


def with_carried_rows(network: Network, graph: RowGraph) -> RowGraph:
    """The row graph in which transfers to and from homes run in parallel with the parts that make and read their rows."""
    parts = list(graph.parts)
    index = {tensor.name: number for number, tensor in enumerate(graph.tensors)}
    for number, kernel, is_away in carriers(network):
        source, target = index[kernel.ifm], index[kernel.ofm]
        if not is_away:
            for reader, part in enumerate(parts):
                if kernel.ahead and any(tensor == target for tensor, _ in part.inputs):
                    parts[reader] = _asking(part, target, kernel.ahead)
            continue
        if kernel.ahead:
            parts[number] = _asking(parts[number], source, kernel.ahead)
        asking_also(parts, number, source, target, (graph.tensors[source].row_bytes, graph.tensors[target].row_bytes))
    return RowGraph(tuple(parts), graph.tensors)
