"""Layouts: tensors whose channels do not fill bricks of 16 are stored densely, as NHWC, where every access allows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cascader.ethosu.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, Layout, Strides
from npu_model.shapes import ceil_div


@dataclass(frozen=True, slots=True)
class _Dense:
    """The dense form of a tensor: rows, columns, channels and bytes per element."""

    height: int
    width: int
    depth: int
    element: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.height * self.width * self.depth * self.element

    def feature_map(self, feature_map: FeatureMap) -> FeatureMap:
        """The same elements, dense."""
        pixel = self.depth * self.element
        return replace(feature_map, layout=Layout.NHWC, strides=Strides(self.width * pixel, pixel, self.element))


def _accesses(parts: Iterable[Part]) -> dict[str, list[FeatureMap]]:
    maps: dict[str, list[FeatureMap]] = {}
    for part in parts:
        payload = ethosu_part(part)
        if payload is None:
            continue
        operation = payload.operation
        for name, feature_map in ((payload.ifm, operation.ifm), (payload.ifm2, operation.ifm2), (payload.ofm, operation.ofm)):
            if name is not None and feature_map is not None and feature_map.region == ARENA:
                maps.setdefault(name, []).append(feature_map)
    return maps


def _is_whole(feature_map: FeatureMap) -> bool:
    """Whether the access starts at the tensor's first byte and is one tile."""
    return feature_map.tiles.bases[0] == 0 and feature_map.tiles.height0 >= feature_map.shape.height


def _dense(tensor: Tensor, maps: list[FeatureMap], largest_depth: int) -> _Dense | None:
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
    return _Dense(height, width, depth, size)


def _part(part: Part, dense: dict[str, _Dense]) -> Part:
    payload = ethosu_part(part)
    if payload is None:
        return part

    def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        wanted = dense.get(name) if name is not None and feature_map.region == ARENA else None
        return wanted.feature_map(feature_map) if wanted else feature_map

    operation = payload.operation
    changed: EthosuPart = replace(
        payload,
        operation=replace(
            operation,
            ifm=stored(payload.ifm, operation.ifm),
            ifm2=stored(payload.ifm2, operation.ifm2) if operation.ifm2 is not None else None,
            ofm=stored(payload.ofm, operation.ofm),
        ),
    )
    return replace(part, payload=changed)


def dense_layouts(network: Network, largest_depth: int) -> Network:
    """``network`` with every intermediate tensor of at most ``largest_depth`` channels, not a multiple of 16, as NHWC.

    Bricks round 8 channels up to 16 and so double the memory; dense pixels cost part-beats instead. A tensor stays in
    bricks if it is read or written in pieces, or in another shape.
    """
    maps = _accesses(network.graph.parts)
    dense = {
        tensor.name: form
        for tensor in network.graph.tensors
        if (form := _dense(tensor, maps.get(tensor.name, []), largest_depth)) is not None
    }
    tensors = tuple(replace(t, size=dense[t.name].size) if t.name in dense else t for t in network.graph.tensors)
    parts = tuple(_part(part, dense) for part in network.graph.parts)
    return replace(network, graph=CascaderGraph(parts, tensors))
