"""The choice of blocks: what is chosen fits, keeps the weights' order, is expected to be faster, and how far the flow of blocks agrees."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from scheduling import network

from cascader.ethosu.block_choice import Estimator, choose_block
from cascader.ethosu.kernel_flow import Source, kernel_flow
from cascader.ethosu.network import ethosu_part
from npu_model.accelerator import Accelerator, accelerator
from npu_model.block_jobs import block_jobs
from npu_model.program import KernelOperation
from npu_model.shapes import Shape3D
from npu_model.shram import BlockQuery, shram_partition

HOME = 7.0
"""Cycles of a data word from home, about those of the throttled flash."""
NETWORKS = ("tiny_residual", "ds_cnn", "resnet8")
DEVICES = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256")


@cache
def operations(name: str, device: str) -> tuple[KernelOperation, ...]:
    payloads = (ethosu_part(part) for part in network(name, device).graph.parts)
    return tuple(dict.fromkeys(payload.operation for payload in payloads if payload is not None))


def with_block(operation: KernelOperation, block: Shape3D, device: Accelerator) -> KernelOperation:
    shram = shram_partition(BlockQuery.of(operation), block, device)
    assert shram is not None
    return replace(operation, block=block, shram=shram)


def flow(operation: KernelOperation, device: Accelerator) -> float:
    """Cycles with weights from home, and words of the feature maps that move one a cycle."""
    jobs = block_jobs(operation, device)
    maps = sum(sum(sum(r.runs) for step in job.steps for r in step.fetches) + sum(job.writes) for job in jobs)
    return max(kernel_flow(jobs, Source(1.0, 32), Source(HOME, 64)).cycles, maps)


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize("home", [None, HOME])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_chosen_block_fits_keeps_the_weights_order_and_is_expected_to_be_faster(name: str, home: float | None, device_name: str) -> None:
    device = accelerator(device_name)
    for operation in operations(name, device_name):
        block = choose_block(operation, device, home)
        assert shram_partition(BlockQuery.of(operation), block, device) is not None
        assert block.depth == operation.block.depth or not operation.weights
        assert block.height % device.ofm_ublock.height == block.width % device.ofm_ublock.width == 0 or block == operation.block
        estimator = Estimator(operation, device, home)
        assert block == operation.block or estimator.cycles(block) < estimator.cycles(operation.block)


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_chosen_by_the_closed_form_take_at_most_a_few_per_cent_more_in_the_flow_of_blocks(name: str) -> None:
    """It does not see how blocks wait for each other. Measured: 0.986 of it (tiny_residual), 1.025 (ds_cnn) and 0.954 (resnet8)."""
    device = accelerator("ethos-u55-128")
    before = sum(flow(operation, device) for operation in operations(name, "ethos-u55-128"))
    chosen = [with_block(op, choose_block(op, device, HOME), device) for op in operations(name, "ethos-u55-128")]
    assert sum(flow(operation, device) for operation in chosen) <= before * 1.03
