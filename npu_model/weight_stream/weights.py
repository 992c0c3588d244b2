"""Weight and scale streams: the compressed weights and the scale and bias records that a convolution reads."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.native import native
from npu_model.program import KernelOperation, OperationKind
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import ceil_div
from npu_model.weight_stream.mlw import decode
from npu_model.weight_stream.order import Int16, WeightFormat, check_format, from_hardware_order, ifm_steps, symbol_count

MAX_WEIGHT = 255
"""Largest magnitude of a weight once its zero point is subtracted: the decoder yields 9-bit signed values."""
RECORD_BYTES = 10
"""Bytes of one channel's scale and bias record: bias 40 bits, scale 32, shift 6, little endian (Vela 5.2.0 ``npu_encode_bias``)."""
_MOST_BYTES = 32 << 20
"""The most bytes of kept weights and streams; beyond it all are dropped."""
_BIAS_BITS, _SCALE_BITS, _SHIFT_BITS = 40, 32, 6


_NATIVE = native("npu_model")
"""The compiled coder: the stream of weights in the order of a format, without Python's lock. None if it is not built."""


def encode_weights(weights: npt.NDArray[np.integer], layout: WeightFormat, accelerator: Accelerator) -> bytes:
    """Compressed stream of weights (OHWI, zero point subtracted), a multiple of 16 bytes long.

    The stream equals that of ``ethosu.vela.api.npu_encode_weights``, byte for byte. Without a compiled core, Vela's codec makes it.
    """
    check_format(weights.shape, layout, accelerator)
    largest = max(int(weights.max()), -int(weights.min()))
    if largest > MAX_WEIGHT:
        raise InputError(f"A weight has magnitude {largest}: {MAX_WEIGHT} is the limit of the decoder; quantise the weights to 8 bits.")
    plain = np.ascontiguousarray(weights, np.int16)
    content, shape = plain.tobytes(), plain.shape
    terms = shape, layout, accelerator.name

    def made() -> bytes:
        stream = _encoded(content, shape, layout, accelerator)
        if len(_CODED) >= _MOST_CODED:
            _CODED.clear()
        _CODED.add((sha256(stream).digest(), terms))
        return stream

    return _STREAMS.of(content, terms, made)


_CODED: set[tuple[bytes, tuple[object, ...]]] = set()
"""Digests of the streams that this process has coded, with their terms: these need no proof that they can be decoded."""
_MOST_CODED = 1 << 16


def are_coded_here(op: KernelOperation, streams: Sequence[bytes], accelerator: Accelerator) -> bool:
    """Whether this process has coded the stream of each core for a kernel of this shape and format."""
    own = ((stream, core_format(op, core)) for core, stream in enumerate(streams))
    return all((sha256(stream).digest(), (*format_of, accelerator.name)) in _CODED for stream, format_of in own)


def keep_weights(stream: bytes, weights: npt.NDArray[np.integer], layout: WeightFormat, accelerator: Accelerator) -> None:
    """Keep the weights from which a core's stream was coded, so that a later request need not decode the stream."""
    plain = np.ascontiguousarray(weights, np.int16)
    _WEIGHTS.of(stream, (plain.shape, layout, accelerator.name), lambda: plain)


def _terms(shape: tuple[int, ...], layout: WeightFormat, accelerator: Accelerator) -> array[int]:
    """The terms of an order in the compiled core's form: ``Order`` of order.h."""
    blocks = layout.block_depth, accelerator.ofm_ublock.depth, *ifm_steps(layout, accelerator)
    return array("q", (*shape, *blocks, layout.element_multiple, *layout.subkernel, layout.part_kernel))


def _encoded(plain: bytes, shape: tuple[int, ...], layout: WeightFormat, accelerator: Accelerator) -> bytes:
    if _NATIVE is not None:
        stream: bytes = _NATIVE.encode_weights(plain, _terms(shape, layout, accelerator))
        return stream
    from ethosu import mlw_codec  # noqa: PLC0415  # only who encodes weights without a compiled core pays for the extension

    sub_height, sub_width = layout.subkernel
    encoded, _ = mlw_codec.reorder_encode(
        accelerator.ifm_ublock.depth,
        accelerator.ofm_ublock.depth,
        np.frombuffer(plain, np.int16).reshape(shape),
        layout.block_depth,
        layout.depthwise,
        layout.part_kernel,
        layout.ifm_bits,
        sub_height,
        sub_width,
    )
    return bytes(encoded)


T = TypeVar("T", bytes, Int16)


class _Kept(Generic[T]):
    """Streams or weights that this process has computed, because the forms of one network share most of them.

    A digest identifies their source: weights in 16 bits are several times as large as their stream.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], T] = {}
        self._bytes = 0

    def of(self, content: bytes, terms: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the result of ``make`` for some content on some terms. ``make`` is called once unless too many results were kept since."""
        key = sha256(content).digest(), terms
        found = self._known.get(key)
        if found is None:
            found = make()
            size = len(found) if isinstance(found, bytes) else found.nbytes
            self._bytes += size
            if self._bytes > _MOST_BYTES:
                self._known.clear()
                self._bytes = size
            self._known[key] = found
        return found


