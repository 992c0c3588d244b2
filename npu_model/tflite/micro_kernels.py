"""Bytes of TFLite Micro's arena that one operator on the CPU takes: what its kernel keeps, and its scratch.

Source: the requests that Arm's ready firmware made of its arena for 300 networks of one operator. The emulator read them. The firmware is
of the wheel mlia-ethos-u 0.1.0: TFLite Micro of April 2026 with CMSIS-NN, for a core with Helium.
Other builds of the kernels need other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from msgspec import Struct

from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.tflite.kernel_bytes import KernelBytes
from npu_model.tflite.model import TfliteOperator, TfliteTensor
from npu_model.tflite.records import FieldValue

WITH_OPTIONS = ("BATCH_MATMUL", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
"""Operators whose bytes depend on their options."""

_BY_STRUCT = {
    0: (
        "ARG_MAX ARG_MIN BATCH_TO_SPACE_ND BROADCAST_TO CAST CEIL COS EXP EXPAND_DIMS FLOOR FLOOR_DIV FLOOR_MOD LOG MAXIMUM MINIMUM "
        "NEG PACK RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR ROUND SHAPE SIN SLICE SPLIT SPLIT_V SQRT SQUARE SQUEEZE TRANSPOSE UNPACK "
        "ZEROS_LIKE"
    ),
    16: "L2_NORMALIZATION LOGISTIC RELU6 SPACE_TO_BATCH_ND TANH",
    32: (
        "ABS CONCATENATION DEPTH_TO_SPACE DEQUANTIZE DIV EQUAL GATHER GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL "
        "LOG_SOFTMAX MIRROR_PAD NOT_EQUAL PRELU QUANTIZE RELU RSQRT SPACE_TO_DEPTH"
    ),
    48: "ADD_N AVERAGE_POOL_2D CUMSUM MAX_POOL_2D MEAN MUL REDUCE_MAX SUM SVDF",
    64: "ADD BATCH_MATMUL CONV_2D DEPTHWISE_CONV_2D PAD PADV2 SOFTMAX SUB",
    80: "FULLY_CONNECTED TRANSPOSE_CONV",
    96: "STRIDED_SLICE",
    112: "SQUARED_DIFFERENCE",
    256: "ELU",
}
_STRUCTS = {code: size for size, codes in _BY_STRUCT.items() for code in codes.split()}
"""Bytes of a kernel's own structure, by the operator, rounded up to the arena's alignment of 16."""

_WORD, _EACH_CHANNEL = 4, 2
"""A sum or a multiplier has 4 bytes. A channel has a multiplier and a shift."""

_DEPTHWISE_CHANNELS, _ROWS = 124, 4
"""Channels of a depthwise block, and rows that a kernel multiplies together."""

_DEEP, _SMALL_STRIDE = 16, 2
"""A transposed convolution of more channels, with no larger stride, runs as a convolution of an enlarged image."""

_EXPONENTS = 2 * 513
"""Bytes of each of the two tables of a SOFTMAX of 16 bits."""


def _aligned(*sizes: int) -> tuple[int, ...]:
    return tuple(round_up(size, ALIGNMENT) for size in sizes if size > 0)


class _Operands(Struct, frozen=True):
    """An operator's operands (None: absent), its first output, and the fields of its options."""

    inputs: tuple[TfliteTensor | None, ...]
    output: TfliteTensor
    options: Mapping[str, FieldValue]

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of an operand; IndexError if it is absent."""
        found = self.inputs[number]
        if found is None:
            raise IndexError(number)
        return found.shape

    def option(self, name: str) -> int:
        """An integer of the options, at least 1."""
        value = self.options.get(name, 1)
        return max(value, 1) if isinstance(value, int) else 1

    @property
    def bits(self) -> int:
        """8 or 16 for signed integers of so many bits, else 0."""
        return {"INT8": 8, "INT16": 16}.get(self.output.dtype, 0)


def _channels(count: int) -> int:
    """Bytes of the arrays of multipliers and shifts."""
    return _EACH_CHANNEL * sum(_aligned(_WORD * count))


def _columns(count: int, bits: int) -> int:
    """Bytes of the four columns of ``count`` elements that a convolution gathers."""
    return _ROWS * round_up(count, ALIGNMENT) if bits == 8 else _ROWS * 2 * round_up(count, ALIGNMENT // 2)


def _convolution(op: _Operands) -> KernelBytes:
    filters, height, width, depth = op.shape(1)
    if not op.bits:
        return KernelBytes()
    flat = op.bits == 8 and height == 1
    columns = 0 if flat and width == 1 else _columns(height * width * depth, op.bits)
    return KernelBytes(_channels(filters), _aligned(columns), perhaps=flat)


def _depthwise(op: _Operands) -> KernelBytes:
    _, height, width, channels = op.shape(1)
    depth, window = op.shape(0)[3], height * width
    if not op.bits:
        return KernelBytes()
    dilated = op.option("DilationHFactor") * op.option("DilationWFactor") > 1
    if op.bits > 8 or dilated or depth not in (1, channels):
        return KernelBytes(_channels(channels))
    whole = _ROWS * _DEPTHWISE_CHANNELS * window if depth == channels else _columns(window, 8) + window * channels
    return KernelBytes(_channels(channels), _aligned(whole))


def _transposed(op: _Operands) -> KernelBytes:
    """Sums of the rows that one input row reaches.

    A deep one with small strides is a convolution with turned weights, and one of 16 bits has a sum for each element of the output.
    """
    filters, height, width, depth = op.shape(1)
    down, across = op.option("StrideH"), op.option("StrideW")
    columns = op.shape(2)[2]
    if not op.bits:
        return KernelBytes(_channels(filters))
    if op.bits > 8:
        return KernelBytes(_channels(filters), _aligned(2 * _WORD * prod(op.output.shape)))
    if depth > _DEEP and max(down, across) <= _SMALL_STRIDE:
        window = height * width * depth
        return KernelBytes(_channels(filters), _aligned(_columns(window, 8), window * filters))
    # CMSIS-NN compares the kernel's width with the stride down; the firmware asked for that.
    sums = ((columns - 1) * across + max(width, down)) * max(height, down) * filters
    return KernelBytes(_channels(filters), _aligned(_WORD * sums))


def _dense(op: _Operands) -> KernelBytes:
    """Sums of constant weights are kept, and multipliers if each unit has its own."""
    weights, units = op.inputs[1], op.shape(1)[0]
    several = weights is not None and len(weights.scales) > 1
    sums = sum(_aligned(_WORD * units)) if op.bits == 8 else 0
    return KernelBytes(sums + (_channels(units) if several and op.bits else 0))


def _softmax(op: _Operands) -> KernelBytes:
    return KernelBytes(2 * sum(_aligned(_EXPONENTS)) if op.bits > 8 else 0)


def _reduction(op: _Operands) -> KernelBytes:
    return KernelBytes(0, _aligned(_WORD * prod(op.output.shape)) if op.bits else ())


def _sum(op: _Operands) -> KernelBytes:
    return KernelBytes(0, _aligned(_WORD * len(op.inputs)))


def _extreme(op: _Operands) -> KernelBytes:
    return KernelBytes(0, _aligned(_WORD * len(op.shape(0)), _WORD * prod(op.shape(1))))


def _mirror(op: _Operands) -> KernelBytes:
    return KernelBytes(0, _aligned(*2 * (_WORD * len(op.shape(0)),)))


def _matrices(op: _Operands) -> KernelBytes:
    """The kernel keeps room for a first operand that is turned, and for a second one that is not."""
    element = {"INT8": 1, "INT16": 2}.get(op.output.dtype, 4)
    turned = [op.shape(0)] if op.options.get("AdjX") else []
    turned += [] if op.options.get("AdjY") else [op.shape(1)]
    kept = sum(_aligned(*(size for shape in turned for size in (1, 1, element * prod(shape)))))
    return KernelBytes(kept, _aligned(_WORD * op.output.shape[-1]) if op.bits == 8 else ())


def _filters(op: _Operands) -> KernelBytes:
    """SVDF keeps a sum for each filter; a result of each filter and of each unit is scratch."""
    batch, filters, units = op.shape(0)[0], op.shape(1)[0], op.output.shape[-1]
    return KernelBytes(sum(_aligned(_WORD * filters)), _aligned(_WORD * batch * filters, _WORD * batch * units))


_KERNELS: dict[str, Callable[[_Operands], KernelBytes]] = {
    "ADD_N": _sum,
    "BATCH_MATMUL": _matrices,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _dense,
    "MEAN": _reduction,
    "MIRROR_PAD": _mirror,
    "REDUCE_MAX": _extreme,
    "SOFTMAX": _softmax,
    "SUM": _reduction,
    "SVDF": _filters,
    "TRANSPOSE_CONV": _transposed,
}

_MOST = 1 << 40
"""Bytes above which a damaged file is meant."""


def kernel_bytes(operator: TfliteOperator, tensors: Sequence[TfliteTensor], options: Mapping[str, FieldValue]) -> KernelBytes | None:
    """The bytes of an operator's kernel; None for a kernel that was not measured, or for tensors of other ranks.

    ``options`` is needed for :data:`WITH_OPTIONS` alone.
    """
    if operator.name not in _STRUCTS or not operator.outputs:
        return None
    operands = tuple(tensors[index] if index >= 0 else None for index in operator.inputs)
    try:
        kernel = _KERNELS.get(operator.name)
        own = KernelBytes() if kernel is None else kernel(_Operands(operands, tensors[operator.outputs[0]], options))
    except (IndexError, ValueError):
        return None
    kept = own.kept + _STRUCTS[operator.name]
    return None if max(kept, *own.scratch, 0) > _MOST else KernelBytes(kept, own.scratch, own.perhaps)
