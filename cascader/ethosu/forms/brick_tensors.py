"""Tensors that are stored in bricks of 16 channels, and their other forms: NHWC, and with height and width exchanged."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.graph.cascader_graph import Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, Kernel, KernelOperation, Layout, Padding, Strides
from npu_model.shapes import Shape3D, ceil_div


class Element(Struct, frozen=True):
    """Position of an element in its tensor."""

    row: int
    column: int
    channel: int


def first_element(feature_map: FeatureMap) -> Element:
    """The first element of a map of one tile of bricks, in its tensor: the map's base counts from the tensor's first byte."""
    size = feature_map.dtype.bytes
    row, rest = divmod(feature_map.base, feature_map.strides.y)
    plane, rest = divmod(rest, feature_map.strides.c)
    column, offset = divmod(rest, BRICK * size)
    return Element(row, column, plane * BRICK + offset // size)


class NhwcForm(Struct, frozen=True):
    """``height`` rows of ``width`` pixels with ``pixel`` bytes, of elements with ``element`` bytes. A pixel may end in unused bytes."""

    height: int
    width: int
    pixel: int
    element: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.height * self.width * self.pixel

    def feature_map(self, feature_map: FeatureMap) -> FeatureMap:
        """The elements that ``feature_map``, one tile of bricks, addresses in the tensor, at their addresses in this form."""
        first, unused = first_element(feature_map), feature_map.tiles.bases[1:]
        start = (first.row * self.width + first.column) * self.pixel + first.channel * self.element
        tiles = replace(feature_map.tiles, bases=(start, *unused))
        return replace(feature_map, layout=Layout.NHWC, strides=Strides(self.width * self.pixel, self.pixel, self.element), tiles=tiles)


def in_form(kernel: EthosuPart, dense: Mapping[str, NhwcForm]) -> EthosuPart:
    """The kernel on the named tensors in their forms. All accesses to these tensors are one tile of bricks."""

    def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        found = dense.get(name) if name is not None and feature_map.region == ARENA else None
        return found.feature_map(feature_map) if found else feature_map

    return replace(kernel, operation=kernel.on_maps(stored))


def in_forms(network: Network, dense: Mapping[str, NhwcForm]) -> Network:
    """``network`` with the named tensors in their forms. All accesses to these tensors are one tile of bricks."""
    tensors = tuple(replace(t, size=dense[t.name].size) if t.name in dense else t for t in network.graph.tensors)
    changed = {name: in_form(kernel, dense) for name, kernel in network.kernels.items()}
    return replace(network, graph=replace(network.graph, tensors=tensors)).with_kernels(changed)


def _with_axes_exchanged(feature_map: FeatureMap, strides: Strides, base: int) -> FeatureMap:
    shape = Shape3D(feature_map.shape.width, feature_map.shape.height, feature_map.shape.depth)
    return replace(feature_map.at(base, shape), strides=strides)


def in_place(feature_map: FeatureMap) -> FeatureMap:
    """The same elements of a tensor that stays unchanged (NHWC, or a single pixel)."""
    strides = feature_map.strides
    if feature_map.layout is Layout.NHWC:
        strides = Strides(strides.x, strides.y, strides.c)
    return _with_axes_exchanged(feature_map, strides, feature_map.base)


def is_pixel(feature_map: FeatureMap) -> bool:
    """Whether the map is a single pixel, so that its axes cannot be told apart."""
    return feature_map.shape.height == feature_map.shape.width == 1


class Bricks(Struct, frozen=True):
    """A tensor of ``height`` rows of ``width`` pixels in bricks, before it is transposed. ``element`` is in bytes.

    Together, its accesses address ``depth`` channels.
    """

    height: int
    width: int
    bricks: int
    element: int
    depth: int

    def transposed(self, feature_map: FeatureMap) -> FeatureMap:
        """The elements that ``feature_map``, one tile, addresses, at their addresses once the tensor has its columns as rows."""
        brick, first = BRICK * self.element, first_element(feature_map)
        plane, lane = divmod(first.channel, BRICK)
        strides = Strides(self.bricks * self.height * brick, brick, self.height * brick)
        start = first.column * strides.y + plane * strides.c + first.row * brick + lane * self.element
        return _with_axes_exchanged(feature_map, strides, start)

    @property
    def dense(self) -> NhwcForm:
        """The tensor as NHWC."""
        return NhwcForm(self.height, self.width, self.depth * self.element, self.element)


def maps_by_tensor(network: Network) -> dict[str, list[FeatureMap]]:
    """The feature maps of each tensor of a network."""
    return {name: [feature_map for _, feature_map in found] for name, found in network.accesses().items()}


def bricks_by_tensor(network: Network, maps: Mapping[str, list[FeatureMap]] | None = None) -> dict[str, Bricks]:
    """The tensors in bricks of a network, in the shape that their accesses use; ``maps`` are those of :func:`maps_by_tensor`."""
    used = maps_by_tensor(network) if maps is None else maps
    found = {tensor.name: _bricks(tensor, used[tensor.name]) for tensor in network.graph.tensors}
    return {name: bricks for name, bricks in found.items() if bricks is not None}


def _bricks(tensor: Tensor, maps: list[FeatureMap]) -> Bricks | None:
    """The tensor in the shape that its accesses use, all in bricks with the same strides; None if the accesses do not agree."""
    if tensor.kind is not TensorKind.INTERMEDIATE or not maps:
        return None
    first = maps[0]
    element, strides = first.dtype.bytes, first.strides
    if any(m.layout is not Layout.NHCWB16 or m.strides != strides or not m.is_single_tile or m.dtype.bytes != element for m in maps):
        return None
    if min(strides.y, strides.c) < 1 or strides.c % (BRICK * element) or strides.y % strides.c or tensor.size % strides.y:
        return None
    begins = [(first_element(feature_map), feature_map.shape) for feature_map in maps]
    depth = max(begin.channel + shape.depth for begin, shape in begins)
    found = Bricks(tensor.size // strides.y, strides.c // (BRICK * element), strides.y // strides.c, element, depth)
    return found if all(_lies_in(*begin, found) for begin in begins) else None


def _lies_in(first: Element, shape: Shape3D, tensor: Bricks) -> bool:
    """Whether a map's rows, columns and bricks are a part of the tensor's."""
    inside = first.row + shape.height <= tensor.height and first.column + shape.width <= tensor.width
    return inside and ceil_div(first.channel + shape.depth, BRICK) <= tensor.bricks


def with_window_exchanged(operation: KernelOperation) -> KernelOperation:
    """The operation with the axes of its window, its padding and its broadcasts exchanged, but not those of its maps."""
    kernel, padding, broadcast = operation.kernel, operation.padding, operation.broadcast
    return replace(
        operation,
        kernel=Kernel(kernel.width, kernel.height, kernel.stride_x, kernel.stride_y, kernel.dilation_x, kernel.dilation_y),
        padding=Padding(padding.left, padding.top, padding.right, padding.bottom),
        broadcast=replace(broadcast, height=broadcast.width, width=broadcast.height),
    )
