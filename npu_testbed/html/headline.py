"""The headline of a report: time, memory, whether it fits, and Vela's schedule of the same network if known."""

from __future__ import annotations

from typing import Any

from npu_model.compiled.network import CpuOperator
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.headline import Rival, kibibytes, milliseconds


def _figure(value: str, words: str, state: str = "") -> dict[str, str]:
    return {"value": value, "words": words, "state": state}


def _fit(size: int, limit: int) -> dict[str, str]:
    if size <= limit:
        return _figure("fits", f"{limit - size:,} of {limit:,} bytes stay free", "good")
    return _figure("does not fit", f"{size - limit:,} bytes more than the {limit:,} that are granted", "bad")


def headline_data(simulation: Simulation, budget: int | None = None, rival: Rival | None = None) -> list[dict[str, Any]]:
    """The first figures of a report: a value, its name, and ``good``, ``bad`` or nothing.

    The limit is the memory mode's, or else the ``budget`` in bytes, if any.
    """
    cycles, size, clock = simulation.replay.cycles, simulation.planned_bytes, simulation.system.clock_hz
    limit = budget if simulation.granted_bytes is None else simulation.granted_bytes
    on_cpu = any(isinstance(step, CpuOperator) for step in simulation.network.steps)
    figures = [
        _figure(milliseconds(cycles, clock), f"{cycles:,} {'NPU ' if on_cpu else ''}cycles at {clock / 1e6:g} MHz"),
        _figure(kibibytes(size), f"{size:,} bytes of {simulation.memory_name}"),
        *([] if limit is None else [_fit(size, limit)]),
    ]
    if rival is not None:
        faster, smaller = cycles <= rival.cycles, size <= rival.bytes
        words = f"of the cycles of {rival.name} ({rival.cycles:,}), in {size / rival.bytes:.0%} of its {rival.bytes:,} bytes"
        figures.append(_figure(f"{cycles / rival.cycles:.1%}", words, "good" if faster and smaller else "" if faster or smaller else "bad"))
    return figures
