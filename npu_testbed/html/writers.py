"""The last layer that wrote each byte of memory. It is exact for strided feature maps, whose gaps belong to other tensors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from npu_model.program import ByteRange, DmaOperation, FeatureMap, MapStorage
from sim.functional.boxes import boxes

Place = FeatureMap | ByteRange
"""Bytes that an operation reads or writes."""

Pieces = Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]

NOBODY = -1


def _pieces(place: Place) -> Pieces:
    """Address of the first byte, shape and strides of each strided piece of a place."""
    if isinstance(place, ByteRange):
        yield place.start, (place.length,), (1,)
        return
    for box in boxes(place):
        yield box.start, (*box.shape, place.dtype.bytes), (*box.strides, 1)


def _storage(place: Place) -> MapStorage:
    return MapStorage.TILES if isinstance(place, ByteRange) else place.storage


class Writers:
    """The number of the layer that last wrote each byte of every region."""

    def __init__(self) -> None:
        self._regions: dict[int, NDArray[np.int32]] = {}
        self._chained: dict[int, int] = {}

    def _views(self, place: Place) -> Iterator[NDArray[np.int32]]:
        """The writers of the bytes at a place, one view for each piece."""
        ends = (place.end,) if isinstance(place, ByteRange) else tuple(one.end for one in place.byte_ranges())
        known = self._regions.get(place.region, np.empty(0, np.int32))
        if max(ends) > known.size:
            grown = np.full(max(*ends, 2 * known.size), NOBODY, np.int32)
            grown[: known.size] = known
            self._regions[place.region] = known = grown
        for start, shape, strides in _pieces(place):
            yield np.ndarray(shape, np.int32, known.data, start * known.itemsize, tuple(stride * known.itemsize for stride in strides))

    def of(self, place: Place) -> list[int]:
        """The layers that wrote the content of a place, in ascending order."""
        if _storage(place) is not MapStorage.TILES:
            return [self._chained[place.region]] if _storage(place) is MapStorage.CHAINED and place.region in self._chained else []
        if place.region not in self._regions:
            return []
        return sorted({int(one) for view in self._views(place) for one in np.unique(view)} - {NOBODY})

    def write(self, place: Place, layer: int) -> None:
        """Record that a layer writes every byte of a place, or passes it on in a chaining buffer."""
        if _storage(place) is not MapStorage.TILES:
            self._chained[place.region] = layer
            return
        for view in self._views(place):
            view[...] = layer

    def copy(self, transfer: DmaOperation) -> None:
        """Note that a transfer copies bytes with their writers."""
        (target,) = transfer.writes()
        (source,) = self._views(transfer.source)
        (view,) = self._views(target)
        view[...] = source.copy()
