"""A model under change: operators take the place of others, with tensors of their own."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace

import tflite

from npu_model.tflite.model import TfliteTensor
from npu_model.tflite.records import OperatorRecord, TensorRecord

_CODES = tflite.BuiltinOperator


def integers(tensor: TensorRecord | TfliteTensor) -> tuple[int, ...]:
    """The values of a constant of 32-bit integers."""
    return struct.unpack(f"<{len(tensor.data) // 4}i", tensor.data[: len(tensor.data) // 4 * 4])


@dataclass(slots=True)
class ModelRewriter:
    """A model under change: its tensors, to which others are added, and its operators in their new order."""

    tensors: list[TensorRecord]
    operators: list[OperatorRecord] = field(default_factory=list)

    def constant(self, name: str, values: tuple[int, ...]) -> int:
        """A new constant of 32-bit integers along one axis; its number."""
        data = struct.pack(f"<{len(values)}i", *values)
        return self._added(TensorRecord(name, (len(values),), tflite.TensorType.INT32, data=data))

    def scalar(self, name: str, value: int) -> int:
        """A new constant without axes; its number."""
        return self._added(TensorRecord(name, (), tflite.TensorType.INT32, data=struct.pack("<i", value)))

    def like(self, tensor: int, name: str, shape: tuple[int, ...]) -> int:
        """A new tensor of another name and shape, quantised as ``tensor``; its number."""
        return self._added(replace(self.tensors[tensor], name=name, shape=shape, shape_signature=()))

    def image(self, tensor: int, number: int, what: str) -> int:
        """A new tensor as ``tensor``, of one of its images; its number."""
        found = self.tensors[tensor]
        return self.like(tensor, f"{found.name}/{what}_{number}", (1, *found.shape[1:]))

    def joined(self, images: list[int], output: int) -> None:
        """The CONCATENATION of ``images`` that writes ``output``."""
        fields = (("Axis", 0), ("FusedActivationFunction", 0))
        self.operators.append(OperatorRecord(_CODES.CONCATENATION, 1, tuple(images), (output,), "ConcatenationOptions", fields))

    def sliced(self, source: int, begin: tuple[int, ...], size: int, output: int) -> None:
        """The SLICE of ``source`` that writes ``output``: from ``begin`` on, as many elements as the constant ``size`` says."""
        at = self.constant(f"{self.tensors[output].name}/begin", begin)
        self.operators.append(OperatorRecord(_CODES.SLICE, 1, (source, at, size), (output,), "SliceOptions"))

    def reshaped(self, tensor: int, output: int) -> None:
        """The RESHAPE of a tensor that writes ``output``."""
        shape = self.constant(f"{self.tensors[output].name}/shape", self.tensors[output].shape)
        self.operators.append(OperatorRecord(_CODES.RESHAPE, 1, (tensor, shape), (output,), "ReshapeOptions"))

    def _added(self, tensor: TensorRecord) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1
