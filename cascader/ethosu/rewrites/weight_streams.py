"""Weight streams of kernels: decoded from the constants of a network, and encoded anew for kernels in another form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cascader.ethosu.codegen.constants import StreamEditor, repacked
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import encode_weights, weights_from_stream

Weights = npt.NDArray[np.integer]
"""Weights as (output channels, height, width, input channels), zero point subtracted."""


def weights_of(operation: KernelOperation, constants: StreamEditor, accelerator: Accelerator) -> Weights:
    """The weights of an operation that has one stream."""
    (source,) = operation.weights
    return weights_from_stream(operation, constants.read(source), accelerator)


def encoded(operation: KernelOperation, weights: Weights, accelerator: Accelerator) -> bytes:
    """The stream of ``weights`` in the order in which the operation, in its block, takes them."""
    return encode_weights(weights, WeightFormat.of(operation), accelerator)


def with_stream(operation: KernelOperation, stream: bytes, constants: StreamEditor) -> KernelOperation:
    """The operation reading its weights from ``stream``, which is added to the constants; its scales stay where they are."""
    return replace(operation, weights=(constants.append(stream),))


def with_weights(operation: KernelOperation, weights: Weights, constants: StreamEditor, accelerator: Accelerator) -> KernelOperation:
    """The operation with ``weights`` in a stream of its own; its scales stay where they are."""
    return with_stream(operation, encoded(operation, weights, accelerator), constants)


def with_scales_again(operation: KernelOperation, constants: StreamEditor) -> KernelOperation:
    """The operation with a copy of its scales at the end of the constants, so that one transfer copies them and a stream behind them."""
    return replace(operation, scales=tuple(constants.append(constants.read(span)) for span in operation.scales))


def with_streams(network: Network, change: Callable[[KernelOperation, StreamEditor], KernelOperation | None]) -> Network:
    """``network`` with what ``change`` makes of its operations, with streams that it adds to the constants; itself if it makes nothing."""
    constants = StreamEditor(network.constants)
    made = ((kernel, name, change(kernel.operation, constants)) for name, kernel in network.kernels.items())
    changed = {name: replace(kernel, operation=operation) for kernel, name, operation in made if operation is not None}
    return repacked(network.with_kernels(changed), constants) if changed else network
