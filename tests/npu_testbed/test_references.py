"""References of a verification: more of them never make the answer worse, and where one differs it is said where that began."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tflite
from command_line import call
from flatbuffers import flexbuffers
from hand_built import Graph
from msgspec.structs import replace
from reference_data import shared_data

from cascader.frontends.vela import CompilerOptions, VelaResult, compile_network, named_network
from npu_model.compiled.network import read_compiled
from npu_model.program import KernelOperation
from npu_model.tflite.model import read_tflite
from npu_model.tflite.records import OperatorRecord
from npu_testbed.models.undefined import PartlyDefined, counted_outputs, defined_part, entries, other_inputs
from npu_testbed.proofs.divergence import divergence
from npu_testbed.proofs.verification import LITERT, VELA_STREAM, Verification, compare
from validation.litert.judge import litert_installed
from validation.zoo import build

needs_litert = pytest.mark.skipif(not litert_installed(), reason="LiteRT (extra numerics) is not installed")


def tiled() -> bytes:
    """TILE, as Keras' UpSampling2D has it."""
    graph = Graph()
    x = graph.conv(graph.tensor("x", (1, 8, 8, 8)), 8, "before")
    y = graph.tensor("tiled", (1, 16, 16, 8), scale=4 * 0.05)
    graph.operator("TILE", (x, graph.constant("multiples", [1, 2, 2, 1])), (y,), "TileOptions", version=3)
    return graph.finish([0], [y])


def with_elu() -> bytes:
    graph = Graph()
    x = graph.conv(graph.tensor("x", (1, 8, 8, 8)), 8, "before")
    y = graph.tensor("elu", (1, 8, 8, 8), scale=0.1)
    graph.operator("ELU", (x,), (y,), "", version=1)
    return graph.finish([0], [y])


def of_an_old_converter() -> bytes:
    """Weights whose scales are said to be of the channels that are read: LiteRT refuses them."""
    graph = Graph()
    y = graph.conv(graph.tensor("x", (1, 8, 8, 8)), 16, "conv")
    weights = next(number for number, tensor in enumerate(graph.tensors) if tensor.name == "conv/w")
    graph.tensors[weights] = replace(graph.tensors[weights], quantised_dimension=3)
    return graph.finish([0], [y])


def verified(tmp_path: Path, data: bytes, compiled: bytes | None = None, *options: object) -> tuple[int, str]:
    source, target = tmp_path / "n.tflite", tmp_path / "n_vela.tflite"
    source.write_bytes(data)
    target.write_bytes(compiled or compile_network(data, CompilerOptions()).compiled)
    outcome = call("verify", target, "--model", source, *options)
    return outcome.status, " ".join(outcome.output.split())


@needs_litert
@pytest.mark.parametrize(("make", "code"), [(tiled, "TILE"), (with_elu, "ELU")])
def test_an_operator_without_a_reference_kernel_is_executed_by_a_built_in_one(tmp_path: Path, make: object, code: str) -> None:
    status, output = verified(tmp_path, make())  # type: ignore[operator]  # a function of this module
    assert status == 0
    assert LITERT in output
    assert f"LiteRT lacks reference kernels of {code}: of it the built-in ones were asked." in output


@needs_litert
def test_a_model_that_litert_refuses_is_held_against_velas_stream_alone(tmp_path: Path) -> None:
    status, output = verified(tmp_path, of_an_old_converter())
    assert status == 0
    assert "LiteRT cannot run the model" in output
    assert f"{VELA_STREAM} is all that was compared." in output


@needs_litert
def test_entries_behind_the_number_of_detections_are_not_compared(tmp_path: Path) -> None:
    """The network of a report, of which no detection is valid."""
    status, output = verified(tmp_path, (shared_data() / "reports" / "report_i.tflite").read_bytes())
    assert status == 1
    assert "DetectionBoxes LiteRT's reference kernels 0 of 0 bytes differ, 160 could not be compared" in output
    assert "Only 8 of 248 bytes were compared" in output
    assert "Entries of DetectionBoxes, DetectionClasses:1, DetectionScores:2 behind the number in NumDetections:3 are undefined." in output


ENTRIES = 10


