"""Skips made again: a tensor whose last reader comes long after the others is made a second time for that one.

Between the two the tensor need not be there, but what it is made from must be: that is worth it where this is smaller and there anyway,
as a network's input is. The same kernels run again, so that the same bytes are read.
"""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.network.network import EthosuPart, Network
from cascader.graph.cascader_graph import Part, TensorKind

_FAR = 4
"""Parts between a tensor's last reader and the one before, at least: a shorter way holds few rows of it."""


def _makers(network: Network, tensor: str) -> list[str] | None:
    """The parts by which a tensor is made from the network's inputs, in their order; None if that takes more than kernels."""
    graph = network.graph
    found: set[str] = set()
    open_, seen = [tensor], {tensor}
    while open_:
        name = open_.pop()
        kind = graph.tensor(name).kind
        if kind in (TensorKind.INPUT, TensorKind.CONSTANT):
            continue
        if kind is not TensorKind.INTERMEDIATE:
            return None
        for part in graph.producers(name):
            if not isinstance(part.payload, EthosuPart):
                return None
            found.add(part.name)
            new = [read for read in part.inputs if read not in seen]
            open_ += new
            seen.update(new)
    return [part.name for part in graph.parts if part.name in found]


def _again(part: Part, names: dict[str, str]) -> Part:
    """The part on other tensors, with a name of its own."""
    kernel = part.payload
    assert isinstance(kernel, EthosuPart)  # noqa: S101  # whoever calls has looked
    second = None if kernel.ifm2 is None else names.get(kernel.ifm2, kernel.ifm2)
    payload = replace(kernel, ifm=names.get(kernel.ifm, kernel.ifm), ofm=names.get(kernel.ofm, kernel.ofm), ifm2=second)
    inputs = tuple(names.get(name, name) for name in part.inputs)
    return replace(part, inputs=inputs, outputs=(payload.ofm,), payload=payload)


def with_skip_again(network: Network, tensor: str) -> Network | None:
    """``network`` with a tensor made again for its last reader; None if that is not far from the others, or it cannot be made again."""
    graph = network.graph
    readers = sorted(graph.index(part.name) for part in graph.consumers(tensor))
    handed = {port.tensor for port in (*network.outputs, *network.handed_on)}
    if len(readers) < 2 or readers[-1] - readers[-2] < _FAR or tensor in handed:
        return None
    last = graph.parts[readers[-1]]
    makers = _makers(network, tensor)
    segment = next((one for one in network.segments if last.name in one.parts), None)
    if not makers or not isinstance(last.payload, EthosuPart) or segment is None or not set(makers) <= set(segment.parts):
        return None
    made_in = dict.fromkeys(name for maker in makers for name in graph.parts[graph.index(maker)].outputs)
    names = {name: f"{name}/again" for name in made_in}
    parts = [replace(_again(graph.parts[graph.index(maker)], names), name=f"{maker}/again") for maker in makers]
    parts.append(_again(last, {tensor: names[tensor]}))
    tensors = tuple(replace(graph.tensor(name), name=new) for name, new in names.items())
    made = network.with_parts({last.name: parts}, (*graph.tensors, *tensors))
    return replace(made, macs_again=network.macs_again + made.macs - network.macs)


def skips_again(network: Network) -> list[Network]:
    """The network with each tensor whose last reader is far made again, one at a time."""
    made = (with_skip_again(network, tensor.name) for tensor in network.graph.tensors if tensor.kind is TensorKind.INTERMEDIATE)
    return [one for one in made if one is not None]
