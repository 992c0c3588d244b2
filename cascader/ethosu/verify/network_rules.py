"""Rules of the network of a schedule: its ports, its kernels with their maps and constants, and its parts on the CPU."""

from __future__ import annotations

from cascader.ethosu.network.network import CONSTANTS, CpuPart, EthosuPart, Network, Port
from cascader.ethosu.verify.homes import home_region
from cascader.graph.cascader_graph import TensorKind
from npu_model.compiled.network import DATA_TYPES
from npu_model.errors import InputError
from npu_model.program import ByteRange, FeatureMap

_BITS = (8, 16, 32)
"""Widths of an element (IFM_PRECISION and OFM_PRECISION)."""


def check_network(network: Network) -> None:
    """InputError at the first port, part or feature map of a network that the NPU cannot take, or that lies outside its tensor."""
    for port in network.ports:
        _check_port(network, port)
    for port in network.variables:
        kept = network.graph.tensor(port.tensor)
        if kept.kind is not TensorKind.VARIABLE:
            raise InputError(f"Port {port.name!r} keeps state in tensor {kept.name!r}, which keeps nothing: it must be a variable tensor.")
    for part in network.graph.parts:
        payload = part.payload
        if isinstance(payload, EthosuPart):
            named = {name for name in (payload.ifm, payload.ifm2) if name is not None}
            if named != set(part.inputs) or part.outputs != (payload.ofm,):
                raise InputError(f"Part {part.name!r} reads or writes other tensors than its kernel: they must be the same.")
            _check_kernel(network, part.name, payload)
        elif not isinstance(payload, CpuPart):
            raise InputError(f"Part {part.name!r} has neither a kernel nor a CPU operator: give it one.")
    _check_elements(network)


def _check_elements(network: Network) -> None:
    """Check that NPU jobs get integers."""
    on_cpu = {part.name for part in network.graph.parts if isinstance(part.payload, CpuPart)}
    for segment in network.segments:
        for port in segment.ports:
            if port.dtype.floating and not on_cpu.intersection(segment.parts):
                raise InputError(f"Port {port.name!r} has elements of type {port.dtype}: the NPU has integers.")


def _check_port(network: Network, port: Port) -> None:
    tensor = network.graph.tensor(port.tensor)
    if port.dtype not in DATA_TYPES.values():
        known = ", ".join(sorted({str(dtype) for dtype in DATA_TYPES.values()}))
        raise InputError(f"Port {port.name!r} has elements of type {port.dtype}: {known} are possible.")
    if port.offset < 0 or min(port.shape, default=1) < 1 or port.offset + port.size > tensor.size or tensor.kind is TensorKind.CONSTANT:
        raise InputError(
            f"Port {port.name!r} is {port.size} bytes at offset {port.offset} of tensor {tensor.name!r}, "
            f"which has {tensor.size} bytes in the arena: it must lie inside."
        )


def _check_kernel(network: Network, name: str, part: EthosuPart) -> None:
    """Check that feature maps lie inside their tensors, and constants inside the constants."""
    operation = part.operation
    if (part.ifm2 is None) != (operation.ifm2 is None):
        raise InputError(f"Part {name!r} names a second operand that its kernel does not have, or the reverse: they go together.")
    for tensor, feature_map in part.maps:
        _check_map(network, name, tensor or "", feature_map)
    for span in (*operation.weights, *operation.scales, *([part.lut.source] if part.lut else [])):
        _check_constant(network, name, span)


def _check_map(network: Network, name: str, tensor: str, feature_map: FeatureMap) -> None:
    if min(feature_map.shape.height, feature_map.shape.width, feature_map.shape.depth) < 1:
        raise InputError(f"Part {name!r} has a feature map of {feature_map.shape} elements: every extent must be 1 or more.")
    if feature_map.dtype.bits not in _BITS or feature_map.dtype.floating:
        raise InputError(f"Part {name!r} has a feature map of {feature_map.dtype} elements: integers of 8, 16 and 32 bits are possible.")
    tiles, strides = feature_map.tiles, feature_map.strides
    if min(tiles.height0, tiles.height1, tiles.width0, strides.y, strides.x, strides.c) < 0:
        raise InputError(f"Part {name!r} has a feature map with {tiles} and {strides}: no extent and no stride may be negative.")
    kind = network.graph.tensor(tensor).kind
    if feature_map.region != (CONSTANTS if kind is TensorKind.CONSTANT else home_region(network, tensor)):
        raise InputError(f"Part {name!r} uses region {feature_map.region} for tensor {tensor!r}, which is {kind.value}: use its own.")
    for span in feature_map.byte_ranges():
        if feature_map.region == CONSTANTS:
            _check_constant(network, name, span)
        elif span.start < 0 or span.end > network.graph.tensor(tensor).size:
            raise InputError(
                f"Part {name!r} uses bytes {span.start} to {span.end} of tensor {tensor!r}, "
                f"which has {network.graph.tensor(tensor).size}: it must stay inside."
            )


def _check_constant(network: Network, name: str, span: ByteRange) -> None:
    if span.region != CONSTANTS or not 0 <= span.start <= span.end <= len(network.constants):
        raise InputError(
            f"Part {name!r} reads bytes {span.start} to {span.end} of region {span.region}, "
            f"but the constants are {len(network.constants)} bytes in region {CONSTANTS}: it must stay inside."
        )