def detections(graph: Graph, y: int, threshold: float, tag: str = "") -> list[int]:
    """TFLite_Detection_PostProcess of a map of 4x4: boxes, classes, scores, and the number of detections above ``threshold``."""
    written = flexbuffers.Builder()
    with written.Map():
        counts = {"max_detections": ENTRIES, "max_classes_per_detection": 1, "detections_per_class": 5, "num_classes": 3}
        for key, count in counts.items():
            written.Int(key, count)
        scales = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
        for key, real in (scales | {"nms_score_threshold": threshold, "nms_iou_threshold": 0.5}).items():
            written.Float(key, real)
    operands = []
    for name in ("box", "score"):
        x = graph.conv(y, 4, f"{tag}{name} map")
        flat = graph.tensor(f"{tag}{name}", (1, 16, 4), scale=4 * 0.05)
        graph.operator("RESHAPE", (x, graph.constant(f"{tag}{name} shape", [1, 16, 4])), (flat,), "ReshapeOptions", version=1, NewShape=())
        operands.append(graph.tensor(f"{tag}{name} real", (1, 16, 4), "float32"))
        graph.operator("DEQUANTIZE", (flat,), operands[-1:], "DequantizeOptions")
    operands.append(graph.tensor(f"{tag}anchors", (16, 4), "float32", data=np.random.default_rng(0).random((16, 4))))
    shapes = {"boxes": (1, ENTRIES, 4), "classes": (1, ENTRIES), "scores": (1, ENTRIES), "number": (1,)}
    made = [graph.tensor(tag + name, shape, "float32") for name, shape in shapes.items()]
    code = tflite.BuiltinOperator.CUSTOM
    kind, options = "TFLite_Detection_PostProcess", bytes(written.Finish())
    graph.operators.append(OperatorRecord(code, 1, tuple(operands), tuple(made), custom_code=kind, custom_options=options))
    return made


ALL, NONE = -1e9, 1e9


def detector(threshold: float, ending: str) -> bytes:
    """A detector with an ``ending``: the outputs of the detections, without their number, or computed from them."""
    graph = Graph()
    x = graph.tensor("image", (1, 4, 4, 8))
    y = graph.conv(x, 8, "conv")
    boxes, classes, scores, number = detections(graph, y, threshold)
    if ending == "without number":
        return graph.finish([x], [boxes, classes, scores])
    if ending == "two":
        return graph.finish([x], [boxes, classes, scores, number, *detections(graph, y, ALL, "other ")])
    if ending == "reshaped":
        made = graph.tensor("made", (ENTRIES, 4), "float32")
        operands = (boxes, graph.constant("shape", [ENTRIES, 4]))
        graph.operator("RESHAPE", operands, (made,), "ReshapeOptions", version=1, NewShape=())
    elif ending == "quantised":
        made = graph.tensor("made", (1, ENTRIES, 4), "int8", 0.1, 0)
        graph.operator("QUANTIZE", (boxes,), (made,), "QuantizeOptions")
    else:
        made = graph.tensor("made", (1, 4, ENTRIES), "float32")
        graph.operator("TRANSPOSE", (boxes, graph.constant("order", [0, 2, 1])), (made,), "TransposeOptions")
    return graph.finish([x], [made, number])


@needs_litert
@pytest.mark.parametrize(
    ("threshold", "ending", "status", "said"),
    [
        (NONE, "without number", 1, "behind a number that is no output (make it one) are undefined. Only 0 of 480 bytes"),
        (NONE, "two", 1, "no inference defines half of boxes, classes, scores."),
        (NONE, "reshaped", 1, "made LiteRT's reference kernels 0 of 0 bytes differ, 320 could not be compared"),
        (NONE, "quantised", 1, "made LiteRT's reference kernels 0 of 0 bytes differ, 80 could not be compared"),
        (NONE, "transposed", 1, "Only 8 of 328 bytes were compared"),
        (ALL, "two", 0, "boxes LiteRT's reference kernels 0 of 320 bytes differ classes"),
        (ALL, "reshaped", 0, "made LiteRT's reference kernels 0 of 320 bytes differ number"),
        (ALL, "transposed", 0, "made LiteRT's reference kernels 0 of 320 bytes differ number"),
    ],
)
def test_what_is_computed_from_detections_is_compared_up_to_their_number(
    threshold: float, ending: str, status: int, said: str, tmp_path: Path
) -> None:
    found = verified(tmp_path, detector(threshold, ending))
    assert found[0] == status
    assert said in found[1]


def test_outputs_that_an_operator_counts_are_compared_up_to_their_number() -> None:
    ours, theirs = np.arange(12).reshape(1, 3, 4), np.zeros((1, 3, 4), np.int64)
    boxes, mixed = PartlyDefined("count", 3), PartlyDefined("count", 3, mixed=True)
    assert [part.tolist() for part in defined_part(ours, theirs, boxes, np.array([2.0], np.float32))] == [list(range(8)), [0] * 8]
    assert defined_part(ours, theirs, None, None)[0].size == 12
    assert defined_part(ours, theirs, boxes, np.array([-1.0]))[0].size == 12
    assert defined_part(ours, theirs, PartlyDefined("", 3), None)[0].size == 0
    assert [defined_part(ours, theirs, mixed, np.array([number]))[0].size for number in (2.0, 3.0)] == [0, 12]
    assert counted_outputs(read_tflite(build("tiny_conv"))) == {}


