"""The pre-RFC's two convolutions, from Tensor Expressions to a cascaded command stream: its golden text, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorir_only  # noqa: F401  # skips this file where TVM is not installed
from cascades import cascade_of
from te_operators import two_convolutions

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.rows import row_graph
from cascader.frontends.te.blocks import BlockMaker
from cascader.frontends.te.graph import operators_of
from cascader.frontends.te.host import host_outputs
from cascader.frontends.te.network import _Importer
from cascader.plan.depth_first import Group
from examples import tensor_expressions
from npu_model.accelerator import DEFAULT_ACCELERATOR as DEFAULT
from npu_model.accelerator import accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.memory.timing_adapter import profile
from npu_model.program import KernelOperation
from npu_model.program.text import to_text
from npu_model.shapes import Shape3D
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs

GOLDEN = Path(__file__).parents[3] / "golden" / "two_convolutions.txt"

ROWS = 6
"""Rows of a stripe, as in the pre-RFC's (6, 6, 32) of (24, 24, 32)."""


class FixedBlocks(BlockMaker):
    """Blocks of 6 x 8 x 16 or less, whatever the cost model says."""

    def _followed(self, operation: KernelOperation, _work: object) -> Iterator[tuple[float, KernelOperation]]:
        block = Shape3D(6, 8, min(16, operation.ofm.shape.depth))
        shram = shram_partition(BlockQuery.of(operation), block, self.accelerator)
        if operation.block.depth == block.depth or not operation.weights:
            yield 1.0, operation.having(block=block, shram=shram)


def cascade(rows: int = ROWS) -> Schedule:
    device = accelerator(DEFAULT)
    blocks = FixedBlocks(device, Sources.staged(profile("u55_high_end").memory_system()))
    network = _Importer(operators_of(two_convolutions()), device, blocks).network()
    return cascade_of(network, row_graph(network), [Group(0, 1, rows)])


def test_two_convolutions_in_stripes_of_six_rows_are_the_golden_stream() -> None:
    (program,) = lower(cascade()).programs
    assert to_text(program) == GOLDEN.read_text(encoding="utf-8")


def test_the_intermediate_takes_the_bytes_of_the_rfc() -> None:
    """6 rows of 24 pixels in 32 channels: 4,608 of 18,432 bytes."""
    sizes = [next(buffer.size for buffer in cascade(rows).buffers if "first" in buffer.tensors) for rows in (ROWS, 24)]
    assert sizes == [4608, 18432]


def test_the_cascaded_stream_computes_the_bytes_of_the_expressions() -> None:
    network = lower(cascade())
    inputs = seeded_inputs(network, 2, 7)
    for found, expected in zip(functional_outputs(network, inputs), host_outputs(two_convolutions(), inputs), strict=True):
        assert np.array_equal(found["second"], expected["second"])


def test_the_example_schedules_and_verifies_what_it_writes(capsys: pytest.CaptureFixture[str]) -> None:
    tensor_expressions.main()
    printed = capsys.readouterr().out
    smallest = next(line for line in printed.splitlines() if line.startswith("Size: "))
    assert int(smallest.split()[1].replace(",", "")) < 24 * 24 * 32
    assert "0 of 9,216 bytes differ" in printed
