"""The choice of blocks: what is chosen fits, keeps the weights' order, is expected to be faster, and how far the flow of blocks agrees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import ceil

import numpy as np
import pytest
from few_examples import few_cases
from msgspec.structs import replace
from scheduling import network

from cascader.ethosu.cost.block_choice import SIDES, Ranking, choose_block
from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.estimate_terms import BLOCKS
from cascader.ethosu.cost.kernel_flow import kernel_flow
from cascader.ethosu.cost.kernel_load import operation_load
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.constants import StreamEditor
from cascader.ethosu.network.network import ethosu_part
from npu_model.accelerator import Accelerator, accelerator
from npu_model.cost.cycles import is_half, mac_pace, ofm_ublock, output_rate
from npu_model.cost.shram import BlockQuery, ifm_depth_step, shram_partition
from npu_model.cost.traversal import keeps_ifm, reduces_depth, sub_kernels
from npu_model.program import KernelOperation, Layout, OperationKind, Upscale
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import operation_work
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = {"staged": Sources.staged(SYSTEM), "direct": Sources.direct(SYSTEM)}
NETWORKS = ("tiny_residual", "ds_cnn", "resnet8")
DEVICES = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256")


@cache
def operations(name: str, device: str) -> dict[KernelOperation, tuple[DecoderWork, ...]]:
    """The kernels of a network, each once, and what their weights ask of the decoder."""
    made = network(name, device)
    stored, payloads = StreamEditor(made.constants), (ethosu_part(part) for part in made.graph.parts)
    distinct = dict.fromkeys(payload.operation for payload in payloads if payload is not None)
    streams = {operation: tuple(stored.read(where) for where in operation.weights) for operation in distinct}
    return {op: operation_work(op, streams[op], accelerator(device)) if streams[op] else () for op in distinct}


def decoding(work: tuple[DecoderWork, ...]) -> int | None:
    """Cycles in which the decoder passes all weights once."""
    return max((core.turns[-1] for core in work if core.turns), default=0) if work else None


def with_block(operation: KernelOperation, block: Shape3D, device: Accelerator) -> KernelOperation | None:
    shram = shram_partition(BlockQuery.of(operation), block, device)
    return None if shram is None else replace(operation, block=block, shram=shram)


def flow(operation: KernelOperation, work: tuple[DecoderWork, ...], device: Accelerator, sources: Sources) -> float:
    """Cycles of the whole kernel, block by block."""
    load = operation_load(operation, device, work, sources.maps.burst, sources.constants.burst)
    words = load.maps + (load.constants if sources.shared else 0)
    return max(kernel_flow(load, sources).cycles, words * sources.maps.pace)


def rows(*blocks: Shape3D) -> np.ndarray:
    """Blocks as an estimator takes them."""
    return np.array([(block.height, block.width, block.depth) for block in blocks], np.int64)


@pytest.mark.law
@pytest.mark.parametrize(("name", "where", "device_name"), few_cases(NETWORKS, list(SOURCES), DEVICES))
def test_a_chosen_block_fits_keeps_the_weights_order_and_is_expected_to_be_faster(name: str, where: str, device_name: str) -> None:
    device, sources = accelerator(device_name), SOURCES[where]
    others = 0
    for operation, work in operations(name, device_name).items():
        block, cycles = choose_block(operation, device, sources, decoding(work))
        assert shram_partition(BlockQuery.of(operation), block, device) is not None
        assert block.depth == operation.block.depth or not operation.weights
        assert block.height % device.ofm_ublock.height == block.width % device.ofm_ublock.width == 0 or block == operation.block
        chosen, own = Estimator(operation, device, sources, decoding(work)).cycles_of(rows(block, operation.block))
        assert cycles == chosen
        assert block == operation.block or chosen < own
        others += block != operation.block
    assert others or device_name == "ethos-u55-32"


@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_shortlist_for_neighbours_has_the_fastest_block_of_each_of_several_partitions(name: str, where: str) -> None:
    device, sources = accelerator("ethos-u55-128"), SOURCES[where]
    for operation, work in operations(name, "ethos-u55-128").items():
        every = Ranking(operation, device, sources, decoding(work)).fastest(10_000)
        found = Ranking(operation, device, sources, decoding(work)).fastest(4, partitions=True)
        assert len({shram for _, shram in found}) == len(found) <= 4
        assert every[:1] == found[: len(every[:1])]
        estimator, blocks = Estimator(operation, device, sources, decoding(work)), [block for block, _ in found] or [operation.block]
        cycles = estimator.cycles_of(rows(*blocks)).tolist()
        assert cycles == sorted(cycles)
        for block, shram in found:
            assert shram == shram_partition(BlockQuery.of(operation), block, device)
            assert block in [b for b, s in every if s == shram][:1] or not any(s == shram for _, s in every)


def pieces(extent: int, side: int) -> list[int]:
    """Sizes of the pieces that ``extent`` is cut into."""
    return [min(side, extent - first) for first in range(0, extent, side)]


class Twin:
    """The estimate from its docstring, block by block and step by step, without kinds of blocks and without arrays."""

    def __init__(self, op: KernelOperation, device: Accelerator, sources: Sources, decoding: int | None) -> None:
        self.op, self.device, self.sources = op, device, sources
        self.decoding = None if op.kind is OperationKind.DEPTHWISE else decoding
        step = ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
        channels = pieces(op.ifm.shape.depth, step) if reduces_depth(op) else [None]
        self.steps = [(count, part.taps) for count in channels for part in sub_kernels(op)]
        self.weight_shares = [taps * (count or 1) for count, taps in self.steps]

    def fetch(self, count: int | None, block: Shape3D) -> tuple[int, int]:
        """Words and transactions of a step's operands, as if no border were cut off."""
        op, ifm = self.op, self.op.ifm
        rows = (block.height - 1) * op.kernel.stride_y + op.kernel.dilated_height
        columns = (block.width - 1) * op.kernel.stride_x + op.kernel.dilated_width
        if op.upscale is not Upscale.NONE:
            rows, columns = ceil_div(rows, 2), ceil_div(columns, 2)
        rows, columns = min(rows, ifm.shape.height), min(columns, ifm.shape.width)
        channels = min(block.depth if count is None else count, ifm.shape.depth)
        if ifm.layout is Layout.NHCWB16:
            runs, size = rows * ceil_div(channels, 16), columns * 16 * ifm.dtype.bytes
        elif channels == ifm.shape.depth:
            runs, size = rows, columns * channels * ifm.dtype.bytes
        else:
            runs, size = rows * columns, channels * ifm.dtype.bytes
        runs *= 1 if op.ifm2 is None else 2
        return runs * ceil_div(size, 8), runs * ceil_div(ceil_div(size, 8), self.sources.maps.burst)

    def part(self, number: int, block: Shape3D) -> float:
        """The part of all weights that a step takes."""
        return block.depth * self.weight_shares[number] / (self.op.ofm.shape.depth * sum(self.weight_shares))

    def constants(self, number: int, block: Shape3D) -> tuple[int, float]:
        """Words of a step's weights, with the first step's scales, and the cycles in which they are read."""
        op, home = self.op, self.sources.constants
        weights, scales = (sum(span.length for span in spans) for spans in (op.weights, op.scales))
        words = ceil(weights / 8 * self.part(number, block))
        words += 0 if number else ceil_div(scales * block.depth, op.ofm.shape.depth * 8)
        read = home.latency + home.cycles(words, ceil_div(words, home.burst))
        return words, (read if self.sources.shared else max(read, words * home.sustained)) if words else 0.0

    def mac(self, number: int, block: Shape3D) -> float:
        """MAC cycles of a step, or the decoder's if these are more."""
        count, taps = self.steps[number]
        ublock = ofm_ublock(self.op, self.device)
        pace = mac_pace(self.op, self.device, taps, count or self.op.ifm.shape.depth, is_known=self.decoding is not None)
        plane = ceil_div(block.height, ublock.height) * ceil_div(block.width, ublock.width)
        depth = ublock.depth * self.device.cores
        cycles = pace.cycles(plane, ceil_div(block.depth, depth), is_half=is_half(block.depth, depth))
        return max(cycles, (self.decoding or 0) * self.part(number, block))

    def brought(self, number: int, block: Shape3D, *, fetches: bool) -> tuple[float, int]:
        """Cycles in which a step's data are brought, and the words that pass the feature maps' port for it."""
        maps, home, shared = self.sources.maps, self.sources.constants, self.sources.shared
        fetched, transactions = self.fetch(self.steps[number][0], block) if fetches else (0, 0)
        words, read = self.constants(number, block)
        moved = maps.cycles(fetched, transactions)
        ready = max(moved + maps.latency if fetches else 0, read)
        # On one port the latency of one passes while the other moves.
        return max(ready, moved + read - home.latency) if shared else ready, fetched + (words if shared else 0)

    def blocks(self, block: Shape3D) -> Iterator[list[tuple[Shape3D, bool]]]:
        """The OFM blocks of each place of the plane, and whether they fetch their operands or find them in the buffer."""
        ofm, kept = self.op.ofm.shape, keeps_ifm(self.op, len(self.steps))
        for height, width in product(pieces(ofm.height, block.height), pieces(ofm.width, block.width)):
            yield [(Shape3D(height, width, depth), not (kept and number)) for number, depth in enumerate(pieces(ofm.depth, block.depth))]

    def cycles(self, block: Shape3D) -> float:
        """A step's MAC cycles beside what is brought for the next one; behind a place's last block comes its first one again."""
        total = 0.0
        for column in self.blocks(block):
            for (size, fetches), (after, after_fetches) in zip(column, column[1:] + column[:1], strict=True):
                brought = [self.brought(number, size, fetches=fetches) for number in range(len(self.steps))]
                macs = [self.mac(number, size) for number in range(len(self.steps))]
                following = [ready for ready, _ in brought[1:]] + [self.brought(0, after, fetches=after_fetches)[0]]
                output = ceil(output_rate(self.op, self.device) * size.height * size.width * size.depth)
                stored = ceil_div(size.height * size.width * round_up(size.depth, 16) * self.op.ofm.dtype.bytes, 8)
                moved = (stored + sum(words for _, words in brought)) * self.sources.maps.pace
                total += max(output, moved, sum(max(pair) for pair in zip(macs, following, strict=True)))
        last = size.height * size.width * size.depth
        return total + last * (float(output_rate(self.op, self.device)) + self.op.ofm.dtype.bytes / 8)


