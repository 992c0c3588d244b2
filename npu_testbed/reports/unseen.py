"""The error of cycles on a network that was not measured, in words, and the kernels whose beats no measurement shows."""

from __future__ import annotations

from collections.abc import Iterator

from npu_model.cost.timed import unmet_beats
from npu_model.memory.ports import measured_with
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.documents.replay import UnprovenEntry
from npu_testbed.replays.simulation import Simulation
from validation.fvp.left_out_errors import kept_left_out

_OFF = ("timing adapter off", "timing adapter u65_off")
"""Names of the memory systems without timing adapters."""


def unseen_text(device: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> str:
    """The error on networks that took no part in the choice of the model's rules; empty for other timing than the default one.

    >>> from npu_model.memory.timing_adapter import profile
    >>> unseen_text("ethos-u85-128", profile("off").memory_system()).rpartition("(")[2]
    "ethos-u85, measured with Arm's timing adapters on)"
    """
    rows = [row for row in kept_left_out() if device.startswith(row.family)]
    if timing != DEFAULT_TIMING or not rows:
        return ""
    is_off = system.name in _OFF
    row = next((row for row in rows if row.adapters != is_off), rows[0])
    if not row.adapters:
        where = "timing adapters off"
    elif system.name == f"timing adapter {measured_with(device)}":
        where = "timing adapters on"
    else:
        where = "measured with Arm's timing adapters on"
    of = f"on networks that played no part in choosing the model ({row.family}, {where})"
    return f"{row.mean:.1%} on average and {row.worst:.1%} at worst, {of}"


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
