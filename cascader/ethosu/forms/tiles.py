"""Tiles: a segment of a network unrolled into columns of tiles along the width. Each tile recomputes the columns at its borders.

A tile makes all rows of some columns of the segment's results. Its rows run as a cascade, as in any network. The tensors are as narrow as
the tile with the surrounding columns that its kernels need. So a segment holds the bytes of a tile, and its inputs and results, which stay
whole. The columns around a tile are recomputed with the same factors, so the bytes are the same.
"""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import ColumnSpan, Tiling, for_columns
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.network.network import EthosuPart, Network, part_of
from cascader.graph.cascader_graph import Part, Tensor
from npu_model.accelerator import Accelerator


def _tile(network: Network, cut: ColumnSpan, tiling: Tiling, number: int, maker: KernelMaker) -> tuple[list[Part], list[Tensor]] | None:
    """The parts and tensors of one tile; None if one of its kernels fits no block."""
    spans = cut.needs(network, tiling, number)
    if spans is None:
        return None
    held = {name: spans.tensors[name] for name in cut.inside if name in spans.tensors}
    names = {name: f"{name}/tile{number}" for name in held}
    parts, tensors = list[Part](), list[Tensor]()
    for name, span in held.items():
        tensor = network.graph.tensor(name)
        size = cut.grids[name].size(tensor.size, span[1] - span[0])
        # Only an image has known columns; a tensor of another shape is a row of bytes.
        tensors.append(replace(tensor, name=names[name], size=size, shape=(size // tensor.element_size,)))
    for part in network.graph.parts[cut.first : cut.last + 1]:
        kernel = part.payload
        assert isinstance(kernel, EthosuPart)  # noqa: S101  # a segment has no other parts
        if part.name not in spans.parts:
            continue
        changed = for_columns(kernel, spans.parts[part.name], cut.grids, held, names)
        operation = maker.in_block(changed.operation)
        if operation is None:
            return None
        parts.append(part_of(part, replace(changed, operation=operation), f"{part.name}/tile{number}"))
    return parts, tensors


def tiled(network: Network, cut: ColumnSpan, tiling: Tiling, accelerator: Accelerator, sources: Sources) -> Network | None:
    """``network`` with a segment in tiles, one after the other; None if it cannot be cut like this."""
    maker, graph = KernelMaker(network, accelerator, sources), network.graph
    parts, tensors = list[Part](), [tensor for tensor in graph.tensors if tensor.name not in cut.inside]
    for number in range(tiling.count):
        tile = _tile(network, cut, tiling, number, maker)
        if tile is None:
            return None
        parts += tile[0]
        tensors += tile[1]
    first, *others = (part.name for part in graph.parts[cut.first : cut.last + 1])
    return network.with_parts({first: parts, **dict.fromkeys(others, ())}, tensors).repeating(network)