@pytest.mark.law
@pytest.mark.parametrize(("name", "where", "device_name"), few_cases(NETWORKS, list(SOURCES), DEVICES))
def test_the_closed_form_is_the_sum_over_all_blocks(name: str, where: str, device_name: str) -> None:
    device, sources = accelerator(device_name), SOURCES[where]
    for operation, work in operations(name, device_name).items():
        sides = (operation.block, Shape3D(6, 10, 16), Shape3D(16, 32, 8), Shape3D(64, 4, 64))
        for known in {None, decoding(work)}:
            twin = Twin(operation, device, sources, known)
            estimates = Estimator(operation, device, sources, known).cycles_of(rows(*sides)).tolist()
            assert estimates == pytest.approx([twin.cycles(block) for block in sides], rel=1e-9)


def alternatives(operation: KernelOperation, device: Accelerator) -> list[KernelOperation]:
    """The operation in every block of its depth that is worth a try, the own one first."""
    ofm, ublock, limit = operation.ofm.shape, device.ofm_ublock, device.max_block
    heights = sorted({min(round_up(side, ublock.height), round_up(ofm.height, ublock.height), limit.height) for side in SIDES})
    widths = sorted({min(round_up(side, ublock.width), round_up(ofm.width, ublock.width), limit.width) for side in SIDES})
    blocks = (Shape3D(height, width, operation.block.depth) for height, width in product(heights, widths))
    return [operation, *filter(None, (with_block(operation, block, device) for block in blocks))]


