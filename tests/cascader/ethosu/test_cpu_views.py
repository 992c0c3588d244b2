"""A RESHAPE next to an operator on the CPU moves no byte: it is a view, and Vela's own bytes and cycles bound what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import call
from msgspec.structs import replace

import npu_testbed
from cascader.ethosu.verify.check import check_schedule
from npu_model.errors import InputError
from validation.builder import NetworkBuilder, TensorHandle

Make = Callable[[NetworkBuilder], TensorHandle]


def before(net: NetworkBuilder) -> TensorHandle:
    return net.gather(net.reshape(net.input((1, 40), "x"), (1, 10, 4)), (1, 3, 5), 1)


def after(net: NetworkBuilder) -> TensorHandle:
    return net.reshape(net.gather(net.input((1, 12, 4), "x"), (1, 3, 5), 1), (1, 12))


def around(net: NetworkBuilder) -> TensorHandle:
    return net.reshape(net.gather(net.reshape(net.input((1, 24, 2), "x"), (1, 6, 8)), (5, 0, 3, 2), 1), (1, 1, 32))


def between(net: NetworkBuilder) -> TensorHandle:
    x = net.depth_to_space(net.input((1, 4, 4, 16), "x"))
    return net.depth_to_space(net.reshape(x, (1, 4, 16, 4)))


def twice(net: NetworkBuilder) -> TensorHandle:
    x = net.reshape(net.gather(net.input((1, 12, 4), "x"), (1, 3), 1), (1, 8))
    return net.gather(net.reshape(x, (1, 2, 4)), (0,), 1)


def of_long_steps(net: NetworkBuilder) -> TensorHandle:
    return net.reshape(net.conv2d(net.input((1, 40, 32, 3), "x"), 8, (3, 3), strides=(4, 4)), (1, 80, 8))


VIEWS: list[Make] = [before, after, around, between, twice, of_long_steps]


@pytest.fixture(params=VIEWS, ids=lambda make: make.__name__)
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    net = NetworkBuilder("view")
    path = tmp_path / "view.tflite"
    path.write_bytes(net.finish([request.param(net)]))
    return path


def test_a_view_next_to_the_cpu_is_scheduled_compiled_compared_and_exact(view: Path, tmp_path: Path) -> None:
    theirs = [npu_testbed.simulate_vela(view, optimise=optimise) for optimise in ("Size", "Performance")]
    budget = min(one.simulation.planned_bytes for one in theirs)
    made = npu_testbed.schedule(view, arena_cache_size=budget, output=tmp_path / "made.json")
    compared = npu_testbed.compare(view)
    assert made.cycles <= min(one.cycles for one in theirs)
    assert compared.to_dict()
    assert npu_testbed.frontier(view).to_dict()
    assert call("compile", view, "--output-dir", tmp_path).status == 0
    assert call("export", tmp_path / "made.json", "--model", view, "-o", tmp_path / "exported_vela.tflite").status == 0
    for file in ("made.json", "view_vela.tflite", "exported_vela.tflite"):
        assert npu_testbed.verify(tmp_path / file, model=view).to_dict()


def test_a_segment_of_no_part_that_is_no_view_is_refused() -> None:
    net = NetworkBuilder("view")
    plan = npu_testbed.schedule(net.finish([before(net)])).schedule
    check_schedule(plan)
    (empty,) = [segment for segment in plan.network.segments if not segment.parts]
    moved = replace(empty, outputs=tuple(replace(port, offset=port.offset + 1, shape=(1, 1, 1)) for port in empty.outputs))
    segments = tuple(moved if segment is empty else segment for segment in plan.network.segments)
    with pytest.raises(InputError, match="does not run in one piece"):
        check_schedule(replace(plan, network=replace(plan.network, segments=segments)))
