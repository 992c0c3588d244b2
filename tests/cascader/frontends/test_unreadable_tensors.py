"""Tensors and options that Vela cannot read: refused in a sentence that names the tensor or operator, the value and the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import call, refusal
from msgspec.structs import replace

from cascader.frontends.vela.compiler import MAX_ELEMENTS
from npu_model.tflite.model import MAX_TENSOR_NAME
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import ModelRecord, TensorRecord
from npu_model.tflite.schema import tflite
from npu_model.tflite.writer import write_tflite
from validation.builder import NetworkBuilder, TensorHandle

TYPE = tflite.TensorType
INPUT, WEIGHTS, OUTPUT = range(3)
COMMANDS = ("schedule {} -o out", "check {} --max-bytes 1", "simulate vela {}", "frontier {} -o out")


def changed(which: int, **fields: object) -> bytes:
    """A network of one convolution with other fields of a tensor: its input, weights or output."""
    net = NetworkBuilder("changed")
    model: ModelRecord = read_records(net.finish([net.conv2d(net.input((1, 6, 6, 8), "x"), 8, (3, 3), name="y")]))
    (operator,) = model.operators
    number = (operator.inputs[0], operator.inputs[1], operator.outputs[0])[which]
    return write_tflite(
        replace(model, tensors=tuple(replace(one, **fields) if at == number else one for at, one in enumerate(model.tensors)))
    )


LAYERS: dict[str, Callable[[NetworkBuilder, TensorHandle], TensorHandle]] = {
    "CONV_2D": lambda net, x: net.conv2d(x, 8, (3, 3), name="y"),
    "DEPTHWISE_CONV_2D": lambda net, x: net.depthwise(x, (3, 3), name="y"),
    "TRANSPOSE_CONV": lambda net, x: net.transpose_conv(x, 8, (3, 3), name="y"),
    "MAX_POOL_2D": lambda net, x: net.max_pool(x, name="y"),
    "AVERAGE_POOL_2D": lambda net, x: net.average_pool(x, name="y"),
    "RESIZE_BILINEAR": lambda net, x: net.resize_bilinear(x, name="y"),
    "RESIZE_NEAREST_NEIGHBOR": lambda net, x: net.resize_nearest(x, name="y"),
    "CONCATENATION": lambda net, x: net.concat([x, x], name="y"),
    "SPLIT": lambda net, x: net.split(x, 2, name="y")[0],
    "SPLIT_V": lambda net, x: net.split_at(x, (3, 5), name="y")[0],
    "SOFTMAX": lambda net, x: net.softmax(x, name="y"),
}
OPTIONAL = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "CONCATENATION", "SPLIT", "SPLIT_V", "SOFTMAX", "TRANSPOSE_CONV", "MAX_POOL_2D")
MOST, LONG = 65_536, (1 << 31) - 1


def windowed(kind: str, **fields: int) -> bytes:
    """A network of one operator with other options; without options, if no field is given."""
    net = NetworkBuilder("windowed")
    model = read_records(net.finish([LAYERS[kind](net, net.input((1, 6, 6, 8), "x"))]))
    (operator,) = model.operators
    assert fields.keys() <= dict(operator.fields).keys()
    options = {"fields": tuple((dict(operator.fields) | fields).items())} if fields else {"options": "", "fields": ()}
    return write_tflite(replace(model, operators=(replace(operator, **options),)))


def content(which: int) -> TensorRecord:
    model = read_records(changed(which))
    return model.tensors[(model.operators[0].inputs[0], model.operators[0].inputs[1], model.operators[0].outputs[0])[which]]


CASES = {
    "weights that end early": (changed(WEIGHTS, data=bytes(575)), ("'y/weights'", "575 bytes", "need 576", "fresh copy")),
    "one byte of weights": (changed(WEIGHTS, data=b"\1"), ("'y/weights'", "1 bytes", "need 576")),
    "weights of 4 bits": (changed(WEIGHTS, dtype=TYPE.INT4, data=bytes(288)), ("'y/weights'", "INT4", "INT8")),
    "a scale without end": (changed(INPUT, scales=(math.inf,)), ("'x'", "scale inf", "finite")),
    "a scale that is no number": (changed(OUTPUT, scales=(math.nan,)), ("'y'", "scale nan", "quantise")),
    "a negative scale": (changed(INPUT, scales=(-0.5,)), ("'x'", "scale -0.5", "above 0")),
    "a channel of a negative scale": (changed(WEIGHTS, scales=(0.1,) * 7 + (-0.25,)), ("'y/weights'", "scale -0.25")),
    "more elements than 31 bits": (
        changed(INPUT, shape=(1, 1 << 14, 1 << 14, 8)),
        ("'x'", "2,147,483,648", f"{MAX_ELEMENTS:,}", "--input-shape"),
    ),
    "a stride of 0": (windowed("CONV_2D", StrideH=0), ("CONV_2D 'y'", "stride_h 0", "1 is the least", "convert")),
    "a negative stride": (windowed("DEPTHWISE_CONV_2D", StrideW=-1), ("DEPTHWISE_CONV_2D 'y'", "stride_w -1")),
    "a dilation of 0": (windowed("CONV_2D", DilationWFactor=0), ("CONV_2D 'y'", "dilation_w_factor 0")),
    "a negative dilation": (windowed("DEPTHWISE_CONV_2D", DilationHFactor=-2), ("DEPTHWISE_CONV_2D 'y'", "dilation_h_factor -2")),
    "a pool of no column": (windowed("AVERAGE_POOL_2D", FilterWidth=0), ("AVERAGE_POOL_2D 'y'", "filter_width 0")),
    "a pool that does not move": (windowed("MAX_POOL_2D", StrideH=0), ("MAX_POOL_2D 'y'", "stride_h 0")),
    "a pool of all columns that 31 bits count": (windowed("MAX_POOL_2D", FilterWidth=LONG), ("MAX_POOL_2D 'y'", f"{LONG:,}", f"{MOST:,}")),
    "a pool of too many rows": (windowed("AVERAGE_POOL_2D", FilterHeight=MOST + 1), ("filter_height 65,537", "65,536 is the most")),
    "a pool that moves too far": (windowed("AVERAGE_POOL_2D", StrideW=LONG), ("stride_w 2,147,483,647", "65,536 is the most")),
    "a convolution that moves too far": (windowed("CONV_2D", StrideH=1 << 30), ("CONV_2D 'y'", "stride_h 1,073,741,824")),
    "a wide dilation": (windowed("DEPTHWISE_CONV_2D", DilationWFactor=LONG), ("dilation_w_factor 2,147,483,647", "65,536 is the most")),
    **{f"{kind} without options": (windowed(kind), (f"{kind} 'y", "no options", "convert")) for kind in OPTIONAL},
    "a name of a book": (changed(INPUT, name="n" * (MAX_TENSOR_NAME + 1)), (f"{MAX_TENSOR_NAME + 1:,}", f"{MAX_TENSOR_NAME:,}", "rename")),
}


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("case", CASES)
def test_a_tensor_that_cannot_be_read_is_named_with_the_remedy(case: str, line: str, tmp_path: Path) -> None:
    data, named = CASES[case]
    (tmp_path / "net.tflite").write_bytes(data)
    places = {"{}": tmp_path / "net.tflite", "out": tmp_path / "out"}
    sentence = refusal(*(places.get(word, word) for word in line.split()))
    assert all(name in sentence for name in named), sentence
    assert [path.name for path in tmp_path.iterdir()] == ["net.tflite"]


@pytest.mark.parametrize("length", [4097, MAX_TENSOR_NAME])
def test_a_schedule_of_long_names_is_read_again(length: int, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(changed(OUTPUT, name="n" * length))
    assert call("schedule", tmp_path / "net.tflite", "-o", tmp_path / "made.json", "--effort", "quick").status == 0
    assert call("simulate", "schedule", tmp_path / "made.json").status == 0


def test_a_channel_of_scale_zero_is_scheduled(tmp_path: Path) -> None:
    scales = content(WEIGHTS).scales
    (tmp_path / "net.tflite").write_bytes(changed(WEIGHTS, scales=(0.0, *scales[1:])))
    assert call("schedule", tmp_path / "net.tflite", "-o", tmp_path / "made.json", "--effort", "quick").status == 0


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["average_pool", "max_pool"])
def test_a_pool_that_moves_past_its_input_computes_its_first_window(kind: str, padding: str, tmp_path: Path) -> None:
    net = NetworkBuilder("far")
    pool = getattr(net, kind)(net.input((1, 8, 8, 8)), (2, 2), strides=(MOST, MOST), padding=padding)
    (tmp_path / "net.tflite").write_bytes(net.finish([pool]))
    assert call("schedule", tmp_path / "net.tflite", "-o", tmp_path / "made.json", "--effort", "quick").status == 0
    assert call("verify", tmp_path / "made.json", "--model", tmp_path / "net.tflite").status == 0


def test_a_window_over_no_operand_ends_in_a_sentence(tmp_path: Path) -> None:
    model = read_records(windowed("MAX_POOL_2D", StrideH=1))
    operators = (replace(model.operators[0], inputs=()), *model.operators[1:])
    (tmp_path / "net.tflite").write_bytes(write_tflite(replace(model, operators=operators)))
    refusal("schedule", tmp_path / "net.tflite", "-o", tmp_path / "out")
