"""Shorter weight streams: the same weights coded anew where that takes fewer bytes.

A stream may be cut into sections, each with a code of its own. Vela's two cores cut at other places: for a fully connected layer of
163,840 weights the C++ core's stream has 139,344 bytes, the Python core's coder, which is used here, makes 129,728.
"""

from __future__ import annotations

from cascader.ethosu.codegen.constants import StreamEditor
from cascader.ethosu.network.network import Network
from cascader.ethosu.rewrites.weight_streams import encoded, weights_of, with_scales_again, with_stream, with_streams
from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation


def recoded(network: Network, accelerator: Accelerator, most: int | None = None) -> Network:
    """``network`` with each weight stream in the shorter of two codings: the one that it came in, and that of the coder used here.

    Streams of more than ``most`` bytes stay as they are: those of layers that are cut are coded in pieces later.
    """

    def shorter(operation: KernelOperation, constants: StreamEditor) -> KernelOperation | None:
        if len(operation.weights) != 1 or (most is not None and operation.weights[0].length > most):
            return None
        stream = encoded(operation, weights_of(operation, constants, accelerator), accelerator)
        if len(stream) >= operation.weights[0].length:
            return None
        return with_stream(with_scales_again(operation, constants), stream, constants)

    return with_streams(network, shorter)
