"""The arithmetic of the functional run against references in plain integers, and the memory's rules."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import (
    Activation,
    ActivationKind,
    Binding,
    ByteRange,
    ClipRange,
    DataType,
    DmaOperation,
    ElementwiseKind,
    FeatureMap,
    Kernel,
    KernelOperation,
    Layout,
    OperationKind,
    Padding,
    PoolKind,
    Program,
    Region,
    RegionRole,
    Rounding,
    Scale,
    ScaledOperand,
    Shram,
    Strides,
    Tiles,
    Upscale,
)
from npu_model.shapes import Shape3D
from sim.functional import RegionBytes, run
from sim.functional.elementwise import leading_zeros
from sim.functional.execute import execute
from sim.functional.pooling import round_half_away, truncated
from sim.functional.rescale import rescale, shift_right, wrap32

MODULES = ("activation", "elementwise", "pooling", "rescale", "window")
INT8 = DataType(8, signed=True)
INT32 = DataType(32, signed=True)
ACCUMULATORS = st.integers(-(1 << 39), (1 << 39) - 1)
SCALES = st.integers(0, (1 << 32) - 1)


def feature_map(
    shape: Shape3D, base: int, dtype: DataType = INT8, layout: Layout = Layout.NHWC, tiles: Tiles | None = None, zero_point: int = 0
) -> FeatureMap:
    size = dtype.bytes
    row = shape.width * shape.depth * size
    strides = Strides(row, shape.depth * size, 0)
    if layout is Layout.NHCWB16:
        bricks = -(-shape.depth // 16)
        strides = Strides(bricks * shape.width * 16 * size, 16 * size, shape.width * 16 * size)
    return FeatureMap(1, shape, dtype, layout, tiles or Tiles.single(shape, base), strides, zero_point)


def operation(kind: OperationKind, ifm: FeatureMap, ofm: FeatureMap, **fields: object) -> KernelOperation:
    clamp = Activation(ActivationKind.NONE, max(ofm.dtype.minimum, -(1 << 15)), min(ofm.dtype.maximum, (1 << 15) - 1))
    return KernelOperation(
        kind=kind,
        ifm=ifm,
        ofm=ofm,
        block=Shape3D(1, 1, 8),
        shram=Shram(2, 4),
        **{"activation": clamp, **fields},
    )


def program(*operations: object, arena: int = 4096, constants: bytes = b"") -> Program:
    regions = (Region(0, RegionRole.CONSTANTS, len(constants), constants), Region(1, RegionRole.ARENA, arena))
    return Program("ethos-u55-128", tuple(operations), (1,) * len(operations), regions)


def computed(op: KernelOperation, ifm: np.ndarray, ifm2: np.ndarray | None = None) -> list[int]:
    whole = program(op)
    memory = RegionBytes(whole)
    memory.scatter(op.ifm, ifm, "the test")
    if op.ifm2 is not None:
        memory.scatter(op.ifm2, ifm2, "the test")
    execute(whole, memory)
    return memory.gather(op.ofm, "the test").reshape(-1).tolist()


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"sim.functional.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@given(ACCUMULATORS, SCALES, st.integers(0, 63))
def test_natural_rounding_is_to_nearest_with_halves_up(value: int, scale: int, shift: int) -> None:
    expected = (2 * value * scale + (1 << shift)) >> (shift + 1)
    limit = (1 << 63) - 1
    assert rescale(np.array([value]), scale, shift, Rounding.NATURAL).tolist() == [max(-limit - 1, min(limit, expected))]


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, (1 << 31) - 1), st.integers(0, 63))
def test_truncation_is_towards_zero(value: int, scale: int, shift: int) -> None:
    product = value * scale
    expected = (abs(product) >> shift) * (1 if product >= 0 else -1)
    assert rescale(np.array([value]), scale, shift, Rounding.TRUNCATE).tolist() == [expected]


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1 << 30, (1 << 31) - 1), st.integers(0, 31))
def test_double_rounding_equals_a_doubling_high_multiply_and_a_rounding_shift(value: int, multiplier: int, right_shift: int) -> None:
    found = rescale(np.array([value]), multiplier, 31 + right_shift, Rounding.DOUBLE)
    expected = (value * multiplier + (1 << 30)) >> 31
    if right_shift:
        half = (1 << right_shift) >> 1
        expected = (expected + half - (expected < 0)) >> right_shift
    assert found.tolist() == [expected]


@given(
    st.lists(st.tuples(ACCUMULATORS, SCALES, st.integers(0, 63)), min_size=1, max_size=6),
    st.sampled_from([one for one in Rounding if one is not Rounding.DOUBLE_ASYMMETRIC]),
)
def test_a_channel_is_rescaled_by_its_own_record_alone(channels: list[tuple[int, int, int]], rounding: Rounding) -> None:
    values, scales, shifts = (np.array(column, np.int64) for column in zip(*channels, strict=True))
    together = rescale(values, scales, shifts, rounding).tolist()
    assert together == [int(rescale(np.array([v]), s, n, rounding)[0]) for v, s, n in channels]


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 31))
def test_a_natural_shift_right_adds_half_first(value: int, shift: int) -> None:
    assert shift_right(np.array([value]), shift, Rounding.NATURAL).tolist() == [(value + ((1 << shift) >> 1)) >> shift]


@given(st.integers(-(1 << 62), 1 << 62))
def test_a_shift_left_keeps_the_low_32_bits(value: int) -> None:
    low = value & 0xFFFFFFFF
    assert wrap32(np.array([value])).tolist() == [low - (1 << 32) if low >> 31 else low]


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_leading_zeros_are_those_of_the_32_bit_word(value: int) -> None:
    assert leading_zeros(np.array([value])).tolist() == [32 - (value & 0xFFFFFFFF).bit_length()]


@given(st.integers(-(1 << 40), 1 << 40), st.integers(1, 4096))
def test_padded_averages_round_halves_away_from_zero(total: int, count: int) -> None:
    quotient, rest = divmod(abs(total), count)
    nearest = quotient + (1 if 2 * rest >= count else 0)
    assert round_half_away(np.array([total]), np.array([count])).tolist() == [nearest if total >= 0 else -nearest]


def test_a_padded_average_that_truncates_goes_towards_zero() -> None:
    """A doubled image of 7, -2 and 3 by a 2x2 window, as Vela 3.0.0 resizes: TensorFlow Lite 2.2's bilinear kernel gives the same bytes."""
    op = operation(
        OperationKind.POOL,
        feature_map(Shape3D(1, 3, 1), 0),
        feature_map(Shape3D(2, 6, 1), 64),
        pool=PoolKind.AVERAGE,
        kernel=Kernel(2, 2),
        padding=Padding(0, 0, 1, 1),
        upscale=Upscale.NEAREST,
        rounding=Rounding.TRUNCATE,
        ofm_scale=Scale(5, 2),
    )
    row = [7, 2, -2, 0, 3, 3]
    assert computed(op, np.array([[[7], [-2], [3]]])) == row + row
    with pytest.raises(InputError, match="averages 3 elements with padding and TRUNCATE rounding: only powers of two are known"):
        truncated(np.array([7]), np.array([3]), "it")


