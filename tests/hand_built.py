"""Networks put together record by record, for operators and graphs that the zoo's builder does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from npu_model.tflite.records import ModelRecord, OperatorRecord, TensorRecord
from npu_model.tflite.writer import write_tflite

TYPES = {"int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float32": "FLOAT32", "bool": "BOOL"}
SCALE, ZERO_POINT = 0.05, 3
WEIGHT_SCALE = 0.01
DENSE_SCALE = 0.0437
"""Scale of a dense layer's output.

It is no round multiple of the scale of what the layer reads: the ties of such a one hang on a multiplier's last bit.
"""


class Graph:
    """One subgraph under construction; methods return tensor numbers."""

    def __init__(self, seed: int = 1) -> None:
        self.tensors: list[TensorRecord] = []
        self.operators: list[OperatorRecord] = []
        self._random = np.random.default_rng(seed)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "int8",
        scale: float | tuple[float, ...] | None = SCALE,
        zero_point: int | None = None,
        data: Any = None,
        *,
        variable: bool = False,
    ) -> int:
        """A tensor, quantised unless ``scale`` is None or it is of a wide or floating type; ``data`` makes it a constant."""
        scales = () if scale is None or dtype in {"float32", "bool", "int64"} else scale if isinstance(scale, tuple) else (scale,)
        zero = (ZERO_POINT if dtype == "int8" and data is None else 0) if zero_point is None else zero_point
        content = b"" if data is None else np.asarray(data, dtype).tobytes()
        kind = getattr(tflite.TensorType, TYPES[dtype])
        record = TensorRecord(name, tuple(shape), kind, scales, (zero,) * len(scales), data=content, is_variable=variable)
        self.tensors.append(record)
        return len(self.tensors) - 1

    def constant(self, name: str, data: Any, dtype: str = "int32") -> int:
        """A constant without quantisation: sizes, indices, axes."""
        return self.tensor(name, np.shape(data), dtype, None, data=data)

    def operator(
        self,
        code: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str = "",
        *,
        version: int = 2,
        intermediates: Sequence[int] = (),
        **fields: Any,
    ) -> None:
        """Any builtin operator."""
        builtin, table = getattr(tflite.BuiltinOperator, code), tuple(sorted(fields.items()))
        record = OperatorRecord(builtin, version, tuple(inputs), tuple(outputs), options, table, intermediates=tuple(intermediates))
        self.operators.append(record)

    def conv(self, x: int, filters: int, name: str) -> int:
        """CONV_2D 3x3 of random weights, one scale per channel, of int8 ``x``."""
        depth = self.tensors[x].shape[-1]
        weights = self._random.integers(-127, 128, (filters, 3, 3, depth))
        w = self.tensor(f"{name}/w", weights.shape, "int8", (WEIGHT_SCALE,) * filters, data=weights)
        bias = self._random.integers(-500, 500, filters)
        b = self.tensor(f"{name}/b", bias.shape, "int32", (float(np.float32(WEIGHT_SCALE) * np.float32(SCALE)),) * filters, data=bias)
        y = self.tensor(name, (*self.tensors[x].shape[:-1], filters), scale=4 * SCALE)
        fields = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
        self.operator("CONV_2D", (x, w, b), (y,), "Conv2DOptions", version=3, **fields)
        return y

    def weights(self, name: str, shape: tuple[int, ...], dtype: str = "int8", scale: float = WEIGHT_SCALE, limit: int = 127) -> int:
        """A constant of random values up to ``limit``, with one scale."""
        return self.tensor(name, shape, dtype, scale, 0, self._random.integers(-limit, limit + 1, shape))

    def dense(self, x: int, units: int, name: str) -> int:
        """FULLY_CONNECTED of int8 ``x`` (batch, features) with random weights of one scale."""
        w = self.weights(f"{name}/w", (units, self.tensors[x].shape[-1]))
        b = self.weights(f"{name}/b", (units,), "int32", float(np.float32(WEIGHT_SCALE) * np.float32(self.tensors[x].scales[0])), 500)
        y = self.tensor(name, (self.tensors[x].shape[0], units), scale=DENSE_SCALE)
        self.operator("FULLY_CONNECTED", (x, w, b), (y,), "FullyConnectedOptions", version=4)
        return y

    def lstm(self, x: int, units: int) -> int:
        """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 ``x`` (batch, time, features): states ``h`` (int8) and ``cell`` (int16)."""
        batch, time, features = self.tensors[x].shape
        inputs = [self.weights(f"input to {gate}", (units, features)) for gate in "ifco"]
        recurrent = [self.weights(f"state to {gate}", (units, units)) for gate in "ifco"]
        bias = [self.weights(f"bias of {gate}", (units,), "int32", WEIGHT_SCALE * SCALE, 2000) for gate in "ifco"]
        h = self.tensor("h", (batch, units), "int8", 2.0**-7, -4, variable=True)
        cell = self.tensor("cell", (batch, units), "int16", 2.0**-11, 0, variable=True)
        gates = [self.tensor(f"gate {gate}", (0,), "int16", 2.0**-12, 0) for gate in "ifco"] + [
            self.tensor("hidden", (0,), "int8", 2.0**-7, -4)
        ]
        y = self.tensor("lstm", (batch, time, units), "int8", 2.0**-7, -4)
        operands = [x, *inputs, *recurrent, -1, -1, -1, *bias, -1, -1, h, cell, -1, -1, -1, -1]
        fields = {"FusedActivationFunction": 4, "CellClip": 0.0, "ProjClip": 0.0, "TimeMajor": False}
        options = "UnidirectionalSequenceLSTMOptions"
        self.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], options, version=1, intermediates=gates, **fields)
        return y

    def svdf(self, x: int, units: int, memory: int = 4) -> int:
        """SVDF of rank 2 of int8 ``x`` (batch, features), with an int16 ``state``."""
        batch, features = self.tensors[x].shape
        feature, time = self.weights("feature", (2 * units, features)), self.weights("time", (2 * units, memory), "int16", 1e-4, 3000)
        bias = self.weights("bias", (units,), "int32", 2.0**-11 * 1e-4, 2000)
        state = self.tensor("state", (batch, 2 * units * memory), "int16", 2.0**-11, 0, variable=True)
        y = self.tensor("svdf", (batch, units), "int8", 2.0**-6, -4)
        self.operator("SVDF", (x, feature, time, bias, state), (y,), "SVDFOptions", version=3, Rank=2, FusedActivationFunction=1)
        return y

    def model(self, inputs: Sequence[int], outputs: Sequence[int], name: str = "main") -> ModelRecord:
        """The graph as a model's records."""
        return ModelRecord(name, "", tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs))

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The graph as a .tflite file."""
        return write_tflite(self.model(inputs, outputs))
