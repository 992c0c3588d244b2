"""A Program of one convolution with a given block, for operators with published cycles and nothing else.

The source states none of the following, which is assumed: feature maps of int8 in SRAM, densely packed, in NHWC;
weights that use all of their 8 bits, in external memory; adapters off; depth-first traversal, but part-kernel where the IFM has
at most 8 channels (Vela's rule); blocks rounded up to whole ublocks.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import (
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


def _feature_map(address: int, shape: Shape3D) -> FeatureMap:
    strides = Strides(shape.width * shape.depth, shape.depth, 1)
    return FeatureMap(_ARENA, shape, _INT8, Layout.NHWC, Tiles.single(shape, address), strides)


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
def single_program(single: SingleOperator) -> Program:
    """The Program of one operator, with the assumptions of this module; InputError if its block does not fit."""
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
    ofm_address = round_up(single.ifm.elements, ALIGNMENT)
    operation = KernelOperation(
        kind=kind,
        ifm=_feature_map(0, single.ifm),
        ofm=_feature_map(ofm_address, single.ofm),
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
            Region(_ARENA, RegionRole.ARENA, ofm_address + single.ofm.elements),
        ),
    )
