"""The command streams that were run, made with the calls of Vela's Python API that made them there."""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from typing import Any

import numpy as np

from npu_model.command_stream.decode import decode_words
from npu_model.errors import InputError
from npu_model.program import Program
from npu_model.program.program import Region, RegionRole
from validation.silicon.records import ACCELERATOR

CONSTANTS, ARENA, INPUT = 0, 1, 5
"""Regions: the copy's source, where it goes to and where the result lies, and the input."""

CONSTANTS_AT = 1024
"""The place in the arena for copies of biases and then weights: a multiple of 64 bytes. Not stated, and of no consequence but for the
borders of transactions, whose counts decide for this order."""


def input_address(inputs: int, outputs: int) -> int:
    """Address of the input, modulo 64 bytes: the number of inputs and outputs together.

    Not published. Whether a read of 32 bytes lies across a multiple of 64 decides the count of transactions, and all 627 counts follow
    this sum.
    """
    return (inputs + outputs) % 64


@cache
def vela_api() -> Any:
    """The Python API of Vela; InputError if it is not installed."""
    try:
        from ethosu.vela import api  # noqa: PLC0415  # an optional part of Vela, which Vela 6 drops
    except ImportError:
        raise InputError("Vela's Python API is not installed: install ethos-u-vela 5.2 for the counters of silicon.") from None
    return api


def _map(api: Any, region: int, depth: int, address: int = 0) -> Any:
    """One pixel of ``depth`` int8 channels."""
    feature_map = api.NpuFeatureMap()
    feature_map.data_type, feature_map.region, feature_map.layout = api.NpuDataType.INT8, region, api.NpuLayout.NHWC
    feature_map.shape, feature_map.tiles = api.NpuShape3D(1, 1, depth), api.NpuTileBox(1, 0, 1, [address, 0, 0, 0])
    feature_map.quantization = api.NpuQuantization(1.0, 0)
    return feature_map


def _constants(api: Any, inputs: int, outputs: int, depth: int) -> tuple[bytes, bytes]:
    """Weight stream and scale records of a kernel with ``depth`` channels in a block; all weights are equal."""
    volume = np.ones((outputs, 1, 1, inputs), dtype=np.int16)
    traversal = api.NpuBlockTraversal.DEPTH_FIRST
    device = api.NpuAccelerator.Ethos_U55_256
    weights = api.npu_encode_weights(device, volume, (1, 1), 8, depth, is_depthwise=False, block_traversal=traversal)
    records = bytes(api.npu_encode_bias(np.int64(0), 1 << 30, 30)) * outputs
    return bytes(weights), records + bytes(-len(records) % 16)


@cache
def program(inputs: int, outputs: int) -> Program:
    """A DMA of weights and biases, and one kernel in the last block config that Vela finds; InputError if Vela's API is not installed."""
    with redirect_stdout(StringIO()):  # Vela warns there that it got no configuration.
        return _program(vela_api(), inputs, outputs)


def _program(api: Any, inputs: int, outputs: int) -> Program:
    device = api.NpuAccelerator.Ethos_U55_256
    kernel = api.NpuConv2DOperation()
    before = input_address(inputs, outputs)
    kernel.ifm, kernel.ofm, kernel.kernel = _map(api, INPUT, inputs, before), _map(api, ARENA, outputs), api.NpuKernel(1, 1)
    kernel.padding, kernel.block_traversal = api.NpuPadding(0, 0, 0, 0), api.NpuBlockTraversal.DEPTH_FIRST
    # The search for blocks needs constants of any length.
    kernel.weights, kernel.biases = [api.NpuAddressRange(ARENA, 0, 16)], [api.NpuAddressRange(ARENA, 16, 16)]
    kernel.block_config = api.npu_find_block_configs(kernel, device)[-1]
    weights, biases = _constants(api, inputs, outputs, kernel.block_config.depth)
    kernel.biases = [api.NpuAddressRange(ARENA, CONSTANTS_AT, len(biases))]
    kernel.weights = [api.NpuAddressRange(ARENA, CONSTANTS_AT + len(biases), len(weights))]
    size = len(weights) + len(biases)
    copy = api.NpuDmaOperation(api.NpuAddressRange(CONSTANTS, 0, size), api.NpuAddressRange(ARENA, CONSTANTS_AT, size))
    operations, words = decode_words(tuple(api.npu_generate_register_command_stream([copy, kernel], device)))
    regions = (
        Region(CONSTANTS, RegionRole.CONSTANTS, size, biases + weights),
        Region(ARENA, RegionRole.ARENA, CONSTANTS_AT + size),
        Region(INPUT, RegionRole.UNUSED, before + inputs),
    )
    return Program(ACCELERATOR, operations, words, regions)


@cache
def multiplication(elements: int) -> Program:
    """One multiplication of two maps of ``elements`` int8 values, all in the arena; InputError if Vela's API is not installed."""
    with redirect_stdout(StringIO()):
        api = vela_api()
        device = api.NpuAccelerator.Ethos_U55_256
        kernel = api.NpuElementWiseOperation(api.NpuElementWiseOp.MUL)
        kernel.ifm, kernel.ifm2, kernel.ofm = (_map(api, ARENA, elements, 1024 * number) for number in range(3))
        kernel.block_config = api.npu_find_block_configs(kernel, device)[-1]
        operations, words = decode_words(tuple(api.npu_generate_register_command_stream([kernel], device)))
    return Program(ACCELERATOR, operations, words, (Region(ARENA, RegionRole.ARENA, 2048 + elements),))
