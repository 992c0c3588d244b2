"""The Ethos-U85 run bit by bit: networks compiled by Vela for several of its sizes give LiteRT's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from few_examples import few_cases
from msgspec.structs import replace
from reference_data import shared_data
from vela_u85 import compiled

from npu_model.accelerator import Accelerator, accelerator
from npu_model.command_stream import decode_words
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.program import (
    ActivationKind,
    DataType,
    ElementwiseKind,
    KernelOperation,
    MapStorage,
    OperationKind,
    ResizeKind,
    Rounding,
    TableFormat,
    Tiles,
)
from npu_model.weight_stream import deep_order
from npu_model.weight_stream.deep_order import DeepFormat
from npu_model.weight_stream.kernels import kernel_weights
from npu_model.weight_stream.order import Int16
from npu_model.weight_stream.weights import weight_shape
from npu_testbed.proofs.file_verification import verify
from npu_testbed.proofs.verification import Verification
from sim.functional import run
from sim.functional.rescale import rescale
from sim.hazards import network_hazards
from validation.portfolio import build

pytestmark = pytest.mark.law

SIZES = 128, 256, 512, 1024, 2048
CASES = (
    ("mobilenet_v3", 256),
    ("mobilenet_v3", 2048),
    ("activity", 128),
    ("pytorch_nchw", 256),
    ("depthwise_twice_at_ends", 512),
    ("conv_transpose_hw_conv", 1024),
    ("reverse_columns_at_ends", 128),
    ("residual_int16", 512),
    ("average_of_int16", 1024),
    ("resize_bilinear_4_at_ends", 256),
    ("conv_resize_nearest_half_conv", 512),
    ("conv_squared_difference_conv", 2048),
    ("camera_stem_uint8", 256),
    ("sub_at_ends", 256),
    ("leaky_relu_at_ends", 128),
    ("attention_at_ends", 256),
    ("arg_max_at_end", 512),
    ("int16_tanh", 256),
    ("int16_logistic", 512),
)
"""Networks of the portfolio by MACs: chains, broadcasts, tables, resizes, reductions, products, ARG_MAX, 48-bit accumulators."""


@cache
def network(name: str, macs: int) -> CompiledNetwork:
    return read_compiled(compiled(name, macs))


@pytest.mark.parametrize(("name", "macs"), CASES)
def test_a_stream_gives_litert_its_bytes(name: str, macs: int, tmp_path: Path) -> None:
    model, stream = tmp_path / f"{name}.tflite", tmp_path / f"{name}_vela.tflite"
    model.write_bytes(build(name))
    stream.write_bytes(compiled(name, macs))
    found = verify(stream, str(model), inferences=1)
    assert found.hazards == ()
    assert differing(found) == 0


def differing(found: Verification) -> int:
    """Bytes that differ from LiteRT, or from Vela's stream where LiteRT is not installed."""
    rows = [row for row in found.comparisons if row.reference.startswith("LiteRT")] or list(found.comparisons)
    assert rows
    return sum(row.differing for row in rows)


PUBLISHED = {"kws_micronet_m": "kws_micronet_m", "rnnoise_INT8": "rnnoise_INT8", "yolo-fastest_192_face_v4": "yolo_fastest_192_face_i8"}


@pytest.mark.law
@pytest.mark.parametrize(("macs", "stream"), few_cases(SIZES, list(PUBLISHED)))
def test_published_streams_give_litert_its_bytes(macs: int, stream: str) -> None:
    data = shared_data()
    file = data / "fvp" / "u85" / f"{stream}.ethos-u85-{macs}.vela500.tflite"
    found = verify(file, str(data / "models" / f"{PUBLISHED[stream]}.tflite"), inferences=1)
    assert (differing(found), found.hazards) == (0, ())


def chained_kernels(net: CompiledNetwork) -> Iterator[KernelOperation]:
    for program in net.programs:
        for op in program.kernels:
            if any(fm is not None and fm.storage is MapStorage.CHAINED for fm in (op.ifm, op.ifm2, op.ofm)):
                yield op


def test_a_chained_map_touches_no_memory() -> None:
    found = list(chained_kernels(network("mobilenet_v3", 256)))
    assert found
    for op in found:
        if op.ofm.storage is MapStorage.CHAINED:
            assert op.writes() == ()


def test_a_chain_without_its_first_kernel_is_refused() -> None:
    net = network("mobilenet_v3", 256)
    (program,) = net.programs
    first = next(
        index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation) and op.ofm.storage is MapStorage.CHAINED
    )
    kept = range(len(program.operations))
    broken = replace(
        program,
        operations=tuple(program.operations[index] for index in kept if index != first),
        words=tuple(program.words[index] for index in kept if index != first),
        names=(),
    )
    with pytest.raises(InputError, match="of chaining buffer"):
        run(replace(net, steps=(broken,)), [np.zeros(one.shape, np.int8) for one in net.inputs])


def deep_streams(op: KernelOperation, weights: Int16, device: Accelerator) -> tuple[bytes, ...]:
    """The standard weight streams of a kernel for its weights (OHWI), by Vela's codec; a stream without a channel is empty."""
    shape, layout = weight_shape(op), DeepFormat.of(op, device)
    flat = np.append(weights.reshape(-1), np.int16(0))
    places = [np.concatenate(list(deep_order.places(shape, layout, stream))) for stream in range(layout.streams)]
    codec = pytest.importorskip("ethosu.mlw_codec", reason="this Vela has no weight codec")
    return tuple(bytes(codec.encode(flat[own].tolist())) if (own >= 0).any() else b"" for own in places)


