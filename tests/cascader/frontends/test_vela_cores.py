"""Vela's two cores: one that leaves more to the CPU than the other is not compared, and one with quicker kernels legalises, too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from asked_for import load_task, schedule, system_said
from cpu_networks import float_network
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.origins import QUICKER
from cascader.frontends.vela import CORES, CompilerOptions, checked_network, compile_network, legalised
from cascader.frontends.vela.known_faults import known_fault
from cascader.frontends.vela.model_changes import with_simpler_operators
from cascader.search.workers import workers
from npu_model.compiled.network import CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.program import PoolKind
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.writer import write_tflite
from npu_testbed.comparisons.vela_points import on_cores, operators_on_cpu, vela_points
from npu_testbed.comparisons.verdicts import SLOWEST
from npu_testbed.ground.versions import legaliser_remark
from npu_testbed.models.sources import load_model
from npu_testbed.proofs.file_verification import verify
from npu_testbed.proofs.verification import LITERT, functional_outputs, seeded_inputs
from npu_testbed.replays.scheduling import read_schedule, write_schedule
from npu_testbed.replays.vela_runs import VelaTask
from sim import quick_cycles
from tests.hand_built import SCALE, Graph
from validation.builder import NetworkBuilder, TensorHandle
from validation.litert.judge import litert_installed
from validation.portfolio import build


def test_a_core_that_leaves_convolutions_on_the_cpu_is_not_compared_with_one_that_runs_them() -> None:
    """Vela 5.2's Python core refuses a batch of two; its NPU cycles leave out both convolutions."""
    system = system_said()
    task = VelaTask(build("siamese_batch"), "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None, system)
    with workers(1) as executor:
        points, failures = vela_points(task, on_cores(task, "Size"), executor)
    assert [point.run.core for point in points] == ["C++"]
    assert [failure.run.core for failure in failures] == ["Python"]
    assert "leaves 2 operators on the CPU (CONV_2D), another one 0" in failures[0].reason


def layer_by_layer(network: Network, accelerator: str = "ethos-u55-128") -> int:
    system = system_said()
    return quick_cycles(lower(schedule_layer_by_layer(network, accelerator)), system)


def test_the_network_of_the_python_core_is_searched_too_where_its_kernels_are_quicker() -> None:
    """The C++ core copies every result with one channel into another shape, by a kernel of its own."""
    task = load_task("portfolio:channels_1")
    (other,) = task.others
    assert len(other.network.graph.parts) < len(task.network.graph.parts)
    assert layer_by_layer(other.network) <= QUICKER * layer_by_layer(task.network)
    assert "Python core" in legaliser_remark(other.provenance.tools)
    assert legaliser_remark(task.provenance.tools) == ""


def test_the_network_of_the_python_core_is_searched_too_where_copies_may_make_it_quicker() -> None:
    """The C++ core copies the result of the last convolution through a RELU of its own; layer by layer the Python core's is slower yet."""
    task = load_task("portfolio:relu_at_ends", "ethos-u55-256")
    (other,) = task.others
    assert len(other.network.graph.parts) < len(task.network.graph.parts)
    assert layer_by_layer(other.network, "ethos-u55-256") > layer_by_layer(task.network, "ethos-u55-256")


def arena(network: Network) -> int:
    return schedule_layer_by_layer(network, "ethos-u55-128").arena_size


def test_the_network_of_the_python_core_is_searched_too_where_its_tensors_take_fewer_bytes_and_no_cascade_can() -> None:
    """It writes the pieces of a concatenated vector over the input that the first piece was made of."""
    task = load_task("portfolio:drawn_7020")
    (other,) = task.others
    assert arena(other.network) < arena(task.network)
    assert layer_by_layer(other.network) > QUICKER * layer_by_layer(task.network)
    assert "fewer bytes" in legaliser_remark(other.provenance.tools)


def test_kernels_that_are_left_out_are_quicker_by_no_more_than_the_portfolio_allows() -> None:
    assert 1 / QUICKER <= SLOWEST


def test_a_core_that_leaves_more_on_the_cpu_legalises_nothing_beside_one_that_does_not() -> None:
    assert load_task("portfolio:siamese_batch").others == ()


def test_a_strided_slice_is_legalised_by_the_core_that_takes_the_right_elements(tmp_path: Path) -> None:
    model = load_model("portfolio:conv_strided_rows_conv").data
    found = legalised(model)
    assert found.core == CORES[1]
    assert "takes other elements than its strides say" in found.note
    with pytest.raises(InputError, match=r"C\+\+ core emits a wrong stream: STRIDED_SLICE .* takes other elements"):
        checked_network(compile_network(model, CompilerOptions("ethos-u55-128")), model)
    assert legalised(load_model("portfolio:conv_conv_strided_conv").data).core == CORES[0]
    plan = tmp_path / "plan.json"
    write_schedule(schedule("portfolio:conv_strided_rows_conv", cascade=False), plan)
    assert verify(plan, inferences=2).equal_to(LITERT) or not litert_installed()


@pytest.mark.parametrize(("axis", "step"), [(1, -1), (2, -2)])
def test_a_slice_that_goes_backwards_is_taken_from_the_first_core(axis: int, step: int, tmp_path: Path) -> None:
    """As ``x[:, ::-1]`` and ``x[:, :, ::-2]`` leave it: begin and end do not count."""
    graph = Graph()
    x = graph.conv(graph.tensor("x", (1, 6, 8, 3)), 4, "first")
    steps = tuple(step if number == axis else 1 for number in range(4))
    shape = tuple(-(-extent // abs(own)) for extent, own in zip((1, 6, 8, 4), steps, strict=True))
    y = graph.tensor("back", shape, scale=4 * SCALE)
    nothing = graph.constant("nothing", (0, 0, 0, 0))
    operands = [x, nothing, nothing, graph.constant("steps", steps)]
    graph.operator("STRIDED_SLICE", operands, [y], "StridedSliceOptions", BeginMask=15, EndMask=15)
    model = tmp_path / "back.tflite"
    model.write_bytes(graph.finish([0], [graph.conv(y, 4, "last")]))
    assert legalised(model.read_bytes()).note == ""
    assert exact(str(model), tmp_path)


def test_a_transpose_of_uint8_is_legalised_by_the_core_that_keeps_all_values(tmp_path: Path) -> None:
    """Vela 5.2's C++ core stores the result as signed bytes of at least 0."""
    model = load_model("portfolio:uint8_transpose_hw").data
    assert legalised(model).core == CORES[1]
    with pytest.raises(InputError, match=r"C\+\+ core emits a wrong stream: TRANSPOSE .* cuts half of the values off"):
        checked_network(compile_network(model, CompilerOptions("ethos-u55-128")), model)
    assert legalised(load_model("portfolio:conv_transpose_hw_conv").data).core == CORES[0]
    plan = tmp_path / "plan.json"
    write_schedule(schedule("portfolio:uint8_transpose_hw", cascade=False), plan)
    assert verify(plan, inferences=2).equal_to(LITERT) or not litert_installed()


def test_a_half_pixel_resize_that_is_padded_before_is_legalised_by_the_core_that_moves_it(tmp_path: Path) -> None:
    """Vela 5.2's C++ core writes its four phases at the corner of the padded map."""
    model = load_model("portfolio:half_pixel_padded").data
    assert legalised(model).core == CORES[1]
    with pytest.raises(InputError, match=r"RESIZE_BILINEAR .* is not moved by the rows and columns"):
        checked_network(compile_network(model, CompilerOptions("ethos-u55-128")), model)
    plan = tmp_path / "plan.json"
    write_schedule(schedule("portfolio:half_pixel_padded", cascade=False), plan)
    assert verify(plan, inferences=2).equal_to(LITERT) or not litert_installed()


@pytest.mark.parametrize("padding", [(0, 1, 0, 2), (1, 1, 1, 1)])
def test_padding_behind_a_resize_or_within_a_convolutions_window_is_no_fault(padding: tuple[int, int, int, int]) -> None:
    net = NetworkBuilder("padded")
    x = net.resize_bilinear(net.input((1, 8, 8, 8), "x"), half_pixel=True)
    model = net.finish([net.conv2d(net.pad(x, *padding), 8, padding="VALID")])
    assert known_fault(model, CORES[0], "5.2.0") == ""


def test_a_transposed_convolution_of_a_part_is_legalised_by_the_core_that_keeps_within_it(tmp_path: Path) -> None:
    """Vela 5.2's C++ core slides it over what the part was cut from."""
    net = NetworkBuilder("part")
    x = net.slice(net.tanh(net.input((1, 6, 8, 4), "image")), (0, 1, 0, 0), (1, 4, 8, 4))
    model = tmp_path / "part.tflite"
    model.write_bytes(net.finish([net.transpose_conv(x, 4, (3, 3))]))
    assert legalised(model.read_bytes()).core == CORES[1]
    plan = tmp_path / "plan.json"
    write_schedule(schedule(str(model), cascade=False), plan)
    assert verify(plan, str(model), inferences=2).equal_to(LITERT) or not litert_installed()


Between = Callable[[NetworkBuilder, TensorHandle], TensorHandle]

OF_SEVERAL_IMAGES: dict[str, Between] = {
    "slice": lambda net, x: net.slice(x, (0, 1, 2, 0), (2, 4, 5, 8)),
    "split": lambda net, x: net.split(x, 2)[1],
    "unequal split": lambda net, x: net.split_at(x, (4, 2), 1)[1],
    "strided slice of all": lambda net, x: net.strided_slice(x, (0, 1, 0, 2), (2, 5, 8, 6), (1, 1, 1, 1)),
    "strided slice": lambda net, x: net.strided_slice(x, (0, 1, 0, 0), (2, 6, 8, 8), (1, 2, 1, 1)),
    "nearest resize": lambda net, x: net.resize_nearest(x),
    "bilinear resize": lambda net, x: net.resize_bilinear(x),
    "groups": lambda net, x: net.conv2d(x, 8, groups=2),
}
"""Operators of two images that neither of Vela 5.2's cores runs on the NPU and gets right, before a convolution."""


def exact(source: str, folder: Path) -> bool:
    """Whether the network, layer by layer, gives LiteRT's bytes; said to be so where LiteRT is not installed."""
    plan = folder / "plan.json"
    write_schedule(schedule(source, cascade=False), plan)
    return verify(plan, source, inferences=2).equal_to(LITERT) or not litert_installed()


@pytest.mark.parametrize("name", OF_SEVERAL_IMAGES)
def test_what_neither_core_makes_of_several_images_is_run_for_one_image_each(name: str, tmp_path: Path) -> None:
    net = NetworkBuilder("images")
    x = net.tanh(net.input((2, 6, 8, 8), "images"))
    model = tmp_path / "images.tflite"
    model.write_bytes(net.finish([net.conv2d(OF_SEVERAL_IMAGES[name](net, x), 4)]))
    found = legalised(model.read_bytes())
    assert found.note.endswith("legalised the network with simpler operators instead.")
    assert not [step for step in found.stream.steps if isinstance(step, CpuOperator)]
    assert exact(str(model), tmp_path)


def test_the_largest_channels_of_several_images_are_those_of_one_image_with_all_rows(tmp_path: Path) -> None:
    net = NetworkBuilder("images")
    model = tmp_path / "images.tflite"
    model.write_bytes(net.finish([net.arg_max(net.conv2d(net.input((3, 6, 8, 8), "images"), 5))]))
    assert "simpler operators" in legalised(model.read_bytes()).note
    assert exact(str(model), tmp_path)


def test_steps_that_no_core_takes_are_those_of_a_pool(tmp_path: Path) -> None:
    """Vela 5.2's C++ core takes other elements, its Python core fails with groups."""
    net = NetworkBuilder("steps")
    x = net.conv2d(net.input((1, 9, 8, 8), "image"), 8, groups=2)
    model = tmp_path / "steps.tflite"
    model.write_bytes(net.finish([net.conv2d(net.strided_slice(x, (0, 1, 0, 0), (1, 9, 7, 8), (1, 3, 2, 1)), 4)]))
    found = legalised(model.read_bytes())
    assert (found.core, found.note.endswith("simpler operators instead.")) == (CORES[0], True)
    assert exact(str(model), tmp_path)


def test_operators_of_single_images_and_parts_of_the_batch_stay_as_they_are() -> None:
    one = NetworkBuilder("one")
    assert with_simpler_operators(one.finish([one.resize_nearest(one.input((1, 6, 8, 8), "image"))])) is None
    two = NetworkBuilder("two")
    first = two.slice(two.input((2, 6, 8, 8), "images"), (1, 0, 0, 0), (1, 6, 8, 8))
    assert with_simpler_operators(two.finish([two.conv2d(first, 4)])) is None


def test_an_operator_whose_tensors_do_not_fit_each_other_is_left_as_it_is() -> None:
    """As in a damaged file, which Vela refuses."""
    net = NetworkBuilder("damaged")
    model = net.finish([net.conv2d(net.input((16, 6, 8, 8), "images"), 8, groups=2)])
    assert with_simpler_operators(model) is not None
    records = read_records(model)
    (conv,) = records.operators
    for number, shape in [(conv.outputs[0], (1, 6, 8, 8)), (conv.outputs[0], ()), (conv.inputs[1], (8, 3, 3))]:
        tensors = list(records.tensors)
        tensors[number] = replace(tensors[number], shape=shape)
        assert with_simpler_operators(write_tflite(replace(records, tensors=tuple(tensors)))) is None


@pytest.mark.parametrize("shape", [(), (3,), (3, 6), (2, 6, 8, 8)])
def test_operators_of_any_shape_are_changed_or_left(shape: tuple[int, ...]) -> None:
    net = NetworkBuilder("damaged")
    x = net.input((3, 6, 8, 8), "images")
    model = net.finish([net.arg_max(net.conv2d(x, 5)), net.resize_nearest(x), *net.split(x, 2, axis=3)])
    records = read_records(model)
    for number in range(len(records.tensors)):
        tensors = list(records.tensors)
        tensors[number] = replace(tensors[number], shape=shape, data=b"")
        with suppress(InputError):
            with_simpler_operators(write_tflite(replace(records, tensors=tuple(tensors))))


def test_a_part_of_several_images_is_not_left_to_the_core_that_copies_the_first_one_alone() -> None:
    net = NetworkBuilder("part")
    cut = net.finish([net.slice(net.tanh(net.input((2, 6, 8, 4), "images")), (0, 1, 0, 0), (2, 4, 8, 4))])
    assert known_fault(cut, CORES[1], "5.2.0") == "SLICE 'slice_1' of 2 images is that of the first alone"
    one = NetworkBuilder("part")
    cut = one.finish([one.slice(one.tanh(one.input((2, 6, 8, 4), "images")), (1, 0, 0, 0), (1, 6, 8, 4))])
    assert known_fault(cut, CORES[1], "5.2.0") == ""


def test_a_core_that_leaves_to_the_cpu_what_ours_runs_is_nothing_to_compare_with() -> None:
    """Vela 5.2's C++ core mixes up a grouped convolution of two images; its Python core leaves both convolutions alone."""
    net = NetworkBuilder("groups")
    x = net.conv2d(net.conv2d(net.input((2, 8, 8, 8), "images"), 8), 8, groups=2)
    model = net.finish([net.fully_connected(net.flatten(x), 4)])
    system = system_said()
    task = VelaTask(model, "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None, system)
    with workers(1) as executor:
        points, _ = vela_points(task, on_cores(task, "Size"), executor)
        none, failures = vela_points(task, on_cores(task, "Size"), executor, on_cpu=operators_on_cpu(legalised(model).network()))
    assert [point.run.core for point in points] == [CORES[1]]
    assert none == ()
    assert "leaves 2 operators on the CPU (CONV_2D), ours 0" in failures[1].reason


def test_a_sum_over_channels_that_are_dropped_is_not_left_to_the_core_that_drops_rows() -> None:
    net = NetworkBuilder("sum", "int16")
    model = net.finish([net.sum(net.multiply(net.input((1, 5, 64), "x"), net.constant((1, 1, 64))), (2,))])
    with pytest.raises(InputError, match=r"'sum_1' \(POOL.REDUCE_SUM, .*1x1x64 elements into 1x1x5, not into one for each position"):
        checked_network(compile_network(model), model)
    assert legalised(model).core == CORES[1]


@pytest.mark.parametrize("precision", ["int8", "int16"])
def test_a_sum_over_channels_is_within_half_a_step_of_the_true_one(precision: str) -> None:
    net = NetworkBuilder("sum", precision)
    x = net.quantize(net.input((1, 5, 64), "x"), name="kept")
    stream = legalised(net.finish([x, net.sum(x, (2,), keep=True, name="total")])).stream
    assert PoolKind.REDUCE_SUM in {kernel.pool for program in stream.programs for kernel in program.kernels}
    scale = {binding.name: binding.quantisation for binding in stream.outputs}
    for outputs in functional_outputs(stream, seeded_inputs(stream, 4, 3)):
        kept, total = scale["kept"], scale["total"]
        assert kept is not None
        assert total is not None
        true = (outputs["kept"].astype(float) - kept.zero_point).sum(2, keepdims=True) * kept.scale / total.scale + total.zero_point
        limits = np.iinfo(precision)
        assert np.abs(outputs["total"] - true.clip(limits.min, limits.max)).max() <= 0.5


def test_labels_of_64_bits_are_scheduled(tmp_path: Path) -> None:
    """Keras' argmax gives 64 bits unless told otherwise; the C++ core lays them beyond its arena, the other one in pairs of words."""
    net = NetworkBuilder("labels")
    model = tmp_path / "labels.tflite"
    model.write_bytes(net.finish([net.arg_max(net.conv2d(net.input((1, 6, 8, 8), "image"), 5), wide=True)]))
    said: list[str] = []
    assert legalised(model.read_bytes(), progress=said.append).core == CORES[1]
    assert said == ["Checking the stream of Vela's C++ core", "Compiling with Vela's Python core as legaliser"]
    assert exact(str(model), tmp_path)


def test_a_transpose_of_uint8_that_the_other_core_cannot_compile_is_mended(tmp_path: Path) -> None:
    """Vela 5.2's Python core fails with groups of uint8; the C++ core's transpose cuts values off, which one field decides."""
    net = NetworkBuilder("shuffle", "uint8")
    x = net.conv2d(net.conv2d(net.input((1, 6, 8, 3), "image"), 8), 8, groups=2)
    model = tmp_path / "shuffle.tflite"
    model.write_bytes(net.finish([net.conv2d(net.transpose(x, (0, 2, 1, 3)), 4)]))
    found = legalised(model.read_bytes())
    assert (found.core, found.note.endswith("copies were mended.")) == (CORES[0], True)
    plan = tmp_path / "plan.json"
    write_schedule(schedule(str(model), cascade=False), plan)
    assert verify(plan, str(model), inferences=2).equal_to(LITERT) or not litert_installed()


def test_what_one_core_cannot_compile_is_legalised_by_the_other() -> None:
    model = load_model("portfolio:prelu_uint8").data
    with pytest.raises(InputError, match="could not run on NPU"):
        compile_network(model, CompilerOptions("ethos-u55-128"))
    found = legalised(model)
    assert found.core == CORES[1]
    assert "could not run on NPU" in found.note
    assert found.note.endswith("its Python core legalised the network instead.")


def test_a_stream_that_cannot_be_read_is_replaced_by_the_other_cores() -> None:
    """Vela 5.2's C++ core reads a map of no columns where one column is cut by strides of 2 and read by several."""
    model = load_model("portfolio:drawn_4092").data
    with pytest.raises(InputError, match="8 x 0 elements"):
        read_compiled(compile_network(model, CompilerOptions("ethos-u55-256", legalise=True)).compiled)
    found = legalised(model, "ethos-u55-256")
    assert found.core == CORES[1]
    assert "8 x 0 elements" in found.note


def test_a_grouped_convolution_of_two_images_is_not_left_to_the_core_that_mixes_them() -> None:
    net = NetworkBuilder("groups")
    model = net.finish([net.conv2d(net.input((2, 8, 8, 16), "images"), 16, groups=2)])
    assert "takes channels of the wrong images" in known_fault(model, CORES[0], "5.2.0")
    one = NetworkBuilder("groups")
    assert known_fault(one.finish([one.conv2d(one.input((1, 8, 8, 16), "image"), 16, groups=2)]), CORES[0], "5.2.0") == ""
    both = NetworkBuilder("whole")
    assert known_fault(both.finish([both.conv2d(both.input((2, 8, 8, 16), "images"), 16)]), CORES[0], "5.2.0") == ""


def test_what_no_core_can_compile_is_refused_with_the_words_of_the_first() -> None:
    with pytest.raises(InputError, match="FLOAT32") as refused:
        legalised(float_network())
    assert "Python core" not in str(refused.value)


def test_an_input_that_no_layer_reads_is_no_part_of_the_arena(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    write_schedule(schedule("portfolio:unread_input", cascade=False), plan)
    found = read_schedule(plan)
    assert "training" not in {tensor.name for tensor in found.network.graph.tensors}
    assert verify(plan, inferences=2).equal_to(LITERT) or not litert_installed()


def test_a_mean_of_single_elements_that_rescales_them_is_not_left_to_the_core_that_drops_it(tmp_path: Path) -> None:
    model = load_model("portfolio:mean_at_ends").data
    assert "does not rescale" in known_fault(model, CORES[1], "5.2.0")
    assert known_fault(model, CORES[0], "5.2.0") == ""
    whole = load_model("portfolio:mnist").data
    assert known_fault(whole, CORES[1], "5.2.0") == ""
    plan = tmp_path / "plan.json"
    write_schedule(schedule("portfolio:mean_at_ends", optimise="Size"), plan)
    assert verify(plan, inferences=2).equal_to(LITERT) or not litert_installed()
