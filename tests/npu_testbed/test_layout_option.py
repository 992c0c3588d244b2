"""Layouts: with --layout an input or output is NHWC, its TRANSPOSE is gone, every byte is the same, and all that is written says so."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from numpy.typing import NDArray

import npu_testbed
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.file import from_json
from npu_model.compiled.layouts import LAYOUTS, read_layouts
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_testbed.models.changed_models import changed as with_changes
from npu_testbed.models.input_shapes import InputShape, ShapedSource
from npu_testbed.models.layouts import ChannelsLast
from npu_testbed.models.sources import load_model
from npu_testbed.replays.live_network import live_network
from sim.functional import run
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed, reference_outputs

TO_LAST, TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
BOTH = ("--layout", "input=NHWC", "--layout", "output=NHWC")


def network() -> bytes:
    """Two convolutions of an NCHW image to an NCHW map."""
    net = NetworkBuilder("nchw")
    x = net.transpose(net.input((1, 3, 12, 8), "image"), TO_LAST)
    x = net.conv2d(net.conv2d(x, 8, strides=(2, 2), activation="RELU6", name="first"), 16, (1, 1), name="last")
    return net.finish([net.transpose(x, TO_FIRST, name="map")])


def odd() -> bytes:
    """Ends that no TRANSPOSE makes NHWC: one is read twice, one by another order, one output is read, one is written by a convolution."""
    net = NetworkBuilder("odd")
    twice, turned, plain = (net.input((1, 8, 8, 8), name) for name in ("twice", "turned", "plain"))
    first = net.add(net.transpose(twice, TO_LAST), twice)
    other = net.transpose(turned, (0, 2, 1, 3))
    read = net.transpose(net.conv2d(plain, 8, name="conv"), TO_FIRST, name="read")
    return net.finish([net.conv2d(net.add(first, other), 8, name="written"), read, net.add(read, plain, name="sum")])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "nchw.tflite"
    path.write_bytes(network())
    return path


def changed(*names: str) -> bytes:
    return with_changes(network(), (), [ChannelsLast(name) for name in names])


def codes(model: bytes) -> list[str]:
    return [one.code for one in read_tflite(model).operators]


def shapes(model: bytes) -> list[tuple[int, ...]]:
    parsed = read_tflite(model)
    return [parsed.tensors[index].shape for index in (*parsed.inputs, *parsed.outputs)]


@pytest.mark.parametrize(
    ("names", "left", "ends"),
    [
        (("input",), ["CONV_2D", "CONV_2D", "TRANSPOSE"], [(1, 12, 8, 3), (1, 16, 6, 4)]),
        (("map",), ["TRANSPOSE", "CONV_2D", "CONV_2D"], [(1, 3, 12, 8), (1, 6, 4, 16)]),
        (("image", "output", "image"), ["CONV_2D", "CONV_2D"], [(1, 12, 8, 3), (1, 6, 4, 16)]),
    ],
)
def test_the_transpose_goes_and_the_end_has_the_other_shape(names: tuple[str, ...], left: list[str], ends: list[tuple[int, ...]]) -> None:
    model = changed(*names)
    assert codes(model) == left
    assert shapes(model) == ends
    parsed = read_tflite(model)
    assert [parsed.tensors[index].name for index in (*parsed.inputs, *parsed.outputs)] == ["image", "map"]


def scheduled(source: Path, plan: Path, *words: str) -> CompiledNetwork:
    assert call("schedule", source, *words, "--effort", "quick", "--no-advice", "-o", plan).status == 0
    return lower(from_json(plan.read_text()))


def image(seed: int) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, (1, 3, 12, 8), np.int8)


@pytest.mark.parametrize("words", [BOTH[:2], BOTH[2:], BOTH], ids=["input", "output", "both"])
def test_the_outputs_are_those_of_the_original_with_its_axes_turned(words: tuple[str, ...], source: Path, tmp_path: Path) -> None:
    plain, made = scheduled(source, tmp_path / "plain.json"), scheduled(source, tmp_path / "made.json", *words)
    for seed in range(2):
        given = image(seed)
        wanted = run(plain, [given])["map"]
        found = run(made, [given.transpose(TO_LAST) if "input=NHWC" in words else given])["map"]
        assert len(set(wanted.flat)) > 8
        assert np.array_equal(wanted, found.transpose(TO_FIRST) if "output=NHWC" in words else found)


def exported(kind: str) -> tuple[bytes, tuple[int, ...], int]:
    """A network as PyTorch exports are, the order of its axes with channels last, and the number of RESHAPEs that then stay."""
    net = NetworkBuilder(kind)
    if kind == "sequence":  # 1x6x32 through a convolution of one dimension
        x = net.transpose(net.reshape(net.input((1, 6, 32), "in"), (1, 6, 1, 32)), TO_LAST)
        x = net.transpose(net.conv2d(x, 8, (1, 3), activation="RELU6"), TO_FIRST)
        return net.finish([net.reshape(x, (1, 8, 32), name="out")]), (0, 2, 1), 2
    if kind == "three":  # a TRANSPOSE of three axes
        x = net.reshape(net.transpose(net.input((1, 6, 32), "in"), (0, 2, 1)), (1, 1, 32, 6))
        x = net.reshape(net.conv2d(x, 8, (1, 3)), (1, 32, 8))
        return net.finish([net.transpose(x, (0, 2, 1), name="out")]), (0, 2, 1), 2
    if kind == "image":  # without a batch, requantised
        x = net.quantize(net.input((3, 12, 8), "in"))
        x = net.transpose(net.reshape(x, (1, 3, 12, 8)), TO_LAST)
        x = net.reshape(net.transpose(net.conv2d(x, 8, strides=(2, 2)), TO_FIRST), (8, 6, 4))
        return net.finish([net.quantize(x, name="out")]), (1, 2, 0), 2
    if kind == "padded":  # by other rows than columns, while the channels are first
        x = net.transpose(net.pad_all(net.input((1, 3, 12, 8), "in"), ((0, 0), (0, 0), (1, 2), (3, 0))), TO_LAST)
        return net.finish([net.transpose(net.conv2d(x, 8, padding="VALID"), TO_FIRST, name="out")]), TO_LAST, 0
    x = net.transpose(net.quantize(net.input((1, 3, 12, 8), "in")), TO_LAST)
    return net.finish([net.quantize(net.transpose(net.conv2d(x, 8), TO_FIRST), name="out")]), TO_LAST, 0


@pytest.mark.parametrize("kind", ["sequence", "three", "image", "padded", "requantised"])
def test_ends_as_pytorch_exports_them_have_the_channels_last(kind: str, tmp_path: Path) -> None:
    model, order, reshapes = exported(kind)
    (tmp_path / "m.tflite").write_bytes(model)
    made = with_changes(model, (), [ChannelsLast("input"), ChannelsLast("output")])
    assert codes(made).count("TRANSPOSE") == 0
    assert codes(made).count("RESHAPE") == reshapes
    plain, turned = scheduled(tmp_path / "m.tflite", tmp_path / "a.json"), scheduled(tmp_path / "m.tflite", tmp_path / "b.json", *BOTH)
    shape = plain.inputs[0].shape
    assert turned.inputs[0].shape == tuple(shape[axis] for axis in order)
    given = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    wanted, found = run(plain, [given])["out"], run(turned, [np.ascontiguousarray(given.transpose(order))])["out"]
    assert len(set(wanted.flat)) > 8
    assert np.array_equal(wanted.transpose(order), found)
    said = call("verify", tmp_path / "b.json", "--model", tmp_path / "m.tflite").output
    assert not litert_installed() or "LiteRT's reference kernels  0 of" in said


@pytest.mark.parametrize("shape", [(1, 288), (1, 8, 36)])
def test_an_output_whose_elements_have_another_order_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    net = NetworkBuilder("flat")
    x = net.transpose(net.conv2d(net.input((1, 6, 6, 3), "in"), 8), TO_FIRST)
    (tmp_path / "m.tflite").write_bytes(net.finish([net.reshape(x, shape, name="out")]))
    said = refusal("schedule", tmp_path / "m.tflite", "--layout", "output=NHWC", "-o", tmp_path / "s.json")
    assert "output 'out' NHWC: it is written by RESHAPE. Only an output" in said


@pytest.mark.skipif(not litert_installed(), reason="LiteRT is the reference, and is not installed")
def test_litert_s_outputs_are_the_same_and_verify_compares_with_them(source: Path, tmp_path: Path) -> None:
    given = image(3)
    (wanted,) = reference_outputs(network(), [{"image": given}])
    (found,) = reference_outputs(changed("input", "output"), [{"image": np.ascontiguousarray(given.transpose(TO_LAST))}])
    assert np.array_equal(wanted["map"], found["map"].transpose(TO_FIRST))
    scheduled(source, tmp_path / "s.json", *BOTH)
    call("export", tmp_path / "s.json", "--model", source, "-o", tmp_path / "e.tflite")
    for words in (("s.json", *BOTH), ("s.json",), ("e.tflite",)):  # the layouts that a file records need not be said again
        said = call("verify", tmp_path / words[0], "--model", source, *words[1:])
        assert said.status == 0
        assert "LiteRT's reference kernels  0 of 768 bytes differ" in said.output
    assert "give the model that it was made from" in refusal("verify", tmp_path / "s.json", "--model", source, *BOTH[:2])


def test_a_network_without_the_transposes_takes_fewer_cycles(source: Path) -> None:
    cycles = [
        npu_testbed.simulate_vela(source, layout=layout, no_advice=True).cycles for layout in ({}, {"input": "NHWC", "output": "NHWC"})
    ]
    assert 2 * cycles[1] < cycles[0]


def test_the_schedule_and_all_files_say_which_ends_are_nhwc(source: Path, tmp_path: Path) -> None:
    plan, said = (
        tmp_path / "s.json",
        ("Input 0 is NHWC (1x12x8x3), and NCHW in the model.", "Output 0 is NHWC (1x6x4x16), and NCHW in the model."),
    )
    shown = call("schedule", source, *BOTH, "--effort", "quick", "-o", plan).output
    assert json.loads(plan.read_text())["schedule"]["provenance"]["nhwc"] == ["image", "map"]
    for more in ((), ("--model", source, *BOTH), ("--model", source)):
        exported = call("export", plan, *more, "-o", tmp_path / "e.tflite").output
        assert all(one in shown and one in exported for one in said)
        metadata = read_tflite((tmp_path / "e.tflite").read_bytes()).metadata
        assert json.loads(metadata[LAYOUTS]) == {"image": "NHWC", "map": "NHWC"}
        assert read_compiled((tmp_path / "e.tflite").read_bytes()).nhwc == ("image", "map")
    for file in (plan, tmp_path / "e.tflite"):  # a file that was exported already, too
        call("export", file, "--format", "c", "-o", tmp_path / "e.c")
        assert all(f" * {one}\n" in (tmp_path / "e.h").read_text() for one in said)
    call("schedule", source, "--effort", "quick", "-o", plan)
    assert "nhwc" not in json.loads(plan.read_text())["schedule"]["provenance"]
    assert "NHWC" not in call("export", plan, "--format", "c", "-o", tmp_path / "e.c").output + (tmp_path / "e.h").read_text()


@pytest.mark.parametrize("words", [(), ("--disable-cascading", "--enable-debug-db")], ids=["ours", "vela's"])
def test_compile_says_it_whoever_made_the_file(words: tuple[str, ...], source: Path, tmp_path: Path) -> None:
    shown = call("compile", source, *BOTH, *words, "--output-dir", tmp_path).output
    assert "Input 0 is NHWC (1x12x8x3), and NCHW in the model." in shown
    assert read_layouts(read_tflite((tmp_path / "nchw_vela.tflite").read_bytes()).metadata) == ("image", "map")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "--layout names 'other': the network's inputs and outputs are 'twice', 'turned', 'plain'"),
        ("twice", "input 'twice' NHWC: it is read by TRANSPOSE and 1 more"),
        ("turned", "input 'turned' NHWC: it is read by TRANSPOSE."),
        ("input", "input 'twice' NHWC"),
        ("plain", "input 'plain' NHWC: it is read by CONV_2D and 1 more"),
        ("written", "output 'written' NHWC: it is written by CONV_2D."),
        ("read", "output 'read' NHWC: it is written by TRANSPOSE and read by ADD."),
    ],
)
def test_an_end_that_no_transpose_alone_holds_is_refused(name: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.tflite"
    path.write_bytes(odd())
    assert said in refusal("schedule", path, "--layout", f"{name}=NHWC", "-o", tmp_path / "s.json")
    assert [one.name for one in tmp_path.iterdir()] == ["odd.tflite"]


def test_a_network_of_transposes_alone_keeps_one() -> None:
    net = NetworkBuilder("turns")
    model = net.finish([net.transpose(net.transpose(net.input((1, 4, 4, 8), "x"), TO_LAST), TO_FIRST, name="y")])
    assert codes(with_changes(model, (), [ChannelsLast("x")])) == ["TRANSPOSE"]
    with pytest.raises(InputError, match="whose own input 'x' is an input, an output or a constant of the network"):
        with_changes(model, (), [ChannelsLast("x"), ChannelsLast("y")])
    single = NetworkBuilder("turn")
    alone = single.finish([single.transpose(single.input((1, 4, 4, 8), "x"), TO_LAST, name="y")])
    with pytest.raises(InputError, match="read by TRANSPOSE and is handed out again"):
        with_changes(alone, (), [ChannelsLast("x")])


@pytest.mark.parametrize("text", ["input", "input=NCHW", "=NHWC", "input=nhwc", ""])
def test_a_text_that_is_no_layout_is_refused(text: str, source: Path) -> None:
    assert "write it as in input=NHWC" in refusal("simulate", "vela", source, "--layout", text)


def test_a_layout_for_what_has_one_already_is_refused(source: Path, tmp_path: Path) -> None:
    plan, compiled = tmp_path / "s.json", tmp_path / "nchw_vela.tflite"
    scheduled(source, plan)
    assert call("export", plan, "-o", compiled).status == 0
    assert "compiled already" in refusal("simulate", "vela", compiled, *BOTH)
    assert "scheduled already, so that --layout cannot change it" in refusal("check", plan, "--max-cycles", 1, *BOTH)
    for command in (("verify", plan), ("export", plan, "-o", tmp_path / "e.c")):
        assert "--layout was given without a model" in refusal(*command, *BOTH)


def test_every_command_that_reads_a_model_has_it_in_its_help() -> None:
    for words in (("schedule",), ("compile",), ("frontier",), ("sweep",), ("verify",), ("export",), ("simulate", "vela"), ("check",)):
        assert "--layout NAME=NHWC" in call(*words, "--help").output


def test_a_source_with_layouts_is_a_source(source: Path) -> None:
    made = pickle.loads(pickle.dumps(ShapedSource(str(source), layouts=[ChannelsLast.of("a=b=NHWC")])))
    assert (made, made.shapes, made.layouts) == (str(source), (), (ChannelsLast("a=b"),))
    assert load_model(ShapedSource(str(source), layouts=[ChannelsLast("image")])).data == changed("image")


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": 1}', b"\xff", b"[" * 100_000, b'{"a": "NCHW"}'])
def test_damaged_metadata_name_no_tensor(content: bytes) -> None:
    assert read_layouts({LAYOUTS: content}) == ()


@pytest.mark.skipif(not litert_installed(), reason="LiteRT works out the shapes, and is not installed")
def test_a_shape_is_that_of_the_model_and_the_layout_follows(source: Path) -> None:
    made = load_model(ShapedSource(str(source), [InputShape("image", (1, 3, 20, 10))], [ChannelsLast("image")]))
    assert shapes(made.data) == [(1, 20, 10, 3), (1, 16, 10, 5)]


def test_verify_knows_the_layouts_of_a_network_that_the_package_builds(tmp_path: Path) -> None:
    plan = tmp_path / "s.json"
    assert call("schedule", "portfolio:pytorch_nchw", *BOTH[:2], "--effort", "quick", "--no-advice", "-o", plan).status == 0
    assert call("verify", plan).status == 0
    assert len(read_compiled(live_network(str(plan)).data).nhwc) == 1
    with pytest.raises(InputError, match="so that --layout cannot change it"):
        live_network(ShapedSource(str(plan), layouts=[ChannelsLast("image")]))
