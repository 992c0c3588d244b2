"""All kinds of findings on one replay, the largest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npu_model.errors import InputError
from npu_testbed.findings.bricks import bricks
from npu_testbed.findings.finding import Finding, largest, with_needs
from npu_testbed.findings.memories import memories
from npu_testbed.findings.moves import moves
from npu_testbed.findings.weights import weights
from npu_testbed.ground.endings import say
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.replays.simulation import Simulation

Kind = Callable[[Simulation], Iterator[Finding]]

KINDS: tuple[Kind, ...] = (moves, weights, memories, bricks)
"""Finders, one for each kind of question. Each replays some dozen times at most."""


def findings(simulation: Simulation, progress: Progress = silent, budget: int | None = None) -> tuple[Finding, ...]:
    """The changes that would save most cycles or most bytes of a simulation; empty if no change saves a per cent.

    A change that needs more SRAM than planned says how much, and by how much it exceeds a ``budget`` (bytes).
    """
    progress(f"Asking what would make {simulation.model} faster")
    found = largest(found for kind in KINDS for found in _of(kind, simulation))
    return tuple(with_needs(one, simulation.planned_bytes, budget) for one in found)


def _of(kind: Kind, simulation: Simulation) -> list[Finding]:
    """The findings of one kind. If this kind fails, a note says why, and the list is empty."""
    try:
        return list(kind(simulation))
    except Exception as error:  # noqa: BLE001  # advice that fails must not end a command that has its answer
        reason = str(error) if isinstance(error, InputError) else f"a mistake in npu-testbed ({type(error).__name__})"
        say("note", f"advice on {kind.__name__} is left out: {reason}")
        return []
