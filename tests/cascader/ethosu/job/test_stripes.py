"""Stripes of kernels: any rows of any operator, made on rolling buffers, are the rows that the whole operator makes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cascades import FILTERS, graph_of
from few_examples import few
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.ethosu.job.staging import staged_bytes, weight_ranges, with_staged_weights
from cascader.ethosu.job.stripes import BufferPlace, form, stripe, whole
from cascader.ethosu.network.network import ARENA, CONSTANTS, EthosuPart
from cascader.ethosu.verify.windows import rows_read
from cascader.graph.row_graph import RowPart
from npu_model.errors import InputError
from npu_model.program import BRICK, ByteRange, FeatureMap, KernelOperation, Layout, Program, Region, RegionRole, Tiles, Upscale, ifm_extent
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D, ceil_div
from sim.functional.execute import execute
from sim.functional.memory import RegionBytes, Store

pytestmark = pytest.mark.law

NETWORKS = ("tiny_residual", "resnet8", "ds_cnn", "unet")


@cache
def striped_parts() -> tuple[tuple[str, int], ...]:
    """(network, part) of every part that can be cut: one of each kind of operator, window, stride and layout."""
    found: dict[object, tuple[str, int]] = {}
    for name in NETWORKS:
        for index, part in enumerate(graph_of(name).parts):
            if not part.atomic:
                operation = payload_of(name, index).operation
                kind = (
                    operation.mnemonic,
                    operation.upscale,
                    operation.kernel,
                    operation.padding.top,
                    operation.ifm.layout,
                    operation.ofm.layout,
                )
                found.setdefault((*kind, operation.ofm.shape.depth % BRICK), (name, index))
    return tuple(found.values())


def payload_of(name: str, index: int) -> EthosuPart:
    payload = network(name).graph.parts[index].payload
    assert isinstance(payload, EthosuPart)
    return payload


@st.composite
def stripes(draw: st.DrawFn) -> tuple[EthosuPart, RowPart, int, int]:
    """A part with some of its rows."""
    name, index = draw(st.sampled_from(striped_parts()))
    part = graph_of(name).parts[index]
    start = draw(st.integers(0, (part.rows - 1) // part.align)) * part.align
    return payload_of(name, index), part, start, draw(st.integers(start + 1, min(part.rows, start + 6)))


def test_the_zoo_has_every_kind_of_part_that_is_cut() -> None:
    operations = [payload_of(*found).operation for found in striped_parts()]
    assert {operation.mnemonic for operation in operations} >= {"CONV_2D", "DEPTHWISE", "ELEMENTWISE.ADD", "POOL.MAX", "POOL.AVERAGE"}
    assert {operation.kernel.stride_y for operation in operations} == {1, 2}
    assert Upscale.NEAREST in {operation.upscale for operation in operations}
    assert {operation.ifm.layout for operation in operations} == set(Layout)
    assert any(operation.padding.top for operation in operations)


@settings(max_examples=few(200), deadline=None)
@given(stripes())
def test_propagator_check_and_kernel_agree_on_the_rows_that_a_stripe_reads(drawn: tuple[EthosuPart, RowPart, int, int]) -> None:
    payload, part, start, end = drawn
    operation = payload.operation
    _, propagator = part.inputs[0]
    assert rows_read(operation, operation.ifm, (start, end)) == propagator.demand(start, end)
    made = stripe(payload, start, end, anywhere(payload))
    low, high = propagator.demand(start, end)
    assert made.ifm.shape.height == high - low
    assert made.ifm.tiles.bases[0] - operation.ifm.tiles.bases[0] == low * operation.ifm.strides.y
    assert made.ofm.shape.height == end - start
    if operation.elementwise is None:
        padding = made.padding
        extent = ifm_extent(end - start, made.kernel.stride_y, made.kernel.dilated_height, padding.top, padding.bottom, made.upscale)
        assert extent == made.ifm.shape.height


def anywhere(payload: EthosuPart) -> dict[str, BufferPlace]:
    """Places in which nothing rolls."""
    names = {payload.ifm, payload.ofm, payload.ifm2 or payload.ifm}
    return {name: BufferPlace(0, 1, 1 << 40) for name in names}


def behind(feature_map: FeatureMap | None, offset: int) -> FeatureMap | None:
    """The map with all its tiles so many bytes lower."""
    if feature_map is None or not offset:
        return feature_map
    bases = tuple(base - offset if rows else base for base, rows in zip(feature_map.tiles.bases, (1, 0, 0, 0), strict=True))
    return replace(feature_map, tiles=replace(feature_map.tiles, bases=bases))


@pytest.mark.parametrize("rolling", [False, True])
def test_stripes_of_one_form_are_one_kernel_but_for_where_their_maps_lie(rolling: bool) -> None:  # noqa: FBT001  # a parameter of the test
    """Rows of a part in twos, and all of it: the maps of equal forms lie as far apart as their offsets say."""
    shared = 0
    for name, index in striped_parts():
        payload, part = payload_of(name, index), graph_of(name).parts[index]
        places = anywhere(payload)
        if rolling:
            ofm = payload.operation.ofm
            places[payload.ofm] = BufferPlace(0, 4, abs(payload.axis.step(ofm)))
        found: dict[object, KernelOperation] = {}
        rows = [(start, min(start + 2, part.rows)) for start in range(0, part.rows, 2)]
        for start, end in [*rows, (0, part.rows)] if not rolling else rows:
            key, (ifm, ofm_at, ifm2) = form(payload, start, end, places)
            made = stripe(payload, start, end, places)
            own = made.having(ifm=behind(made.ifm, ifm), ofm=behind(made.ofm, ofm_at), ifm2=behind(made.ifm2, ifm2))
            # All rows of a part that is not cut are no further from its tensors than itself.
            assert key is not None or (ifm, ofm_at, ifm2) == (0, 0, 0)
            shared += key in found
            assert found.setdefault(key, own) == own
    assert shared > 2 * len(striped_parts())


# A stripe run by itself.


def row_bytes(feature_map: FeatureMap) -> int:
    return feature_map.strides.y


def run_alone(operation: KernelOperation, arena: Store, constants: bytes) -> Store:
    """The arena after the operation."""
    size = len(arena)
    regions = (Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants), Region(ARENA, RegionRole.ARENA, size))
    program = Program(DEFAULT, (operation,), (0,), regions)
    execute(program, RegionBytes(program, arena), filters=FILTERS)
    return arena


def height(feature_map: FeatureMap) -> int:
    return feature_map.shape.height


@settings(max_examples=few(120), deadline=None)
@given(stripes(), st.data())
def test_a_stripe_on_rolling_buffers_makes_the_rows_of_the_whole(drawn: tuple[EthosuPart, RowPart, int, int], data: st.DataObject) -> None:
    payload, part, start, end = drawn
    assume(payload.lut is None)
    constants = next(network(name).constants for name in NETWORKS if payload in [p.payload for p in network(name).graph.parts])
    operation = payload.operation
    demands = [propagator.demand(start, end) for _, propagator in part.inputs]
    names = [name for name in (payload.ifm, payload.ifm2) if name is not None]
    sources = dict(zip(names, [operation.ifm, operation.ifm2 or operation.ifm], strict=False))
    # Every input with its rows as the whole part sees them, and in a buffer of few rows.
    random = np.random.default_rng(start * 64 + end)
    images = {name: random.integers(0, 256, height(fm) * row_bytes(fm) + fm.tiles.bases[0], np.uint8) for name, fm in sources.items()}
    flat, rolling, places = Store(1 << 22), Store(1 << 22), {}
    whole_places = {}
    address = 0
    for (name, fm), (low, high) in zip(sources.items(), demands, strict=True):
        rows = data.draw(st.integers(high - low, height(fm)))
        places[name] = BufferPlace(address, rows, row_bytes(fm))
        whole_places[name] = BufferPlace(address, height(fm), row_bytes(fm))
        flat.put(address, images[name])
        for y in range(low, high):
            one = images[name][y * row_bytes(fm) : (y + 1) * row_bytes(fm)]
            rolling.put(address + y % rows * row_bytes(fm), one)
        address += ceil_div(len(images[name]), 16) * 16 + 16
    ofm = operation.ofm
    rows = data.draw(st.integers(end - start, height(ofm)))
    places[payload.ofm] = BufferPlace(address, rows, row_bytes(ofm))
    whole_places[payload.ofm] = BufferPlace(address, height(ofm), row_bytes(ofm))
    run_alone(whole(payload, whole_places), flat, constants)
    run_alone(stripe(payload, start, end, places), rolling, constants)
    for y in range(start, end):
        expected_row, made_row = (address + slot * row_bytes(ofm) for slot in (y, y % rows))
        wanted = flat.written[expected_row : expected_row + row_bytes(ofm)] == 1
        assert wanted.any()
        assert np.array_equal(rolling.written[made_row : made_row + row_bytes(ofm)] == 1, wanted)
        pair = (flat.data[expected_row : expected_row + row_bytes(ofm)], rolling.data[made_row : made_row + row_bytes(ofm)])
        assert np.array_equal(pair[0][wanted], pair[1][wanted])
    assert rolling.written[address:].sum() == sum(
        int(flat.written[address + y * row_bytes(ofm) : address + (y + 1) * row_bytes(ofm)].sum()) for y in range(start, end)
    )


def test_a_stripe_that_wraps_has_its_later_rows_in_the_lower_tile() -> None:
    payload = payload_of("tiny_residual", 1)
    rows = payload.operation.ifm.strides.y
    places = {payload.ifm: BufferPlace(1024, 5, rows), payload.ofm: BufferPlace(0, 1, 1 << 40)}
    made = stripe(payload, 4, 6, places).ifm
    assert made.shape.height == 4
    assert made.tiles == Tiles(2, 2, made.shape.width, (1024 + 3 * rows, 0, 1024, 0))
    assert [made.address(y, 0, 0) for y in range(4)] == [1024 + slot * rows for slot in (3, 4, 0, 1)]


def test_a_stripe_that_ends_at_the_end_of_its_buffer_does_not_wrap() -> None:
    payload = payload_of("tiny_residual", 1)
    rows = payload.operation.ifm.strides.y
    made = stripe(payload, 2, 4, {payload.ifm: BufferPlace(0, 5, rows), payload.ofm: BufferPlace(0, 1, 1 << 40)}).ifm
    assert made.tiles == Tiles.single(Shape3D(4, made.shape.width, made.shape.depth), rows)


def test_all_rows_on_whole_places_are_the_operation_as_it_was() -> None:
    for name, index in striped_parts():
        payload = payload_of(name, index)
        assert stripe(payload, 0, payload.operation.ofm.shape.height, anywhere(payload)) == payload.operation


def test_stripes_behind_the_upscaler_begin_at_the_first_copy_of_a_row_or_at_padding() -> None:
    upscaled = next(payload_of(*found).operation for found in striped_parts() if payload_of(*found).operation.upscale is Upscale.NEAREST)
    assert rows_read(upscaled, upscaled.ifm, (4, 7)) == (2, 4)
    with pytest.raises(InputError, match="rows 3 to 4 of an upscaled map cannot be made alone: begin at row 4"):
        rows_read(upscaled, upscaled.ifm, (3, 4))
    kernel, padding = replace(upscaled.kernel, height=3), replace(upscaled.padding, top=1)
    wide = replace(upscaled, upscale=Upscale.ZEROS, kernel=kernel, padding=padding)
    assert [rows_read(wide, wide.ifm, rows) for rows in ((0, 1), (1, 3), (3, 4), (0, 4))] == [(0, 1), (0, 2), (1, 3), (0, 3)]
    with pytest.raises(InputError, match="begin at row 3 or make all rows"):
        rows_read(wide, wide.ifm, (2, 4))
    assert rows_read(wide, wide.ifm, None) == (0, wide.ifm.shape.height)


# Staged weights.


def test_staged_weights_keep_their_order_and_their_bytes() -> None:
    for name in NETWORKS:
        constants = network(name).constants
        for part in network(name).graph.parts:
            operation = part.payload.operation if isinstance(part.payload, EthosuPart) else None
            if operation is None or not operation.weights:
                continue
            copied = b"".join(constants[span.start : span.end] for span in weight_ranges(operation))
            assert len(copied) == staged_bytes(operation)
            assert len(copied) % ALIGNMENT == 0
            moved = with_staged_weights(operation, 4096)
            for was, now in zip(operation.weights + operation.scales, moved.weights + moved.scales, strict=True):
                assert now.region == ARENA
                assert copied[now.start - 4096 : now.end - 4096] == constants[was.start : was.end]


def test_ranges_that_touch_are_one_transfer_and_others_are_not() -> None:
    operation = payload_of("tiny_residual", 1).operation
    apart = replace(operation, weights=(ByteRange(CONSTANTS, 64, 128),), scales=(ByteRange(CONSTANTS, 160, 170),))
    assert weight_ranges(apart) == (ByteRange(CONSTANTS, 64, 128), ByteRange(CONSTANTS, 160, 176))
    assert with_staged_weights(apart, 32).scales == (ByteRange(ARENA, 96, 106),)
    touching = replace(apart, scales=(ByteRange(CONSTANTS, 32, 64),))
    assert weight_ranges(touching) == (ByteRange(CONSTANTS, 32, 128),)
    assert staged_bytes(replace(apart, weights=(), scales=())) == 0