def test_an_upscaled_map_as_large_as_its_windows_is_padded_all_the_same() -> None:
    """Windows see 5, 5 5, 5 7 of 5 5 7 7 behind a column of padding: the last column is not needed."""
    op = operation(
        OperationKind.POOL,
        feature_map(Shape3D(1, 2, 1), 0),
        feature_map(Shape3D(1, 3, 1), 64),
        pool=PoolKind.MAX,
        kernel=Kernel(2, 2),
        padding=Padding(1, 1, 0, 0),
        upscale=Upscale.NEAREST,
    )
    assert computed(op, np.array([[[5], [7]]])) == [5, 5, 7]


def test_a_scale_beyond_64_bits_is_exact() -> None:
    assert rescale(np.array([(1 << 39) - 1]), (1 << 32) - 1, 40, Rounding.NATURAL).tolist() == [(1 << 31) - 1]


@st.composite
def placed_maps(draw: st.DrawFn) -> FeatureMap:
    """Feature maps whose tiles lie apart from each other, in either layout."""
    shape = Shape3D(draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 40)))
    dtype = DataType(draw(st.sampled_from([8, 16, 32])), draw(st.booleans()))
    extents = st.integers(1, 6)
    tiles = Tiles(draw(extents), draw(extents), draw(extents), (0, 8192, 16384, 24576))
    return feature_map(shape, 0, dtype, draw(st.sampled_from(Layout)), tiles)


