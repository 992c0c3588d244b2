"""Ordered: the network with its parts in another order, where fewer bytes are live in that."""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.network.network import Network
from cascader.ethosu.network.overwriting import overwriting_parts
from cascader.graph.cascader_graph import CascaderGraph
from cascader.graph.memory_order import live_peak, thrifty_order


def _before(network: Network) -> dict[str, set[str]]:
    """The parts that must be done before each: those that make what it reads, and those that use what it overwrites.

    The writers of a concatenation may change places: what each of them writes is its own.
    """
    graph = network.graph
    before: dict[str, set[str]] = {part.name: set() for part in graph.parts}
    for part in graph.parts:
        makers = (maker.name for tensor in part.inputs for maker in graph.producers(tensor))
        before[part.name].update(maker for maker in makers if graph.index(maker) < graph.index(part.name))
    for first, second, _ in overwriting_parts(network):
        if first != second:
            before[second].add(first)
    return before


def ordered(network: Network) -> Network:
    """``network`` in the thrifty order of its parts, segment by segment; itself if no fewer bytes are live in that, layer by layer."""
    graph = network.graph
    order = thrifty_order(graph, _before(network), [segment.parts for segment in network.segments])
    if live_peak(graph, order) >= live_peak(graph, [part.name for part in graph.parts]):
        return network
    parts = tuple(graph.parts[graph.index(name)] for name in order)
    segments = tuple(replace(segment, parts=tuple(sorted(segment.parts, key=order.index))) for segment in network.segments)
    return replace(network, graph=CascaderGraph(parts, graph.tensors), segments=segments)
