"""Addresses of constants: the position in a burst at which each layer's weights begin, which decides their number of transactions.

Small fully connected layers mostly wait for their weights. Another compiler's stream of the same kernels can be ahead only by these
addresses: 1 to 2 % of a sensor's three layers. An early or a short first transaction may be better; that depends on what the decoder does
at that moment, so a replay decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cascader.ethosu.job.constants import Packing, constant_ranges
from cascader.ethosu.network.network import CONSTANTS, EthosuPart, Network
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import ByteRange, KernelOperation, Program
from npu_model.program.alignment import ALIGNMENT

MOST = 48
"""The most kernels of a network whose addresses are tried. In larger networks addresses save too few cycles for the time."""

MOST_BYTES = 512 * 1024
"""The most bytes of their constants. Addresses save at most 900 cycles (17 networks of the portfolio, RNNoise and tiny_wav2letter).

To read so many bytes from a flash of 0.5 GB/s takes half a million cycles. tiny_wav2letter, with 3.7 MB, gains 0.006 % in a seventh of
the time of `compile`.
"""

Streams = tuple[ByteRange, ...]
"""Scales and weights of a kernel, in this order; kernels with the same streams read them from one address."""

Places = Mapping[Streams, int]
"""The position of the last stream's first byte in a burst."""


def _streams(payload: EthosuPart) -> Streams:
    return (*payload.operation.scales, *payload.operation.weights)


def _without_streams(payload: EthosuPart) -> EthosuPart:
    return replace(payload, operation=replace(payload.operation, weights=(), scales=()))


def _unmoved(network: Network) -> Packing:
    """The constants that are not a kernel's streams. They come first, at fixed addresses."""
    return Packing.of(span for kernel in network.kernels.values() for span in constant_ranges(_without_streams(kernel)))


def _laid(network: Network, packing: Packing, places: Places, burst: int) -> tuple[dict[Streams, Streams], bytes]:
    """New ranges of each kernel's streams, and the new constants: the last stream begins where in a ``burst`` its place says."""
    content = bytearray(packing.content(network.constants))
    moved: dict[Streams, Streams] = {}
    for streams, place in places.items():
        before = sum(span.length for span in streams[:-1])
        content += bytes((place - before - len(content)) % burst)
        found = []
        for span in streams:
            found.append(ByteRange(CONSTANTS, len(content), len(content) + span.length))
            content += network.constants[span.start : span.end].ljust(span.length, b"\0")
        moved[streams] = tuple(found)
    return moved, bytes(content)


def _reading(operation: KernelOperation, streams: Streams) -> KernelOperation:
    """The operation with its streams elsewhere."""
    count = len(operation.scales)
    return operation.having(scales=streams[:count], weights=streams[count:])


def with_places(network: Network, places: Places, burst: int) -> Network:
    """``network`` with each kernel's streams one after the other. The last stream begins where in a ``burst`` its place says."""
    packing = _unmoved(network)
    moved, content = _laid(network, packing, places, burst)

    def placed(payload: EthosuPart) -> EthosuPart:
        plain = packing.part(_without_streams(payload))
        scales, weights = payload.operation.scales, payload.operation.weights
        operation = plain.operation.having(scales=scales, weights=weights)
        return replace(plain, operation=_reading(operation, moved.get((*scales, *weights), ())))

    return replace(network.with_kernels({name: placed(kernel) for name, kernel in network.kernels.items()}), constants=content)


def with_streams_moved(network: CompiledNetwork, moved: Mapping[Streams, Streams], constants: bytes) -> CompiledNetwork:
    """A lowered network that copies no streams, with its kernels' streams at other addresses in other ``constants``.

    Its command stream keeps its number of words: kernels that shared an address still share one.
    """

    def program(one: Program) -> Program:
        operations = tuple(
            _reading(op, moved[streams]) if isinstance(op, KernelOperation) and (streams := (*op.scales, *op.weights)) in moved else op
            for op in one.operations
        )
        regions = tuple(replace(region, size=len(constants), content=constants) if region.content else region for region in one.regions)
        return replace(one, operations=operations, regions=regions)

    return replace(network, steps=tuple(program(step) if isinstance(step, Program) else step for step in network.steps))


def may_gain(network: Network) -> bool:
    """Whether addresses may save a noticeable part of the cycles: few kernels wait for few bytes."""
    return len(network.kernels) <= MOST and len(network.constants) <= MOST_BYTES


def best_places(
    network: Network, burst: int, lowered: Callable[[Network], CompiledNetwork], cycles: Callable[[CompiledNetwork], int]
) -> Network | None:
    """``network`` with the addresses that take the fewest ``cycles`` once it is ``lowered`` layer by layer, tried in steps of 16 bytes.

    None if no address gains anything. Addresses matter only in flat networks that :func:`may_gain`.
    """
    places = {streams: 0 for kernel in network.kernels.values() if (streams := _streams(kernel))}
    aligned = all(span.start % ALIGNMENT == span.length % ALIGNMENT == 0 for streams in places for span in streams)
    if not places or burst % ALIGNMENT or not aligned:
        return None
    packing, begun = _unmoved(network), dict(places)
    first, before = lowered(with_places(network, begun, burst)), _laid(network, packing, begun, burst)[0]
    least, is_better = cycles(lowered(network)), False
    for streams in begun:
        for place in range(0, burst, ALIGNMENT):
            tried = places | {streams: place}
            moved, content = _laid(network, packing, tried, burst)
            taken = cycles(with_streams_moved(first, {before[one]: moved[one] for one in moved}, content))
            if taken < least:
                least, places, is_better = taken, tried, True
    return with_places(network, places, burst) if is_better else None
