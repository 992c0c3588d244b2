"""Split sums: means that a compiler splits or flattens are one sum again, in as many channels as the NPU sums at once, and exact."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.forms.split_sums import whole_sums
from cascader.ethosu.forms.streamed_pools import with_quick_means, with_streamed_pools
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.program import FeatureMap, KernelOperation, OperationKind
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.functional import run
from validation.builder import NetworkBuilder
from validation.litert.judge import reference_outputs

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)
SOURCES = Sources.staged(load_timing_adapter(DEFAULT_TIMING_ADAPTER), DEFAULT_TIMING)
KINDS = ("int8", "uint8", "int16")


def model(shape: tuple[int, int, int], kind: str, *, first: bool) -> bytes:
    """A mean over all rows and columns of the input, or of a convolution's result that has its shape."""
    net = NetworkBuilder("mean", kind)
    x = net.input((1, *shape), "image")
    return net.finish([net.mean(x if first else net.conv2d(x, shape[2], (1, 1)), keep=True)])


def is_sum(operation: KernelOperation) -> bool:
    return operation.kind is OperationKind.DEPTHWISE and operation.ofm.dtype.bits == 32


def addresses(feature_map: FeatureMap) -> Counter[int]:
    """The addresses of all elements of the first channel."""
    shape = feature_map.shape
    return Counter(feature_map.address(y, x, 0) for y in range(shape.height) for x in range(shape.width))


def addends(network: Network, tensor: str) -> Counter[int]:
    """Count by brute force how often each address is added on the way to the tensor."""
    kernel = next(kernel for kernel in network.kernels.values() if kernel.ofm == tensor)
    if is_sum(kernel.operation):
        return addresses(kernel.operation.ifm)
    return sum((addends(network, str(name)) for name, _ in kernel.operands), Counter())


shapes = st.tuples(st.integers(2, 140), st.integers(2, 140), st.integers(1, 4))


@settings(max_examples=few(25))
@given(shape=shapes, kind=st.sampled_from(KINDS), first=st.booleans(), seed=st.integers(0, 1000))
def test_a_mean_in_any_form_has_litert_s_bytes(shape: tuple[int, int, int], kind: str, first: bool, seed: int) -> None:  # noqa: FBT001
    pytest.importorskip("ai_edge_litert")
    data = model(shape, kind, first=first)
    network = import_network(data, DEFAULT)
    bits = np.iinfo(kind)
    drawn = np.random.default_rng(seed).integers(bits.min, bits.max + 1, (1, *shape)).astype(kind)
    images = [drawn, np.full_like(drawn, bits.max), np.full_like(drawn, bits.min)]
    expected = reference_outputs(data, [{"image": image} for image in images])
    for form in (network, with_quick_means(network, DEVICE, SOURCES), with_streamed_pools(network, DEVICE, SOURCES)):
        program = lower(schedule_layer_by_layer(form, DEFAULT))
        for image, outputs in zip(images, expected, strict=True):
            (value,), (wanted,) = run(program, [image]).values(), outputs.values()
            assert value.tobytes() == wanted.tobytes()


@settings(max_examples=few(25))
@given(shape=shapes, kind=st.sampled_from(KINDS), first=st.booleans())
def test_a_whole_sum_adds_what_its_parts_add_by_brute_force(shape: tuple[int, int, int], kind: str, first: bool) -> None:  # noqa: FBT001
    network = import_network(model(shape, kind, first=first), DEFAULT)
    found = whole_sums(network, is_sum)
    for one in found:
        elements = addends(network, one.kernel.ofm)
        assert addresses(one.kernel.operation.ifm) == elements
        assert set(elements.values()) == {1}
        assert len(elements) == shape[0] * shape[1]
        assert one.kernel.operation.kernel.elements == len(elements)
    sums = [kernel.ofm for kernel in network.kernels.values() if is_sum(kernel.operation)]
    assert len(sums) == 1 or [one.names[-1] for one in found] == [network.graph.parts[-2].name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_of_one_channel_takes_a_quarter_of_the_cycles_of_the_compiler_s(kind: str) -> None:
    network = import_network(model((60, 128, 1), kind, first=True), DEFAULT)
    quick = with_quick_means(network, DEVICE, SOURCES)
    before, after = (
        KernelMaker(one, DEVICE, SOURCES).cycles(kernel.operation for kernel in one.kernels.values()) for one in (network, quick)
    )
    assert after * 4 < before


@pytest.mark.parametrize("shape", [(140, 140, 4), (90, 8, 3)])
def test_a_mean_over_a_large_map_reads_a_few_rows_at_a_time(shape: tuple[int, int, int]) -> None:
    """Those that a compiler splits, and those that it flattens to a row."""
    network = import_network(model(shape, "int8", first=False), DEFAULT)
    streamed = with_streamed_pools(network, DEVICE, SOURCES)
    (reader,) = (part for part in row_graph(streamed).parts if part.inputs and part.name.endswith("/0"))
    assert reader.rows > 1


def test_sums_that_somebody_else_reads_are_not_joined() -> None:
    network = import_network(model((100, 100, 2), "int8", first=False), DEFAULT)
    added = next(part for part in network.graph.parts if len(part.inputs) == 2)
    read_twice = network.with_parts({added.name: [added, replace(added, name="again")]})
    assert whole_sums(network, is_sum)
    assert not whole_sums(read_twice, is_sum)
