"""Cascades as C: equal numbers in an arena of exactly the peak, and a clean refusal one byte below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips where TVM is missing
from c_runner import run_c
from te_graphs import Quantised

from cascader.graph.stripe_config import StripeConfig
from cascader.plan.plan import BufferMode
from cascader.plan.stripe_trace import StripedGroup, interior
from cascader.tensorir.apply import Applied, apply, uncascaded
from cascader.tensorir.c_source import c_source
from cascader.tensorir.prove import compile_schedule
from cascader.tensorir.te_frontend import TeGraph, read_graph
from npu_model.errors import InputError


def network() -> tuple[Quantised, TeGraph, np.ndarray]:
    graph = Quantised(np.random.default_rng(9))
    a = graph.conv(graph.input(14, 12, 3), "a", 8)
    output = graph.conv(graph.add(graph.conv(graph.conv(a, "b", 0), "c", 8, kernel=1), a, "sum"), "last", 5, stride=2, pad=(0, 0, 1, 1))
    return graph, read_graph(list(graph.inputs), [output], graph.constants), graph.value[output]


def cascaded(read: TeGraph, mode: BufferMode, *, count: bool = False) -> Applied:
    last = len(read.affine.parts) - 1
    stripes = StripeConfig.even(read.affine.parts[last].shape, (2, 6, 5))
    return apply(read, [StripedGroup(0, last, stripes, dict.fromkeys(interior(read.affine, 0, last), mode))], count=count)


@pytest.mark.parametrize("mode", [BufferMode.ROLLING, BufferMode.RECOMPUTE])
def test_c_runs_in_exactly_the_peak_and_refuses_one_byte_less(mode: BufferMode, tmp_path: Path) -> None:
    graph, read, expected = network()
    applied = cascaded(read, mode)
    made = c_source(applied, read.constants, "cascade")
    (value,) = graph.inputs.values()
    assert made.arena == made.live == compile_schedule(applied).measured.live
    status, output = run_c(made, "cascade", value, expected, made.arena, tmp_path)
    assert (status, output.tolist()) == (0, expected.tolist())
    status, output = run_c(made, "cascade", value, expected, made.arena - 1, tmp_path)
    assert status == 1
    assert (output == 85).all()


def test_the_cascade_needs_half_of_the_arena() -> None:
    _, read, _ = network()
    whole = c_source(apply(read, uncascaded(read)), read.constants, "whole")
    assert 2 * c_source(cascaded(read, BufferMode.ROLLING), read.constants, "cascade").arena <= whole.arena


def test_what_c_cannot_say_is_refused() -> None:
    _, read, _ = network()
    with pytest.raises(InputError, match="'2nd' is to be the name of a C function"):
        c_source(cascaded(read, BufferMode.ROLLING), read.constants, "2nd")
    with pytest.raises(InputError, match="counts its work"):
        c_source(cascaded(read, BufferMode.ROLLING, count=True), read.constants, "net")
    with pytest.raises(InputError, match="Constant 'a_w' is not among the arrays"):
        c_source(cascaded(read, BufferMode.ROLLING), {}, "net")
