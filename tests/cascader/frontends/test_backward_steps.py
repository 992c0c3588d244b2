"""Backward strides: MIRROR_PAD's kernels step backwards through what they write, and the cascader's forwards."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from small_programs import INT8, feature_map

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, import_network
from cascader.frontends.vela.debug_database import named_network
from cascader.frontends.vela.lift import lift
from cascader.frontends.vela.moves import forwards
from npu_model.command_stream.registers import ADDRESS_BITS, Cmd1, RegisterFile
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, Strides, Tiles
from npu_model.shapes import Shape3D
from sim.functional import run
from validation.portfolio import build


@cache
def reflected() -> CompiledNetwork:
    return named_network(compile_network(build("conv_mirror_pad_conv"), CompilerOptions(legalise=True)))


def backward_kernels(network: CompiledNetwork) -> list[KernelOperation]:
    kernels = (op for program in network.programs for op in program.kernels)
    return [op for op in kernels if min(op.ofm.strides.y, op.ofm.strides.x) < 0]


@st.composite
def maps(draw: st.DrawFn) -> FeatureMap:
    shape = Shape3D(draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 40)))
    strides = Strides(*(draw(st.integers(-500, 500)) for _ in range(3)))
    tiles = Tiles(
        draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 4)), tuple(draw(st.integers(4000, 9000)) for _ in range(4))
    )
    return FeatureMap(1, shape, INT8, draw(st.sampled_from(Layout)), tiles, strides)


@given(fm=maps())
def test_the_byte_ranges_of_a_map_hold_every_element_whichever_way_it_steps(fm: FeatureMap) -> None:
    shape = fm.shape
    bricks = shape.depth if fm.layout is Layout.NHWC else -(-shape.depth // BRICK) * BRICK
    touched = {fm.address(y, x, c) for y in range(shape.height) for x in range(shape.width) for c in range(bricks)}
    ranges = fm.byte_ranges()
    assert all(any(r.start <= address < r.end for r in ranges) for address in touched)
    assert {r.start for r in ranges} <= touched
    assert {r.end - 1 for r in ranges} <= touched


@pytest.mark.parametrize("parameter", [0xFF, 0xFFFF], ids=["C++ core", "Python core"])
def test_both_cores_spellings_of_a_negative_stride_are_read(parameter: int) -> None:
    registers = RegisterFile()
    registers.set_long(Cmd1.OFM_STRIDE_Y, parameter, (1 << 32) - 448)
    assert registers.stride(Cmd1.OFM_STRIDE_Y) == -448
    registers.set_long(Cmd1.OFM_STRIDE_Y, 0x7F, 0)
    assert registers.stride(Cmd1.OFM_STRIDE_Y) == 0x7F << 32 < 1 << ADDRESS_BITS


def test_a_reflection_steps_backwards_in_velas_stream_and_nowhere_in_the_layer_graph() -> None:
    assert backward_kernels(reflected())
    lifted = lift(reflected())
    assert not backward_kernels(lower(schedule_layer_by_layer(lifted, "ethos-u55-128")))


def test_rows_and_columns_one_by_one_compute_what_the_backward_kernels_do() -> None:
    ours = lower(schedule_layer_by_layer(import_network(build("conv_mirror_pad_conv")), "ethos-u55-128"))
    (binding,) = reflected().inputs
    image = np.random.default_rng(7).integers(-128, 128, binding.shape, dtype=np.int8)
    theirs, mine = (run(network, [image]) for network in (reflected(), ours))
    assert [np.array_equal(theirs[name], mine[name]) for name in theirs] == [True]


def test_the_pieces_of_a_backward_kernel_write_each_element_once_and_where_it_did() -> None:
    for kernel in backward_kernels(reflected()):
        pieces = list(forwards(kernel))
        whole = {kernel.ofm.address(y, x, 0) for y in range(kernel.ofm.shape.height) for x in range(kernel.ofm.shape.width)}
        cut = [p.ofm.address(y, x, 0) for p in pieces for y in range(p.ofm.shape.height) for x in range(p.ofm.shape.width)]
        assert (set(cut), len(cut)) == (whole, len(whole))
        assert all(min(p.ofm.strides.y, p.ofm.strides.x) > 0 for p in pieces)


def test_a_backward_kernel_that_does_more_than_copy_is_refused() -> None:
    kernel = backward_kernels(reflected())[0]
    with pytest.raises(InputError, match="negative stride and does more than a copy"):
        list(forwards(replace(kernel, ifm=feature_map(Shape3D(9, 9, 16)))))
