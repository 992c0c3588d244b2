"""Layouts: tensors whose channels do not fill bricks of 16 are stored densely, as NHWC, where every access allows it."""

from __future__ import annotations

from cascader.ethosu.network import Network
from cascader.ethosu.nhwc_form import NhwcForm, accesses, in_forms
from cascader.graph import Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div


def _is_whole(feature_map: FeatureMap) -> bool:
    """Whether the access starts at the tensor's first byte and is one tile."""
    return feature_map.tiles.bases[0] == 0 and feature_map.tiles.height0 >= feature_map.shape.height


def _dense(tensor: Tensor, maps: list[FeatureMap], largest_depth: int) -> NhwcForm | None:
    """How ``tensor`` would be stored densely; None if it gains nothing or an access does not allow it."""
    if tensor.kind is not TensorKind.INTERMEDIATE or not maps:
        return None
    first = maps[0]
    depth, size = first.shape.depth, first.dtype.bytes
    alike = all(m.layout is Layout.NHCWB16 and m.shape.depth == depth and m.strides == first.strides and _is_whole(m) for m in maps)
    if not alike or depth % BRICK == 0 or depth > largest_depth:
        return None
    pixel = ceil_div(depth, BRICK) * BRICK * size
    width, rest = divmod(first.strides.y, pixel)
    height, left = divmod(tensor.size, first.strides.y)
    if rest or left or height < 2 or any(m.shape.width > width for m in maps):
        return None
    return NhwcForm(height, width, depth * size, size)


def dense_layouts(network: Network, largest_depth: int) -> Network:
    """``network`` with every intermediate tensor of at most ``largest_depth`` channels, not a multiple of 16, as NHWC.

    Bricks round 8 channels up to 16 and so double the memory; dense pixels cost part-beats instead. A tensor stays in
    bricks if it is read or written in pieces, or in another shape.
    """
    found = accesses(network)
    maps = {tensor.name: [feature_map for _, feature_map in found.get(tensor.name, [])] for tensor in network.graph.tensors}
    forms = {t.name: form for t in network.graph.tensors if (form := _dense(t, maps[t.name], largest_depth)) is not None}
    return in_forms(network, forms)
