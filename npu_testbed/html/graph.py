"""The network of a schedule as data: layers in the order in which they first run, the edges between them, and cascades.

Edges come from the last layer that wrote each byte. That is exact for strided feature maps, whose gaps belong to other tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.compiled.network import CpuOperator
from npu_model.printable import printable
from npu_model.program import ByteRange, DmaOperation, FeatureMap, KernelOperation, MapStorage
from npu_testbed.replays.layer_names import short_layers
from npu_testbed.replays.simulation import Simulation
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


NAME = 120
"""Characters of a tensor's or a layer's name in a report."""

Touched = tuple[str, tuple[Place, ...], tuple[Place, ...]]
"""A layer with the bytes that one of its operations reads and writes."""


def _steps(simulation: Simulation) -> Iterator[Touched | DmaOperation]:
    """The operations of the network in order, with the feature maps that they read and write, and the transfers into memory."""
    numbers = count()
    for step in simulation.network.steps:
        if isinstance(step, CpuOperator):
            reads, writes = (tuple(binding.byte_range for binding in bound) for bound in (step.inputs, step.outputs))
            yield f"{printable(step.code)} on the CPU", reads, writes
            continue
        number = next(numbers)
        prefix = f"{number}:" if len(simulation.network.programs) > 1 else ""
        for index, op in enumerate(step.operations):
            if isinstance(op, KernelOperation):
                maps = (op.ifm, op.ifm2) if op.ifm2 else (op.ifm,)
                yield step.name(index) or f"{prefix}#{index} {op.mnemonic}", maps, (op.ofm,)
            elif isinstance(op, DmaOperation) and not op.to_shram:
                yield op


def cascades(runs: list[str]) -> list[tuple[int, int]]:
    """The groups of layers, numbered by first run, whose operations interleave: first and last of each.

    >>> cascades(["a", "b", "a", "b", "c", "c"])
    [(0, 1), (2, 2)]
    """
    order = {name: number for number, name in enumerate(dict.fromkeys(runs))}
    last = {name: step for step, name in enumerate(runs)}
    groups: list[tuple[int, int]] = []
    end = -1
    for step, name in enumerate(runs):
        number = order[name]
        if groups and number <= groups[-1][1]:
            continue
        groups[len(groups) - (step < end) :] = [(groups[-1][0], number)] if step < end else [(number, number)]
        end = max(end, last[name])
    return groups


def graph_data(simulation: Simulation) -> dict[str, Any]:
    """Layers as [name in the table of layers, number of operations, short name], the edges between them by number, and the cascades."""
    runs: list[str] = []
    numbers: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = {}
    writers = Writers()
    for step in _steps(simulation):
        if isinstance(step, DmaOperation):
            writers.copy(step)
            continue
        name, reads, writes = step
        runs.append(name)
        number = numbers.setdefault(name, len(numbers))
        edges |= {(writer, number): None for place in reads for writer in writers.of(place) if writer != number}
        for place in writes:
            writers.write(place, number)
    counts = Counter(runs)
    short = short_layers(simulation.replay)
    layers = [[printable(name, NAME), counts[name], short.get(name, printable(name, NAME))] for name in numbers]
    return {"layers": layers, "edges": [list(edge) for edge in edges], "cascades": cascades(runs)}