@settings(max_examples=60)
@given(placed_maps(), st.integers(0, 2**32 - 1))
def test_every_element_lies_where_the_address_formula_says(fm: FeatureMap, seed: int) -> None:
    shape = (fm.shape.height, fm.shape.width, fm.shape.depth)
    values = np.random.default_rng(seed).integers(fm.dtype.minimum, fm.dtype.maximum, shape, np.int64, endpoint=True)
    memory = RegionBytes(program(arena=32768))
    memory.scatter(fm, values, "the test")
    np.testing.assert_array_equal(memory.gather(fm, "the test"), values)
    for y, x, c in np.ndindex(shape):
        address = fm.address(y, x, c)
        stored = memory.read(ByteRange(1, address, address + fm.dtype.bytes), "the test")
        assert int.from_bytes(stored, "little", signed=fm.dtype.signed) == values[y, x, c]


def test_a_byte_that_was_never_written_is_named_when_it_is_read() -> None:
    shape = Shape3D(2, 2, 4)
    memory = RegionBytes(program())
    memory.scatter(feature_map(Shape3D(1, 2, 4), 64), np.zeros((1, 2, 4)), "the test")
    op = operation(OperationKind.POOL, feature_map(shape, 64), feature_map(shape, 256), pool=PoolKind.MAX)
    with pytest.raises(InputError, match=r"Operation 0 \(POOL.MAX\) reads element \(1, 0, 0\) at byte 0x48 of region 1"):
        execute(program(op), memory)


def test_unused_channels_of_a_brick_are_undefined_after_it_is_written_and_need_not_be_read() -> None:
    fm = feature_map(Shape3D(1, 1, 5), 0, layout=Layout.NHCWB16)
    memory = RegionBytes(program())
    memory.scatter(feature_map(Shape3D(1, 1, 16), 0), np.zeros((1, 1, 16)), "the test")
    memory.scatter(fm, np.ones((1, 1, 5)), "the test")
    assert memory.gather(fm, "the test").tolist() == [[[1] * 5]]
    with pytest.raises(InputError, match="byte 0x5 of region 1, which was never written"):
        memory.read(ByteRange(1, 0, 16), "the test")


def test_a_transfer_copies_undefined_bytes_without_complaint_and_leaves_them_undefined() -> None:
    memory = RegionBytes(program())
    memory.scatter(feature_map(Shape3D(1, 1, 8), 0), np.arange(8).reshape(1, 1, 8), "the test")
    memory.transfer(DmaOperation(ByteRange(1, 0, 16), 32, 1), "the test")
    assert memory.read(ByteRange(1, 32, 40), "the test") == bytes(range(8))
    with pytest.raises(InputError, match="byte 0x28 of region 1"):
        memory.read(ByteRange(1, 32, 41), "the test")


def test_an_access_beyond_its_region_is_refused() -> None:
    memory = RegionBytes(program(arena=64))
    with pytest.raises(InputError, match="reaches byte 0x47 of region 1, which has 64 bytes"):
        memory.gather(feature_map(Shape3D(1, 1, 8), 64), "the test")


def test_a_feature_map_of_damaged_registers_is_refused_before_it_is_made() -> None:
    vast = replace(feature_map(Shape3D(1, 1, 8), 0), shape=Shape3D(65536, 65536, 65536), strides=Strides(0, 0, 0))
    op = operation(OperationKind.ELEMENTWISE, vast, replace(vast, zero_point=1), elementwise=ElementwiseKind.ABS)
    with pytest.raises(InputError, match="feature map of 65536x65536x65536 elements"):
        execute(program(op), RegionBytes(program(op)))


def test_scratch_and_fast_scratch_of_one_size_are_one_memory() -> None:
    regions = (Region(1, RegionRole.ARENA, 64), Region(2, RegionRole.FAST_SCRATCH, 64))
    memory = RegionBytes(Program("ethos-u55-128", (), (), regions))
    assert memory.regions[1] is memory.regions[2]
    apart = RegionBytes(Program("ethos-u55-128", (), (), (regions[0], replace(regions[1], size=32))))
    assert apart.regions[1] is not apart.regions[2]


