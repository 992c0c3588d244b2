"""Kernels whose data beats no published measurement shows: each with the kind that was not measured."""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.cost.kernel_beats import unmet_beats
from npu_model.program import KernelOperation
from npu_testbed.documents.replay import UnprovenEntry
from npu_testbed.replays.simulation import Simulation

_SHOWN = 5
"""Operations of one kind that are written out; a document has all."""


def _found(simulation: Simulation) -> Iterator[UnprovenEntry]:
    for number, program in enumerate(simulation.network.programs):
        for index, op in enumerate(program.operations):
            if isinstance(op, KernelOperation) and (reason := unmet_beats(op, simulation.device)):
                yield UnprovenEntry(program=number, operation=index, reason=reason)


def unproven_json(simulation: Simulation) -> tuple[UnprovenEntry, ...]:
    """Every kernel of a kind without a published measurement; the Ethos-U55 and U65 have none."""
    return tuple(_found(simulation))


def unproven_text(simulation: Simulation) -> str:
    """The kinds with the operations of each, the most frequent first; "" if there are none."""
    kinds: dict[str, list[str]] = {}
    for entry in _found(simulation):
        place = f"{entry.program}:{entry.operation}" if entry.program else str(entry.operation)
        kinds.setdefault(entry.reason, []).append(place)
    parts = []
    for reason, places in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
        parts.append(f"{reason} (operation{'s' * (len(places) > 1)} {', '.join(places[:_SHOWN])}{more})")
    return f"no published inference shows the beats of {'; of '.join(parts)}" if parts else ""
