"""Carried bytes: transfers between the arena and the other memories of feature maps."""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.compiled.network import CompiledNetwork
from npu_model.program import DmaOperation
from npu_model.program.region_numbers import ARENA, FIRST_HOME


def _transfers(network: CompiledNetwork) -> Iterator[DmaOperation]:
    """The transfers between the arena and the regions where tensors have their home."""
    for program in network.programs:
        for one in program.operations:
            if isinstance(one, DmaOperation) and not one.to_shram:
                ends = one.source.region, one.destination_region
                if ARENA in ends and max(ends) >= FIRST_HOME:
                    yield one


def carried_bytes(network: CompiledNetwork) -> int:
    """Bytes that transfers carry out of the arena and into it. A byte that leaves and returns counts twice."""
    return sum(one.length for one in _transfers(network))


def carried_text(network: CompiledNetwork) -> str:
    """The bytes that transfers carry in each direction, as a clause; "" without transfers."""
    found = list(_transfers(network))
    out = sum(one.length for one in found if one.source.region == ARENA)
    come = sum(one.length for one in found) - out
    return f"{len(found):,} transfers carry {out:,} bytes out of the arena and {come:,} into it" if found else ""
