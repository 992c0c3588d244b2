"""One TensorIR function per kernel of a network: any rows of its OFM, with the numerics of the hardware, on tensors that may roll."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network import CONSTANTS, LUT_SLOT, EthosuPart
from cascader.tensorir.constant_pool import ConstantPool
from cascader.tensorir.elements import Elements, Storage, elements
from cascader.tensorir.kernel_convolution import Filter, blocked_weights, convolve, depthwise
from cascader.tensorir.kernel_elementwise import Elementwise, elementwise
from cascader.tensorir.kernel_pooling import Pool, pooling
from cascader.tensorir.numerics import channel_table, clip_type, lut_entries, table_bound
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import (
    AccumulatorFormat,
    ActivationKind,
    ByteRange,
    FeatureMap,
    OperationKind,
)
from npu_model.weights import decode_scales, weights_from_stream

SCRATCH = 32
"""Accumulators that a kernel works with: one block of output channels, which the NPU keeps in SHRAM."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What a kernel's pointer points to: ``offset`` bytes into a tensor, or (None) into the pool."""

    tensor: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's function; it takes ``operands``, accumulators of the type ``accumulator`` ("" for none), its counter, first row and rows.

    The counter, of multiply-accumulates, is there if the KernelWriter counts and the kernel has any to count.
    """

    function: Any
    operands: tuple[Operand, ...]
    accumulator: str
    counts: bool


def _take(constants: bytes, span: ByteRange, what: str) -> bytes:
    if span.region != CONSTANTS or span.end > len(constants):
        raise InputError(
            f"{what} reads bytes {span.start} to {span.end} of region {span.region}, which are no constants: make the schedule anew."
        )
    return constants[span.start : span.end]


class KernelWriter:
    """Writes the kernels of one network, which count their multiply-accumulates or not; their constants gather in ``pool``."""

    def __init__(self, accelerator: Accelerator, constants: bytes, pool: ConstantPool, *, counting: bool) -> None:
        self.accelerator = accelerator
        self.constants = constants
        self.pool = pool
        self.counting = counting

    def kernel(self, name: str, part: EthosuPart, storages: Mapping[str, Storage]) -> Kernel:
        """The function of a part whose tensors lie in ``storages``; InputError, with the part's name, if it cannot be expressed."""
        return _KernelInTheMaking(self, name, part, storages).kernel()


