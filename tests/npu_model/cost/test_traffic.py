"""Traffic and traversal against twins that look at every element."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from small_programs import conv, feature_map, max_pool

from npu_model.accelerator import accelerator, accelerator_names
from npu_model.cost.block_jobs import block_jobs
from npu_model.cost.traffic import BEAT_BYTES, placement, read_runs, write_runs
from npu_model.cost.traversal import Box, ifm2_box, ifm_box, ifm_channel_steps, ofm_blocks, sub_kernels
from npu_model.program import DataType, FeatureMap, Kernel, KernelOperation, Layout, OperationKind, Padding, Tiles, Upscale, ifm_extent
from npu_model.shapes import Shape3D
from npu_model.timing import TimingParameters

pytestmark = pytest.mark.law

EXAMPLES = settings(max_examples=150, deadline=None)


@st.composite
def feature_maps(draw: DrawFn) -> FeatureMap:
    """Dense or part of a wider tensor, at any byte of a beat if NHWC, in one tile or wrapped after some rows."""
    shape = Shape3D(draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 40)))
    layout = draw(st.sampled_from(Layout))
    dtype = DataType(draw(st.sampled_from([8, 16, 32])), signed=True)
    align = 16 if layout is Layout.NHCWB16 else dtype.bytes
    dense = feature_map(shape, draw(st.integers(0, 40)) * align, layout, dtype)
    if layout is Layout.NHWC and draw(st.booleans()):
        pixel = dense.strides.x + draw(st.integers(0, 9)) * dtype.bytes
        row = pixel * shape.width + draw(st.integers(0, 9)) * dtype.bytes
        dense = replace(dense, strides=replace(dense.strides, x=pixel, y=row))
    if draw(st.booleans()):
        rows = draw(st.integers(1, shape.height))
        others = [draw(st.integers(500, 600)) * align for _ in range(3)]
        dense = replace(dense, tiles=Tiles(rows, draw(st.integers(1, shape.height)), shape.width, (dense.tiles.bases[0], *others)))
    return dense


@st.composite
def boxes(draw: DrawFn, shape: Shape3D) -> Box:
    sides = []
    for extent in (shape.height, shape.width, shape.depth):
        first = draw(st.integers(0, extent - 1))
        sides += [first, draw(st.integers(first, extent))]
    return Box(*sides)


@st.composite
def mapped_boxes(draw: DrawFn) -> tuple[FeatureMap, Box]:
    mapped = draw(feature_maps())
    return mapped, draw(boxes(mapped.shape))


def touched(mapped: FeatureMap, channels: range, y: int, columns: range) -> int:
    """Beats that hold a byte of these elements, counted one by one."""
    beats = set()
    for x in columns:
        for c in channels:
            address = mapped.address(y, x, c)
            beats |= {(address + i) // BEAT_BYTES for i in range(mapped.dtype.bytes)}
    return len(beats)


def naive_runs(mapped: FeatureMap, box: Box, *, write: bool) -> list[int]:
    """The rules of the module docstring, element by element."""
    rows, columns, channels = range(box.y0, box.y1), range(box.x0, box.x1), range(box.c0, box.c1)
    if mapped.layout is Layout.NHCWB16:
        bricks = sorted({c // 16 for c in channels})
        return [touched(mapped, range(16 * b, 16 * b + 16), y, columns) for y in rows for b in bricks if columns]
    whole = len(channels) * mapped.dtype.bytes == mapped.strides.x and box.c0 == 0
    if whole and not (write and len(channels) > 16):
        return [touched(mapped, channels, y, columns) for y in rows if columns]
    cuts = [channels[i : i + 16] for i in range(0, len(channels), 16)] if write else [channels]
    return [touched(mapped, cut, y, range(x, x + 1)) for y in rows for x in columns for cut in cuts if cut]


@EXAMPLES
@given(mapped_boxes())
def test_a_read_touches_the_beats_of_its_elements_row_by_row(mapped_box: tuple[FeatureMap, Box]) -> None:
    mapped, box = mapped_box
    expected = [] if box.is_empty else naive_runs(mapped, box, write=False)
    assert list(read_runs(mapped, box)) == expected


@EXAMPLES
@given(mapped_boxes())
def test_a_write_is_cut_at_16_channels(mapped_box: tuple[FeatureMap, Box]) -> None:
    mapped, box = mapped_box
    expected = [] if box.is_empty else naive_runs(mapped, box, write=True)
    assert list(write_runs(mapped, box)) == expected


@EXAMPLES
@given(mapped_boxes())
def test_boxes_of_one_shape_and_placement_have_equal_runs(mapped_box: tuple[FeatureMap, Box]) -> None:
    mapped, box = mapped_box
    rows, columns = box.y1 - box.y0, box.x1 - box.x0
    for y in range(mapped.shape.height - rows + 1):
        for x in range(mapped.shape.width - columns + 1):
            other = Box(y, y + rows, x, x + columns, box.c0, box.c1)
            if placement(mapped, other) == placement(mapped, box):
                assert read_runs(mapped, other) == read_runs(mapped, box)
                assert write_runs(mapped, other) == write_runs(mapped, box)


@st.composite
def maps_of_four_tiles(draw: DrawFn) -> FeatureMap:
    """Maps whose rows and columns wrap, of which a pixel's bytes follow the ones before it."""
    shape = Shape3D(draw(st.integers(2, 6)), draw(st.integers(2, 6)), draw(st.sampled_from([1, 3, 8, 17])))
    dense = feature_map(shape, 0, Layout.NHWC, DataType(8, signed=True))
    height0, height1, width0 = (draw(st.integers(1, extent - 1)) for extent in (shape.height, shape.height, shape.width))
    first, second, third, fourth = (draw(st.integers(0, 40)) + 1000 * tile for tile in range(4))
    return replace(dense, tiles=Tiles(height0, height1, width0, (first, second, third, fourth)))