_STREAMS = _Kept[bytes]()
_WEIGHTS = _Kept[Int16]()


def decode_stream(stream: bytes, limit: int | None = None) -> Int16:
    """Symbols of a compressed stream, in hardware order, ``limit`` at most.

    InputError if its length is not a weight range's, or for a reason of :func:`npu_model.weight_stream.mlw.decode`.
    """
    _require_length(stream)
    return decode(stream, limit)


def _require_length(stream: bytes) -> None:
    """InputError if the length of a stream is not a weight range's."""
    if not stream or len(stream) % ALIGNMENT:
        raise InputError(
            f"A weight stream of {len(stream)} bytes is not a positive multiple of {ALIGNMENT} bytes: the file is cut off; "
            "compile the network again."
        )


def weight_shape(op: KernelOperation) -> tuple[int, int, int, int]:
    """Shape (OHWI) of the weights of a convolution or depthwise operation; IFM channels are 1 for depthwise."""
    kernel = op.kernel
    channels = 1 if op.kind is OperationKind.DEPTHWISE else op.ifm.shape.depth
    return op.ofm.shape.depth, kernel.height, kernel.width, channels


def core_channels(depth: int, core: int, cores: int) -> int:
    """OFM channels of one core. The cores take the channels in turn, so core 0 has the odd one."""
    return ceil_div(depth - core, cores)


def core_format(op: KernelOperation, core: int) -> tuple[tuple[int, int, int, int], WeightFormat]:
    """Shape (OHWI) and format of one core's weights. The cores share the depth of a block as they share the tensor's."""
    depth, *others = weight_shape(op)
    layout, cores = WeightFormat.of(op), len(op.weights)
    shape = (core_channels(depth, core, cores), *others)
    return (shape[0], shape[1], shape[2], shape[3]), replace(layout, block_depth=core_channels(layout.block_depth, core, cores))


def weights_from_stream(op: KernelOperation, stream: bytes, accelerator: Accelerator, core: int = 0) -> Int16:
    """Weights (OHWI, zero point subtracted) of a convolution or depthwise operation, from the bytes of its weight range.

    If each core has its own range, these are the weights of the channels of ``core``. InputError if the stream is damaged or does not fit
    the operation.
    """
    shape, layout = core_format(op, core)
    check_format(shape, layout, accelerator)

    def decoded() -> Int16:
        _require_length(stream)
        if _NATIVE is not None:
            plain: bytes | None = _NATIVE.decode_plain(stream, _terms(shape, layout, accelerator))
            if plain is not None:
                return np.frombuffer(plain, np.int16).reshape(shape)
        found = from_hardware_order(decode_stream(stream, symbol_count(shape, layout, accelerator)), shape, layout, accelerator)
        found.flags.writeable = False
        return found

    return _WEIGHTS.of(stream, (shape, layout, accelerator.name), decoded)


class ChannelScale(Struct, frozen=True):
    """One channel's record: 40-bit signed bias, 32-bit unsigned scale, 6-bit shift."""

    bias: int
    scale: int
    shift: int


def encode_scales(records: Sequence[ChannelScale]) -> bytes:
    """The scale and bias table of a convolution: 10 bytes a channel, zeros up to a multiple of 16 bytes."""
    table = bytearray()
    for record in records:
        if not -(1 << _BIAS_BITS - 1) <= record.bias < 1 << _BIAS_BITS - 1:
            raise InputError(f"Bias {record.bias} is too large: {_BIAS_BITS} signed bits hold it; check the scales of the network.")
        if not (0 <= record.scale < 1 << _SCALE_BITS and 0 <= record.shift < 1 << _SHIFT_BITS):
            raise InputError(
                f"Scale {record.scale} with shift {record.shift} does not fit: {_SCALE_BITS} and {_SHIFT_BITS} bits hold them; "
                "check the scales of the network."
            )
        table += record.bias.to_bytes(5, "little", signed=True) + record.scale.to_bytes(4, "little") + bytes([record.shift])
    return bytes(table) + bytes(-len(table) % ALIGNMENT)


def require_scales(table: bytes, channels: int) -> None:
    """InputError if a scale and bias table is too short for ``channels`` records."""
    if len(table) < channels * RECORD_BYTES:
        raise InputError(
            f"A scale table of {len(table)} bytes is too short: {channels * RECORD_BYTES} are needed for {channels} channels; "
            "the file is cut off."
        )


def decode_scales(table: bytes, channels: int) -> tuple[ChannelScale, ...]:
    """The first ``channels`` records of a scale and bias table; InputError if it is too short."""
    require_scales(table, channels)
    records = (table[i : i + RECORD_BYTES] for i in range(0, channels * RECORD_BYTES, RECORD_BYTES))
    return tuple(
        ChannelScale(int.from_bytes(r[:5], "little", signed=True), int.from_bytes(r[5:9], "little"), r[9] & ((1 << _SHIFT_BITS) - 1))
        for r in records
    )
