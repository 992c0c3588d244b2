"""Vela's two cores in a comparison: one that leaves more to the CPU than the other is named and left out."""

from __future__ import annotations

from testbed.memory_options import MemoryOptions
from testbed.vela_points import VelaTask, both_cores, vela_points
from testbed.workers import workers
from validation.portfolio import build


def test_a_core_that_leaves_convolutions_on_the_cpu_is_not_compared_with_one_that_runs_them() -> None:
    """Vela 5.2's Python core refuses a batch of two; its NPU cycles leave out both convolutions."""
    system = MemoryOptions().memory_system()
    task = VelaTask(build("siamese_batch"), "ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram", None, system)
    with workers(1) as executor:
        points, failures = vela_points(task, both_cores("Size"), executor)
    assert [point.run.core for point in points] == ["C++"]
    assert [failure.run.core for failure in failures] == ["Python"]
    assert "leaves 2 operators on the CPU (CONV_2D), another one 0" in failures[0].reason