@pytest.mark.parametrize(("valid", "vacuous"), [((0, 0), True), ((1, 0), True), ((0, 2), False), ((1, 1), True), ((4, 0), False)])
def test_a_pass_of_less_than_half_of_an_output_is_none(valid: tuple[int, int], *, vacuous: bool) -> None:
    arrays = [{"boxes": np.ones((1, 4, 2), np.float32), "count": np.array([number], np.float32)} for number in valid]
    found = Verification("m", 2, 0, compare(VELA_STREAM, arrays, arrays, {"boxes": PartlyDefined("count", 4)}))
    boxes = next(row for row in found.comparisons if row.output == "boxes")
    assert (boxes.size, boxes.undefined) == (8 * sum(valid), 64 - 8 * sum(valid))
    assert found.passed == (not vacuous)
    assert found.vacuous == (("boxes",) if vacuous else ())
    assert (f"Only {8 + 8 * sum(valid)} of 72 bytes were compared" in found.remark) == vacuous


def test_other_inputs_are_constant_images_and_faint_noise_of_the_whole_range() -> None:
    (image,) = read_compiled(compile_network(build("tiny_conv"), CompilerOptions()).compiled).inputs
    found = [one[image.name] for one in other_inputs((image,), 0)]
    assert [(int(one.min()), int(one.max())) for one in found[:5]] == [(at, at) for at in (-128, -64, 0, 63, 127)]
    spans = [int(one.max()) - int(one.min()) for one in found[5:]]
    assert spans == sorted(spans, reverse=True)
    assert 120 <= spans[0] <= 128
    assert all(one.shape == image.shape and one.dtype == np.int8 for one in found)
    assert entries({"count": np.array([3.0])}, {"boxes": PartlyDefined("count", 4)}) == 3


# Where it began.


def damaged(result: VelaResult, number: int) -> tuple[bytes, str]:
    """A compiled file with another bias in the first channel of one of the kernels with scales in the constants; the kernel's layer."""
    program, compiled = named_network(result).programs[0], result.compiled
    found = [(program.name(index), op) for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)]
    name, kernel = [(name, op) for name, op in found if op.scales and op.scales[0].region == 0][number]
    place = compiled.index(program.regions[0].content) + kernel.scales[0].start + 1
    return compiled[:place] + bytes([compiled[place] ^ 0x40]) + compiled[place + 1 :], name


@pytest.mark.parametrize("optimise", ["Size", "Performance"])
@pytest.mark.parametrize("number", [0, -1])
def test_the_layer_where_a_damaged_stream_begins_to_differ_is_named(tmp_path: Path, optimise: str, number: int) -> None:
    """A compiled file names no layers: they are found by what they make, whole or in stripes."""
    data = build("resnet8")
    compiled, layer = damaged(compile_network(data, CompilerOptions(optimise=optimise)), number)
    status, output = verified(tmp_path, data, compiled, "--inferences", 1)
    assert status == 1
    assert f"The first layer that differs from Vela's legalised stream is '{layer}': " in output


def test_a_sound_stream_has_no_beginning_of_a_difference(tmp_path: Path) -> None:
    status, output = verified(tmp_path, build("tiny_residual"), None, "--json")
    assert status == 0
    assert json.loads(output)["began"] is None


TENSOR = np.random.default_rng(1).integers(-128, 128, (1, 6, 4, 16)).astype(np.int8)


def test_tensors_are_found_whole_reshaped_in_rows_and_in_channels() -> None:
    whole, flat = TENSOR[0], TENSOR.reshape(1, 1, -1)
    rows, channels = [TENSOR[0, :4], TENSOR[0, 4:]], [TENSOR[0, :, :, :8], TENSOR[0, :, :, 8:]]
    for made in ([whole], [flat], rows, channels):
        assert divergence("r", [("t", TENSOR)], [("", np.ascontiguousarray(one)) for one in made]) is None


def test_the_first_of_the_tensors_that_were_made_otherwise_is_named_with_its_elements() -> None:
    wrong = TENSOR.copy()
    wrong[0, 2, 1, :3] ^= 4
    later = np.random.default_rng(2).integers(-128, 128, TENSOR.shape).astype(np.int8)
    tensors = [("first", TENSOR[..., ::-1].copy()), ("second", TENSOR), ("third", later)]
    made = [("", tensors[0][1][0]), ("", wrong[0, :3]), ("", wrong[0, 3:]), ("", later[0] // 2)]
    found = divergence("r", tensors, made)
    assert found is not None
    assert (found.layer, found.differing, found.size, found.largest) == ("second", 3, TENSOR.size, 4)
    assert found.text == "The first layer that differs from r is 'second': 3 of 384 elements, by 4 at most."


def test_a_tensor_that_no_kernel_makes_says_nothing() -> None:
    """It was fused with the next layer's."""
    other = TENSOR // 2
    assert divergence("r", [("fused", TENSOR), ("made", other)], [("", other[0])]) is None
    assert divergence("r", [("fused", TENSOR)], [("another", other[0])]) is None
