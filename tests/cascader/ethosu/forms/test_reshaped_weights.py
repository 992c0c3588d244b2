"""Slices, other block depths and folded columns: the same weights and scales in other streams, and networks that compute the same bytes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cascades import expected, outputs
from scheduling import DEFAULT, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.fold import folded
from cascader.ethosu.forms.reblock import GAIN, reblocked
from cascader.ethosu.forms.slices import sliced
from cascader.ethosu.job.constants import StreamEditor
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from npu_model.accelerator import accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import KernelOperation, OperationKind
from npu_model.weight_stream.weights import RECORD_BYTES, weights_from_stream
from npu_model.weight_stream.work import operation_work
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER

pytestmark = pytest.mark.law

DEVICE = accelerator(DEFAULT)
SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
DIRECT, STAGED = Sources.direct(SYSTEM), Sources.staged(SYSTEM)


def kernels(found: Network) -> dict[str, EthosuPart]:
    payloads = {part.name: ethosu_part(part) for part in found.graph.parts}
    return {name: payload for name, payload in payloads.items() if payload is not None}


def weight_bytes(operation: KernelOperation) -> int:
    return sum(span.length for span in operation.weights)


def decoded(found: Network, operation: KernelOperation, device: str = DEFAULT) -> np.ndarray:
    """Weights by output channel."""
    return np.asarray(weights_from_stream(operation, StreamEditor(found.constants).read(operation.weights[0]), accelerator(device)))


def scales(found: Network, operation: KernelOperation) -> bytes:
    """The records of all output channels, without padding."""
    return StreamEditor(found.constants).read(operation.scales[0])[: operation.ofm.shape.depth * RECORD_BYTES]


def assert_computes(found: Network, name: str) -> None:
    made = schedule_layer_by_layer(found, DEFAULT)
    check_schedule(made)
    assert outputs(lower(made)) == expected(name)


@cache
def cut(name: str, largest: int) -> Network:
    return sliced(network(name), DEVICE, largest)


CUT = [("tiny_conv", 1024), ("resnet8", 8192), ("resnet8", 2048)]


@pytest.mark.parametrize(("name", "largest"), CUT)
def test_a_sliced_network_computes_the_same_bytes(name: str, largest: int) -> None:
    assert_computes(cut(name, largest), name)


@pytest.mark.parametrize(("name", "largest"), CUT)
def test_pieces_hold_the_weights_and_scales_of_their_layer_in_order_and_write_its_channels(name: str, largest: int) -> None:
    before, after = kernels(network(name)), kernels(cut(name, largest))
    layers = {part for part in before if f"{part}/0" in after}
    assert layers
    for layer in layers:
        whole = before[layer].operation
        pieces = [payload.operation for part, payload in after.items() if part.startswith(f"{layer}/")]
        assert len(pieces) > 1
        assert sum(piece.ofm.shape.depth for piece in pieces) == whole.ofm.shape.depth
        assert all(piece.ofm.shape.depth % 16 == 0 for piece in pieces[:-1])
        together = np.concatenate([decoded(cut(name, largest), piece) for piece in pieces])
        assert np.array_equal(together, decoded(network(name), whole))
        assert b"".join(scales(cut(name, largest), piece) for piece in pieces) == scales(network(name), whole)


@pytest.mark.parametrize(("name", "largest"), CUT)
def test_layers_are_cut_that_have_more_weights_than_asked_for_and_more_than_16_channels(name: str, largest: int) -> None:
    before, after = kernels(network(name)), kernels(cut(name, largest))
    for part, payload in before.items():
        operation = payload.operation
        large = operation.kind is OperationKind.CONV_2D and weight_bytes(operation) > largest and operation.ofm.shape.depth > 16
        assert (part in after) != large
    for part, payload in after.items():
        if part not in before:
            # A piece of more than 16 channels is about as large as asked for: streams are padded, and compress as they may.
            assert payload.operation.ofm.shape.depth == 16 or weight_bytes(payload.operation) <= largest * 1.25


def test_a_network_of_small_layers_is_not_copied() -> None:
    assert cut("tiny_conv", 1 << 20) is network("tiny_conv")


@cache
def deepened(name: str, device: str) -> Network:
    return reblocked(network(name, device), accelerator(device), (DIRECT, STAGED))


DEEPENED = [("resnet8", "ethos-u55-256"), ("ds_cnn", "ethos-u55-256"), ("ds_cnn", "ethos-u55-32")]


@pytest.mark.parametrize(("name", "device"), DEEPENED)
def test_other_block_depths_compute_the_same_bytes(name: str, device: str) -> None:
    made = schedule_layer_by_layer(deepened(name, device), device)
    check_schedule(made)
    assert outputs(lower(made)) == expected(name)


@pytest.mark.parametrize(("name", "device"), DEEPENED)
def test_other_block_depths_hold_the_same_weights_and_fit_the_shared_buffer(name: str, device: str) -> None:
    before, after = kernels(network(name, device)), kernels(deepened(name, device))
    changed = [part for part in before if before[part].operation.block.depth != after[part].operation.block.depth]
    assert changed
    for part in changed:
        old, new = before[part].operation, after[part].operation
        assert np.array_equal(decoded(network(name, device), old, device), decoded(deepened(name, device), new, device))
        assert scales(network(name, device), old) == scales(deepened(name, device), new)
        assert new.shram == shram_partition(BlockQuery.of(new), new.block, accelerator(device))
    for part in set(before) - set(changed):
        assert before[part].operation.block == after[part].operation.block


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn"])
def test_networks_whose_blocks_read_weights_seldom_enough_are_not_copied(name: str) -> None:
    assert deepened(name, DEFAULT) is network(name, DEFAULT)


def estimated(found: Network, part: str, device: str) -> tuple[float, float]:
    """Cycles in the best block of a layer's depth, with its weights read from home and staged."""
    operation = kernels(found)[part].operation
    streams = tuple(StreamEditor(found.constants).read(where) for where in operation.weights)
    decoding = max(core.turns[-1] for core in operation_work(operation, streams, accelerator(device)))
    direct, staged = (choose_block(operation, accelerator(device), sources, decoding)[1] for sources in (DIRECT, STAGED))
    return direct, staged


