"""The parts of a .tflite model as plain records that can be written: tensors, operators, signatures, the model."""

from __future__ import annotations

from msgspec import Struct

from npu_model.brief import Brief

FieldValue = int | float | bool | str | tuple[int, ...] | tuple[float, ...]
"""A field of an options table: a tuple is a vector of 32-bit integers or floats."""


class TensorRecord(Brief, frozen=True):
    """One tensor: ``dtype`` is a tflite.TensorType; ``data`` is empty unless it is constant; several scales mean one per channel.

    ``minimums`` and ``maximums`` are the converter's record of the real values; ``shape_signature`` has -1 for an unknown extent.
    """

    unshown = ("data",)

    name: str
    shape: tuple[int, ...]
    dtype: int
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    quantised_dimension: int = 0
    data: bytes = b""
    minimums: tuple[float, ...] = ()
    maximums: tuple[float, ...] = ()
    shape_signature: tuple[int, ...] = ()
    is_variable: bool = False


class OperatorRecord(Struct, frozen=True):
    """One operator: its tflite.BuiltinOperator and version, tensors by index (-1 for none), the options table and its fields.

    A custom operator has a ``custom_code`` and may have ``custom_options``, which only its own kernel understands. ``intermediates`` are
    tensors that give the quantisation of values within the operator.
    """

    code: int
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: str = ""
    fields: tuple[tuple[str, FieldValue], ...] = ()
    custom_code: str = ""
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    @property
    def kind(self) -> tuple[int, int, str]:
        """The operator's entry in the table of operator codes: code, version and custom code."""
        return self.code, self.version, self.custom_code


class SignatureRecord(Struct, frozen=True):
    """A signature: its key, and its names for inputs and outputs (tensors by index) of a ``subgraph`` (0 is the first)."""

    key: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    subgraph: int = 0


class SubgraphRecord(Struct, frozen=True):
    """A subgraph ``name``, with inputs and outputs by tensor index."""

    name: str
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class ModelRecord(Struct, frozen=True):
    """A model: its first subgraph ``name``, with inputs and outputs by tensor index, the ``others``, and named metadata."""

    name: str
    description: str
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    metadata: tuple[tuple[str, bytes], ...] = ()
    signatures: tuple[SignatureRecord, ...] = ()
    others: tuple[SubgraphRecord, ...] = ()

    @property
    def subgraphs(self) -> tuple[SubgraphRecord, ...]:
        """All subgraphs, the first one first."""
        return (SubgraphRecord(self.name, self.tensors, self.operators, self.inputs, self.outputs), *self.others)
