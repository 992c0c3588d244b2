"""A judge of allocations: naive on purpose, it shares no code with the allocator nor with the exact search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from cascader.allocate.extents import Extent


class Fault(Struct, frozen=True):
    """Fault of an allocation: a reason with the names of the buffers concerned.

    Reasons: ``bad count``, ``bad address``, ``bad alignment``, ``bad overlap``, ``bad peak``.
    """

    reason: str
    buffers: tuple[str, ...] = ()


def _held(extent: Extent, address: int) -> dict[int, tuple[int, int]]:
    """First and last (exclusive) address that a buffer holds at each step at which it holds any."""
    spans = zip(extent.low.tolist(), extent.high.tolist(), strict=True)
    return {extent.start + step: (address + low, address + high) for step, (low, high) in enumerate(spans) if low < high}


def _faults(extents: Sequence[Extent], addresses: Sequence[int], peak: int, alignment: int) -> Iterator[Fault]:
    if len(extents) != len(addresses):
        yield Fault("bad count")
        return
    held = [_held(extent, address) for extent, address in zip(extents, addresses, strict=True)]
    for i, extent in enumerate(extents):
        if addresses[i] < 0:
            yield Fault("bad address", (extent.name,))
        if addresses[i] % alignment != 0:
            yield Fault("bad alignment", (extent.name,))
        if addresses[i] + max(extent.high.tolist()) > peak:
            yield Fault("bad peak", (extent.name,))
        for j in range(i):
            for step in held[i].keys() & held[j].keys():
                if held[i][step][0] < held[j][step][1] and held[j][step][0] < held[i][step][1]:
                    yield Fault("bad overlap", (extents[j].name, extent.name))


def validate(extents: Sequence[Extent], addresses: Sequence[int], peak: int, alignment: int = 1) -> Fault | None:
    """The first fault, None if there is none; no buffer may ever hold a byte at ``peak`` or beyond.

    Every pair of buffers is looked at, step by step: O(buffers squared times steps).
    """
    return next(_faults(extents, addresses, peak, alignment), None)
