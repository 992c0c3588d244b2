"""Weight order, compressed streams and scale records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from few_examples import few_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import shared_data
from small_programs import conv

from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.program import DmaOperation, KernelOperation, Program
from npu_model.shapes import Shape3D
from npu_model.weight_stream.kernels import kernel_scales, require_kernel_scales
from npu_model.weight_stream.order import WeightFormat, from_hardware_order, hardware_order, symbol_count
from npu_model.weight_stream.weights import (
    ChannelScale,
    decode_scales,
    decode_stream,
    encode_scales,
    encode_weights,
    weight_shape,
    weights_from_stream,
)

ACCELERATORS = [accelerator(name) for name in accelerator_names("u55")]


@st.composite
def weights_and_format(draw: st.DrawFn) -> tuple[np.ndarray, WeightFormat, Accelerator]:
    device = draw(st.sampled_from(ACCELERATORS))
    kind = draw(st.sampled_from(["depth-first", "part-kernel", "depthwise"]))
    layout = WeightFormat(
        block_depth=device.ofm_ublock.depth * draw(st.integers(1, 6)),
        depthwise=kind == "depthwise",
        part_kernel=kind == "part-kernel",
        ifm_bits=draw(st.sampled_from([8, 16])),
        dilation_y=draw(st.integers(1, 2)),
        dilation_x=draw(st.integers(1, 2)),
    )
    shape = (
        draw(st.integers(1, 70)),
        draw(st.integers(1, 10)),
        draw(st.integers(1, 10)),
        1 if kind == "depthwise" else draw(st.integers(1, 40)),
    )
    seed = draw(st.integers(0, 1 << 16))
    weights = np.random.default_rng(seed).integers(-255, 256, shape).astype(np.int16)
    return weights, layout, device


def weight_streams(program: Program) -> Iterator[tuple[KernelOperation, bytes]]:
    """Every convolution with the bytes of its weight range, followed back through the DMA that buffered it."""
    constants = program.region(0).content
    transfers: list[DmaOperation] = []
    for op in program.operations:
        if isinstance(op, DmaOperation):
            transfers.append(op)
        elif isinstance(op, KernelOperation) and op.weights:
            span = op.weights[0]
            if span.region == 0:
                yield op, constants[span.start : span.end]
                continue
            source = next(dma for dma in reversed(transfers) for target in dma.writes() if target.overlaps(span))
            offset = source.source.start + span.start - source.destination
            yield op, constants[offset : offset + span.length]


@settings(max_examples=60, deadline=None)
@given(weights_and_format())
def test_decoding_an_encoded_stream_gives_the_weights_in_hardware_order(case: tuple[np.ndarray, WeightFormat, Accelerator]) -> None:
    weights, layout, device = case
    symbols = decode_stream(encode_weights(weights, layout, device))
    assert np.array_equal(symbols, hardware_order(weights, layout, device))
    assert symbols.size == symbol_count(weights.shape, layout, device)
    assert np.array_equal(from_hardware_order(symbols, weights.shape, layout, device), weights)


@settings(max_examples=20, deadline=None)
@given(weights_and_format())
def test_the_encoded_stream_is_the_one_of_velas_public_interface(case: tuple[np.ndarray, WeightFormat, Accelerator]) -> None:
    api = pytest.importorskip("ethosu.vela.api", reason="Vela 6 has no public Python interface")
    weights, layout, device = case
    order = api.NpuBlockTraversal.PART_KERNEL_FIRST if layout.part_kernel else api.NpuBlockTraversal.DEPTH_FIRST
    expected = api.npu_encode_weights(
        api.NpuAccelerator[device.name.replace("ethos-u55-", "Ethos_U55_")],
        weights,
        (layout.dilation_x, layout.dilation_y),
        layout.ifm_bits,
        layout.block_depth,
        layout.depthwise,
        order,
    )
    assert encode_weights(weights, layout, device) == bytes(expected)


def test_the_4x4_decomposition_cuts_a_5x5_window_into_four_subkernels() -> None:
    device = accelerator("ethos-u55-128")
    weights = np.arange(1, 26, dtype=np.int16).reshape(1, 5, 5, 1)
    symbols = hardware_order(weights, WeightFormat(8, depthwise=True, decompose=True), device).reshape(-1, 8)[:, 0]
    assert list(symbols[:16]) == [1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19]
    assert list(symbols[16:20]) == [5, 10, 15, 20]
    assert list(symbols[20:]) == [21, 22, 23, 24, 25, 0, 0, 0]


def test_depth_first_order_pads_three_channels_to_thirty_two() -> None:
    assert symbol_count((8, 1, 1, 3), WeightFormat(8), accelerator("ethos-u55-128")) == 8 * 32
    assert symbol_count((8, 1, 1, 3), WeightFormat(8, ifm_bits=16), accelerator("ethos-u55-128")) == 8 * 16


def test_part_kernel_order_pads_a_3x3_window_to_twelve_taps() -> None:
    assert symbol_count((8, 3, 3, 8), WeightFormat(8, part_kernel=True), accelerator("ethos-u55-128")) == 8 * 8 * 12
    assert symbol_count((8, 3, 3, 8), WeightFormat(8, part_kernel=True, ifm_bits=16), accelerator("ethos-u55-128")) == 8 * 8 * 10


@pytest.mark.law
@pytest.mark.parametrize(("name", "device"), few_cases(["kws_micronet_m", "rnnoise_INT8", "yolo-fastest_192_face_v4"], ACCELERATORS))
def test_every_weight_stream_of_a_compiled_network_reencodes_to_a_stream_of_the_same_weights(name: str, device: Accelerator) -> None:
    data = (shared_data() / "fvp" / "streams" / f"{name}.{device.name}.vela500.tflite").read_bytes()
    checked = 0
    for program in read_compiled(data).programs:
        for op, stream in weight_streams(program):
            weights = weights_from_stream(op, stream, device)
            assert weights.shape == weight_shape(op)
            again = weights_from_stream(op, encode_weights(weights, WeightFormat.of(op), device), device)
            assert np.array_equal(again, weights)
            checked += 1
    assert checked > 0


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (ChannelScale(0, 0, 0), bytes(16)),
        (ChannelScale(-1, 1 << 30, 38), b"\xff\xff\xff\xff\xff\x00\x00\x00\x40\x26" + bytes(6)),
        (ChannelScale((1 << 39) - 1, (1 << 32) - 1, 63), b"\xff\xff\xff\xff\x7f\xff\xff\xff\xff\x3f" + bytes(6)),
    ],
)
def test_a_scale_record_holds_forty_bits_of_bias_thirty_two_of_scale_and_six_of_shift(record: ChannelScale, data: bytes) -> None:
    assert encode_scales([record]) == data
    assert decode_scales(data, 1) == (record,)


@given(
    st.lists(
        st.builds(ChannelScale, st.integers(-(1 << 39), (1 << 39) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, 63)), max_size=20
    )
)
def test_scale_tables_round_trip_and_are_padded_to_sixteen_bytes(records: list[ChannelScale]) -> None:
    table = encode_scales(records)
    assert len(table) % 16 == 0
    assert decode_scales(table, len(records)) == tuple(records)


@pytest.mark.parametrize(
    "record", [ChannelScale(1 << 39, 0, 0), ChannelScale(0, 1 << 32, 0), ChannelScale(0, 0, 64), ChannelScale(0, -1, 0)]
)
def test_a_scale_record_that_does_not_fit_is_refused(record: ChannelScale) -> None:
    with pytest.raises(InputError):
        encode_scales([record])


def test_a_short_scale_table_is_refused() -> None:
    with pytest.raises(InputError, match="20 are needed for 2 channels"):
        decode_scales(bytes(16), 2)


def test_repeated_weights_compress_and_random_ones_do_not() -> None:
    device, layout = accelerator("ethos-u55-128"), WeightFormat(16)
    noise = np.random.default_rng(0).integers(-127, 128, (64, 1, 1, 64))
    assert len(encode_weights(np.ones((64, 1, 1, 64), np.int8), layout, device)) < 64 * 64 // 4
    assert len(encode_weights(noise, layout, device)) >= 64 * 64


@pytest.mark.parametrize(
    ("shape", "layout", "message"),
    [
        ((8, 1, 1), WeightFormat(8), "four axes"),
        ((8, 0, 1, 1), WeightFormat(8), "at least 1"),
        ((8, 1, 1, 2), WeightFormat(8, depthwise=True), "one filter per channel"),
        ((8, 1, 1, 1), WeightFormat(8, depthwise=True, part_kernel=True), "part-kernel order"),
        ((8, 1, 1, 8), WeightFormat(12), "multiple of 8"),
        ((8, 1, 1, 8), WeightFormat(0), "multiple of 8"),
        ((8, 1, 1, 8), WeightFormat(8, ifm_bits=32), "32-bit IFM"),
        ((8, 1, 1, 8), WeightFormat(8, dilation_x=3), "dilations of 1 or 2"),
    ],
)
def test_weights_that_no_operation_can_have_are_refused(shape: tuple[int, ...], layout: WeightFormat, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_weights(np.zeros(shape, np.int16), layout, accelerator("ethos-u55-128"))


def test_a_weight_beyond_nine_signed_bits_is_refused() -> None:
    with pytest.raises(InputError, match="magnitude 256"):
        encode_weights(np.full((8, 1, 1, 8), -256), WeightFormat(8), accelerator("ethos-u55-128"))


def test_a_stream_that_is_cut_off_is_refused() -> None:
    device = accelerator("ethos-u55-128")
    stream = encode_weights(np.ones((8, 1, 1, 8), np.int16), WeightFormat(8), device)
    for damaged in (b"", stream[:-1], bytes(16), stream[:-16]):
        with pytest.raises(InputError, match="cut off"):
            decode_stream(damaged)


def test_a_stream_of_more_weights_than_the_operation_has_is_refused_before_they_are_laid_out() -> None:
    stream = encode_weights(np.ones((8, 1, 1, 64), np.int16), WeightFormat(8), accelerator("ethos-u55-128"))
    assert decode_stream(stream, 512).size == 512
    with pytest.raises(InputError, match="512 or more weights: 511 are needed"):
        decode_stream(stream, 511)


def test_a_stream_of_another_shape_is_refused() -> None:
    device = accelerator("ethos-u55-128")
    symbols = hardware_order(np.ones((8, 1, 1, 32), np.int16), WeightFormat(8), device)
    with pytest.raises(InputError, match="256 weights: 512 are needed"):
        from_hardware_order(symbols, (16, 1, 1, 32), WeightFormat(8), device)


@given(st.integers(1, 40), st.lists(st.integers(0, 25), min_size=1, max_size=2), st.sampled_from(["ethos-u55-128", "ethos-u65-512"]))
def test_scale_tables_are_refused_for_the_same_reason_whether_they_are_read_or_not(depth: int, records: list[int], device: str) -> None:
    op = conv(Shape3D(4, 4, depth), Shape3D(4, 4, 8))
    tables = [bytes(10 * count) for count in records]

    def said(check: Callable[..., object]) -> str:
        try:
            check(op, tables, accelerator(device))
        except InputError as error:
            return str(error)
        return ""

    assert said(require_kernel_scales) == said(kernel_scales)
