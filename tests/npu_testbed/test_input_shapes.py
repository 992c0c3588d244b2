"""Networks of any shape: axes that are not known are refused by name, and --input-shape fixes them wherever a model is read."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from command_line import call, refusal
from hand_built import Graph
from msgspec.structs import replace
from quick_comparisons import compare_quickly

from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.writer import write_tflite
from npu_testbed.models.input_shapes import MAX_EXTENT, InputShape, ShapedSource
from npu_testbed.models.sources import load_model
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT works out the shapes, and is not installed")


def network(size: int = 24) -> bytes:
    """Convolutions and a sum of an image of any size."""
    net = NetworkBuilder("any")
    x = net.conv2d(net.input((1, size, size, 4), "image"), 8, activation="RELU6", name="first")
    return net.finish([net.conv2d(net.conv2d(x, 8, strides=(2, 2), name="second"), 8, (1, 1), name="last")])


def opened(model: bytes, axes: tuple[int, ...] = (1, 2)) -> bytes:
    """The model as a converter writes it whose input has unknown extents on these axes: they are 1 in the shapes."""
    records = read_records(model)

    def changed(shape: tuple[int, ...], value: int) -> tuple[int, ...]:
        return tuple(value if axis in axes else extent for axis, extent in enumerate(shape))

    tensors = tuple(
        one if one.data or len(one.shape) != 4 else replace(one, shape=changed(one.shape, 1), shape_signature=changed(one.shape, -1))
        for one in records.tensors
    )
    return write_tflite(replace(records, tensors=tensors))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "any.tflite"
    path.write_bytes(opened(network()))
    return path


COMMANDS = [
    ("schedule", "{}", "-o", "{out}/s.json", "--no-cascade"),
    ("compile", "{}", "--output-dir", "{out}/c", "--disable-cascading"),
    ("simulate", "vela", "{}", "--no-advice"),
    ("check", "{}", "--max-cycles", 10**9),
    ("diff", "{}", "--optimise", "Size,Performance"),
    ("frontier", "{}", "-o", "{out}/f.json", "--rungs", 1),
    ("compare", "{}", "--no-advice"),
    ("sweep", "{}", "--arena-cache-size", 65536),
    ("validate", "litert", "{}"),
]


def words(command: tuple[object, ...], source: Path, out: Path) -> list[str]:
    return [str(word).replace("{out}", str(out)).replace("{}", str(source)) for word in command]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_an_unknown_axis_is_refused_by_name_with_what_to_give(command: tuple[object, ...], source: Path, tmp_path: Path) -> None:
    outcome = call(*words(command, source, tmp_path))
    # A sweep says of each point why it has none.
    assert outcome.status in (1, 2) or command[0] == "sweep"
    assert "Tensor 'image' has no known extent on axes 1 and 2 (1, -1, -1, 4)" in outcome.errors + outcome.output
    assert "--input-shape 'image=1,224,224,4'" in outcome.errors + outcome.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["any.tflite"]


@needs_litert
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(map(str, command[:2])))
def test_every_command_that_reads_a_model_takes_the_shape(
    command: tuple[object, ...], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_quickly(monkeypatch)
    outcome = call(*words(command, source, tmp_path), "--input-shape", "image=1,24,24,4")
    assert outcome.status == 0, outcome.errors


@needs_litert
def test_a_network_that_is_given_the_shape_is_the_one_that_has_it(source: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.tflite"
    fixed.write_bytes(network())
    shown = [call("simulate", "vela", *one, "--no-advice", "--json").output for one in ((fixed,), (source, "--input-shape", "1,24,24,4"))]
    assert shown[0].replace("fixed.tflite", "any.tflite") == shown[1]
    given = read_tflite(load_model(ShapedSource(str(source), [InputShape("image", (1, 24, 24, 4))])).data)
    assert [one.shape for one in given.tensors] == [one.shape for one in read_tflite(network()).tensors]


@needs_litert
def test_a_schedule_of_another_shape_is_exported_and_verified_with_it(source: Path, tmp_path: Path) -> None:
    plan, shape = tmp_path / "s.json", ("--input-shape", "image=1,40,20,4")
    assert call("schedule", source, *shape, "--effort", "quick", "-o", plan).status == 0
    assert call("verify", plan, "--model", source, *shape).status == 0
    assert call("export", plan, "--model", source, *shape, "-o", tmp_path / "e.tflite").status == 0
    exported = read_tflite((tmp_path / "e.tflite").read_bytes())
    assert [exported.tensors[index].shape for index in exported.inputs] == [(1, 40, 20, 4)]
    assert "with the --input-shape and the --layout that it was made with" in refusal("verify", plan, "--model", source)


@needs_litert
def test_a_shape_that_operators_work_out_becomes_known(tmp_path: Path) -> None:
    """An image is resized to the extents of another one, as of a network traced with any size."""
    graph = Graph()
    x = graph.tensor("image", (1, 1, 1, 8))
    small = graph.conv(x, 8, "conv")
    shape = graph.tensor("shape", (4,), "int32", None)
    graph.operator("SHAPE", (x,), (shape,), "ShapeOptions", version=1, OutType=2)
    pieces = [graph.constant(name, [value]) for name, value in (("begin", 1), ("end", 3), ("step", 1))]
    extents = graph.tensor("extents", (2,), "int32", None)
    graph.operator("STRIDED_SLICE", (shape, *pieces), (extents,), "StridedSliceOptions", version=1)
    two = graph.constant("two", [2, 2])
    doubled = graph.tensor("doubled", (2,), "int32", None)
    graph.operator("MUL", (extents, two), (doubled,), "MulOptions", version=1)
    large = graph.tensor("large", (1, 1, 1, 8), scale=graph.tensors[small].scales[0])
    graph.operator("RESIZE_NEAREST_NEIGHBOR", (small, doubled), (large,), "ResizeNearestNeighborOptions", version=2)
    path = tmp_path / "net.tflite"
    path.write_bytes(opened(graph.finish([x], [large])))
    plan = tmp_path / "s.json"
    shown = call("schedule", path, "--input-shape", "1,12,16,8", "--no-cascade", "--show-cpu-operations", "-o", plan)
    assert "No operator stays on the CPU." in shown.output, shown
    assert call("verify", plan, "--model", path, "--input-shape", "1,12,16,8").status == 0


def test_a_batch_that_is_not_known_is_one(tmp_path: Path) -> None:
    path = tmp_path / "batch.tflite"
    path.write_bytes(opened(network(), (0,)))
    assert call("schedule", path, "--no-cascade", "-o", tmp_path / "s.json").status == 0


@needs_litert
def test_a_network_of_known_shape_may_be_given_another_one() -> None:
    assert "1,48,48" not in call("simulate", "vela", "zoo:tiny_conv", "--no-advice").errors
    assert call("simulate", "vela", "zoo:ds_cnn", "--input-shape", "1,98,10,1", "--no-advice").status in (0, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("image=1,2,x", "write it as in image=1,224,224,3"),
        ("image=", "write it as in image=1,224,224,3"),
        ("1,0,2,3", "has an extent of 0"),
        (f"1,{MAX_EXTENT + 1}", f"give 1 to {MAX_EXTENT}"),
        ("1,²,2", "write it as"),
        ("1,65536,65536,4", "elements, give 16777216 at most"),
    ],
)
def test_a_text_that_is_no_shape_is_refused(text: str, said: str, source: Path) -> None:
    assert said in refusal("simulate", "vela", source, "--input-shape", text)


@needs_litert
@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        (("other=1,2,2,4",), "the network's inputs are 'image'; name one of them"),
        (("image=1,2,4",), "3 extents: the network has it with 4"),
        (("image=1,2,2,4", "1,4,4,4"), "two shapes: give it one"),
        (("image=1,24,24,3",), "LiteRT cannot give the network inputs of 1x24x24x3"),
    ],
)
def test_a_shape_that_the_network_cannot_have_is_refused(shapes: tuple[str, ...], said: str, source: Path) -> None:
    options = [word for shape in shapes for word in ("--input-shape", shape)]
    assert said in refusal("simulate", "vela", source, *options)


def test_a_shape_for_what_has_one_already_is_refused(tmp_path: Path) -> None:
    assert call("compile", "zoo:tiny_conv", "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path).status == 0
    assert "compiled already" in refusal("simulate", "vela", tmp_path / "tiny_conv_vela.tflite", "--input-shape", "1,8,8,3")
    assert "is scheduled already" in refusal("check", tmp_path / "tiny_conv_schedule.json", "--max-cycles", 1, "--input-shape", "1,8,8,3")
    assert "without a model" in refusal("verify", tmp_path / "tiny_conv_schedule.json", "--input-shape", "1,8,8,3")


def test_a_source_with_shapes_is_a_source() -> None:
    made = ShapedSource("zoo:tiny_conv", [InputShape.of("a=b=1,2")])
    assert made == "zoo:tiny_conv"
    assert made.shapes == (InputShape("a=b", (1, 2)),)
    assert pickle.loads(pickle.dumps(made)).shapes == made.shapes
    with pytest.raises(InputError):
        InputShape.of("")


@needs_litert
def test_a_verb_takes_the_shape_as_the_command_does(source: Path) -> None:
    import npu_testbed  # noqa: PLC0415  # the one import, of this test alone

    made = npu_testbed.simulate_vela(source, input_shape={"image": "1,24,24,4"}, no_advice=True)
    assert [binding.shape for binding in made.simulation.network.inputs] == [(1, 24, 24, 4)]
