"""Reading a .tflite model as records for the writer, so that parts of it can be written into another file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from importlib import import_module
from typing import Any

from msgspec.structs import asdict, replace

from npu_model.errors import InputError
from npu_model.tflite.model import TfliteModel, builtin_code, read_tflite
from npu_model.tflite.records import FieldValue, ModelRecord, OperatorRecord, SignatureRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.schema import tflite

SUBGRAPH = "Subgraph"
"""Suffix of fields that say which subgraph an operator runs."""

_OPTION_NAMES = {value: name for name, value in vars(tflite.BuiltinOptions).items() if not name.startswith("_")}


def option_fields(options: str) -> tuple[str, ...]:
    """Names of the fields of an options table, sorted.

    >>> option_fields("DepthToSpaceOptions")
    ('BlockSize',)
    """
    prefix = f"{options}Add"
    names = vars(import_module(f"{tflite.__name__}.{options}"))
    return tuple(sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix)))


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8")


class RecordReader:
    """Records of the tensors and operators of one subgraph of a .tflite file (the first), each read on demand.

    A damaged file can name one vector many times. All vectors together may have at most ``SHARING`` times the file's length.
    """

    SHARING = 4

    def __init__(self, data: bytes) -> None:
        """InputError if ``data`` is damaged."""
        self.model: TfliteModel = read_tflite(data)
        self._root: Any = tflite.Model.GetRootAsModel(data, 0)
        self._graph: Any = self._root.Subgraphs(0)
        self._size = len(data)
        self._left = self.SHARING * len(data)

    def of_subgraph(self, number: int) -> RecordReader:
        """A reader of another subgraph. In its ``model``, that subgraph's tensors and operators take the place of the first one's."""
        graph, other = self.model.others[number - 1], copy(self)
        other.model = replace(
            self.model, tensors=graph.tensors, operators=graph.operators, inputs=graph.inputs, outputs=graph.outputs, others=()
        )
        other._graph = self._root.Subgraphs(number)  # noqa: SLF001  # it is of this class
        return other

    def subgraph(self) -> SubgraphRecord:
        """The whole subgraph; InputError if it has parts that records cannot hold."""
        model = self.model
        tensors = tuple(map(self.tensor, range(len(model.tensors))))
        operators = tuple(map(self.operator, range(len(model.operators))))
        return SubgraphRecord(self.name(), tensors, operators, model.inputs, model.outputs)

    def others(self) -> tuple[SubgraphRecord, ...]:
        """All subgraphs but the first; InputError if one of them has parts that records cannot hold."""
        return tuple(self.of_subgraph(number).subgraph() for number, _ in enumerate(self.model.others, 1))

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Raise InputError for errors of the generated accessors at an offset outside the file."""
        try:
            yield
        except InputError:
            raise
        except (struct.error, IndexError, ValueError, TypeError, AttributeError, OverflowError, MemoryError):
            raise InputError(f"The .tflite file of {self._size} bytes is damaged or cut off: get a fresh copy.") from None

    def _spend(self, length: int) -> int:
        """Count ``length`` elements as read and return it."""
        self._left -= 4 * length
        if self._left < 0:
            raise InputError(
                f"The .tflite file's vectors overlap to over {self.SHARING} times its length: it is damaged; get a fresh copy."
            )
        return length

    def _vector(self, table: Any, name: str) -> tuple[Any, ...]:
        """The vector field ``name`` of a table; () if it is absent."""
        length = self._spend(getattr(table, f"{name}Length")())
        return tuple(getattr(table, f"{name}AsNumpy")().tolist()) if length else ()

    def _field(self, view: Any, name: str) -> FieldValue | None:
        """One field of an options table, None for an absent vector or string."""
        if hasattr(view, f"{name}AsNumpy"):
            return self._vector(view, name) or None
        value: Any = getattr(view, name)()
        return _text(value) if isinstance(value, bytes) else value

    def _options(self, operator: Any) -> tuple[str, tuple[tuple[str, FieldValue], ...]]:
        """Name and fields of an operator's options table; ("", ()) if it has none."""
        name = _OPTION_NAMES.get(operator.BuiltinOptionsType(), "NONE")
        table = operator.BuiltinOptions()
        if table is None or name == "NONE":
            return "", ()
        view = getattr(tflite, name)()
        view.Init(table.Bytes, table.Pos)
        values = [(field, self._field(view, field)) for field in option_fields(name)]
        return name, tuple((field, value) for field, value in values if value is not None)

    def _names(self, signature: Any, side: str) -> tuple[tuple[str, int], ...]:
        """Name and tensor of each entry of a signature's ``Inputs`` or ``Outputs``."""
        length = self._spend(getattr(signature, f"{side}Length")())
        entries = (getattr(signature, side)(index) for index in range(length))
        return tuple((_text(entry.Name()), int(entry.TensorIndex())) for entry in entries)

    def operator(self, index: int) -> OperatorRecord:
        """Operator ``index``; InputError if it has parts that a record cannot hold."""
        with self._guard():
            parsed, operator = self.model.operators[index], self._graph.Operators(index)
            code = self._root.OperatorCodes(operator.OpcodeIndex())
            name, fields = self._options(operator)
            unknown = operator.BuiltinOptionsType() not in _OPTION_NAMES or operator.BuiltinOptions2Type()
            if unknown:
                raise InputError(
                    f"Operator {index} ({parsed.code}) has options that cannot be copied: "
                    "change the network so that Vela places it on the NPU."
                )
            self._check_subgraphs(index, fields)
            intermediates = self._vector(operator, "Intermediates")
            if any(not 0 <= tensor < len(self.model.tensors) for tensor in intermediates):
                raise InputError(f"Operator {index} names a tensor outside 0 to {len(self.model.tensors) - 1}: the file is damaged.")
            return OperatorRecord(
                code=builtin_code(code),
                version=code.Version(),
                inputs=parsed.inputs,
                outputs=parsed.outputs,
                options=name,
                fields=fields,
                custom_code=parsed.custom_code,
                custom_options=bytes(self._vector(operator, "CustomOptions")),
                intermediates=intermediates,
            )

    def _check_subgraphs(self, index: int, fields: tuple[tuple[str, FieldValue], ...]) -> None:
        count = self._root.SubgraphsLength()
        for field, value in fields:
            if SUBGRAPH in field and not (isinstance(value, int) and 0 <= value < count):
                raise InputError(f"Operator {index} runs subgraph {value} but the file has 0 to {count - 1}: the file is damaged.")

    def tensor(self, index: int) -> TensorRecord:
        """Tensor ``index``; InputError if it is sparse or quantised in a custom way."""
        with self._guard():
            parsed, tensor = self.model.tensors[index], self._graph.Tensors(index)
            quantisation = tensor.Quantization()
            if tensor.Sparsity() is not None or (quantisation is not None and quantisation.DetailsType()):
                raise InputError(
                    f"Tensor {parsed.name!r} is sparse or has custom quantisation: write it densely, with scales and zero points."
                )
            least, most = ((), ()) if quantisation is None else (self._vector(quantisation, side) for side in ("Min", "Max"))
            return TensorRecord(**asdict(parsed) | {"dtype": tensor.Type(), "minimums": least, "maximums": most})

    def name(self) -> str:
        """The subgraph's name."""
        with self._guard():
            return _text(self._graph.Name())

    def signatures(self) -> tuple[SignatureRecord, ...]:
        """Signatures of all subgraphs."""
        with self._guard():
            every = (self._root.SignatureDefs(index) for index in range(self._spend(self._root.SignatureDefsLength())))
            return tuple(
                SignatureRecord(_text(one.SignatureKey()), self._names(one, "Inputs"), self._names(one, "Outputs"), one.SubgraphIndex())
                for one in every
            )


def read_records(data: bytes) -> ModelRecord:
    """A .tflite file as records: writing them gives a file with the same content.

    InputError if ``data`` is damaged or holds parts that records cannot hold (sparse tensors, options of the StableHLO set).
    """
    reader = RecordReader(data)
    first, metadata, signatures = asdict(reader.subgraph()), tuple(reader.model.metadata.items()), reader.signatures()
    return ModelRecord(description=reader.model.description, **first, metadata=metadata, signatures=signatures, others=reader.others())
