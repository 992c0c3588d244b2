"""A program with its accesses in other regions, at other addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from npu_model.program import ByteRange, DmaOperation, FeatureMap, KernelOperation, Operation, Program


def moved(program: Program, regions: Mapping[int, int], shift: Mapping[int, int]) -> Program:
    """Every access of region r in region ``regions[r]``, ``shift[r]`` bytes further on."""

    def part(where: ByteRange) -> ByteRange:
        by = shift.get(where.region, 0)
        return ByteRange(regions[where.region], where.start + by, where.end + by)

    def feature_map(fm: FeatureMap | None) -> FeatureMap | None:
        if fm is None:
            return None
        bases: Any = tuple(base + shift.get(fm.region, 0) for base in fm.tiles.bases)
        return replace(fm, region=regions[fm.region], tiles=replace(fm.tiles, bases=bases))

    def operation(op: Operation) -> Operation:
        if isinstance(op, KernelOperation):
            maps: Any = {name: feature_map(fm) for name, fm in (("ifm", op.ifm), ("ifm2", op.ifm2), ("ofm", op.ofm))}
            return replace(op, weights=tuple(map(part, op.weights)), scales=tuple(map(part, op.scales)), **maps)
        if isinstance(op, DmaOperation):
            to, by = op.destination_region, shift.get(op.destination_region, 0)
            target = {} if op.to_shram else {"destination_region": regions[to], "destination": op.destination + by}
            return replace(op, source=part(op.source), **target)
        return op

    return replace(program, operations=tuple(map(operation, program.operations)))
