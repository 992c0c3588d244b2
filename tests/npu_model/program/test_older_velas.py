"""Streams that older Velas emitted: legal, and replayed alike by the engine and its twin.

``tests/golden/streams`` holds the Programs (without constants) of networks as Vela 2.1.1, 3.0.0 and 3.12.0 compile them with their
defaults for ethos-u55-128: of ds_cnn by Vela 3.0.0 the first of two Programs, of deeplabv3 by Vela 2.1.1 the eighth and the
ninth of eleven, of YOLO by Vela 3.0.0 both.
"""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path

import pytest

from npu_model.accelerator import accelerator
from npu_model.memory.timing_adapter import profile
from npu_model.program import ElementwiseKind, Kernel, KernelWait, Layout, PoolKind, Program, Rounding, Upscale
from npu_model.program.check import check_program
from sim import quick_replay, replay
from validation.fvp.references.records import read_stored, stored

STREAMS = Path(__file__).parents[2] / "golden" / "streams"
NAMES = sorted(path.name for path in STREAMS.iterdir())


def stream(name: str) -> Program:
    return read_stored((STREAMS / name).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_an_older_vela_is_legal_and_is_written_as_it_was_read(name: str) -> None:
    check_program(stream(name), accelerator("ethos-u55-128"))
    assert lzma.decompress(stored(stream(name))) == lzma.decompress((STREAMS / name).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_engine_and_twin_replay_a_stream_of_an_older_vela_alike(name: str) -> None:
    system = profile("u55_high_end").memory_system()
    run, quick = replay(stream(name), system), quick_replay(stream(name), system)
    assert (run.cycles, run.beats) == (quick.cycles, quick.beats)


def test_vela_3_0_0_waits_for_as_many_kernels_as_can_be_under_way() -> None:
    waits = Counter(op.outstanding for op in stream("kws_micronet_m.vela-3.0.0.jsonl.xz").operations if isinstance(op, KernelWait))
    assert waits == {1: 10, 2: 7}
    assert accelerator("ethos-u55-128").max_outstanding_kernels == 2


def test_vela_3_0_0_reads_a_strided_first_layer_one_column_too_far_to_the_right() -> None:
    """A window of 4 columns, stride 2 and a column of padding on the left (TFLite's SAME for 10 columns) is made one of column pairs.

    The padded column is half of a pair: three pairs are needed, the first and the last half empty. Vela 3.0.0 takes two and no padding.
    """
    old, new = (next(iter(stream(f"ds_cnn_kws_i8.vela-{version}.jsonl.xz").kernels)) for version in ("3.0.0", "3.12.0"))
    for op in (old, new):
        assert (op.ifm.shape.width, op.ifm.shape.depth, op.kernel.height, op.kernel.stride_x) == (5, 2, 10, 1)
    assert (new.kernel.width, new.padding.left, new.padding.right) == (3, 1, 1)
    assert (old.kernel.width, old.padding.left, old.padding.right) == (2, 0, 1)


def test_vela_2_1_1_asks_the_pools_of_a_resize_to_truncate_and_gives_them_no_scale() -> None:
    """OFM_SCALE still holds what the multiplication before wrote: without the global bit an average with padding does not use it."""
    kernels = list(stream("deeplabv3_mnv3_256_i8.vela-2.1.1-program-8.jsonl.xz").kernels)
    pools = [op for op in kernels if op.pool is PoolKind.AVERAGE]
    (scaled,) = (op for op in kernels if op.elementwise is ElementwiseKind.MUL)
    assert {(op.kernel, op.upscale) for op in pools} == {(Kernel(2, 2), Upscale.NEAREST)}
    assert {(op.rounding, op.global_scale, op.ofm_scale) for op in pools} == {(Rounding.TRUNCATE, False, scaled.ofm_scale)}


def test_vela_2_1_1_writes_a_sum_over_an_operand_that_the_next_program_reads() -> None:
    eighth, ninth = (stream(f"deeplabv3_mnv3_256_i8.vela-2.1.1-program-{number}.jsonl.xz") for number in (8, 9))
    (operand,) = (binding for binding in eighth.inputs if binding.name == "model/tf.math.add_13/Add_cpu")
    *_, total = eighth.kernels
    assert total.elementwise is ElementwiseKind.ADD
    assert total.ifm.tiles.bases[0] == total.ofm.tiles.bases[0] == operand.address
    assert operand in ninth.inputs


def test_vela_2_1_1_gives_a_layer_of_24_inputs_the_depth_of_its_output() -> None:
    """Two bricks of 16 channels are 24 channels, and the weights are as many bytes as those of the layers of 24 inputs and 72 outputs."""
    kernels = [op for op in stream("rnnoise_INT8.vela-2.1.1.jsonl.xz").kernels if op.ofm.shape.depth == 72 and op.weights]
    (wrong,) = (op for op in kernels if op.ifm.shape.depth == 72)
    right = [op for op in kernels if op.ifm.shape.depth == 24]
    assert wrong.ifm.strides.y == 2 * 16
    assert {op.weights[0].length for op in right} == {wrong.weights[0].length}


def test_vela_3_0_0_writes_bricks_where_the_next_program_reads_rows() -> None:
    first, second = (stream(f"yolo_fastest_192_face_i8.vela-3.0.0-program-{number}.jsonl.xz") for number in (1, 2))
    (passed,) = (binding for binding in first.outputs if binding.name == "model/add_12/add_cpu")
    assert passed in second.inputs
    assert passed.shape[-1] == 24
    assert {op.ofm.layout for op in first.kernels if op.ofm.tiles.bases[0] == passed.address} == {Layout.NHCWB16}
    reader = next(op for op in second.kernels if op.ifm.tiles.bases[0] == passed.address)
    assert reader.ifm.layout is Layout.NHWC