@EXAMPLES
@given(maps_of_four_tiles(), st.data())
def test_boxes_of_one_placement_have_equal_runs_in_four_tiles_where_pixels_lie_apart(mapped: FeatureMap, data: st.DataObject) -> None:
    # A dense row is one run whatever the columns' tiles, which no kernel has: some channels of each pixel are read here.
    mapped = replace(mapped, strides=replace(mapped.strides, x=mapped.strides.x + 1))
    box = data.draw(boxes(mapped.shape))
    rows, columns, known = box.y1 - box.y0, box.x1 - box.x0, {}
    for y in range(mapped.shape.height - rows + 1):
        for x in range(mapped.shape.width - columns + 1):
            other = Box(y, y + rows, x, x + columns, box.c0, box.c1)
            runs = read_runs(mapped, other), write_runs(mapped, other)
            assert known.setdefault(placement(mapped, other), runs) == runs


def test_a_box_in_one_tile_is_placed_by_its_first_byte_and_one_in_two_by_its_corner() -> None:
    mapped = feature_map(Shape3D(400, 1, 21), base=160, layout=Layout.NHWC)
    assert len({placement(mapped, Box(y, y + 2, 0, 1, 0, 21)) for y in range(399)}) == BEAT_BYTES
    wrapped = replace(mapped, tiles=Tiles(10, 400, 1, (160, 0, 0, 0)))
    assert placement(wrapped, Box(9, 11, 0, 1, 0, 21)) == (9, 0)


def test_rows_that_start_on_words_and_bricks_have_the_same_runs_wherever_they_lie() -> None:
    for layout in Layout:
        mapped = feature_map(Shape3D(6, 4, 24), base=160, layout=layout)
        assert len({placement(mapped, Box(y, y + 2, x, x + 2, 0, 24)) for y in range(5) for x in range(3)}) == 1


def test_a_dense_nhwc_row_is_read_in_one_run_and_a_slice_of_channels_pixel_by_pixel() -> None:
    mapped = feature_map(Shape3D(2, 4, 24), layout=Layout.NHWC)
    assert read_runs(mapped, Box(0, 2, 0, 4, 0, 24)) == (12, 12)
    assert read_runs(mapped, Box(0, 1, 0, 4, 0, 16)) == (2, 2, 2, 2)
    assert write_runs(mapped, Box(0, 1, 0, 4, 0, 24)) == (2, 1) * 4


