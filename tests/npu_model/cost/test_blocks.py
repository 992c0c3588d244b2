"""Block configs and the SHRAM partition, against Vela's allocator and against the streams that it emits."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from block_configs import VELA_API_STEP, accumulator_format, valid_blocks
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from reference_data import shared_data

from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.compiled.network import read_compiled
from npu_model.cost.shram import BlockQuery, ShramQuery, ifm_block, ifm_depth_step, shram_partition
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, ElementwiseKind, Kernel, OperationKind, PoolKind, Shram, Upscale
from npu_model.shapes import Shape3D, round_up

ACCELERATORS = [accelerator(name) for name in accelerator_names("u55")]
U55_128 = accelerator("ethos-u55-128")
# The others, and OperationKind.RESIZE, are the Ethos-U85's.
POOLS = [PoolKind.MAX, PoolKind.AVERAGE, PoolKind.REDUCE_SUM]
FUNCTIONS = [kind for kind in ElementwiseKind if kind.code <= ElementwiseKind.SHL.code]


@st.composite
def queries(draw: st.DrawFn, largest: int = 70) -> BlockQuery:
    kind = draw(st.sampled_from([kind for kind in OperationKind if kind is not OperationKind.RESIZE]))
    windowed = kind is not OperationKind.ELEMENTWISE
    pool = draw(st.sampled_from(POOLS)) if kind is OperationKind.POOL else None
    elementwise = None if windowed else draw(st.sampled_from(FUNCTIONS))
    weighted = kind in (OperationKind.CONV_2D, OperationKind.DEPTHWISE)
    bits = draw(st.sampled_from([8, 16] if weighted else [8, 16, 32]))
    kernel = Kernel(*(draw(st.integers(1, top)) for top in (10, 10, 3, 3, 2, 2))) if windowed else Kernel()
    extents = st.one_of(st.integers(1, 3), st.integers(1, largest))
    ofm = Shape3D(draw(extents), draw(extents), draw(st.integers(1, 140)))
    return BlockQuery(
        kind=kind,
        ofm=ofm,
        ifm_depth=draw(st.integers(1, 70)) if kind is OperationKind.CONV_2D or pool is PoolKind.REDUCE_SUM else ofm.depth,
        ifm_bits=bits,
        kernel=kernel,
        pool=pool,
        elementwise=elementwise,
        scalar=elementwise is not None and not elementwise.is_unary and draw(st.booleans()),
        part_kernel=kind is OperationKind.CONV_2D and draw(st.booleans()),
        upscale=draw(st.sampled_from(Upscale)) if windowed else Upscale.NONE,
        lut=draw(st.booleans()),
        accumulator=accumulator_format(kind, pool, bits, scaled=draw(st.booleans())),
    )


def vela_operation(api: Any, query: BlockQuery) -> Any:
    """The operation of Vela's public interface that asks for the same blocks."""
    if query.kind is OperationKind.CONV_2D:
        op = api.NpuConv2DOperation()
        order = api.NpuBlockTraversal
        op.block_traversal = order.PART_KERNEL_FIRST if query.part_kernel else order.DEPTH_FIRST
    elif query.kind is OperationKind.DEPTHWISE:
        op = api.NpuConvDepthWiseOperation()
    elif query.pool is not None:
        op = api.NpuPoolingOperation(api.NpuPoolingOp[query.pool.name])
    else:
        op = api.NpuElementWiseOperation(api.NpuElementWiseOp[query.elementwise.name])
        if query.scalar:
            op.ifm2_scalar = 1.0
    scaled = query.accumulator is AccumulatorFormat.INT40
    for name, depth in (("ifm", query.ifm_depth), ("ofm", query.ofm.depth)):
        feature_map = api.NpuFeatureMap()
        feature_map.data_type = api.NpuDataType[f"INT{query.ifm_bits}"]
        feature_map.shape = api.NpuShape3D(height=query.ofm.height, width=query.ofm.width, depth=depth)
        feature_map.quantization = api.NpuQuantization(1.0, 0) if scaled else None
        setattr(op, name, feature_map)
    k = query.kernel
    op.kernel = api.NpuKernel(k.width, k.height, k.stride_x, k.stride_y, k.dilation_x, k.dilation_y)
    resampling = api.NpuResamplingMode
    op.ifm_upscale = {Upscale.NONE: resampling.NONE, Upscale.NEAREST: resampling.NEAREST, Upscale.ZEROS: resampling.TRANSPOSE}[
        query.upscale
    ]
    op.activation = api.NpuActivation(api.NpuActivationOp.TABLE_LOOKUP) if query.lut else None
    return op