@cache
def regrets(name: str, where: str) -> tuple[tuple[float, float, float], ...]:
    """The flow of each layer with weights in the favourite block, the best of a shortlist and the own one, beside the fastest of all."""
    device, sources, found = accelerator("ethos-u55-128"), SOURCES[where], []
    for operation, work in operations(name, "ethos-u55-128").items():
        if operation.weights:
            own, *others = (flow(other, work, device, sources) for other in alternatives(operation, device))
            listed = [block for block, _ in Ranking(operation, device, sources, decoding(work)).fastest(BLOCKS)]
            flows = [flow(replace(operation, block=block), work, device, sources) for block in listed] or [own]
            least = min(own, *others, *flows)
            found.append((flows[0] / least, min(own, *flows) / least, own / least))
    return tuple(found)


@pytest.mark.parametrize(("where", "alone", "listed"), [("staged", 1.16, 1.10), ("direct", 1.045, 1.045)])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_best_of_the_own_block_and_of_two_others_is_nearly_the_fastest_there_is(
    name: str, where: str, alone: float, listed: float
) -> None:
    """The estimate does not see how blocks wait for each other, so that its favourite is not taken on trust: the flow picks.

    Measured, at most and on average above the fastest block of all, for the favourite, the pick and the own block, in per cent:
    tiny_residual staged 5.7/4.6, 5.7/2.8, 12.7/7.0, direct 3.0/1.3, 3.0/1.3, 7.1/3.4; ds_cnn staged 12.3/5.9, 4.8/2.9, 5.0/3.9,
    direct 2.9/1.6, 2.9/1.4, 3.4/2.5; resnet8 staged 15.8/3.0, 9.3/1.8, 9.3/2.6, direct 0.5/0.0, 0.5/0.0, 81.3/8.7.
    """
    favourites, picks, own = zip(*regrets(name, where), strict=True)
    assert max(favourites) <= alone
    assert max(picks) <= listed
    assert sum(picks) / len(picks) <= 1.03
    assert sum(picks) <= sum(favourites)
    assert sum(picks) < sum(own)


