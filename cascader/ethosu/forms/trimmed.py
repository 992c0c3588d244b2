"""Trimmed kernels: first and last rows are left out if later kernels write them again before any kernel reads them.

A compiler may fill the border of a padded tensor by four kernels whose strips overlap at the corners. Overlapping writers must keep their
order. A strip through all rows would therefore end before the next strip begins, and no later part could be cut.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.overlaps import Hulls, byte_numbers, hull
from cascader.graph.cascader_graph import CascaderGraph
from npu_model.program import FeatureMap, KernelOperation, Upscale

_Rows = tuple[int, int]

_NOWHERE = (0, 0)
"""The bytes that no kernel writes."""


def _is_pointwise(operation: KernelOperation) -> bool:
    """Whether each row of the result depends on the same row of one operand, all in maps of one tile."""
    kernel, padding = operation.kernel, operation.padding
    single = operation.ifm2 is None and operation.ifm.is_single_tile and operation.ofm.is_single_tile
    plain = (kernel.height, kernel.stride_y, padding.top, padding.bottom) == (1, 1, 0, 0) and operation.upscale is Upscale.NONE
    return single and plain and operation.ifm.shape.height == operation.ofm.shape.height


def _kept_rows(feature_map: FeatureMap, later: NDArray[np.bool_]) -> _Rows:
    """The rows of a map from the first to the last one (exclusive) that ``later`` does not mark completely."""
    height = feature_map.shape.height

    def is_open(row: int) -> bool:
        return not later[byte_numbers(feature_map, (row, row + 1))].all()

    # Usually the first and the last row are kept: a map may have 263,169 rows between them.
    first = next(filter(is_open, range(height)), None)
    return (0, height) if first is None else (first, 1 + next(filter(is_open, reversed(range(height)))))


class _Writers:
    """The writers of one tensor in their order, and which writers a kernel's rows may meet."""

    def __init__(self, graph: CascaderGraph, kernels: Mapping[str, EthosuPart], tensor: str) -> None:
        self.parts, self.readers = graph.writers(tensor), graph.readers(tensor)
        self.names = [graph.parts[index].name for index in self.parts]
        self.runs = {name: hull(kernels[name].operation.ofm) if name in kernels else _NOWHERE for name in self.names}
        self.hulls = Hulls(self.runs.values())

    def over(self, name: str, part: int) -> list[str]:
        """The kernels that may write bytes of a part's result, after it and before the first read of the tensor."""
        behind = bisect_left(self.readers, part)
        reader = self.readers[behind] if behind < len(self.readers) else sys.maxsize
        return [self.names[place] for place in self.hulls.near(self.runs[name]) if part < self.parts[place] < reader]


def _trimmed(graph: CascaderGraph, kernels: Mapping[str, EthosuPart], writers: _Writers, name: str) -> EthosuPart | None:
    """The kernel without the rows that other kernels write again; None if they write none of its rows."""
    kernel, others = kernels[name], writers.over(name, graph.index(name))
    if not others:
        return None
    operation, marks = kernel.operation, np.zeros(graph.tensor(kernel.ofm).size, np.bool_)
    for other in others:
        marks[byte_numbers(kernels[other].operation.ofm)] = True
    rows = _kept_rows(operation.ofm, marks)
    if rows == (0, operation.ofm.shape.height):
        return None
    ifm, ofm = (feature_map.part(rows, (0, feature_map.shape.width)) for feature_map in (operation.ifm, operation.ofm))
    return replace(kernel, operation=replace(operation, ifm=ifm, ofm=ofm))


def trimmed(network: Network) -> Network:
    """``network`` without the first and last rows of pointwise kernels that other kernels write again."""
    graph, kernels = network.graph, network.kernels
    several = {one.name: _Writers(graph, kernels, one.name) for one in graph.tensors if len(graph.writers(one.name)) > 1}
    found = {
        name: _trimmed(graph, kernels, several[kernel.ofm], name)
        for name, kernel in kernels.items()
        if kernel.ofm in several and _is_pointwise(kernel.operation)
    }
    return network.with_kernels({name: kept for name, kept in found.items() if kept is not None})
