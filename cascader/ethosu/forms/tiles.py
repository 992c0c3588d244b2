"""Tiles: a segment of a network unrolled into columns of tiles along the width, the columns at their borders made again for each.

A tile makes all rows of some columns of the segment's results. Its rows are run as a cascade, like those of any network, of tensors that
are as narrow as the tile with the columns around it that its kernels need. So a segment holds the bytes of a tile, and of its results
and what it reads, which stay whole. The columns around a tile are multiplied and added again: the same factors, and the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import ColumnSpan, for_columns
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor
from npu_model.accelerator import Accelerator


def _tile(network: Network, cut: ColumnSpan, count: int, number: int, maker: KernelMaker) -> Iterator[Part | Tensor] | None:
    """The parts and tensors of one tile; None if one of its kernels fits into no block."""
    spans = cut.needs(network, count, number)
    if spans is None:
        return None
    held = {name: spans.tensors[name] for name in cut.inside if name in spans.tensors}
    names = {name: f"{name}/tile{number}" for name in held}
    made: list[Part | Tensor] = []
    for name, span in held.items():
        tensor = network.graph.tensor(name)
        size = cut.grids[name].size(tensor.size, span[1] - span[0])
        # What the columns of a shape are is known for an image alone; a tensor of another shape is a row of bytes.
        made.append(replace(tensor, name=names[name], size=size, shape=(size // tensor.element_size,)))
    for part in network.graph.parts[cut.first : cut.last + 1]:
        kernel = part.payload
        assert isinstance(kernel, EthosuPart)  # noqa: S101  # a segment has no other parts
        if part.name not in spans.parts:
            continue
        changed = for_columns(kernel, spans.parts[part.name], cut.grids, held, names)
        operation = maker.in_block(changed.operation)
        if operation is None:
            return None
        inputs = tuple(dict.fromkeys(name for name, _ in changed.operands if name is not None))
        payload = replace(changed, operation=operation)
        made.append(replace(part, name=f"{part.name}/tile{number}", inputs=inputs, outputs=(payload.ofm,), payload=payload))
    return iter(made)


def tiled(network: Network, cut: ColumnSpan, count: int, accelerator: Accelerator, sources: Sources) -> Network | None:
    """``network`` with a segment in ``count`` tiles, one after the other; None if it cannot be cut into as many."""
    maker = KernelMaker(network, accelerator, sources)
    parts: list[Part] = []
    tensors: list[Tensor] = []
    for number in range(count):
        tile = _tile(network, cut, count, number, maker)
        if tile is None:
            return None
        for one in tile:
            if isinstance(one, Part):
                parts.append(one)
            else:
                tensors.append(one)
    graph = network.graph
    old = [part.name for part in graph.parts[cut.first : cut.last + 1]]
    kept = tuple(tensor for tensor in graph.tensors if tensor.name not in cut.inside)
    ordered = (*graph.parts[: cut.first], *parts, *graph.parts[cut.last + 1 :])
    names = tuple(part.name for part in parts)
    segments = tuple(
        replace(one, parts=tuple(new for name in one.parts for new in (names if name == old[0] else () if name in old else (name,))))
        for one in network.segments
    )
    made = replace(network, graph=CascaderGraph(ordered, (*kept, *tensors)), segments=segments)
    return replace(made, macs_again=network.macs_again + made.macs - network.macs)