class _KernelInTheMaking:
    """One kernel: parameters in the order of its operands, then the body."""

    def __init__(self, owner: KernelWriter, name: str, part: EthosuPart, storages: Mapping[str, Storage]) -> None:
        self.owner = owner
        self.part, self.operation, self.storages = part, part.operation, storages
        self.what = f"Part {name!r} ({part.operation.mnemonic})"
        self.writer = Writer()
        self.operands: list[Operand] = []

    def kernel(self) -> Kernel:
        operation, writer, what = self.operation, self.writer, self.what
        ifm = self._map("ifm", operation.ifm, self.part.ifm)
        second = operation.ifm2
        ifm2 = self._map("ifm2", second, self.part.ifm2) if second is not None and self.part.ifm2 is not None else None
        ofm = self._map("ofm", operation.ofm, self.part.ofm)
        lut = self._lut()
        windowed = operation.kind is not OperationKind.ELEMENTWISE
        accumulator = ""
        if operation.kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE):
            body = convolve if operation.kind is OperationKind.CONV_2D else depthwise
            weights, table, accumulator = self._filter()
            scratch, macs = self._counters(accumulator)
            body(writer, operation, ifm, ofm, Filter(weights, table, scratch, accumulator, macs), lut, self._rows(), what)
        elif operation.kind is OperationKind.POOL:
            accumulator = "int64"
            scratch, macs = self._counters(accumulator)
            pooling(writer, operation, ifm, ofm, Pool(scratch, macs, lut), self._rows(), what)
        else:
            elementwise(writer, Elementwise(operation, ifm, ifm2, ofm, lut, what), self._rows())
        # An elementwise kernel may overwrite its operand; no other kernel's parameters share bytes.
        function = writer.function(no_alias=windowed)
        return Kernel(function, tuple(self.operands), accumulator, counts=windowed and self.owner.counting)

    def _map(self, name: str, feature_map: FeatureMap, tensor: str) -> Elements:
        """The parameter of a feature map, which begins with its first element; a constant one is kept in the pool."""
        base = feature_map.tiles.bases[0]
        if feature_map.region != CONSTANTS:
            self.operands.append(Operand(tensor, base))
            storage = self.storages[tensor]
            return elements(self.writer, name, feature_map, storage, storage.size - base, self.what)
        content = _take(self.owner.constants, ByteRange(CONSTANTS, base, feature_map.byte_ranges()[-1].end), self.what)
        self.operands.append(Operand(None, self.owner.pool.add(np.frombuffer(content, np.uint8))))
        return elements(self.writer, name, feature_map, Storage(len(content)), len(content), self.what)

    def _pooled(self, name: str, dtype: str, values: NDArray[Any]) -> Any:
        self.operands.append(Operand(None, self.owner.pool.add(values)))
        return self.writer.pointer(name, dtype, len(values))

    def _counters(self, accumulator: str) -> tuple[Any, Any]:
        """The parameters of accumulators and, if anything is counted, of the counter."""
        scratch = self.writer.pointer("scratch", accumulator, SCRATCH)
        return scratch, self.writer.pointer("macs", "int64", 1) if self.owner.counting else None

    def _rows(self) -> tuple[Any, Any]:
        return self.writer.integer("first"), self.writer.integer("rows")

    def _lut(self) -> Any:
        """The operation's table as 64-bit elements, None if it has none; of a 16-bit one all bases, then all slopes."""
        operation, load = self.operation, self.part.lut
        if operation.activation.kind is not ActivationKind.LUT:
            return None
        if load is None:
            raise InputError(f"{self.what} uses a look-up table that it does not load: make the schedule anew.")
        entries = lut_entries(operation, self.what)
        wide = clip_type(operation).bits == 16
        word = "<u4" if wide else f"<{'i' if operation.ofm.dtype.signed else 'u'}{operation.ofm.dtype.bytes}"
        start = self.owner.accelerator.lut_address + operation.activation.lut * LUT_SLOT - load.destination
        content = _take(self.owner.constants, load.source, self.what)[max(start, 0) :][: entries * np.dtype(word).itemsize]
        values = np.frombuffer(content, word)
        if start < 0 or len(values) != entries:
            raise InputError(f"{self.what} reads {entries} entries of a table of which {len(values)} are loaded: make the schedule anew.")
        if wide:
            values = np.concatenate([(values & 0xFFFF).astype("<u2").view("<i2"), (values >> 16).astype("<u2").view("<i2")])
        return self._pooled("lut", "int64", values.astype("<i8"))

    def _filter(self) -> tuple[Any, Any, str]:
        """Weights, channel table and the accumulators' type of a convolution."""
        operation, what = self.operation, self.what
        if operation.ifm.dtype.bits == 32 or operation.global_scale or len(operation.weights) != 1 or len(operation.scales) != 1:
            raise InputError(
                f"{what} reads {operation.ifm.dtype} with {len(operation.weights)} weight streams: 8 or 16 bits and one are expressed."
            )
        if operation.accumulator is AccumulatorFormat.FP16:
            raise InputError(f"{what} accumulates in FP16: integer accumulators are expressed in TensorIR; compile with 8 or 16 bits.")
        if operation.kind is OperationKind.DEPTHWISE and operation.ifm.shape.depth != operation.ofm.shape.depth:
            raise InputError(
                f"{what} has {operation.ifm.shape.depth} IFM and {operation.ofm.shape.depth} OFM channels: they must be as many."
            )
        weights = weights_from_stream(operation, _take(self.owner.constants, operation.weights[0], what), self.owner.accelerator)
        records = decode_scales(_take(self.owner.constants, operation.scales[0], what), operation.ofm.shape.depth)
        rows = channel_table([(record.bias, record.scale, record.shift) for record in records], operation.rounding)
        fm = operation.ifm
        largest = max(abs(fm.dtype.minimum - fm.zero_point), abs(fm.dtype.maximum - fm.zero_point))
        bound = int(np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)).max(initial=0)) * largest
        if table_bound(rows, bound) >= 1 << 63:
            raise InputError(
                f"{what} may reach {table_bound(rows, bound)} before its shift: TensorIR computes in 64 bits; use smaller scales."
            )
        blocked = blocked_weights(operation, weights)
        table = np.array(rows, "<i8").ravel()
        made = self._pooled("weights", str(blocked.dtype), blocked), self._pooled("table", "int64", table)
        return *made, "int32" if bound < 1 << 31 else "int64"
