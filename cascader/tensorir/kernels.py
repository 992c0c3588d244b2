"""One TensorIR function per kernel of a network. It computes any rows of the OFM with the hardware's numerics, in tensors that may roll."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.network.network import CONSTANTS, EthosuPart
from cascader.tensorir.kernel_body import Elements, KernelBody, StoredBuffer, elements
from cascader.tensorir.kernel_constants import ConstantPool, lut_values, take
from cascader.tensorir.kernel_elementwise import elementwise
from cascader.tensorir.kernel_windowed import BLOCK, SumWindow, blocked_weights, window_sum, windowed
from cascader.tensorir.numerics import OutputUnit
from cascader.tensorir.writer import Writer
from npu_model.accelerator import Accelerator
from npu_model.program import ByteRange, FeatureMap, OperationKind

SCRATCH = BLOCK
"""The most accumulators of a kernel: one block of channels, which the NPU keeps in SHRAM.

The caller passes them in, as TVM's inner functions have no buffers.
"""


class NestOperand(Struct, frozen=True):
    """Target of a kernel's pointer: ``offset`` bytes into ``tensor``, or into the pool if that is None."""

    tensor: str | None
    offset: int


class KernelNest(Struct, frozen=True):
    """A kernel's function, and the arguments of a call.

    First come ``operands``, then accumulators of the type ``accumulator`` ("" for none), the counter, and the first row and the number of
    rows (columns, where the part is cut along them). The function has a counter of multiply-accumulates if the KernelWriter counts them and
    the kernel has any.
    """

    function: Any
    operands: tuple[NestOperand, ...]
    accumulator: str
    counts: bool


class KernelWriter(Struct, frozen=True, eq=False):
    """Writes the kernels of one network. They may count their multiply-accumulates; their constants are gathered in ``pool``."""

    accelerator: Accelerator
    constants: bytes
    pool: ConstantPool
    counting: bool

    def kernel(self, name: str, part: EthosuPart, storages: Mapping[str, StoredBuffer]) -> KernelNest:
        """The function of a part whose tensors lie in ``storages``; InputError names the part if it cannot be expressed."""
        operation, what = part.operation, f"Part {name!r} ({part.operation.mnemonic})"
        made = _Parameters(self, part, storages, what)
        unit = OutputUnit(made.writer, operation, what)
        ifm = made.feature_map("ifm", operation.ifm, part.ifm)
        second = operation.ifm2
        ifm2 = made.feature_map("ifm2", second, part.ifm2) if second is not None and part.ifm2 is not None else None
        ofm = made.feature_map("ofm", operation.ofm, part.ofm)
        lut = made.constant("lut", lut_values(part, self.constants, self.accelerator, what))
        window = None if operation.kind is OperationKind.ELEMENTWISE else self._window(made, unit)
        first, count = made.writer.integer("first"), made.writer.integer("count")
        body = KernelBody(unit, ifm, ifm2, ofm, lut, part.axis, first, count)
        if window is None:
            elementwise(body)
        else:
            windowed(body, window)
        # An elementwise kernel may overwrite its operand; no other kernel's parameters share bytes.
        function = made.writer.function(no_alias=window is not None)
        accumulator = "" if window is None else window.sums.accumulator
        return KernelNest(function, tuple(made.operands), accumulator, counts=window is not None and self.counting)

    def _window(self, made: _Parameters, unit: OutputUnit) -> SumWindow:
        """The parameters of a kernel with a window."""
        sums = window_sum(unit, self.constants, self.accelerator)
        weights = made.constant("weights", None if sums.weights is None else blocked_weights(sums, sums.weights))
        table = made.constant("table", sums.table)
        scratch = made.writer.pointer("scratch", sums.accumulator, SCRATCH)
        return SumWindow(sums, weights, table, scratch, made.writer.pointer("macs", "int64", 1) if self.counting else None)


class _Parameters:
    """The parameters of one kernel, in the order of its operands."""

    def __init__(self, owner: KernelWriter, part: EthosuPart, storages: Mapping[str, StoredBuffer], what: str) -> None:
        self._owner, self._part, self._storages, self._what = owner, part, storages, what
        self.writer = Writer()
        self.operands: list[NestOperand] = []

    def feature_map(self, name: str, feature_map: FeatureMap, tensor: str) -> Elements:
        """The parameter of a feature map; a constant map is kept in the pool."""
        base = feature_map.base
        if feature_map.region != CONSTANTS:
            made = elements(self.writer, name, feature_map, self._storages[tensor], self._part.axis, self._what)
            self.operands.append(NestOperand(tensor, made.offset))
            return made
        content = take(self._owner.constants, ByteRange(CONSTANTS, base, feature_map.byte_ranges()[-1].end), self._what)
        self.operands.append(NestOperand(None, self._owner.pool.add(np.frombuffer(content, np.uint8))))
        return elements(self.writer, name, feature_map, StoredBuffer(base + len(content)), self._part.axis, self._what)

    def constant(self, name: str, values: NDArray[Any] | None) -> Any:
        """The parameter of an array in the pool; None if there is no array."""
        if values is None:
            return None
        self.operands.append(NestOperand(None, self._owner.pool.add(values)))
        return self.writer.pointer(name, str(values.dtype), len(values))
