"""The published counters: an Alif Ensemble E7 (Ethos-U55, 256 MACs), 289 fully connected kernels.

Figures of the project chrli0609/SNN_Ethos_U55 (commit e213a82, eval_results/csv/only_weight_dma_and_fc_matmul).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from npu_model.values import dataclass

ACCELERATOR = "ethos-u55-256"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: input and output channels, and what the PMU counted.

    ``cycles`` (CCNTR) are from the driver's begin hook to its end hook, on memories that are not stated.
    """

    inputs: int
    outputs: int
    cycles: int
    mac_active: int
    mac_dpu_active: int
    axi0_reads: int


@cache
def runs() -> tuple[Run, ...]:
    """All runs, by input and output channels."""
    text = resources.files("validation.silicon").joinpath("fully_connected.csv").read_text(encoding="utf-8")
    return tuple(Run(*map(int, row)) for row in list(csv.reader(text.splitlines()))[1:])
