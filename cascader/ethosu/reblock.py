"""Other block depths: weights encoded anew where a shallower OFM block saves reading them again and again.

A weight stream is encoded for one depth of the OFM block. A shallow block can be as high and wide as a small feature map,
so that each weight is read once; a deep one is cut in the plane, and every piece reads its weights anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cascader.ethosu.block_choice import choose_block, estimate
from cascader.ethosu.constants import StreamEditor, repacked
from cascader.ethosu.network import EthosuPart, Network, ethosu_part
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, KernelOperation
from npu_model.shapes import Shape3D, round_up
from npu_model.shram import BlockQuery, shram_partition
from npu_model.weight_order import WeightFormat
from npu_model.weights import encode_weights, weights_from_stream

GAIN = 0.95
"""What part of the estimated cycles another depth may at most have: less gain is not worth a new stream."""

SMALLEST = 2048
"""Bytes of weights below which a layer is left as it is."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The operation with its new block, before its weights are encoded for it."""

    operation: KernelOperation
    cycles: float


def _with_depth(operation: KernelOperation, depth: int, accelerator: Accelerator, home_rate: float) -> _Choice | None:
    """The best block of this depth for reading weights from home; None if none fits."""
    smallest = Shape3D(accelerator.ofm_ublock.height, accelerator.ofm_ublock.width, depth)
    if shram_partition(BlockQuery.of(operation), smallest, accelerator) is None:
        return None
    block = choose_block(replace(operation, block=smallest), accelerator, home_rate)
    shram = shram_partition(BlockQuery.of(operation), block, accelerator)
    if shram is None:
        return None
    return _Choice(replace(operation, block=block, shram=shram), estimate(operation, block, accelerator, home_rate))


def _depths(operation: KernelOperation, accelerator: Accelerator) -> list[int]:
    """Multiples of 16 below the OFM's depth, and the whole of a shallow OFM."""
    deepest = min(accelerator.max_block.depth, round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth))
    return sorted({depth for depth in (BRICK, 2 * BRICK, 3 * BRICK, 4 * BRICK, 6 * BRICK) if depth < deepest} | {deepest})


def _choose(operation: KernelOperation, accelerator: Accelerator, home_rate: float) -> KernelOperation | None:
    """The operation at the depth that reads its weights fastest; None if the one it has is good enough."""
    weights = sum(span.length for span in operation.weights)
    if weights < SMALLEST or len(operation.weights) != 1:
        return None
    today = estimate(operation, choose_block(operation, accelerator, home_rate), accelerator, home_rate)
    choices = [_with_depth(operation, depth, accelerator, home_rate) for depth in _depths(operation, accelerator)]
    best = min((choice for choice in choices if choice is not None), key=lambda choice: choice.cycles, default=None)
    if best is None or best.operation.block.depth == operation.block.depth or best.cycles > today * GAIN:
        return None
    return best.operation


def _encoded(before: KernelOperation, after: KernelOperation, constants: StreamEditor, accelerator: Accelerator) -> KernelOperation:
    """``after`` with its weights encoded for its block, its scales beside them."""
    (source,), scales = before.weights, before.scales
    weights = weights_from_stream(before, constants.read(source), accelerator)
    moved = tuple(constants.append(constants.read(span)) for span in scales)
    stream = constants.append(encode_weights(weights, WeightFormat.of(after), accelerator))
    return replace(after, weights=(stream,), scales=moved)


def reblocked(network: Network, accelerator: Accelerator, home_rate: float) -> Network:
    """``network`` with the block depths at which weights are read from home fastest, ``home_rate`` cycles a data word.

    The mathematics stay the same: the same weights in another order.
    """
    constants = StreamEditor(network.constants)
    payloads: dict[str, EthosuPart] = {}
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is None or not payload.operation.weights:
            continue
        chosen = _choose(payload.operation, accelerator, home_rate)
        if chosen is not None:
            payloads[part.name] = replace(payload, operation=_encoded(payload.operation, chosen, constants, accelerator))
    if not payloads:
        return network
    parts = tuple(replace(part, payload=payloads.get(part.name, part.payload)) for part in network.graph.parts)
    return repacked(network, parts, constants)
