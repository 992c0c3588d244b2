"""Tensors of a legalised compilation: their address extents, from every range that a kernel touches, and their names.

In a legalised compilation no two tensors share an address, so overlapping ranges belong to one tensor. No other rule is needed. A
concatenation is written in parts that only its reader joins. A slice reads a part of another operator's output, and a strided kernel reads
less than its tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import CONSTANTS, Port
from npu_model.errors import InputError
from npu_model.program import Binding, FeatureMap
from npu_model.program.alignment import ALIGNMENT


class AddressMap(Struct, frozen=True):
    """Disjoint extents (start, end) in address order, with the ``names`` of their tensors. Starts are multiples of 16."""

    extents: tuple[tuple[int, int], ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> AddressMap:
        """Unite overlapping ranges; ranges that only touch stay apart. No extent has a name yet."""
        extents: list[tuple[int, int]] = []
        for start, end in sorted((start // ALIGNMENT * ALIGNMENT, end) for start, end in ranges):
            if extents and start < extents[-1][1]:
                extents[-1] = (extents[-1][0], max(end, extents[-1][1]))
            else:
                extents.append((start, end))
        return cls(tuple(extents))

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each tensor."""
        return {name: end - start for name, (start, end) in zip(self.names, self.extents, strict=True)}

    def find(self, address: int) -> int:
        """Index of the extent that holds ``address``; InputError if none does."""
        index = bisect_right(self.extents, (address, 1 << 64)) - 1
        if index < 0 or address >= self.extents[index][1]:
            raise InputError(f"Arena address {address} belongs to no tensor of the compiled network: compile it again.")
        return index

    def place(self, address: int) -> tuple[str, int]:
        """The tensor that holds ``address``, and the offset of the address in it."""
        index = self.find(address)
        return self.names[index], address - self.extents[index][0]


def unique(labels: Sequence[str]) -> tuple[str, ...]:
    """Unique names from labels: a label gets a number if it appears several times, or if a numbered name equals it.

    >>> unique(["conv", "softmax", "softmax"])
    ('conv', 'softmax#1', 'softmax#2')
    """
    counts = Counter(labels)
    taken = {label for label, count in counts.items() if count == 1}
    numbers: Counter[str] = Counter()
    names = []
    for label in labels:
        name = label
        while counts[label] > 1 and (name == label or name in taken):
            numbers[label] += 1
            name = f"{label}#{numbers[label]}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def base_address(feature_map: FeatureMap) -> int:
    """Lowest address of the map's elements."""
    return feature_map.byte_ranges()[0].start


class TensorTable(Struct, frozen=True):
    """The extents of the arena and of the constant feature maps."""

    arena: AddressMap
    constants: AddressMap

    @classmethod
    def of(
        cls, arena: AddressMap, constants: AddressMap, bindings: Iterable[Binding], writes: Iterable[tuple[str, FeatureMap]]
    ) -> TensorTable:
        """Name the extents: each by its first binding, else by the part that writes it first ("+n": and n more)."""
        labels: dict[int, str] = {}
        for binding in bindings:
            labels.setdefault(arena.find(binding.address), binding.name)
        writers: dict[int, list[str]] = {}
        for part, feature_map in writes:
            writers.setdefault(arena.find(base_address(feature_map)), []).append(part)
        for index, parts in writers.items():
            labels.setdefault(index, f"{parts[0]}+{len(parts) - 1}" if len(parts) > 1 else parts[0])
        ordered = [labels.get(index, f"variable@{start}") for index, (start, _) in enumerate(arena.extents)]
        names = unique([*ordered, *(f"constant@{start}" for start, _ in constants.extents)])
        return cls(replace(arena, names=names[: len(ordered)]), replace(constants, names=names[len(ordered) :]))

    def name(self, feature_map: FeatureMap) -> str:
        """Name of the tensor that the map lies in."""
        extents = self.constants if feature_map.region == CONSTANTS else self.arena
        return extents.place(base_address(feature_map))[0]

    def relative(self, feature_map: FeatureMap) -> FeatureMap:
        """The map with addresses that count from its tensor's start; constant maps keep their addresses."""
        if feature_map.region == CONSTANTS:
            return feature_map
        base = base_address(feature_map)
        return feature_map.moved(self.arena.place(base)[1] - base)

    def port(self, binding: Binding) -> Port:
        """The binding as a location in its tensor."""
        return Port(binding.name, *self.arena.place(binding.address), binding.shape, binding.dtype, binding.quantisation)
