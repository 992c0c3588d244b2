"""A RESHAPE that is all that an NPU job does between operators on the CPU takes no kernel, and changes no byte."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from few_examples import few_cases

import npu_testbed
from cascader.ethosu.forms.spared_copies import without_idle_copies
from cascader.ethosu.network.network import Network
from cascader.frontends.vela import import_network
from validation.builder import NetworkBuilder, TensorHandle
from validation.litert.judge import litert_installed

DEVICE = "ethos-u55-128"
Draw = Callable[[NetworkBuilder], list[TensorHandle]]


def between(net: NetworkBuilder) -> list[TensorHandle]:
    """A map that an operator on the CPU makes and another one reads in another shape."""
    x = net.depth_to_space(net.input((1, 8, 8, 16), "image"), name="first")
    return [net.depth_to_space(net.reshape(x, (1, 8, 32, 4)), name="second")]


def before(net: NetworkBuilder) -> list[TensorHandle]:
    """The network's input, which an operator on the CPU reads in another shape."""
    x = net.depth_to_space(net.reshape(net.input((1, 16, 4, 16), "image"), (1, 8, 8, 16)), name="on_cpu")
    return [net.conv2d(x, 8)]


def after(net: NetworkBuilder) -> list[TensorHandle]:
    """A map of an operator on the CPU that is the output in another shape."""
    x = net.depth_to_space(net.conv2d(net.input((1, 8, 8, 16), "image"), 16), name="on_cpu")
    return [net.reshape(x, (1, 1024))]


def kept(net: NetworkBuilder) -> list[TensorHandle]:
    """The same, with the map as another output."""
    x = net.depth_to_space(net.conv2d(net.input((1, 8, 8, 16), "image"), 16), name="on_cpu")
    return [x, net.reshape(x, (1, 1024))]


DRAWN = (between, before, after, kept)


@cache
def model(draw: Draw) -> bytes:
    net = NetworkBuilder(draw.__name__)
    return net.finish(draw(net))


@cache
def network(draw: Draw) -> Network:
    return import_network(model(draw), DEVICE)


@pytest.mark.parametrize("draw", DRAWN, ids=lambda draw: draw.__name__)
def test_no_lone_copy_is_left_where_both_tensors_may_be_one(draw: Draw) -> None:
    plain, spared = network(draw), without_idle_copies(network(draw))
    lone = [segment.parts[0] for segment in plain.segments if len(segment.parts) == 1 and segment.parts[0] in plain.kernels]
    gone = set(plain.kernels) - set(spared.kernels)
    assert gone <= set(lone)
    assert len(spared.graph.tensors) == len(plain.graph.tensors) - len(gone)
    assert [segment.ports for segment in spared.segments] != [segment.ports for segment in plain.segments] or not gone
    assert len(spared.segments) == len(plain.segments)


def test_a_reshape_between_operators_on_the_cpu_is_found() -> None:
    assert set(network(between).kernels) != set()
    assert set(without_idle_copies(network(between)).kernels) == set()


@pytest.mark.law
@pytest.mark.parametrize(("draw", "no_cascade"), few_cases(DRAWN, [False, True]))
def test_the_bytes_are_those_of_the_reference(draw: Draw, no_cascade: bool, tmp_path: Path) -> None:  # noqa: FBT001
    source = tmp_path / "n.tflite"
    source.write_bytes(model(draw))
    found = npu_testbed.schedule(source, no_cascade=no_cascade, no_advice=True, jobs=1)
    found.save(tmp_path / "n.json")
    npu_testbed.export(tmp_path / "n.json", output=tmp_path / "n_npu.tflite", model=source)
    for file in ("n.json", "n_npu.tflite"):
        result = npu_testbed.verify(tmp_path / file, model=source)
        assert result.passed
        assert litert_installed() or result.comparisons
