"""Geometry: the rows of every tensor of a network, and where the rows of each feature map lie among them.

A tensor's row is the smallest step by which a feature map goes through it. What goes through it otherwise is a view of these rows:
coarser (a reshape), from a later one on (a crop, a piece of a concatenation), or scattered over all of them (a transposition).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.overwriting import overwritable_operands
from cascader.graph.cascader_graph import Tensor
from cascader.graph.row_graph import RowMap, RowTensor
from npu_model.program import FeatureMap
from npu_model.values import dataclass

_Access = tuple[FeatureMap, Axis]


def _step(feature_map: FeatureMap, axis: Axis) -> int | None:
    """Bytes from row to row of a map whose rows lie apart, one after the other; None for any other map, and for a single row."""
    regular = axis.extent(feature_map.shape) > 1 and feature_map.is_single_tile and axis.is_outermost(feature_map)
    return axis.step(feature_map) if regular else None


def _extent(feature_map: FeatureMap) -> tuple[int, int]:
    """First byte of a map in its tensor, and the one behind the last."""
    ranges = feature_map.byte_ranges()
    return min(span.start for span in ranges), max(span.end for span in ranges)


def _families(network: Network) -> dict[str, str]:
    """A representative of the tensors that may be stored over each other, by tensor: they are to have the same rows."""
    head = {tensor.name: tensor.name for tensor in network.graph.tensors}

    def find(name: str) -> str:
        while head[name] != name:
            name = head[name]
        return name

    sizes = {tensor.name: tensor.size for tensor in network.graph.tensors}
    for part in network.graph.parts:
        for operand in overwritable_operands(part):
            if sizes[operand] == sizes[part.outputs[0]]:
                head[find(part.outputs[0])] = find(operand)
    return {name: find(name) for name in head}


@dataclass(frozen=True, slots=True)
class Geometry:
    """Bytes of a row of each tensor, by name, the rows that its rolling buffers hold a multiple of, and the tensors' sizes."""

    units: Mapping[str, int]
    rolls: Mapping[str, int]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, network: Network) -> Geometry:
        """The geometry of a network's tensors; one that no kernel goes through row by row is a single row."""
        accesses = {name: [(feature_map, kernel.axis) for kernel, feature_map in found] for name, found in network.accesses().items()}
        head = _families(network)
        sizes = {tensor.name: tensor.size for tensor in network.graph.tensors}
        steps: dict[str, set[int]] = {}
        for name, found in accesses.items():
            own = {step for access in found if (step := _step(*access)) is not None and sizes[name] % step == 0}
            steps.setdefault(head[name], set()).update(own)
        units = {name: min(steps[head[name]], default=size) for name, size in sizes.items()}
        handed = {port.tensor for port in network.handed_on}  # they do not roll
        rolls = {name: size // units[name] if name in handed else _roll(accesses[name], size, units[name]) for name, size in sizes.items()}
        return cls(units, rolls, sizes)

    def row_tensor(self, tensor: Tensor) -> RowTensor:
        """The tensor as a stack of rows."""
        unit = self.units[tensor.name]
        return RowTensor(tensor.name, tensor.kind, tensor.size // unit, unit, self.rolls[tensor.name])

    def row_map(self, tensor: str, feature_map: FeatureMap, axis: Axis) -> RowMap | None:
        """Where the map's rows lie in the tensor; None if each is the tensor's own row."""
        step, unit, base = _step(feature_map, axis), self.units[tensor], feature_map.base
        if step is None:
            return self.whole_map(tensor, feature_map)
        reach = axis.reach(feature_map)
        return None if step == unit and base + reach <= unit else RowMap(base, step, reach, unit)

    def whole_map(self, tensor: str, feature_map: FeatureMap) -> RowMap:
        """All rows of the tensor in which the map has bytes, for each of its rows."""
        first, end = _extent(feature_map)
        return RowMap(first, 0, end - first, self.units[tensor])


def _roll(accesses: list[_Access], size: int, unit: int) -> int:
    """Rows that a rolling buffer of a tensor holds a multiple of: all of them if a map must lie in one piece that is no single row."""
    rows = size // unit
    multiples = []
    for feature_map, axis in accesses:
        step, (first, end) = _step(feature_map, axis), _extent(feature_map)
        if step is not None and feature_map.base % step + axis.reach(feature_map) <= step:
            multiples.append(lcm(step, unit) // unit)
        elif not (feature_map.is_single_tile and first // unit == (end - 1) // unit):
            return rows
    return min(rows, lcm(*multiples))
