"""The published counters: an Alif Ensemble E7 (Ethos-U55, 256 MACs), 627 fully connected kernels.

Figures of the project chrli0609/SNN_Ethos_U55 (commit e213a82, eval_results/csv/only_weight_dma_and_fc_matmul).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from msgspec import Struct

ACCELERATOR = "ethos-u55-256"


class SiliconRun(Struct, frozen=True):
    """One run: input and output channels, and the PMU's counters.

    ``cycles`` (CCNTR) are from the driver's begin hook to its end hook, on memories that are not stated.
    """

    inputs: int
    outputs: int
    cycles: int
    mac_active: int
    mac_dpu_active: int
    axi0_reads: int


def _read(name: str) -> tuple[SiliconRun, ...]:
    text = resources.files("validation.silicon").joinpath(name).read_text(encoding="utf-8")
    return tuple(SiliconRun(*map(int, row)) for row in list(csv.reader(text.splitlines()))[1:])


@cache
def runs() -> tuple[SiliconRun, ...]:
    """The 289 runs whose cycles are judged, by input and output channels: odd multiples of 16 of both."""
    return _read("fully_connected.csv")


@cache
def odd_runs() -> tuple[SiliconRun, ...]:
    """272 further runs, whose counters are judged: odd multiples of 16 inputs, even ones of outputs."""
    return _read("fully_connected_odd.csv")


@cache
def even_runs() -> tuple[SiliconRun, ...]:
    """66 further runs, whose counters are judged: even multiples of 16 inputs."""
    return _read("fully_connected_even.csv")


def counted_runs() -> tuple[SiliconRun, ...]:
    """All 627 runs, whose counters are judged."""
    return (*runs(), *odd_runs(), *even_runs())


@cache
def elementwise_runs() -> tuple[tuple[int, float], ...]:
    """Elements of a multiplication of two maps (int8), and the mean cycles of nine runs of it."""
    text = resources.files("validation.silicon").joinpath("elementwise_mul.csv").read_text(encoding="utf-8")
    return tuple((int(elements), float(cycles)) for elements, cycles, _ in list(csv.reader(text.splitlines()))[1:])
