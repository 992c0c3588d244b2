"""All kinds of findings on one replay, the largest first."""

from __future__ import annotations

from npu_testbed.findings.bricks import bricks
from npu_testbed.findings.finding import Finding, largest, with_needs
from npu_testbed.findings.memories import memories
from npu_testbed.findings.moves import moves
from npu_testbed.findings.weights import weights
from npu_testbed.progress import Progress, silent
from npu_testbed.simulation import Simulation

KINDS = (moves, weights, memories, bricks)
"""Each asks one kind of question of a replay, with replays of its own; some dozen together."""


def findings(simulation: Simulation, progress: Progress = silent, budget: int | None = None) -> tuple[Finding, ...]:
    """The changes that would save most of the cycles, or of the bytes, of a simulation; none if none saves a per cent.

    A change that needs more SRAM than was planned says how much, and how far that is beyond a ``budget`` (bytes).
    """
    progress(f"Asking what would make {simulation.model} faster")
    found = largest(found for kind in KINDS for found in kind(simulation))
    return tuple(with_needs(one, simulation.planned_bytes, budget) for one in found)
