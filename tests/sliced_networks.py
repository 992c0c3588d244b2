"""Images cut along H into overlapping slices, each convolved, the results concatenated: what the zoo's builder has no methods for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tflite

from npu_model.tflite.records import OperatorRecord
from validation.builder import NetworkBuilder, TensorHandle


def _operator(net: NetworkBuilder, kind: str, inputs: Sequence[int], output: TensorHandle, options: str, **fields: int) -> TensorHandle:
    code = getattr(tflite.BuiltinOperator, kind)
    net._recorder._operators.append(OperatorRecord(code, 2, tuple(inputs), (output.index,), options, tuple(fields.items())))
    return output


def cut(net: NetworkBuilder, x: TensorHandle, first: int, rows: int) -> TensorHandle:
    """SLICE of ``rows`` rows from row ``first`` on."""
    record, value = net._recorder, net._recorder.value(x)
    layer = record.layer_name(None, "slice")
    output = record.activation(layer, value.sample[:, first : first + rows], value.scale, value.zero_point)
    begin = record.constant(f"{layer}/begin", np.array([0, first, 0, 0], "<i4"), tflite.TensorType.INT32)
    size = record.constant(f"{layer}/size", np.array([1, rows, *x.shape[2:]], "<i4"), tflite.TensorType.INT32)
    return _operator(net, "SLICE", (x.index, begin, size), output, "SliceOptions")


def stacked(net: NetworkBuilder, parts: Sequence[TensorHandle]) -> TensorHandle:
    """CONCATENATION along H of outputs of RELU6 layers, which share one scale."""
    record, values = net._recorder, [net._recorder.value(part) for part in parts]
    sample = np.concatenate([value.sample for value in values], axis=1)
    output = record.activation(record.layer_name(None, "stacked"), sample, values[0].scale, values[0].zero_point)
    return _operator(
        net, "CONCATENATION", [part.index for part in parts], output, "ConcatenationOptions", Axis=1, FusedActivationFunction=0
    )


def sliced(height: int, slices: int, halo: int, *, width: int = 8, layers: int = 1, last: bool = False) -> bytes:
    """An image of ``height`` rows in ``slices`` bands with ``halo`` rows more on either side; the bands' own rows are joined."""
    net = NetworkBuilder("sliced")
    image, band, joined = net.input((1, height, width, 3)), height // slices, []
    for number in range(slices):
        first, end = max(0, number * band - halo), min(height, (number + 1) * band + halo)
        x = cut(net, image, first, end - first)
        for _ in range(layers):
            x = net.conv2d(x, 8, activation="RELU6")
        joined.append(cut(net, x, number * band - first, band))
    x = stacked(net, joined)
    return net.finish([net.conv2d(x, 8, activation="RELU6") if last else x])
