"""Places of constants: where in a burst each layer's weights begin, which decides into how many transactions they fall.

Small fully connected layers do little but wait for their weights, and the places are all that another compiler's stream of the same
kernels may have ahead: 1 to 2 % of a sensor's three layers. Whether an early or a short first transaction is better depends
on what the decoder does at that moment, so that a replay decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cascader.ethosu.job.constants import Packing, constant_ranges
from cascader.ethosu.network.network import CONSTANTS, EthosuPart, Network
from npu_model.program import ByteRange
from npu_model.program.alignment import ALIGNMENT

MOST = 48
"""Kernels up to which places are tried: of larger networks they are no part of the cycles that is worth the time."""

Streams = tuple[ByteRange, ...]
"""Scales, then weights of a kernel; kernels with the same streams read them from one place."""


def _streams(payload: EthosuPart) -> Streams:
    return (*payload.operation.scales, *payload.operation.weights)


def _without_streams(payload: EthosuPart) -> EthosuPart:
    return replace(payload, operation=replace(payload.operation, weights=(), scales=()))


def with_places(network: Network, places: Mapping[Streams, int], burst: int) -> Network:
    """``network`` with each kernel's streams one after the other. The last stream begins so many bytes after a multiple of ``burst``."""
    kernels = network.kernels
    packing = Packing.of(span for kernel in kernels.values() for span in constant_ranges(_without_streams(kernel)))
    content = bytearray(packing.content(network.constants))
    moved: dict[Streams, dict[ByteRange, ByteRange]] = {}
    for streams, place in places.items():
        before = sum(span.length for span in streams[:-1])
        content += bytes((place - before - len(content)) % burst)
        moved[streams] = {}
        for span in streams:
            moved[streams][span] = ByteRange(CONSTANTS, len(content), len(content) + span.length)
            content += network.constants[span.start : span.end].ljust(span.length, b"\0")

    def placed(payload: EthosuPart) -> EthosuPart:
        new = moved.get(_streams(payload), {})
        plain, before = packing.part(_without_streams(payload)), payload.operation
        weights, scales = (tuple(new[span] for span in spans) for spans in (before.weights, before.scales))
        return replace(plain, operation=replace(plain.operation, weights=weights, scales=scales))

    return replace(network.with_kernels({name: placed(kernel) for name, kernel in kernels.items()}), constants=bytes(content))


def best_places(network: Network, burst: int, cycles: Callable[[Network], int]) -> Network | None:
    """``network`` with the places that take the fewest ``cycles``, tried one after the other in steps of 16 bytes.

    None for a network of many kernels, and where no place gains anything. They hardly count but in flat networks.
    """
    places = {streams: 0 for kernel in network.kernels.values() if (streams := _streams(kernel))}
    aligned = all(span.start % ALIGNMENT == span.length % ALIGNMENT == 0 for streams in places for span in streams)
    if not places or len(network.kernels) > MOST or burst % ALIGNMENT or not aligned:
        return None
    least, best = cycles(network), None
    for streams in list(places):
        for place in range(0, burst, ALIGNMENT):
            tried = places | {streams: place}
            form = with_places(network, tried, burst)
            taken = cycles(form)
            if taken < least:
                least, best, places = taken, form, tried
    return best
