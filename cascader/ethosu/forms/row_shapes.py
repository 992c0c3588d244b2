"""Row shapes: elementwise kernels that see a dense tensor in another shape than their neighbours get the neighbours' rows.

A compiler may run a sum of 96 x 96 x 4 elements as one of 48 x 48 x 16, the same bytes in a shape that fills the NPU better. The kernels
around it see other rows in such a tensor, so none of them could be cut into stripes. Elementwise mathematics do not depend on the shape: 96
x 24 x 16 has the neighbours' rows and fills the NPU as well.
"""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.forms.workbench import fitted
from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, FeatureMap, Layout, OperationKind
from npu_model.shapes import Shape3D


def _is_dense(feature_map: FeatureMap, size: int) -> bool:
    """Whether the map is a whole tensor of ``size`` bytes, element after element."""
    shape, strides = feature_map.shape, dense_map(feature_map, feature_map.shape).strides
    single = feature_map.base == 0 and feature_map.is_single_tile
    steps = (feature_map.strides.y, feature_map.strides.x, size) == (strides.y, strides.x, shape.height * strides.y)
    return feature_map.layout is Layout.NHWC and feature_map.region == ARENA and single and steps


def _is_shapeless(kernel: EthosuPart, sizes: dict[str, int]) -> bool:
    """Whether the operation computes the same in any shape: each OFM element from the element at the same position in each operand."""
    operation = kernel.operation
    if operation.kind is not OperationKind.ELEMENTWISE or kernel.axis is not Axis.ROWS:
        return False
    return all(name is not None and m.shape == operation.ofm.shape and _is_dense(m, sizes[name]) for name, m in kernel.maps)


def _in_rows(feature_map: FeatureMap, row: int) -> FeatureMap:
    """The dense feature map in rows of ``row`` elements. Its pixels get a brick's channels if that divides the row, else the map's own."""
    shape = feature_map.shape
    depth = next(depth for depth in (BRICK, shape.depth, 1) if row % depth == 0)
    return dense_map(feature_map, Shape3D(shape.elements // row, row // depth, depth), feature_map.base)


def _reshaped(kernel: EthosuPart, row: int, accelerator: Accelerator) -> EthosuPart | None:
    """The kernel on rows of ``row`` elements; None if its block does not suit it."""
    changed = fitted(kernel.on_maps(lambda _, feature_map: _in_rows(feature_map, row)), accelerator)
    return replace(kernel, operation=changed) if changed is not None else None


def _rows_of_others(network: Network, kernel: EthosuPart, shapeless: set[str]) -> set[int]:
    """Elements in a row of the kernel's tensors, as all other kernels with a shape of their own see them."""
    tensors = {tensor for tensor, _ in kernel.maps}
    others = (maps for name, other in network.kernels.items() if name not in shapeless for maps in other.maps)
    return {m.strides.y // m.dtype.bytes for tensor, m in others if tensor in tensors and m.region == ARENA}


def in_row_shapes(network: Network, accelerator: Accelerator) -> Network:
    """``network`` with its elementwise kernels on dense tensors in the rows of the kernels around them, if these agree.

    A kernel between others without a shape of their own takes their shape once they have one.
    """
    sizes = {tensor.name: tensor.size for tensor in network.graph.tensors}
    kernels = network.kernels
    open_ones = {name for name, kernel in kernels.items() if _is_shapeless(kernel, sizes)}
    settled = True
    while settled:
        settled = False
        for name in sorted(open_ones, key=network.graph.index):
            rows, shape = _rows_of_others(network, kernels[name], open_ones), kernels[name].operation.ofm.shape
            if len(rows) != 1 or shape.elements % (row := rows.pop()):
                continue
            open_ones.remove(name)
            settled = True
            changed = _reshaped(kernels[name], row, accelerator) if row != shape.width * shape.depth else None
            network = network.with_kernels({name: changed} if changed is not None else {})
    return network
