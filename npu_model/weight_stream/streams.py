"""The weights and scales of a kernel, and their streams: each core of the NPU has one of each, and the cores take the channels in turn.

A maker of kernels reads or passes the weights of all channels. The device decides how many streams they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.program import KernelOperation
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import RECORD_BYTES, core_channels, encode_weights, keep_weights


def has_streams(op: KernelOperation) -> bool:
    """Whether an operation has weights and, for each of their streams, a table of scales."""
    return 0 < len(op.weights) == len(op.scales)


def coded(weights: npt.NDArray[np.integer], layout: WeightFormat, accelerator: Accelerator, *, keep: bool = False) -> tuple[bytes, ...]:
    """The stream of each core for the weights (OHWI) of all channels; a core beyond the last channel has an empty stream.

    ``layout`` is the operation's, for all cores. With ``keep`` the result is kept for later requests.
    """
    cores, streams = accelerator.cores, []
    for core in range(cores):
        own = weights[core::cores]
        each = replace(layout, block_depth=core_channels(layout.block_depth, core, cores))
        streams.append(encode_weights(own, each, accelerator) if len(own) else b"")
        if keep and len(own):
            keep_weights(streams[-1], own, each, accelerator)
    return tuple(streams)


def records_of(tables: Sequence[bytes], depth: int) -> bytes:
    """The scale and bias records of ``depth`` channels in their order, from the table of each core."""
    if len(tables) == 1:
        return tables[0][: depth * RECORD_BYTES]
    found = np.zeros((depth, RECORD_BYTES), np.uint8)
    for core, table in enumerate(tables):
        own = core_channels(depth, core, len(tables))
        found[core :: len(tables)] = np.frombuffer(table, np.uint8, own * RECORD_BYTES).reshape(own, RECORD_BYTES)
    return found.tobytes()


def dealt_records(records: bytes, accelerator: Accelerator) -> tuple[bytes, ...]:
    """The table of each core for the records of all channels in their order."""
    every = np.frombuffer(records, np.uint8).reshape(-1, RECORD_BYTES)
    return tuple(every[core :: accelerator.cores].tobytes() for core in range(accelerator.cores))
