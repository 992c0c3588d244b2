"""Barriers: what keeps a part whole, because its rows are not simply rows of the tensors that it works on."""

from __future__ import annotations

from enum import Enum

from cascader.ethosu.network.network import CONSTANTS, CpuPart, EthosuPart, Network, ethosu_part
from cascader.graph.cascader_graph import Part
from npu_model.program import FeatureMap, Layout


class Barrier(Enum):
    """Why a part cannot be cut into stripes as it stands."""

    CPU = "runs on the CPU"
    PIECES = "reads or writes a tensor that several parts write, as a concatenation"
    SLICE = "reads a piece of a tensor"
    RESHAPED = "reads a tensor in another shape than it was written in"
    CONSTANT_OPERAND = "has a constant feature map as an operand"
    WIDE = "works on 32-bit elements, as the tail of a softmax does"


def _source(network: Network, tensor: str) -> tuple[bool, tuple[int, int], int, int] | None:
    """How a tensor is filled: bricks or not, row and column stride, first address, channels; None if by several parts."""
    producers = network.graph.producers(tensor)
    payloads = [ethosu_part(part) for part in producers]
    if len(payloads) == 1 and payloads[0] is not None:
        ofm = payloads[0].operation.ofm
        return ofm.layout is Layout.NHCWB16, (ofm.strides.y, ofm.strides.x), ofm.tiles.bases[0], ofm.shape.depth
    if len(producers) > 1:
        return None
    # The network's input or a CPU operator's output: dense NHWC.
    described = network.graph.tensor(tensor)
    *_, width, depth = (1, 1, *described.shape)
    return False, (width * depth * described.element_size, depth * described.element_size), 0, depth


def _operand(network: Network, tensor: str, feature_map: FeatureMap) -> set[Barrier]:
    """Barriers of reading ``tensor`` through ``feature_map``."""
    if feature_map.region == CONSTANTS:
        return {Barrier.CONSTANT_OPERAND}
    source = _source(network, tensor)
    if source is None:
        return {Barrier.PIECES}
    bricks, strides, base, depth = source
    if (feature_map.layout is Layout.NHCWB16) != bricks or (feature_map.strides.y, feature_map.strides.x) != strides:
        return {Barrier.RESHAPED}
    return set() if feature_map.tiles.bases[0] == base and feature_map.shape.depth == depth else {Barrier.SLICE}


def _kernel_barriers(network: Network, part: EthosuPart) -> frozenset[Barrier]:
    operation = part.operation
    found = _operand(network, part.ifm, operation.ifm)
    if part.ifm2 is not None and operation.ifm2 is not None:
        found |= _operand(network, part.ifm2, operation.ifm2)
    if len(network.graph.producers(part.ofm)) > 1:
        found.add(Barrier.PIECES)
    if any(m.dtype.bits == 32 for m in (operation.ifm, operation.ofm)):
        found.add(Barrier.WIDE)
    return frozenset(found)


def barriers(network: Network, part: Part) -> frozenset[Barrier]:
    """Everything that keeps ``part`` whole; empty for a part that may be striped."""
    if isinstance(part.payload, CpuPart):
        return frozenset({Barrier.CPU})
    payload = ethosu_part(part)
    return _kernel_barriers(network, payload) if payload else frozenset()
