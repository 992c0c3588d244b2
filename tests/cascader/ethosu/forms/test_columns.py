"""Stripes of columns: a network one row high, cut along the width, computes what it computes whole, and upright cut along the height."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest
from cascades import cascade_of, outputs
from few_examples import few
from form_variants import variants
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, model_bytes, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.columns import column_counts, column_stripes
from cascader.ethosu.forms.slices import sliced
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.ethosu.verify.windows import rows_of, rows_read, spans
from cascader.frontends.vela import import_network
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import Group
from npu_model.accelerator import accelerator
from npu_model.command_stream import decode_words
from npu_model.command_stream.encode import encode_operations
from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from sim.footprint import footprint
from validation.builder import NetworkBuilder
from validation.litert.judge import litert_installed, reference_outputs

pytestmark = pytest.mark.law

EVERY = os.environ.get("NPU_TESTBED_ALL") == "1"
WAV2LETTER = "tiny_wav2letter_i8"


def sequence(*, upright: bool) -> bytes:
    """48 steps of 20 channels through every kind of operator; time is the height if ``upright``, else the width."""

    def along(extent: int) -> tuple[int, int]:
        return (extent, 1) if upright else (1, extent)

    net = NetworkBuilder("sequence")
    sound = net.input((1, *along(48), 20), "sound")
    x = net.conv2d(sound, 40, along(5), activation="RELU", name="stem")
    x = net.conv2d(x, 24, along(4), strides=along(2), name="strided")
    y = net.depthwise(x, along(3), dilation=along(2), activation="RELU6", name="depthwise")
    y = net.conv2d(y, 24, along(1), name="pointwise")
    x = net.add(x, y, activation="RELU", name="add")
    x = net.max_pool(x, along(3), strides=along(1), padding="SAME", name="pool")
    left, right = (net.conv2d(x, 16, along(3), activation="RELU6", name=name) for name in ("left", "right"))
    x = net.conv2d(net.concat([left, right], name="both"), 20, along(3), activation="RELU", name="joined")
    return net.finish([net.conv2d(x, 12, along(1), name="head")])


@cache
def flat() -> Network:
    return import_network(sequence(upright=False), DEFAULT)


@cache
def by_columns(largest_depth: int = 0) -> Network:
    return column_stripes(flat(), largest_depth)


@cache
def graph(largest_depth: int = 0) -> RowGraph:
    return row_graph(by_columns(largest_depth))


@cache
def expected() -> list[bytes]:
    return list(outputs(lower(schedule_layer_by_layer(flat(), DEFAULT))).values())


def payloads(net: Network) -> list[EthosuPart]:
    return [part.payload for part in net.graph.parts if isinstance(part.payload, EthosuPart)]


def one_group(columns: int, largest_depth: int = 0) -> Schedule:
    parts = len(graph(largest_depth).parts)
    return cascade_of(by_columns(largest_depth), graph(largest_depth), [Group(0, parts - 1, columns)], staged=range(parts))


def peak(made: Schedule) -> int:
    lowered = lower(made)
    return footprint(lowered.programs, lowered.inputs, lowered.outputs).peak


def test_a_network_one_row_high_has_a_row_of_the_graph_per_column() -> None:
    assert all(payload.axis is Axis.COLUMNS for payload in payloads(by_columns()))
    assert {tensor.rows for tensor in graph().tensors} == {48, 24}
    assert not any(part.atomic for part in graph().parts)
    assert {tensor.rows for tensor in row_graph(flat()).tensors} == {1}


def test_kernels_on_single_pixels_do_not_count_against_columns() -> None:
    """A softmax has more kernels than the layers of a small network, but no columns."""
    net = NetworkBuilder("classifier")
    x = net.conv2d(net.input((1, 1, 32, 8), "signal"), 16, (1, 3), activation="RELU")
    x = net.conv2d(x, 16, (1, 3), activation="RELU")
    plain = import_network(net.finish([net.softmax(net.fully_connected(net.flatten(x), 6))]), DEFAULT)
    flat_ones = [kernel for kernel in payloads(plain) if kernel.operation.ofm.shape.width > 1]
    assert 2 * len(flat_ones) < len(payloads(plain))
    cut = [kernel.axis for kernel in payloads(column_stripes(plain, 0)) if kernel.operation.ofm.shape.width > 1]
    assert set(cut) == {Axis.COLUMNS}


def test_the_graph_of_columns_is_that_of_the_rows_of_the_upright_network() -> None:
    upright = row_graph(import_network(sequence(upright=True), DEFAULT))
    assert [replace(part, name="") for part in graph().parts] == [replace(part, name="") for part in upright.parts]
    assert [tensor.rows for tensor in graph().tensors] == [tensor.rows for tensor in upright.tensors]


@pytest.mark.parametrize(("columns", "largest_depth"), [(1, 0), (1, 64), (2, 0), (3, 64), (7, 0), (24, 64)])
def test_cut_along_the_width_the_network_computes_the_same_bytes_in_the_planned_arena(columns: int, largest_depth: int) -> None:
    made = one_group(columns, largest_depth)
    assert list(outputs(lower(made)).values()) == expected()
    assert made.arena_size - 16 < peak(made) <= made.arena_size
    assert made.arena_size < schedule_layer_by_layer(flat(), DEFAULT).arena_size + sum(payload_bytes(made))


def payload_bytes(made: Schedule) -> list[int]:
    return [span.length for payload in payloads(made.network) for span in (*payload.operation.weights, *payload.operation.scales)]


def test_the_sequence_and_its_upright_twin_compute_the_same_bytes() -> None:
    upright = import_network(sequence(upright=True), DEFAULT)
    rows = row_graph(upright)
    made = cascade_of(upright, rows, [Group(0, len(rows.parts) - 1, 3)])
    assert list(outputs(lower(made)).values()) == expected()


def test_a_rolling_buffer_of_columns_wraps_by_the_right_tile_at_the_buffers_start() -> None:
    made = one_group(3)
    first = {byte for buffer in made.buffers if buffer.rows for byte in range(buffer.address, buffer.address + buffer.row_bytes, BRICK)}
    kernels = [op for op in lower(made).programs[0].operations if isinstance(op, KernelOperation)]
    maps = [fm for op in kernels for fm in (op.ifm, op.ifm2, op.ofm) if fm is not None]
    wrapped = [fm for fm in maps if fm.tiles.width0 < fm.shape.width]
    assert wrapped
    # The second piece of the concatenation begins at channel 16 of the buffer's first column.
    assert {fm.tiles.bases[1] for fm in wrapped} <= first
    assert all(fm.shape.height == fm.tiles.height0 == 1 for fm in maps)


def test_the_words_of_a_program_with_width_tiles_decode_to_its_operations() -> None:
    program = lower(one_group(3)).programs[0]
    assert decode_words(encode_operations(program.operations)[0]) == (program.operations, program.words)


def test_a_schedule_of_columns_is_the_same_after_it_was_written_and_read() -> None:
    made = one_group(3)
    assert from_json(to_json(made)) == made


@settings(max_examples=few(25))
@given(st.data())
def test_any_groups_of_any_columns_compute_the_same_bytes(data: st.DataObject) -> None:
    depth = data.draw(st.sampled_from([0, 64]))
    parts = len(graph(depth).parts)
    borders = sorted(data.draw(st.sets(st.integers(1, parts - 1), max_size=3)))
    edges = [0, *borders, parts]
    groups = [Group(a, b - 1, data.draw(st.integers(1, 24))) for a, b in pairwise(edges)]
    staged = sorted(data.draw(st.sets(st.integers(0, parts - 1), max_size=3)))
    made = cascade_of(by_columns(depth), graph(depth), groups, staged=staged)
    assert list(outputs(lower(made)).values()) == expected()
    assert made.arena_size - 16 < peak(made) <= made.arena_size


@pytest.mark.parametrize("most", [100, 2])
def test_layers_in_slices_beside_layers_of_columns_compute_the_same_bytes(most: int) -> None:
    net = sliced(by_columns(), accelerator(DEFAULT), 512, most)
    pieces = Counter(part.name.rpartition("/")[0] for part in net.graph.parts if "/" in part.name)
    assert {count for count in pieces.values() if count > most} == set()
    # The stem has 40 channels, so three pieces at most; the 1x1 layers have 24 and 12 channels and 600 bytes or fewer.
    assert ("stem" in pieces) == (most > 2)
    assert "pointwise" in pieces
    cut = row_graph(net)
    made = cascade_of(net, cut, [Group(0, len(cut.parts) - 1, 3)], staged=range(0, len(cut.parts), 2))
    assert list(outputs(lower(made)).values()) == expected()


def columns_behind(operation: KernelOperation, first: int, last: int) -> tuple[int, int]:
    """First and last (exclusive) of the IFM columns between those under the taps of OFM columns."""
    kernel, left = operation.kernel, operation.padding.left
    taps = [x * kernel.stride_x - left + tap * kernel.dilation_x for x in range(first, last) for tap in range(kernel.width)]
    between = [x for x in range(operation.ifm.shape.width) if min(taps) <= x <= max(taps)]
    return between[0], between[-1] + 1


def test_the_columns_that_a_stripe_reads_are_those_under_its_taps() -> None:
    for payload, part in zip(payloads(by_columns()), graph().parts, strict=True):
        for first in range(part.rows):
            for last in range(first + 1, min(part.rows, first + 6) + 1):
                under = columns_behind(payload.operation, first, last)
                assert part.inputs[0][1].demand(first, last) == under
                assert rows_read(payload.operation, payload.operation.ifm, (first, last), Axis.COLUMNS) == under


def maps(net: Network) -> list[FeatureMap]:
    operations = [payload.operation for payload in payloads(net)]
    return [fm for op in operations for fm in (op.ifm, op.ifm2, op.ofm) if fm is not None]


@pytest.mark.parametrize("made", [flat, by_columns, lambda: by_columns(64)], ids=["bricks", "beats", "dense"])
def test_the_bytes_of_some_columns_are_those_of_their_elements(made: Callable[[], Network]) -> None:
    for fm in maps(made()):
        first, last = rows_of(fm, Axis.COLUMNS) // 3, rows_of(fm, Axis.COLUMNS) // 2
        covered = {
            span.start + sum(i * s for i, s in zip(at, span.strides, strict=True)) + byte
            for span in spans(fm, (first, last), 32, Axis.COLUMNS)
            for at in indices(span.counts)
            for byte in range(span.width)
        }
        depth = -(-fm.shape.depth // BRICK) * BRICK if fm.layout is Layout.NHCWB16 else fm.shape.depth
        assert covered == {fm.address(0, x, c) + 32 for x in range(first, last) for c in range(depth)}


def indices(counts: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for count in counts:
        found = [(*index, i) for index in found for i in range(count)]
    return found


def test_pixels_are_dense_up_to_the_given_depth_and_else_whole_beats() -> None:
    sizes = {depth: [t.row_bytes for t in graph(depth).tensors] for depth in (0, 21, 64)}
    # The input has 20 channels and the output 12: both are dense, as the network's user has them.
    assert sizes[0] == [20, 40, 24, 24, 24, 24, 24, 32, 24, 12]
    assert sizes[21] == sizes[64] == [20, 40, 24, 24, 24, 24, 24, 32, 20, 12]
    bricks = [tensor.size // rows for tensor, rows in zip(flat().graph.tensors, (t.rows for t in graph().tensors), strict=False)]
    assert bricks[1:3] == [48, 32]


def refused(made: Schedule) -> str:
    try:
        check_schedule(made)
    except InputError as error:
        return str(error)
    return ""


def test_a_rolling_buffer_of_one_column_less_is_refused() -> None:
    made = one_group(2)
    rolling = [(index, buffer) for index, buffer in enumerate(made.buffers) if buffer.rows]
    assert rolling
    for index, buffer in rolling:
        assert buffer.rows is not None
        less = replace(buffer, rows=buffer.rows - 1, size=buffer.size - buffer.row_bytes)
        assert refused(replace(made, buffers=(*made.buffers[:index], less, *made.buffers[index + 1 :])))


def test_every_job_of_a_tight_cascade_of_columns_is_needed() -> None:
    made = replace(one_group(2), copies=())
    for step in range(len(made.jobs)):
        buffers = tuple(replace(b, start=b.start - (b.start > step), end=max(b.end - (b.end > step), 1)) for b in made.buffers)
        assert "needs row" in refused(replace(made, jobs=made.jobs[:step] + made.jobs[step + 1 :], buffers=buffers))


@settings(max_examples=few(30))
@given(st.data())
def test_whatever_the_check_lets_pass_computes_the_network(data: st.DataObject) -> None:
    made = one_group(2)
    index = data.draw(st.integers(0, len(made.buffers) - 1))
    buffer = made.buffers[index]
    rows = max(1, (buffer.rows or 8) + data.draw(st.integers(-1, 3)))
    moved = replace(buffer, address=buffer.address + 16 * data.draw(st.integers(-20, 20)))
    changed = moved if data.draw(st.booleans()) else replace(buffer, rows=rows, size=buffer.row_bytes * rows)
    mutated = replace(made, buffers=(*made.buffers[:index], changed, *made.buffers[index + 1 :]), arena_size=made.arena_size + 1024)
    if not refused(mutated):
        assert list(outputs(lower(mutated)).values()) == expected()


def test_columns_off_leaves_every_part_whole_along_the_width() -> None:
    system = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
    cut = variants(flat(), DEFAULT, system)
    whole = variants(flat(), DEFAULT, system, CascadeOptions(columns=False))
    assert {payload.axis for net in cut for payload in payloads(net)} == {Axis.ROWS, Axis.COLUMNS}
    assert {payload.axis for net in whole for payload in payloads(net)} == {Axis.ROWS}
    assert all(net in cut for net in whole)


@pytest.mark.parametrize("name", ["tiny_conv", "resnet8"])
def test_networks_of_images_have_no_columns(name: str) -> None:
    assert column_stripes(network(name), 64) is network(name)
    assert column_counts(network(name)) == ()


@pytest.mark.skipif(not litert_installed(), reason="LiteRT's reference kernels are not installed")
@pytest.mark.parametrize(
    ("borders", "columns"),
    [
        ([], 37),
        pytest.param([6], 50, marks=pytest.mark.skipif(not EVERY, reason="takes ten seconds: set NPU_TESTBED_ALL=1 to run it")),
        pytest.param([], 7, marks=pytest.mark.skipif(not EVERY, reason="takes ten seconds: set NPU_TESTBED_ALL=1 to run it")),
    ],
)
def test_wav2letter_cut_along_the_width_computes_what_litert_does_in_under_half_of_the_bytes(borders: list[int], columns: int) -> None:
    net = column_stripes(network(WAV2LETTER), 0)
    edges = [0, *borders, len(net.graph.parts)]
    made = cascade_of(net, row_graph(net), [Group(a, b - 1, columns) for a, b in pairwise(edges)])
    lowered = lower(made)
    inputs = seeded_inputs(lowered, 1, seed=5)
    (reference,) = reference_outputs(model_bytes(WAV2LETTER), inputs)
    (found,) = functional_outputs(lowered, inputs)
    assert [found[name].tobytes() for name in reference] == [values.tobytes() for values in reference.values()]
    assert made.arena_size < schedule_layer_by_layer(network(WAV2LETTER), DEFAULT).arena_size // 2
    assert made.arena_size - 16 < peak(made) <= made.arena_size