def test_an_nhwc_pixel_that_straddles_a_beat_costs_two() -> None:
    mapped = feature_map(Shape3D(1, 3, 5), layout=Layout.NHWC)
    # Bytes 0-3, 5-8 and 10-13.
    assert read_runs(mapped, Box(0, 1, 0, 3, 0, 4)) == (1, 2, 1)


@st.composite
def windowed(draw: DrawFn) -> KernelOperation:
    """Convolutions with stride, dilation, padding, upscaling and windows beyond one sub-kernel."""
    kernel = Kernel(
        draw(st.integers(1, 11)),
        draw(st.integers(1, 11)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
    )
    upscale = draw(st.sampled_from(Upscale))
    ofm = Shape3D(draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 40)))
    rows = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height
    columns = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width
    top, left = draw(st.integers(0, min(rows, kernel.dilated_height) - 1)), draw(st.integers(0, min(columns, kernel.dilated_width) - 1))
    bottom = draw(st.integers(0, min(rows - top, kernel.dilated_height) - 1))
    right = draw(st.integers(0, min(columns - left, kernel.dilated_width) - 1))
    ifm = Shape3D(
        ifm_extent(ofm.height, kernel.stride_y, kernel.dilated_height, top, bottom, upscale),
        ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, left, right, upscale),
        draw(st.integers(1, 70)),
    )
    block = Shape3D(draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.sampled_from([8, 16, 32])))
    kind = draw(st.sampled_from([OperationKind.CONV_2D, OperationKind.DEPTHWISE]))
    if kind is OperationKind.DEPTHWISE:
        ifm = replace(ifm, depth=ofm.depth)
    return replace(
        conv(ofm, block),
        kind=kind,
        ifm=feature_map(ifm),
        kernel=kernel,
        padding=Padding(top, left, bottom, right),
        upscale=upscale,
        part_kernel=draw(st.booleans()),
    )


