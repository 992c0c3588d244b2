"""One TensorIR function per kernel of a network: any rows of its OFM, with the numerics of the hardware, on tensors that may roll."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.ethosu.network.network import CONSTANTS, EthosuPart
from cascader.tensorir.constant_pool import ConstantPool
from cascader.tensorir.elements import Elements, Storage, elements
from cascader.tensorir.kernel_body import KernelBody, Stripe
from cascader.tensorir.kernel_constants import lut_values, take
from cascader.tensorir.kernel_elementwise import elementwise
from cascader.tensorir.kernel_sums import window_sum
from cascader.tensorir.kernel_windowed import BLOCK, blocked_weights, windowed
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.program import ByteRange, FeatureMap, OperationKind
from npu_model.values import dataclass

SCRATCH = BLOCK
"""Accumulators that a kernel is given, as TVM has no buffers of inner functions: one block of channels, which the NPU keeps in SHRAM."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Target of a kernel's pointer: ``offset`` bytes into ``tensor``, or (None) into the pool."""

    tensor: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's function, and what it is called with.

    First come ``operands``, then accumulators of the type ``accumulator`` ("" for none), the counter, and the first row and the
    number of rows (columns, where the part is cut along them). The counter, of multiply-accumulates, is there if the KernelWriter
    counts and the kernel has any to count.
    """

    function: Any
    operands: tuple[Operand, ...]
    accumulator: str
    counts: bool


@dataclass(frozen=True, slots=True, eq=False)
class KernelWriter:
    """Writes the kernels of one network, which count their multiply-accumulates or not; their constants gather in ``pool``."""

    accelerator: Accelerator
    constants: bytes
    pool: ConstantPool
    counting: bool

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
        operation, writer, what, owner = self.operation, self.writer, self.what, self.owner
        ifm = self._map("ifm", operation.ifm, self.part.ifm)
        second = operation.ifm2
        ifm2 = self._map("ifm2", second, self.part.ifm2) if second is not None and self.part.ifm2 is not None else None
        ofm = self._map("ofm", operation.ofm, self.part.ofm)
        values = lut_values(self.part, owner.constants, owner.accelerator, what)
        lut = None if values is None else self._pooled("lut", "int64", values)
        has_window = operation.kind is not OperationKind.ELEMENTWISE
        sums = window_sum(operation, owner.constants, owner.accelerator, what) if has_window else None
        weights = table = None
        if sums is not None and sums.filters is not None:
            blocked = blocked_weights(sums, sums.filters.weights)
            weights = self._pooled("weights", str(blocked.dtype), blocked)
            table = self._pooled("table", "int64", sums.filters.table)
        accumulator = "" if sums is None else sums.accumulator
        scratch = writer.pointer("scratch", accumulator, SCRATCH) if has_window else None
        macs = writer.pointer("macs", "int64", 1) if has_window and owner.counting else None
        stripe = Stripe(writer.integer("first"), writer.integer("count"), self.part.axis)
        body = KernelBody(writer, operation, ifm, ifm2, ofm, lut, scratch, accumulator, macs, stripe, what)
        if sums is None:
            elementwise(body)
        else:
            windowed(body, sums, weights, table)
        # An elementwise kernel may overwrite its operand; no other kernel's parameters share bytes.
        return Kernel(writer.function(no_alias=has_window), tuple(self.operands), accumulator, counts=macs is not None)

    def _map(self, name: str, feature_map: FeatureMap, tensor: str) -> Elements:
        """The parameter of a feature map; a constant one is kept in the pool."""
        base = feature_map.base
        if feature_map.region != CONSTANTS:
            made = elements(self.writer, name, feature_map, self.storages[tensor], self.part.axis, self.what)
            self.operands.append(Operand(tensor, made.offset))
            return made
        content = take(self.owner.constants, ByteRange(CONSTANTS, base, feature_map.byte_ranges()[-1].end), self.what)
        self.operands.append(Operand(None, self.owner.pool.add(np.frombuffer(content, np.uint8))))
        return elements(self.writer, name, feature_map, Storage(base + len(content)), self.part.axis, self.what)

    def _pooled(self, name: str, dtype: str, values: NDArray[Any]) -> Any:
        self.operands.append(Operand(None, self.owner.pool.add(values)))
        return self.writer.pointer(name, dtype, len(values))