@pytest.mark.parametrize("macs", SIZES)
def test_weights_come_back_from_the_streams_that_are_made_of_them(macs: int) -> None:
    device, random = accelerator(f"ethos-u85-{macs}"), np.random.default_rng(macs)
    made = 0
    for name in ("mobilenet_v3", "residual_int16"):
        for op in network(name, 256).programs[0].kernels:
            height, width = op.modes.ublock
            if op.weights and not op.modes.sparse_weights and macs // (8 * height * width) >= 4 * device.weight_streams:
                plain = op.having(modes=replace(op.modes, fast_weights=False))
                weights = random.integers(-255, 256, weight_shape(plain)).astype(np.int16)
                assert np.array_equal(kernel_weights(plain, deep_streams(plain, weights, device), device), weights)
                made += 1
    assert made > 5


def test_ties_of_symmetric_rounding_leave_zero() -> None:
    assert rescale(np.array([5, -5, 6, -6]), 1, 2, Rounding.SYMMETRIC).tolist() == [1, -1, 2, -2]
    assert rescale(np.array([5, -5]), 1, 1, Rounding.TRUNCATE_LOWER).tolist() == [2, -3]


def test_a_blockdep_that_reads_too_early_is_a_race() -> None:
    net = network("conv_resize_nearest_half_conv", 512)
    assert network_hazards(net) == ()
    (program,) = net.programs
    eager = tuple(op.having(blockdep=7) if isinstance(op, KernelOperation) else op for op in program.operations)
    assert network_hazards(replace(net, steps=(replace(program, operations=eager),)))


def test_a_resize_reads_its_extents_from_the_registers_of_the_window() -> None:
    kinds = {op.kind for op in network("resize_bilinear_4_at_ends", 256).programs[0].kernels}
    assert OperationKind.RESIZE in kinds


REFUSED = ("control flow", "division", "replication", "tables from 16 to 32 bits", "double asymmetric rounding")
"""Things that no compiler that was seen emits, as docs/exactness.md counts it."""


def with_first(net: CompiledNetwork, kind: OperationKind, **changes: object) -> CompiledNetwork:
    """A network whose first kernel of a kind is changed."""
    (program,) = net.programs
    place = next(i for i, op in enumerate(program.operations) if isinstance(op, KernelOperation) and op.kind is kind)
    operations = list(program.operations)
    operations[place] = operations[place].having(**changes)  # type: ignore[union-attr]  # a kernel
    return replace(net, steps=(replace(program, operations=tuple(operations)),))


def refused(what: str) -> CompiledNetwork:
    """A network with a kernel that does one of the refused things."""
    if what == "division":
        return with_first(network("sub_at_ends", 256), OperationKind.ELEMENTWISE, elementwise=ElementwiseKind.DIV)
    if what == "replication":
        net = network("conv_resize_nearest_half_conv", 512)
        modes = next(op.modes for op in net.programs[0].kernels if op.modes.resize is not None)
        changed = replace(modes, resize=replace(modes.resize, kind=ResizeKind.REPLICATE))  # type: ignore[type-var]  # it has one
        return with_first(net, OperationKind.RESIZE, modes=changed)
    if what == "double asymmetric rounding":
        return with_first(network("sub_at_ends", 256), OperationKind.ELEMENTWISE, rounding=Rounding.DOUBLE_ASYMMETRIC)
    net = network("int16_tanh", 256)
    op = next(op for op in net.programs[0].kernels if op.activation.kind is ActivationKind.LUT)
    (program,) = net.programs
    region = next(one for one in program.regions if one.index == op.ofm.region)
    wide = replace(op.ofm, dtype=DataType(32, signed=True), tiles=Tiles.single(op.ofm.shape, region.size))
    changed = with_first(net, op.kind, ofm=wide, activation=replace(op.activation, table=TableFormat.S16_S32))
    larger = tuple(replace(one, size=8 * region.size) if one is region else one for one in program.regions)
    return replace(changed, steps=(replace(changed.programs[0], regions=larger),))


@pytest.mark.parametrize("what", REFUSED[1:])
def test_what_no_compiler_emits_is_refused_in_one_sentence(what: str) -> None:
    net = refused(what)
    inputs = [np.zeros(one.shape, np.int16 if one.dtype.bits == 16 else np.int8) for one in net.inputs]
    with pytest.raises(InputError, match=r"public|are known") as told:
        run(net, inputs)
    assert "\n" not in str(told.value)


def test_a_branch_is_refused_by_its_name() -> None:
    with pytest.raises(InputError, match="NPU_OP_BRANCH"):
        decode_words((0x4100, 0), "u85")


def test_the_page_counts_what_is_refused() -> None:
    page = (Path(__file__).parents[3] / "docs" / "exactness.md").read_text(encoding="utf-8")
    said = page.partition("Five things are refused")[2].partition("\n\n")[0].replace("\n", " ")
    assert len(REFUSED) == 5
    assert all(what in said for what in REFUSED)
