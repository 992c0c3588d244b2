"""The NHWC form of a tensor that is stored in bricks of 16 channels, and networks in which some tensors have theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cascader.ethosu.network.network import ARENA, EthosuPart, Network, arena_maps, ethosu_part
from cascader.graph.cascader_graph import CascaderGraph, Part
from npu_model.program import BRICK, FeatureMap, Layout, Strides


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
        """The elements that ``feature_map``, one tile of bricks, addresses in the tensor, where they are in this form.

        Its base, relative to the tensor, tells the first row, brick and column.
        """
        base, *unused = feature_map.tiles.bases
        row, rest = divmod(base, feature_map.strides.y)
        brick, rest = divmod(rest, feature_map.strides.c)
        column = rest // (BRICK * self.element)
        start = (row * self.width + column) * self.pixel + brick * BRICK * self.element
        tiles = replace(feature_map.tiles, bases=(start, unused[0], unused[1], unused[2]))
        return replace(feature_map, layout=Layout.NHWC, strides=Strides(self.width * self.pixel, self.pixel, self.element), tiles=tiles)


def accesses(network: Network) -> dict[str, list[tuple[EthosuPart, FeatureMap]]]:
    """Every access of a kernel to a tensor of the arena: tensor to (the kernel, the feature map)."""
    found: dict[str, list[tuple[EthosuPart, FeatureMap]]] = {}
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is not None:
            for name, feature_map in arena_maps(payload):
                found.setdefault(name, []).append((payload, feature_map))
    return found


def maps_by_tensor(network: Network) -> dict[str, list[FeatureMap]]:
    """All feature maps by which kernels address each tensor of the graph, none for one that no kernel does."""
    found = accesses(network)
    return {tensor.name: [feature_map for _, feature_map in found.get(tensor.name, [])] for tensor in network.graph.tensors}


def in_form(part: Part, forms: Mapping[str, NhwcForm]) -> Part:
    """The part on the named tensors, all of whose accesses are one tile of bricks, in their forms."""
    payload = ethosu_part(part)
    if payload is None:
        return part

    def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        form = forms.get(name) if name is not None and feature_map.region == ARENA else None
        return form.feature_map(feature_map) if form else feature_map

    operation = payload.operation
    changed = replace(
        operation,
        ifm=stored(payload.ifm, operation.ifm),
        ifm2=stored(payload.ifm2, operation.ifm2) if operation.ifm2 is not None else None,
        ofm=stored(payload.ofm, operation.ofm),
    )
    return replace(part, payload=replace(payload, operation=changed))


def in_forms(network: Network, forms: Mapping[str, NhwcForm]) -> Network:
    """``network`` with the named tensors, all of whose accesses are one tile of bricks, in their forms."""
    graph = network.graph
    tensors = tuple(replace(t, size=forms[t.name].size) if t.name in forms else t for t in graph.tensors)
    return replace(network, graph=CascaderGraph(tuple(in_form(part, forms) for part in graph.parts), tensors))
