"""Trimmed kernels: first and last rows that later kernels write again, before any kernel reads them, are left out.

A compiler may fill the border of a padded tensor by four kernels whose strips overlap at the corners. Overlapping writers must keep their
order. A strip through all rows would therefore end before the next strip begins, and no later part could be cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.overlaps import byte_numbers
from npu_model.program import FeatureMap, KernelOperation, Upscale

_Rows = tuple[int, int]


def _is_pointwise(operation: KernelOperation) -> bool:
    """Whether each row of the result is made from the same row of one operand, all in maps of one tile."""
    kernel, padding = operation.kernel, operation.padding
    single = operation.ifm2 is None and operation.ifm.is_single_tile and operation.ofm.is_single_tile
    plain = (kernel.height, kernel.stride_y, padding.top, padding.bottom) == (1, 1, 0, 0) and operation.upscale is Upscale.NONE
    return single and plain and operation.ifm.shape.height == operation.ofm.shape.height


def _kept_rows(feature_map: FeatureMap, later: NDArray[np.bool_]) -> _Rows:
    """The rows of a map from the first to the last one (exclusive) that ``later`` does not mark whole."""
    height = feature_map.shape.height

    def is_open(row: int) -> bool:
        return not later[byte_numbers(feature_map, (row, row + 1))].all()

    # Mostly the first and the last row are kept: a map may have 263,169 rows between them.
    first = next(filter(is_open, range(height)), None)
    return (0, height) if first is None else (first, 1 + next(filter(is_open, reversed(range(height)))))


def _overwriting(network: Network, part: str, tensor: str) -> Sequence[str]:
    """The parts that write the tensor after ``part`` and before anybody reads it."""
    graph, at = network.graph, network.graph.index(part)
    reader = min((index for other in graph.consumers(tensor) if (index := graph.index(other.name)) >= at), default=len(graph.parts))
    return [other.name for other in graph.producers(tensor) if at < graph.index(other.name) < reader]


def _trimmed(network: Network, kernels: Mapping[str, EthosuPart], name: str) -> EthosuPart | None:
    """The kernel without the rows that others write again; None if there are none such."""
    kernel, operation = kernels[name], kernels[name].operation
    if len(network.graph.producers(kernel.ofm)) < 2 or not _is_pointwise(operation):
        return None
    marks = np.zeros(network.graph.tensor(kernel.ofm).size, np.bool_)
    for other in _overwriting(network, name, kernel.ofm):
        if other in kernels:
            marks[byte_numbers(kernels[other].operation.ofm)] = True
    rows = _kept_rows(operation.ofm, marks)
    if rows == (0, operation.ofm.shape.height):
        return None
    ifm, ofm = (feature_map.part(rows, (0, feature_map.shape.width)) for feature_map in (operation.ifm, operation.ofm))
    return replace(kernel, operation=replace(operation, ifm=ifm, ofm=ofm))


def trimmed(network: Network) -> Network:
    """``network`` with the first and the last rows left out that pointwise kernels write for others to write again."""
    kernels = network.kernels
    return network.with_kernels({name: kept for name in kernels if (kept := _trimmed(network, kernels, name)) is not None})