def test_a_look_up_without_its_transfer_to_shram_is_refused() -> None:
    shape = Shape3D(1, 1, 4)
    lut = Activation(ActivationKind.LUT, -128, 127, lut=3)
    op = operation(
        OperationKind.POOL, feature_map(shape, 0), feature_map(shape, 64), pool=PoolKind.AVERAGE, global_scale=True, activation=lut
    )
    with pytest.raises(InputError, match=r"reads byte 0x5b00 of the LUT memory, which was never written"):
        computed(op, np.zeros((1, 1, 4)))


@pytest.mark.parametrize(("count", "names"), [(1, "^Operation 0 "), (2, "^Program 1: Operation 0 ")])
def test_a_refused_operation_is_named_with_its_program_if_there_are_several(count: int, names: str) -> None:
    shape = Shape3D(1, 1, 4)
    good = program(operation(OperationKind.POOL, feature_map(shape, 0), feature_map(shape, 64), pool=PoolKind.MAX))
    bad = program(operation(OperationKind.POOL, feature_map(shape, 128), feature_map(shape, 192), pool=PoolKind.MAX))
    network = CompiledNetwork((good, bad)[-count:], 4096, (Binding("x", 1, 0, (1, 1, 1, 4), INT8),), ())
    with pytest.raises(InputError, match=names):
        run(network, [np.zeros((1, 1, 1, 4), np.int8)])


def test_a_look_up_of_32_bits_takes_four_slots() -> None:
    table = np.arange(-128, 128, dtype="<i4") * 1000
    lut = Activation(ActivationKind.LUT, -128, 127, lut=4)
    shape = Shape3D(1, 1, 3)
    op = operation(
        OperationKind.POOL, feature_map(shape, 0), feature_map(shape, 64), pool=PoolKind.AVERAGE, global_scale=True, activation=lut
    )
    op = replace(op, ofm=feature_map(shape, 64, INT32), activation=replace(lut, clip=ClipRange.INT8))
    whole = program(DmaOperation(ByteRange(0, 0, 1024), 0x5C00, to_shram=True), op, constants=table.tobytes())
    memory = RegionBytes(whole)
    memory.scatter(op.ifm, np.array([[[-128, 0, 127]]]), "the test")
    execute(whole, memory)
    assert memory.gather(op.ofm, "the test").tolist() == [[[-128000, 0, 127000]]]


def test_an_operation_may_work_in_place_only_element_by_element() -> None:
    shape = Shape3D(4, 4, 8)
    ifm = feature_map(shape, 0)
    relu = operation(OperationKind.ELEMENTWISE, ifm, ifm, elementwise=ElementwiseKind.ABS, ofm_scale=Scale(1, 0))
    assert computed(relu, np.full((4, 4, 8), -3)) == [3] * 128
    window = operation(OperationKind.POOL, ifm, ifm, pool=PoolKind.MAX, kernel=Kernel(3, 3), padding=Padding(1, 1, 1, 1))
    with pytest.raises(InputError, match="overwrites elements of its own input"):
        computed(window, np.zeros((4, 4, 8)))
    behind = replace(relu, ofm=feature_map(shape, 8))
    with pytest.raises(InputError, match="overwrites elements of its own input"):
        computed(behind, np.zeros((4, 4, 8)))


def test_interleaved_maps_share_a_range_but_no_element() -> None:
    even = feature_map(Shape3D(1, 4, 8), 0)
    even = replace(even, strides=Strides(64, 16, 0))
    odd = replace(even, tiles=Tiles.single(even.shape, 8))
    op = operation(OperationKind.POOL, even, odd, pool=PoolKind.MAX)
    assert computed(op, np.arange(32).reshape(1, 4, 8)) == list(range(32))


def test_a_maximum_takes_no_scale() -> None:
    shape = Shape3D(1, 1, 2)
    op = operation(OperationKind.POOL, feature_map(shape, 0), feature_map(shape, 64), pool=PoolKind.MAX)
    ninth = replace(op, global_scale=True, ofm_scale=Scale(3817748709, 35))
    assert computed(ninth, np.array([[[90, -9]]])) == [90, -9]