def test_a_depth_is_changed_that_is_good_for_one_source_unless_both_together_gain_too_little() -> None:
    """The second layer of tiny_conv in blocks of 16 channels in place of 32: fewer reads from home, as many cycles once it is staged."""
    device = "ethos-u55-256"
    before = network("tiny_conv", device)
    after = reblocked(before, accelerator(device), (DIRECT,))
    old, new = (kernels(found)["strided"].operation for found in (before, after))
    assert (old.block.depth, new.block.depth) == (32, 16)
    (direct_before, staged_before), (direct, staged) = (estimated(found, "strided", device) for found in (before, after))
    assert direct <= direct_before * GAIN
    assert direct / direct_before + staged / staged_before > 2 * GAIN
    assert deepened("tiny_conv", device) is before
    assert reblocked(before, accelerator(device), (STAGED,)) is before


@pytest.mark.parametrize(("name", "device"), DEEPENED)
def test_depths_are_at_least_a_twentieth_better_for_both_sources_together_than_the_networks(name: str, device: str) -> None:
    before, after = network(name, device), deepened(name, device)
    for part, payload in kernels(before).items():
        if payload.operation.block.depth != kernels(after)[part].operation.block.depth:
            ratios = [new / old for new, old in zip(estimated(after, part, device), estimated(before, part, device), strict=True)]
            assert sum(ratios) <= 2 * GAIN


FOLDED = ["ds_cnn", "mobilenet_v2"]
"""Networks whose first layer steps over every other column: with a window of 4 columns padded on both sides, of 3 on one."""


@cache
def paired(name: str) -> Network:
    return folded(network(name), DEVICE, STAGED)


@pytest.mark.parametrize("name", FOLDED)
def test_a_folded_layer_reads_the_same_bytes_as_half_as_many_columns_of_twice_the_channels(name: str) -> None:
    before, after = kernels(network(name)), kernels(paired(name))
    changed = [part for part in before if before[part].operation.kernel != after[part].operation.kernel]
    assert len(changed) == 1
    old, new = before[changed[0]].operation, after[changed[0]].operation
    assert new.ifm.shape.width * 2 == old.ifm.shape.width
    assert new.ifm.shape.depth == old.ifm.shape.depth * 2
    assert new.ifm.strides.y == old.ifm.strides.y
    assert new.kernel.stride_x == 1
    assert new.kernel.width == -(-(old.kernel.width + old.padding.left % 2) // 2)
    assert np.abs(decoded(paired(name), new)).sum() == np.abs(decoded(network(name), old)).sum()
    assert shram_partition(BlockQuery.of(new), new.block, DEVICE) == new.shram


@pytest.mark.parametrize("name", ["ds_cnn"])
def test_a_folded_network_computes_the_same_bytes(name: str) -> None:
    assert_computes(paired(name), name)


def test_a_network_without_such_a_layer_is_left_alone() -> None:
    assert folded(network("super_resolution"), DEVICE, STAGED) is network("super_resolution")
