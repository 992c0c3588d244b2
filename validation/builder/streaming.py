"""Operators of streaming networks: rows of earlier inferences in resource variables, and constants with a computed shape."""

from __future__ import annotations

import numpy as np

from npu_model.errors import InputError
from npu_model.tflite.schema import tflite
from validation.builder.calibration import CALIBRATION_IMAGES
from validation.builder.moves import Moves
from validation.builder.pieces import Pieces
from validation.builder.recorder import TensorHandle


class Streaming(Moves, Pieces):
    """READ_VARIABLE and ASSIGN_VARIABLE of states that CALL_ONCE initialises, and chains of SHAPE."""

    def remembered(self, x: TensorHandle, rows: int, *, name: str | None = None) -> TensorHandle:
        """The last ``rows`` rows of earlier inferences before those of ``x``, int8 NHWC, which are kept for the next one.

        The rows are a resource variable, which begins with real zeros.
        """
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "stream")
        if len(x.shape) != 4 or rows < 1 or self._recorder.precision.name != "int8":
            raise InputError(
                f"{layer} remembers {rows} rows of {x.shape} in {self._recorder.precision.name}: give NHWC in int8, and 1 row."
            )
        handle = self._recorder.resource(f"{layer}/states", np.full((x.shape[0], rows, *x.shape[2:]), value.zero_point, np.int8), value)
        sample = np.concatenate([value.sample[:, :1]] * rows, axis=1)
        before = self._recorder.activation(f"{layer}/read", sample, value.scale, value.zero_point)
        self._recorder.operator("READ_VARIABLE", (handle,), before, "ReadVariableOptions")
        joined = self.concat([before, x], 1, name=f"{layer}/concat")
        kept = self.slice(joined, (0, x.shape[1], 0, 0), (x.shape[0], rows, *x.shape[2:]), name=f"{layer}/kept")
        self._recorder.operator_of_many("ASSIGN_VARIABLE", (handle, kept.index), (), "AssignVariableOptions", {})
        return joined

    def widened(self, x: TensorHandle, columns: int, *, name: str | None = None) -> TensorHandle:
        """NHWC ``x`` with ``columns`` of real zeros after it, in a shape that SHAPE, STRIDED_SLICE, PACK and FILL compute."""
        value, layer = self._recorder.value(x), self._recorder.layer_name(name, "widened")
        recorder, ones = self._recorder, np.ones(1, np.int32)
        extents = np.array([*x.shape] * CALIBRATION_IMAGES, np.float64)
        shape = recorder.indices(f"{layer}/shape", extents)
        recorder.operator("SHAPE", (x.index,), shape, "ShapeOptions", OutType=tflite.TensorType.INT32)
        ends = [recorder.constant(f"{layer}/{end}", at * ones, tflite.TensorType.INT32) for end, at in (("begin", 0), ("end", 1))]
        step = recorder.constant(f"{layer}/step", ones, tflite.TensorType.INT32)
        batch = recorder.number(f"{layer}/batch")
        recorder.operator("STRIDED_SLICE", (shape.index, *ends, step), batch, "StridedSliceOptions", ShrinkAxisMask=1)
        rest = [
            recorder.constant(f"{layer}/extent_{axis}", np.array(extent, np.int32), tflite.TensorType.INT32)
            for axis, extent in enumerate((x.shape[1], columns, x.shape[3]), 1)
        ]
        packed = recorder.indices(f"{layer}/packed", extents)
        recorder.operator("PACK", (batch.index, *rest), packed, "PackOptions", ValuesCount=len(x.shape), Axis=0)
        point = np.array(value.zero_point, np.int8)
        zero = recorder.constant(f"{layer}/zero", point, tflite.TensorType.INT8, (value.scale,), zero_point=value.zero_point)
        sample = np.full((*value.sample.shape[:2], columns, x.shape[3]), float(value.zero_point))
        zeros = recorder.activation(f"{layer}/zeros", sample, value.scale, value.zero_point)
        recorder.operator("FILL", (packed.index, zero), zeros)
        return self.concat([x, zeros], 2, name=f"{layer}/concat")