def vela_layout(query: BlockQuery, block: Shape3D, device: Accelerator) -> Shram | None:
    """Layout of the SHRAM that Vela's legacy allocator gives a block; None if the block does not fit."""
    allocator, features, operation = (
        pytest.importorskip(f"ethosu.vela.{name}", reason="Vela 6 has no Python allocator")
        for name in ("architecture_allocator", "architecture_features", "operation")
    )
    block_type = operation.NpuBlockType
    k = query.kernel
    kinds = {
        OperationKind.CONV_2D: block_type.ConvolutionMxN,
        OperationKind.DEPTHWISE: block_type.ConvolutionDepthWise,
        OperationKind.POOL: block_type.ReduceSum if query.pool is PoolKind.REDUCE_SUM else block_type.Pooling,
        OperationKind.ELEMENTWISE: block_type.ElementWise,
    }
    config = allocator.try_block_config(
        features.Block(block.width, block.height, block.depth),
        features.create_default_arch(features.Accelerator(device.name)),
        kinds[query.kind],
        features.Block(query.ofm.width, query.ofm.height, query.ofm.depth),
        features.Block(query.ofm.width, query.ofm.height, query.ifm_depth),
        None,
        query.scalar,
        query.ifm_bits,
        query.part_kernel,
        operation.Kernel(k.width, k.height, k.stride_x, k.stride_y, k.dilation_x, k.dilation_y),
        2 if query.lut else 0,
        query.accumulator is AccumulatorFormat.INT40,
        features.resampling_mode(query.upscale.code),
    )
    if config is None:
        return None
    binary = query.elementwise is not None and not query.elementwise.is_unary
    return Shram(config.layout.ib_end, config.layout.ab_start, config.layout.ib_start2 if binary else 0)


