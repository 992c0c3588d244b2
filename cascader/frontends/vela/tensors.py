"""Names and places of the tensors of a legalised compilation: from an address to (tensor, offset)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from cascader.ethosu.codegen.feature_maps import rebase
from cascader.ethosu.network.network import CONSTANTS, Port
from cascader.frontends.vela.address_map import AddressMap
from npu_model.program import Binding, FeatureMap
from npu_model.values import dataclass


def unique(labels: Sequence[str]) -> tuple[str, ...]:
    """Names from labels: a label that appears several times is numbered, as is one that a numbered name has taken.

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


@dataclass(frozen=True, slots=True)
class TensorTable:
    """The extents of the arena and of the constant feature maps, each with its tensor's name."""

    arena: AddressMap
    constants: AddressMap
    arena_names: tuple[str, ...]
    constant_names: tuple[str, ...]

    @classmethod
    def of(
        cls, arena: AddressMap, constants: AddressMap, bindings: Iterable[Binding], writes: Iterable[tuple[str, FeatureMap]]
    ) -> TensorTable:
        """Name the extents: by the first binding in them, else by the part that writes them first ("+n": and n more)."""
        labels: dict[int, str] = {}
        for binding in bindings:
            labels.setdefault(arena.find(binding.address), binding.name)
        writers: dict[int, list[str]] = {}
        for part, feature_map in writes:
            writers.setdefault(arena.find(base_address(feature_map)), []).append(part)
        for index, parts in writers.items():
            labels.setdefault(index, f"{parts[0]}+{len(parts) - 1}" if len(parts) > 1 else parts[0])
        ordered = [labels.get(index, f"variable@{start}") for index, (start, _) in enumerate(arena.extents)]
        ordered += [f"constant@{start}" for start, _ in constants.extents]
        names = unique(ordered)
        return cls(arena, constants, names[: len(arena.extents)], names[len(arena.extents) :])

    def name(self, feature_map: FeatureMap) -> str:
        """Name of the tensor that the map lies in."""
        if feature_map.region == CONSTANTS:
            return self.constant_names[self.constants.find(base_address(feature_map))]
        return self.arena_names[self.arena.find(base_address(feature_map))]

    def relative(self, feature_map: FeatureMap) -> FeatureMap:
        """The map with addresses that count from its tensor's start; constant maps keep theirs."""
        if feature_map.region == CONSTANTS:
            return feature_map
        return rebase(feature_map, -self.arena.start(self.arena.find(base_address(feature_map))))

    def port(self, binding: Binding) -> Port:
        """The binding as a place in its tensor."""
        index = self.arena.find(binding.address)
        offset = binding.address - self.arena.start(index)
        return Port(binding.name, self.arena_names[index], offset, binding.shape, binding.dtype, binding.quantisation)
