"""The NHWC form of a tensor that is stored in bricks of 16 channels, and networks in which some tensors have theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from npu_model.program import BRICK, FeatureMap, Layout, Strides
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Element:
    """Place of an element in its tensor."""

    row: int
    column: int
    channel: int


def first_element(feature_map: FeatureMap) -> Element:
    """The element of the tensor that a map of one tile of bricks begins with: its base counts from the tensor's first byte."""
    size = feature_map.dtype.bytes
    row, rest = divmod(feature_map.base, feature_map.strides.y)
    plane, rest = divmod(rest, feature_map.strides.c)
    column, offset = divmod(rest, BRICK * size)
    return Element(row, column, plane * BRICK + offset // size)


@dataclass(frozen=True, slots=True)
class NhwcForm:
    """``height`` rows of ``width`` pixels of ``pixel`` bytes, of elements of ``element`` bytes; a pixel may end in unused bytes."""

    height: int
    width: int
    pixel: int
    element: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.height * self.width * self.pixel

    def feature_map(self, feature_map: FeatureMap) -> FeatureMap:
        """The elements that ``feature_map``, one tile of bricks, addresses in the tensor, where they are in this form."""
        first, unused = first_element(feature_map), feature_map.tiles.bases[1:]
        start = (first.row * self.width + first.column) * self.pixel + first.channel * self.element
        tiles = replace(feature_map.tiles, bases=(start, *unused))
        return replace(feature_map, layout=Layout.NHWC, strides=Strides(self.width * self.pixel, self.pixel, self.element), tiles=tiles)


def in_form(kernel: EthosuPart, forms: Mapping[str, NhwcForm]) -> EthosuPart:
    """The kernel on the named tensors, all of whose accesses are one tile of bricks, in their forms."""

    def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        form = forms.get(name) if name is not None and feature_map.region == ARENA else None
        return form.feature_map(feature_map) if form else feature_map

    return replace(kernel, operation=kernel.on_maps(stored))


def in_forms(network: Network, forms: Mapping[str, NhwcForm]) -> Network:
    """``network`` with the named tensors, all of whose accesses are one tile of bricks, in their forms."""
    tensors = tuple(replace(t, size=forms[t.name].size) if t.name in forms else t for t in network.graph.tensors)
    changed = {name: in_form(kernel, forms) for name, kernel in network.kernels.items()}
    return replace(network, graph=replace(network.graph, tensors=tensors)).with_kernels(changed)