def test_a_32_bit_result_takes_neither_zero_point_nor_clamp() -> None:
    shape = Shape3D(1, 1, 2)
    maps = {name: feature_map(shape, base, INT32) for name, base in (("ifm", 0), ("ifm2", 64))}
    ofm = feature_map(shape, 128, INT32, zero_point=9)
    op = operation(
        OperationKind.ELEMENTWISE, ofm=ofm, **maps, elementwise=ElementwiseKind.ADD, opa_scale=Scale(1, 0), opb_scale=Scale(1, 0)
    )
    assert computed(op, np.array([[[70000, -5]]]), np.array([[[1, 1]]])) == [70001, -4]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"activation": Activation(ActivationKind.TANH, -128, 127)}, "native TANH for an int8 OFM"),
        ({"activation": Activation(ActivationKind.SIGMOID, -128, 127)}, "native SIGMOID for an int8 OFM"),
        ({"pool": PoolKind.REDUCE_SUM}, "sums a window of 1 into"),
        ({"pool": PoolKind.AVERAGE}, "averages without padding and without a global scale"),
        (
            {
                "pool": PoolKind.AVERAGE,
                "kernel": Kernel(2, 2),
                "padding": Padding(1, 1, 0, 0),
                "global_scale": True,
                "ofm_scale": Scale(5, 2),
            },
            "averages with padding and a global",
        ),
        ({"kind": OperationKind.ELEMENTWISE, "pool": None, "elementwise": ElementwiseKind.CLZ}, "that width is not verified"),
    ],
)
def test_arithmetic_that_is_not_public_is_refused_by_name(fields: dict[str, object], reason: str) -> None:
    shape = Shape3D(2, 2, 8)
    op = operation(OperationKind.POOL, feature_map(shape, 0), feature_map(shape, 256), pool=PoolKind.MAX)
    with pytest.raises(InputError, match=reason):
        computed(replace(op, **fields), np.zeros((2, 2, 8)))


def test_a_32_bit_overflow_is_refused() -> None:
    shape = Shape3D(1, 1, 1)
    maps = {name: feature_map(shape, base, INT32) for name, base in (("ifm", 0), ("ifm2", 64), ("ofm", 128))}
    op = operation(OperationKind.ELEMENTWISE, **maps, elementwise=ElementwiseKind.ADD, opa_scale=Scale(1, 0), opb_scale=Scale(1, 0))
    with pytest.raises(InputError, match="beyond 32 bits"):
        computed(op, np.array([[[2**31 - 1]]]), np.array([[[1]]]))


@pytest.mark.parametrize(("a", "product"), [(1 << 30, (1 << 31) - 1), (-(1 << 30), -(1 << 31)), (-(1 << 30) - 1, -(1 << 31)), (5, 10)])
def test_a_product_of_32_bits_saturates_as_the_reciprocal_of_a_softmax_needs_it(a: int, product: int) -> None:
    """The softmax of Vela's Python core doubles 2**30 where one channel outweighs all others; wrapped it would be negative."""
    shape = Shape3D(1, 1, 1)
    maps = {name: feature_map(shape, base, INT32) for name, base in (("ifm", 0), ("ifm2", 64), ("ofm", 128))}
    op = operation(OperationKind.ELEMENTWISE, **maps, elementwise=ElementwiseKind.MUL)
    assert computed(op, np.array([[[a]]]), np.array([[[2]]])) == [product]


@given(st.integers(-128, 127), st.integers(-128, 127), st.integers(1 << 30, (1 << 31) - 1), st.integers(12, 20), st.booleans())
def test_a_rescaled_operand_is_rounded_twice_as_tflite_does(a: int, b: int, multiplier: int, shift: int, scaled_is_a: bool) -> None:  # noqa: FBT001  # hypothesis draws it
    shape = Shape3D(1, 1, 1)
    op = operation(
        OperationKind.ELEMENTWISE,
        feature_map(shape, 0),
        feature_map(shape, 128),
        ifm2=feature_map(shape, 64),
        elementwise=ElementwiseKind.ADD,
        opa_scale=Scale(multiplier, shift),
        ofm_scale=Scale(1, 19),
        rounding=Rounding.NATURAL,
        scaled_operand=ScaledOperand.A if scaled_is_a else ScaledOperand.B,
    )
    scaled, other = (a, b) if scaled_is_a else (b, a)
    high = ((scaled << 20) * multiplier + (1 << 30)) >> 31
    right = shift - 11
    term = (high + (1 << (right - 1)) - (high < 0)) >> right
    expected = (term + (other << 19) + (1 << 18)) >> 19
    assert computed(op, np.array([[[a]]]), np.array([[[b]]])) == [max(-128, min(127, expected))]
