"""A Program of one convolution with a given block, for operators with published cycles and nothing else.

The source states none of the following, which is assumed: feature maps of int8 in SRAM, densely packed, in NHWC unless another layout is
asked for; weights that use all of their 8 bits, in external memory; adapters off; depth-first traversal, but part-kernel where the IFM has
at most 8 channels (Vela's rule); blocks rounded up to whole ublocks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    ByteRange,
    Control,
    ControlKind,
    DataType,
    FeatureMap,
    Kernel,
    KernelOperation,
    Layout,
    OperationKind,
    Program,
    Region,
    RegionRole,
    Shram,
    Strides,
    Tiles,
)
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D, round_up
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import RECORD_BYTES, encode_weights
from validation.fvp.references.records import SingleOperator

_CONSTANTS, _ARENA = 0, 1

_PART_KERNEL_DEPTH = 8
"""IFM channels up to which Vela chooses the part-kernel traversal without comparing."""

_KERNEL_WORDS = 60
"""Command words of one kernel whose registers are all new, as the first kernels of the measured streams have."""

_INT8 = DataType(8, signed=True)

_SEED = 1
"""Seed of the weights."""


def _stored_depth(shape: Shape3D, layout: Layout) -> int:
    """Channels that a feature map takes up: whole bricks of 16 in NHCWB16."""
    return round_up(shape.depth, BRICK) if layout is Layout.NHCWB16 else shape.depth


def _feature_map(address: int, shape: Shape3D, layout: Layout) -> FeatureMap:
    row = shape.width * _stored_depth(shape, layout)
    strides = Strides(row, BRICK, shape.width * BRICK) if layout is Layout.NHCWB16 else Strides(row, shape.depth, 1)
    return FeatureMap(_ARENA, shape, _INT8, layout, Tiles.single(shape, address), strides)


def _bytes(shape: Shape3D, layout: Layout) -> int:
    return shape.height * shape.width * _stored_depth(shape, layout)


def _block(single: SingleOperator, device: Accelerator) -> Shape3D:
    ublock, block = device.ofm_ublock, single.block
    return Shape3D(round_up(block.height, ublock.height), round_up(block.width, ublock.width), round_up(block.depth, ublock.depth))


def _shram(query: BlockQuery, block: Shape3D, device: Accelerator) -> Shram:
    """The partition; InputError if the block does not fit."""
    shram = shram_partition(query, block, device)
    if shram is None:
        raise InputError(f"Block {block} does not fit into the SHRAM of {device.name}: give a smaller block.")
    return shram


def _weights(shape: tuple[int, int, int, int], order: WeightFormat, device: Accelerator) -> bytes:
    """A compressed stream of weights drawn evenly from all but the least of 8 bits."""
    values = np.random.default_rng(_SEED).integers(-_INT8.maximum, _INT8.maximum, shape, dtype=np.int16, endpoint=True)
    return encode_weights(values, order, device)


@lru_cache
def single_program(single: SingleOperator, layout: Layout = Layout.NHWC) -> Program:
    """The Program of one operator, with the assumptions of this module but for ``layout``; InputError if its block does not fit."""
    device = accelerator(single.accelerator)
    kind = OperationKind.DEPTHWISE if single.depthwise else OperationKind.CONV_2D
    part_kernel = not single.depthwise and single.ifm.depth <= _PART_KERNEL_DEPTH
    kernel = Kernel(*single.kernel, *single.stride)
    block = _block(single, device)
    query = BlockQuery(kind, single.ofm, single.ifm.depth, kernel=kernel, part_kernel=part_kernel)
    shram = _shram(query, block, device)
    order = WeightFormat(block.depth, depthwise=single.depthwise, part_kernel=part_kernel)
    stream = _weights((single.ofm.depth, *single.kernel, 1 if single.depthwise else single.ifm.depth), order, device)
    weights, constants = len(stream), len(stream) + round_up(single.ofm.depth * RECORD_BYTES, ALIGNMENT)
    ofm_address = round_up(_bytes(single.ifm, layout), ALIGNMENT)
    operation = KernelOperation(
        kind=kind,
        ifm=_feature_map(0, single.ifm, layout),
        ofm=_feature_map(ofm_address, single.ofm, layout),
        block=block,
        shram=shram,
        activation=Activation(ActivationKind.NONE, _INT8.minimum, _INT8.maximum),
        kernel=kernel,
        padding=single.padding,
        weights=(ByteRange(_CONSTANTS, 0, weights),),
        scales=(ByteRange(_CONSTANTS, weights, constants),),
        part_kernel=part_kernel,
    )
    return Program(
        accelerator=single.accelerator,
        operations=(operation, Control(ControlKind.STOP, 0xFFFF)),
        words=(_KERNEL_WORDS, 1),
        regions=(
            Region(_CONSTANTS, RegionRole.CONSTANTS, constants, stream.ljust(constants, b"\0")),
            Region(_ARENA, RegionRole.ARENA, ofm_address + _bytes(single.ofm, layout)),
        ),
    )
