"""Row shapes: elementwise kernels that take a dense tensor in another shape than its neighbours are given their rows.

A compiler may run a sum of 96 x 96 x 4 elements as one of 48 x 48 x 16, the same bytes in a shape that fills the NPU better. To the
kernels around it such a tensor has other rows, so that none of them could be cut into stripes. Elementwise mathematics do not depend
on the shape: 96 x 24 x 16 has the neighbours' rows and fills the NPU as well.
"""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.graph.cascader_graph import CascaderGraph
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, OperationKind, Strides, Tiles
from npu_model.shapes import Shape3D


def _is_dense(feature_map: FeatureMap, size: int) -> bool:
    """Whether it is all of a tensor of ``size`` bytes, element after element."""
    shape, strides, element = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    single = feature_map.tiles.bases[0] == 0 and feature_map.is_single_tile
    steps = (strides.x, strides.y, size) == (
        shape.depth * element,
        shape.width * shape.depth * element,
        shape.height * shape.width * shape.depth * element,
    )
    return feature_map.layout is Layout.NHWC and feature_map.region == ARENA and single and steps


def _maps(payload: EthosuPart) -> list[tuple[str, FeatureMap]]:
    operation = payload.operation
    found = [(payload.ifm, operation.ifm), (payload.ofm, operation.ofm)]
    return found + ([(payload.ifm2, operation.ifm2)] if operation.ifm2 is not None and payload.ifm2 is not None else [])


def _is_shapeless(payload: EthosuPart, sizes: dict[str, int]) -> bool:
    """Whether it computes the same in any shape: each element of the OFM from the element at its place in each operand."""
    operation, maps = payload.operation, _maps(payload)
    if operation.kind is not OperationKind.ELEMENTWISE or payload.axis is not Axis.ROWS or (operation.ifm2 is not None and len(maps) < 3):
        return False
    return all(m.shape == operation.ofm.shape and _is_dense(m, sizes[name]) for name, m in maps)


def _in_rows(feature_map: FeatureMap, row: int) -> FeatureMap:
    """The dense feature map in rows of ``row`` elements, in pixels of a brick's channels if they come to that, else of its own."""
    size, shape = feature_map.dtype.bytes, feature_map.shape
    depth = next(depth for depth in (BRICK, shape.depth, 1) if row % depth == 0)
    new = Shape3D(shape.height * shape.width * shape.depth // row, row // depth, depth)
    strides = Strides(row * size, depth * size, size)
    return replace(feature_map, shape=new, strides=strides, tiles=Tiles.single(new, feature_map.tiles.bases[0]))


def _reshaped(operation: KernelOperation, row: int, accelerator: Accelerator) -> KernelOperation | None:
    """The operation on rows of so many elements; None if its block does not do for it."""
    second = _in_rows(operation.ifm2, row) if operation.ifm2 is not None else None
    changed = replace(operation, ifm=_in_rows(operation.ifm, row), ifm2=second, ofm=_in_rows(operation.ofm, row))
    shram = shram_partition(BlockQuery.of(changed), changed.block, accelerator)
    return replace(changed, shram=shram) if shram is not None else None


def _rows_of_others(network: Network, name: str, shapeless: set[str]) -> set[int]:
    """Elements in a row of the tensors of part ``name``, as all other kernels that are not without a shape themselves have them."""
    own = ethosu_part(network.graph.parts[network.graph.index(name)])
    tensors = {tensor for tensor, _ in _maps(own)} if own is not None else set()
    found = set()
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is not None and part.name not in shapeless:
            found |= {m.strides.y // m.dtype.bytes for tensor, m in _maps(payload) if tensor in tensors and m.region == ARENA}
    return found


def in_row_shapes(network: Network, accelerator: Accelerator) -> Network:
    """``network`` with its elementwise kernels on dense tensors in the rows that the kernels around them have, where these agree.

    A kernel between others without a shape of their own takes theirs once they have one.
    """
    sizes = {tensor.name: tensor.size for tensor in network.graph.tensors}
    payloads = {part.name: payload for part in network.graph.parts if (payload := ethosu_part(part)) is not None}
    open_ones = {name for name, payload in payloads.items() if _is_shapeless(payload, sizes)}
    settled = True
    while settled:
        settled = False
        for name in sorted(open_ones, key=network.graph.index):
            rows = _rows_of_others(network, name, open_ones)
            operation = payloads[name].operation
            elements = operation.ofm.shape.height * operation.ofm.shape.width * operation.ofm.shape.depth
            if len(rows) != 1 or elements % (row := rows.pop()):
                continue
            open_ones.remove(name)
            settled = True
            changed = _reshaped(operation, row, accelerator) if row != operation.ofm.shape.width * operation.ofm.shape.depth else None
            if changed is not None:
                parts = network.graph.parts
                at = network.graph.index(name)
                moved = replace(parts[at], payload=replace(payloads[name], operation=changed))
                network = replace(network, graph=CascaderGraph((*parts[:at], moved, *parts[at + 1 :]), network.graph.tensors))
    return network
