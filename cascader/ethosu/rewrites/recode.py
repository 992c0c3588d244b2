"""Shorter weight streams: the same weights coded anew where that takes fewer bytes.

A stream may be cut into sections, each with a code of its own. Vela's two cores cut at other places: for a fully connected layer of
163,840 weights the C++ core's stream has 139,344 bytes, the Python core's coder, which is used here, makes 129,728.
"""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.codegen.constants import StreamEditor, repacked
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from npu_model.accelerator import Accelerator
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import encode_weights, weights_from_stream


def recoded(network: Network, accelerator: Accelerator) -> Network:
    """``network`` with each weight stream in the shorter of two codings: the one that it came in, and that of the coder used here."""
    constants = StreamEditor(network.constants)
    payloads: dict[str, EthosuPart] = {}
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is None or len(payload.operation.weights) != 1:
            continue
        (source,) = payload.operation.weights
        weights = weights_from_stream(payload.operation, constants.read(source), accelerator)
        stream = encode_weights(weights, WeightFormat.of(payload.operation), accelerator)
        if len(stream) < source.length:
            # Scales lie beside their weights, so that one transfer copies both.
            scales = tuple(constants.append(constants.read(span)) for span in payload.operation.scales)
            operation = replace(payload.operation, weights=(constants.append(stream),), scales=scales)
            payloads[part.name] = replace(payload, operation=operation)
    if not payloads:
        return network
    parts = tuple(replace(part, payload=payloads.get(part.name, part.payload)) for part in network.graph.parts)
    return repacked(network, parts, constants)
