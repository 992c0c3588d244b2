"""Recomputed skips: if a tensor's last readers come long after the others, the tensor is computed a second time for them.

Between the two, the tensor need not exist, but its sources must. That is worth it if the sources are smaller, or exist anyway, as a
network's input does. The same kernels run again, so the same bytes are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import EthosuPart, Network, part_of
from cascader.graph.cascader_graph import Part, TensorKind

_FAR = 4
"""The fewest parts between two readers of a tensor for which the later reader gets it recomputed. A shorter way holds few rows."""
_SMALLER = 2
"""Factor by which a tensor's sources must be smaller than the tensor, unless they are the network's inputs."""


class _Makers(Struct, frozen=True):
    """The parts that compute a tensor, in their order, and the bytes of the earlier tensors that they read."""

    parts: tuple[int, ...]
    size: int


def _makers(network: Network, tensor: str) -> Iterator[_Makers]:
    """The ways to recompute a tensor from earlier tensors, part by part further back, and at last from the network's inputs.

    They end at a part that is not a kernel.
    """
    graph = network.graph
    found: set[int] = set()
    reads = {tensor}
    while any(graph.producers(name) for name in reads):
        name = max(reads, key=lambda one: _last_maker(network, one))
        makers = graph.producers(name)
        if graph.tensor(name).kind is not TensorKind.INTERMEDIATE or not all(isinstance(maker.payload, EthosuPart) for maker in makers):
            return
        found.update(graph.index(maker.name) for maker in makers)
        reads.update(read for maker in makers for read in maker.inputs if graph.tensor(read).kind is not TensorKind.CONSTANT)
        reads.discard(name)
        # A tensor that a later part overwrites has lost its old content, and a state may not be recomputed.
        changes = any(_last_maker(network, read) >= min(found) or graph.tensor(read).kind is TensorKind.VARIABLE for read in reads)
        if changes:
            return
        yield _Makers(tuple(sorted(found)), sum(graph.tensor(read).size for read in reads))


def _last_maker(network: Network, tensor: str) -> int:
    """The number of the last part that writes a tensor; -1 if none does."""
    return max((network.graph.index(part.name) for part in network.graph.producers(tensor)), default=-1)


def _again(part: Part, names: dict[str, str]) -> Part:
    """The part on other tensors."""
    kernel = part.payload
    assert isinstance(kernel, EthosuPart)  # noqa: S101  # whoever calls has looked
    return part_of(part, kernel.renamed(names))


def _clusters(network: Network, tensor: str) -> list[list[int]]:
    """The readers of a tensor, split where one is far from the previous one."""
    readers = sorted({network.graph.index(part.name) for part in network.graph.consumers(tensor)})
    found = [readers[:1]]
    for before, reader in pairwise(readers):
        if reader - before < _FAR:
            found[-1].append(reader)
        else:
            found.append([reader])
    return found


def _with_again(network: Network, tensor: str, makers: _Makers, clusters: Sequence[Sequence[int]]) -> Network | None:
    """``network`` with a tensor recomputed for some clusters of its readers, once for each; None if it runs as several NPU jobs."""
    graph = network.graph
    users = {graph.parts[number].name for number in (*makers.parts, *(reader for readers in clusters for reader in readers))}
    kernels = all(isinstance(graph.parts[reader].payload, EthosuPart) for readers in clusters for reader in readers)
    if not kernels or not any(users <= set(segment.parts) for segment in network.segments):
        return None
    written = {graph.parts[maker].outputs[0] for maker in makers.parts}
    changed: dict[str, list[Part]] = {}
    tensors = list(graph.tensors)
    taken = {part.name for part in graph.parts}
    for readers in clusters:
        suffix = "/again"
        while any(f"{graph.parts[maker].name}{suffix}" in taken for maker in makers.parts):
            suffix += "+"
        names = {name: f"{name}{suffix}" for name in written}
        parts = [replace(_again(graph.parts[maker], names), name=f"{graph.parts[maker].name}{suffix}") for maker in makers.parts]
        taken.update(part.name for part in parts)
        tensors += [replace(graph.tensor(name), name=new) for name, new in names.items()]
        for reader in readers:
            part = graph.parts[reader]
            changed[part.name] = [*(parts if reader == readers[0] else ()), _again(part, {tensor: names[tensor]})]
    return network.with_parts(changed, tuple(tensors)).repeating(network)


def with_skip_again(network: Network, tensor: str) -> Iterator[Network]:
    """``network`` with a tensor recomputed for its last readers, and for each reader that is far from earlier ones; None without any.

    The sources are the nearest tensors that are half as large together, still smaller tensors before them, or the network's inputs.
    """
    clusters = _clusters(network, tensor)
    handed = {port.tensor for port in (*network.outputs, *network.handed_on)}
    if len(clusters) < 2 or tensor in handed or not network.graph.producers(tensor):
        return
    ways = list(_makers(network, tensor))
    size = network.graph.tensor(tensor).size
    near = _near(ways, size)
    whole = [way for way in ways[-1:] if way not in near and _from_inputs(network, way)]
    for way in (*near, *whole):
        for again in dict.fromkeys((len(clusters) - 1, 1)):
            made = _with_again(network, tensor, way, clusters[again:])
            if made is not None:
                yield made


def _near(ways: Sequence[_Makers], size: int) -> list[_Makers]:
    """The nearest way to recompute a tensor of ``size`` bytes from half as many, and the last way before the sources grow again."""
    least = next((number for number, way in enumerate(ways) if way.size * _SMALLER <= size), None)
    if least is None:
        return []
    first = ways[least]
    while least + 1 < len(ways) and ways[least + 1].size < ways[least].size:
        least += 1
    return [first] if ways[least] is first else [first, ways[least]]


def _from_inputs(network: Network, makers: _Makers) -> bool:
    """Whether parts read only their own results, inputs and constants."""
    graph = network.graph
    made = {graph.parts[maker].outputs[0] for maker in makers.parts}
    reads = {read for maker in makers.parts for read in graph.parts[maker].inputs} - made
    return all(graph.tensor(read).kind in (TensorKind.INPUT, TensorKind.CONSTANT) for read in reads)


def recomputed_skips(network: Network, least: int = 0) -> Iterator[Network]:
    """The network with one recomputed tensor at a time: each tensor of ``least`` bytes or more with a reader far from the others."""
    for tensor in network.graph.tensors:
        if tensor.kind is TensorKind.INTERMEDIATE and tensor.size >= least:
            yield from with_skip_again(network, tensor.name)