SHORT = 2000
"""Cycles below which a kernel is left out: its few blocks' starts and ends are all that it has."""


def closed_form_errors(name: str, where: str, *, weighted: bool) -> list[float]:
    """Relative errors of the estimate beside the flow of blocks, for each layer with weights, or without, in its own block."""
    device, sources, found = accelerator("ethos-u55-128"), SOURCES[where], []
    for operation, work in operations(name, "ethos-u55-128").items():
        cycles = flow(operation, work, device, sources)
        if bool(operation.weights) is weighted and cycles >= SHORT:
            found.append(float(Estimator(operation, device, sources, decoding(work)).cycles_of(rows(operation.block))[0]) / cycles - 1)
    return found


@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize("name", [*NETWORKS, "super_resolution"])
def test_the_closed_form_of_a_layer_with_weights_is_at_most_an_eighth_below_its_flow_and_hardly_above(name: str, where: str) -> None:
    """Without weights it may be two thirds above, as the last of few blocks is counted apart: it ranks the blocks of one kernel.

    Measured: -7.1 to -2.4 % (tiny_residual), -7.7 to -0.9 % (ds_cnn), -11.3 to 0.5 % (resnet8), -0.6 to -0.1 % (super_resolution); the sums
    of resnet8 are 18.9 to 63.3 % too high.
    """
    errors = closed_form_errors(name, where, weighted=True)
    assert min(errors) >= -0.125
    assert max(errors) <= 0.01
    assert all(error <= 0.65 for error in closed_form_errors(name, where, weighted=False))
