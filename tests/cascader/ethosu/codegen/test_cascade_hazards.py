"""Hazards of cascades: whatever order the waits and BLOCKDEP allow, no kernel and no transfer sees the wrong bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from adverse_orders import Reorder, late_kernels, late_transfers, reordered, with_operations
from asked_for import load_task
from cascades import cascade, cuts, expected, graph_of, outputs
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import ARENA
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from npu_model.compiled.network import CompiledNetwork
from npu_model.cost.shram import BlockQuery, ifm_depth_step
from npu_model.errors import InputError
from npu_model.program import DmaWait, FeatureMap, KernelOperation, KernelWait, OperationKind, Program

pytestmark = pytest.mark.law

STAGED = [("tiny_residual", 2), ("resnet8", 1), ("resnet8_i8", 3)]


@pytest.mark.parametrize("order", [late_transfers, late_kernels])
@pytest.mark.parametrize(("name", "ahead"), STAGED)
def test_the_waits_hold_in_the_most_adverse_order(name: str, ahead: int, order: Reorder) -> None:
    parts = len(graph_of(name).parts)
    made = cascade(name, cuts(name, [parts // 2], 2), staged=range(parts), ahead=ahead)
    assert outputs(reordered(made, order)) == expected(name)


def without(kind: type) -> Reorder:
    def strip(program: Program) -> Program:
        return with_operations(program, [op for op in program.operations if not isinstance(op, kind)])

    return strip


def goes_wrong(network: CompiledNetwork, name: str) -> bool:
    try:
        return outputs(network) != expected(name)
    except InputError:
        return True


@pytest.mark.parametrize(("kind", "order"), [(DmaWait, late_transfers), (KernelWait, late_kernels)])
def test_without_its_waits_the_most_adverse_order_goes_wrong(kind: type, order: Reorder) -> None:
    made = cascade("resnet8", cuts("resnet8", range(1, 42), 1000), staged=range(42), ahead=1)
    assert any(isinstance(operation, kind) for operation in lower(made).programs[0].operations)
    assert outputs(reordered(made, order)) == expected("resnet8")
    assert goes_wrong(reordered(made, lambda program: order(without(kind)(program))), "resnet8")


# BLOCKDEP, by brute force.


def element_addresses(fm: FeatureMap, y: range, x: range, c: range) -> np.ndarray:
    """Addresses of all bytes of some elements, from the definition of tiles and layouts."""
    ys, xs, cs = (np.array(axis, dtype=np.int64) for axis in (y, x, c))
    assert fm.tiles.width0 >= fm.shape.width
    rows = np.where(
        ys < fm.tiles.height0, fm.tiles.bases[0] + ys * fm.strides.y, fm.tiles.bases[2] + (ys - fm.tiles.height0) * fm.strides.y
    )
    size = fm.dtype.bytes
    if fm.layout.value == "NHWC":
        columns, channels = xs * fm.strides.x, cs * size
    else:
        columns, channels = xs * 16 * size, cs // 16 * fm.strides.c + cs % 16 * size
    grid = rows[:, None, None] + columns[None, :, None] + channels[None, None, :]
    return (grid.reshape(-1, 1) + np.arange(size)).ravel()


def ofm_blocks(operation: KernelOperation) -> list[tuple[range, range, range]]:
    shape, block = operation.ofm.shape, operation.block
    return [
        (
            range(y, min(y + block.height, shape.height)),
            range(x, min(x + block.width, shape.width)),
            range(c, min(c + block.depth, shape.depth)),
        )
        for y in range(0, shape.height, block.height)
        for x in range(0, shape.width, block.width)
        for c in range(0, shape.depth, block.depth)
    ]


def window(outer: range, stride: int, taps: int, dilation: int, pad: int, limit: int, *, doubled: bool) -> range:
    touched = [(y * stride + tap * dilation - pad) // (2 if doubled else 1) for y in outer for tap in range(taps)]
    inside = [y for y in touched if 0 <= y < limit]
    return range(min(inside), max(inside) + 1) if inside else range(0)


def repeated(operand: FeatureMap, y: range, x: range, c: range) -> tuple[range, range, range]:
    """Rows, columns and channels that an elementwise block reads of an operand: an axis of one element is repeated."""
    shape = operand.shape
    return y if shape.height > 1 else range(1), x if shape.width > 1 else range(1), c if shape.depth > 1 else range(1)


def jobs_read(operation: KernelOperation) -> Iterator[np.ndarray]:
    """Addresses that each job reads: a job per OFM block, and per IFM depth block where channels are summed."""
    kernel, padding = operation.kernel, operation.padding
    sums = operation.kind is OperationKind.CONV_2D
    for y, x, c in ofm_blocks(operation):
        if operation.kind is OperationKind.ELEMENTWISE:
            maps = [m for m in (operation.ifm, operation.ifm2) if m is not None and m.region == ARENA]
            yield np.concatenate([element_addresses(m, *repeated(m, y, x, c)) for m in maps])
            continue
        ifm, doubled = operation.ifm, operation.upscale.code != 0
        rows = window(y, kernel.stride_y, kernel.height, kernel.dilation_y, padding.top, ifm.shape.height, doubled=doubled)
        columns = window(x, kernel.stride_x, kernel.width, kernel.dilation_x, padding.left, ifm.shape.width, doubled=doubled)
        step = ifm_depth_step(BlockQuery.of(operation).ifm_bits, part_kernel=operation.part_kernel)
        depth = ifm.shape.depth
        for first in range(0, depth, step) if sums else [c.start]:
            yield element_addresses(
                ifm, rows, columns, range(first, min(first + step, depth)) if sums else range(c.start, min(c.stop, depth))
            )


def unfinished(earlier: list[KernelOperation], blocks: int) -> Iterator[np.ndarray]:
    """Addresses of the last ``blocks`` OFM blocks that were issued, if BLOCKDEP has let them be unfinished so far.

    No more than two kernels are under way, so that these are the last and, where it has fewer blocks, the one before it,
    of which no more can be unfinished than the last one's BLOCKDEP allowed its last block.
    """
    limit = blocks
    for kernel in reversed(earlier[-2:]):
        areas = ofm_blocks(kernel)
        for area in areas[::-1][: min(blocks, limit)]:
            yield element_addresses(kernel.ofm, *area)
        blocks -= len(areas)
        limit = max(0, kernel.blockdep - (len(areas) - 1))
        if blocks <= 0:
            return


def hazards(program: Program) -> int:
    """Kernels of which a job may start although a block that it reads from is unfinished."""
    found = 0
    earlier: list[KernelOperation] = []
    for kernel in program.kernels:
        for job, read in enumerate(jobs_read(kernel)):
            if job >= kernel.blockdep:
                break
            late = list(unfinished(earlier, kernel.blockdep - job))
            if late and np.intersect1d(read, np.concatenate(late)).size:
                found += 1
                break
        earlier.append(kernel)
    return found


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "resnet8", "vww_mnv1_0.25_96_i8"])
@pytest.mark.parametrize("stripe_rows", [1, 2])
def test_no_job_of_a_cascade_reads_a_block_that_may_be_unfinished(name: str, stripe_rows: int) -> None:
    program = lower(cascade(name, cuts(name, [], stripe_rows))).programs[0]
    if stripe_rows == 1:
        assert any(kernel.ifm.tiles.height0 < kernel.ifm.shape.height for kernel in program.kernels)
    assert any(kernel.blockdep for kernel in program.kernels)
    assert hazards(program) == 0


def test_a_reader_of_every_second_column_begins_before_its_writer_is_done() -> None:
    """Vela's BLOCKDEP of a strided slice is found by bytes, too: no more blocks than it allows, and some."""
    network = load_task("portfolio:conv_strided_columns_conv").network
    (program,) = lower(schedule_layer_by_layer(network, "ethos-u55-128")).programs
    reader = next(kernel for kernel in program.kernels if kernel.ifm.strides.x == 2 * program.kernels[0].ofm.strides.x)
    assert reader.blockdep > 0
    assert hazards(program) == 0


def test_one_block_more_than_blockdep_would_be_a_hazard_in_most_dependent_kernels() -> None:
    program = lower(cascade("resnet8", cuts("resnet8", [], 3))).programs[0]
    kernels = [kernel for kernel in program.kernels if kernel.blockdep < 3]
    eager = replace(program, operations=tuple(replace(k, blockdep=k.blockdep + 1) if k in kernels else k for k in program.operations))
    assert hazards(eager) > len(kernels) // 2