@settings(max_examples=400, deadline=None)
@given(queries(), st.sampled_from(ACCELERATORS), st.tuples(st.integers(0, 34), st.integers(0, 66), st.integers(0, 34)))
def test_the_partition_of_every_block_is_the_one_of_velas_allocator(
    query: BlockQuery, device: Accelerator, size: tuple[int, int, int]
) -> None:
    for block in (Shape3D(size[0], size[1], 4 * size[2]), Shape3D(2 * (size[0] // 6 + 1), 2 * (size[1] // 6 + 1), 8 * (size[2] // 4 + 1))):
        assert shram_partition(query, block, device) == vela_layout(query, block, device)


@settings(max_examples=60, deadline=None)
@given(queries(largest=40), st.sampled_from(ACCELERATORS))
def test_the_blocks_of_even_sides_are_those_of_velas_public_interface(query: BlockQuery, device: Accelerator) -> None:
    api = pytest.importorskip("ethosu.vela.api", reason="Vela 6 has no public Python interface")
    blocks = valid_blocks(query, device, VELA_API_STEP)
    if not blocks:  # Vela asserts that there is one
        with pytest.raises(AssertionError):
            api.npu_find_block_configs(vela_operation(api, query), api.NpuAccelerator[device.name.replace("ethos-u55-", "Ethos_U55_")])
        return
    listed = api.npu_find_block_configs(vela_operation(api, query), api.NpuAccelerator[device.name.replace("ethos-u55-", "Ethos_U55_")])
    assert set(blocks) == {Shape3D(b.height, b.width, b.depth) for b in listed}
    assert len(blocks) == len(listed)


@settings(max_examples=30, deadline=None)
@given(queries(largest=12), st.sampled_from(ACCELERATORS))
def test_no_block_that_fits_is_left_out(query: BlockQuery, device: Accelerator) -> None:
    ublock, ofm = device.ofm_ublock, query.ofm
    expected = {
        Shape3D(h, w, d)
        for h in range(ublock.height, ofm.height + ublock.height, ublock.height)
        for w in range(ublock.width, ofm.width + ublock.width, ublock.width)
        for d in range(ublock.depth, 128 + 1, ublock.depth)
        if (d % 16 == 0 and d < ofm.depth) or ofm.depth <= d < ofm.depth + ublock.depth or (d == 128 < ofm.depth)
        if shram_partition(query, Shape3D(h, w, d), device)
    }
    blocks = valid_blocks(query, device)
    assert set(blocks) == expected
    assert list(blocks) == sorted(expected)


@pytest.mark.parametrize("name", ["kws_micronet_m", "rnnoise_INT8", "yolo-fastest_192_face_v4"])
@pytest.mark.parametrize("device", ACCELERATORS, ids=lambda device: device.name)
def test_the_partition_of_every_compiled_kernel_is_the_one_in_its_registers(name: str, device: Accelerator) -> None:
    data = (shared_data() / "fvp" / "streams" / f"{name}.{device.name}.vela500.tflite").read_bytes()
    kernels = [op for program in read_compiled(data).programs for op in program.kernels]
    assert len(kernels) >= 10
    for op in kernels:
        assert shram_partition(BlockQuery.of(op), op.block, device) == op.shram


def test_every_compiled_block_is_valid_for_the_layer_that_its_slice_is_from() -> None:
    folder = shared_data() / "fvp" / "streams"
    for path in sorted(folder.glob("yolo*.tflite")):
        for program in read_compiled(path.read_bytes()).programs:
            for op in program.kernels:
                query = BlockQuery.of(op)
                # Vela keeps the layer's block for its depth slices and stripes, which may be smaller than the block.
                device = accelerator(program.accelerator)
                sides = zip(_hwd(op.ofm.shape), _hwd(op.block), _hwd(device.ofm_ublock), strict=True)
                layer = Shape3D(*(side if block <= round_up(side, ublock) else block for side, block, ublock in sides))
                assert op.block in valid_blocks(replace(query, ofm=layer), device)


def _hwd(shape: Shape3D) -> tuple[int, int, int]:
    return shape.height, shape.width, shape.depth


def conv(ofm: Shape3D, kernel: Kernel, ifm_depth: int = 32, **more: Any) -> BlockQuery:
    return BlockQuery(OperationKind.CONV_2D, ofm, ifm_depth, kernel=kernel, **more)


def test_one_row_of_ofm_under_a_one_row_kernel_halves_the_accumulators_of_256_macs() -> None:
    device, block = accelerator("ethos-u55-256"), Shape3D(2, 64, 32)
    row, rows = (
        shram_partition(conv(Shape3D(height, 64, 32), Kernel(1, 3), ifm_depth=8, part_kernel=True), block, device) for height in (1, 2)
    )
    assert row == Shram(ib_end=10, ab_start=46 - 16)
    assert rows == Shram(ib_end=10, ab_start=46 - 32)


def test_a_lut_takes_two_banks_of_the_small_configurations_only() -> None:
    query = conv(Shape3D(4, 4, 16), Kernel(1, 1))
    with_lut = conv(Shape3D(4, 4, 16), Kernel(1, 1), lut=True)
    block = Shape3D(2, 2, 16)
    for name, banks in (("ethos-u55-32", 2), ("ethos-u55-64", 2), ("ethos-u55-128", 0), ("ethos-u55-256", 0)):
        plain, table = (shram_partition(q, block, accelerator(name)) for q in (query, with_lut))
        assert plain is not None
        assert table is not None
        assert plain.ab_start - table.ab_start == banks


def test_a_window_above_eight_rows_needs_no_more_ifm_than_one_of_eight() -> None:
    block = Shape3D(4, 4, 16)
    assert ifm_block(conv(Shape3D(8, 8, 16), Kernel(8, 8)), block, U55_128) == ifm_block(
        conv(Shape3D(8, 8, 16), Kernel(64, 64)), block, U55_128
    )


def test_an_upscaled_ifm_needs_half_the_rows() -> None:
    query = conv(Shape3D(16, 16, 16), Kernel(1, 1), upscale=Upscale.NEAREST)
    assert ifm_block(query, Shape3D(8, 8, 16), U55_128) == Shape3D(5, 6, 32)
    query = conv(Shape3D(16, 16, 16), Kernel(1, 1), upscale=Upscale.ZEROS)
    assert ifm_block(query, Shape3D(8, 8, 16), U55_128) == Shape3D(4, 4, 32)


def test_the_ifm_block_of_a_depthwise_operation_is_as_deep_as_its_ofm_block() -> None:
    query = BlockQuery(OperationKind.DEPTHWISE, Shape3D(8, 8, 64), 64, kernel=Kernel(3, 3))
    assert ifm_block(query, Shape3D(4, 4, 48), U55_128).depth == 48


def test_the_ifm_depth_step_is_32_or_16_or_8_channels() -> None:
    steps = {(bits, part): ifm_depth_step(bits, part_kernel=part) for bits in (8, 16, 32) for part in (False, True)}
    assert steps == {(8, False): 32, (8, True): 16, (16, False): 16, (16, True): 16, (32, False): 8, (32, True): 8}


def test_scaled_16_bit_operations_but_pooling_accumulate_in_40_bits() -> None:
    wide = AccumulatorFormat.INT40
    assert accumulator_format(OperationKind.CONV_2D, None, 16, scaled=True) is wide
    assert accumulator_format(OperationKind.POOL, PoolKind.REDUCE_SUM, 16, scaled=True) is wide
    assert accumulator_format(OperationKind.POOL, PoolKind.AVERAGE, 16, scaled=True) is AccumulatorFormat.INT32
    assert accumulator_format(OperationKind.CONV_2D, None, 16, scaled=False) is AccumulatorFormat.INT32
    assert accumulator_format(OperationKind.CONV_2D, None, 8, scaled=True) is AccumulatorFormat.INT32


@pytest.mark.parametrize(
    "block", [Shape3D(0, 2, 8), Shape3D(2, 3, 8), Shape3D(2, 2, 4), Shape3D(34, 2, 8), Shape3D(2, 66, 8), Shape3D(2, 2, 136)]
)
def test_a_block_that_is_not_in_ublocks_or_too_large_does_not_fit(block: Shape3D) -> None:
    assert shram_partition(conv(Shape3D(64, 64, 64), Kernel(1, 1)), block, U55_128) is None


SIDES = st.builds(lambda y, x, c: Shape3D(2 * y, 2 * x, 8 * c), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))


@settings(max_examples=100, deadline=None)
@given(queries(), st.sampled_from(ACCELERATORS), st.lists(SIDES, max_size=8), st.integers(0, 4), st.booleans())
def test_of_many_blocks_the_first_that_fit_are_found_with_their_partitions(
    query: BlockQuery,
    device: Accelerator,
    blocks: list[Shape3D],
    count: int,
    distinct: bool,  # noqa: FBT001  # a drawn switch
) -> None:
    fitting = [(number, shram) for number, block in enumerate(blocks) if (shram := shram_partition(query, block, device)) is not None]
    partitions = [shram for _, shram in fitting]
    wanted = [one for at, one in enumerate(fitting) if not distinct or one[1] not in partitions[:at]][:count]
    flat = array("q", (side for block in blocks for side in _hwd(block)))
    asked = ShramQuery(query, device)
    assert asked.fitting(flat, count, distinct=distinct) == asked._fitting(flat, count, distinct=distinct) == wanted


def test_an_ifm_of_24_bits_is_refused() -> None:
    with pytest.raises(InputError, match="24 bits"):
        BlockQuery(OperationKind.CONV_2D, Shape3D(1, 1, 8), 8, ifm_bits=24)