def receptive(op: KernelOperation, rows: range, columns: range, taps: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """IFM elements (row, column) under these taps of these OFM elements, without the padding."""
    scale = 1 if op.upscale is Upscale.NONE else 2
    kernel, ifm = op.kernel, op.ifm.shape
    found = set()
    for y in rows:
        for x in columns:
            for i, j in taps:
                row = y * kernel.stride_y - op.padding.top + i * kernel.dilation_y
                column = x * kernel.stride_x - op.padding.left + j * kernel.dilation_x
                if 0 <= row < ifm.height * scale and 0 <= column < ifm.width * scale:
                    found.add((row // scale, column // scale))
    return found


@EXAMPLES
@given(windowed())
def test_the_ifm_box_is_the_extent_of_the_receptive_field(op: KernelOperation) -> None:
    for ofm_box in ofm_blocks(op):
        for part in sub_kernels(op):
            box = ifm_box(op, ofm_box, part, (0, 1))
            taps = {(part.y + i, part.x + j) for i in range(part.height) for j in range(part.width)}
            field = receptive(op, range(ofm_box.y0, ofm_box.y1), range(ofm_box.x0, ofm_box.x1), taps)
            held = {(y, x) for y in range(box.y0, box.y1) for x in range(box.x0, box.x1)}
            assert field <= held
            rows, columns = {y for y, _ in field}, {x for _, x in field}
            if field and 1 in (part.height, op.kernel.dilation_y) and 1 in (part.width, op.kernel.dilation_x):
                assert (box.y0, box.y1, box.x0, box.x1) == (min(rows), max(rows) + 1, min(columns), max(columns) + 1)


@EXAMPLES
@given(windowed())
def test_sub_kernels_cover_every_tap_once_and_span_at_most_8_of_the_dilated_window(op: KernelOperation) -> None:
    taps = [(part.y + i, part.x + j) for part in sub_kernels(op) for i in range(part.height) for j in range(part.width)]
    assert sorted(taps) == [(i, j) for i in range(op.kernel.height) for j in range(op.kernel.width)]
    for part in sub_kernels(op):
        assert (part.height - 1) * op.kernel.dilation_y + 1 <= 8
        assert (part.width - 1) * op.kernel.dilation_x + 1 <= 8


@EXAMPLES
@given(windowed())
def test_ofm_blocks_cover_the_ofm_exactly_once_depth_fastest(op: KernelOperation) -> None:
    covered = [
        (y, x, c) for box in ofm_blocks(op) for y in range(box.y0, box.y1) for x in range(box.x0, box.x1) for c in range(box.c0, box.c1)
    ]
    shape = op.ofm.shape
    assert len(covered) == shape.elements
    assert len(set(covered)) == shape.elements
    corners = [(box.y0, box.x0, box.c0) for box in ofm_blocks(op)]
    assert corners == sorted(corners)


@EXAMPLES
@given(windowed())
def test_ifm_channel_steps_cover_what_the_block_needs_once(op: KernelOperation) -> None:
    for box in ofm_blocks(op):
        channels = [c for first, last in ifm_channel_steps(op, box) for c in range(first, last)]
        whole = op.kind is OperationKind.CONV_2D
        assert channels == list(range(op.ifm.shape.depth) if whole else range(box.c0, box.c1))


@EXAMPLES
@given(windowed(), st.sampled_from(accelerator_names("u55")), st.integers(1, 60))
def test_weights_scales_and_ofm_are_moved_exactly_once_but_for_parts_of_beats(op: KernelOperation, name: str, sixteens: int) -> None:
    weights, scales = 16 * sixteens, -(-10 * op.ofm.shape.depth // 16) * 16
    op = conv_streams(op, weights, scales)
    jobs = block_jobs(op, accelerator(name))
    per_pass = op.ofm.shape.depth // op.block.depth + (op.ofm.shape.depth % op.block.depth > 0)
    planes = len(jobs) // per_pass
    read = sum(sum(r.runs) for job in jobs for step in job.steps for r in step.weights)
    assert read == planes * weights // BEAT_BYTES
    read = sum(sum(r.runs) for job in jobs for r in job.scales)
    assert planes * scales // BEAT_BYTES <= read <= planes * (scales // BEAT_BYTES + per_pass)
    bricks = -(-op.ofm.shape.depth // 16)
    stored = op.ofm.shape.height * op.ofm.shape.width * bricks * 16 // BEAT_BYTES
    if op.block.depth % 16 == 0:
        assert sum(sum(job.writes) for job in jobs) == stored
    else:
        assert sum(sum(job.writes) for job in jobs) >= stored


def conv_streams(op: KernelOperation, weights: int, scales: int) -> KernelOperation:
    streamed = conv(Shape3D(1, 1, 16), Shape3D(1, 1, 16), weights=weights)
    return replace(op, weights=streamed.weights, scales=conv(Shape3D(1, 1, 16), Shape3D(1, 1, 16), weights=scales).weights)


@pytest.mark.parametrize(("ifm_depth", "fetched"), [(16, 1), (64, 1), (65, 4)])
def test_an_ifm_of_at_most_two_depth_blocks_is_kept_for_the_next_ofm_depth_block(ifm_depth: int, fetched: int) -> None:
    op = conv(Shape3D(4, 4, 64), Shape3D(4, 4, 16), ifm_depth)
    jobs = block_jobs(op, accelerator("ethos-u55-128"))
    assert [any(step.fetches for step in job.steps) for job in jobs].count(True) == fetched


def test_without_keeping_every_block_fetches_its_ifm() -> None:
    op = conv(Shape3D(4, 4, 64), Shape3D(4, 4, 16), 16)
    jobs = block_jobs(op, accelerator("ethos-u55-128"), TimingParameters(kept_ifm_blocks=0))
    assert all(step.fetches for job in jobs for step in job.steps)


def test_pooling_reads_only_the_channels_of_its_block() -> None:
    jobs = block_jobs(max_pool(Shape3D(4, 4, 64), Shape3D(4, 4, 16)), accelerator("ethos-u55-128"))
    assert [sum(sum(r.runs) for step in job.steps for r in step.fetches) for job in jobs] == [32] * 4


def test_a_broadcast_axis_of_the_second_operand_is_read_from_one_element() -> None:
    box = Box(2, 4, 3, 5, 16, 32)
    assert ifm2_box(Shape3D(8, 8, 32), box) == box
    assert ifm2_box(Shape3D(1, 8, 1), box) == Box(0, 1, 3, 5, 0, 1)
