"""The extra tables of a report on a replay: the answers to Vela's schedules, and a measurement layer by layer."""

from __future__ import annotations

from typing import Any

from npu_model.printable import printable
from npu_testbed.comparisons.comparison import Comparison
from npu_testbed.energy.ratio import caveat
from npu_testbed.measured.measured_text import measured_note
from npu_testbed.measured.rows import Beside
from npu_testbed.replays.layer_names import first_operator

_NAME = 120
"""Characters of a layer's name in a report."""


def measured_data(beside: Beside) -> dict[str, Any]:
    """The layers, the largest difference first, and the meaning of a row. Errors are ratios, None for an unmeasured layer."""
    rows = [
        {
            "layer": printable(row.layer, _NAME),
            "operator": first_operator(row.operator),
            "kernels": row.kernels,
            "measured": row.measured,
            "margin": row.margin,
            "replayed": row.replayed,
            "difference": row.difference,
            "error": row.error,
        }
        for row in beside.rows
    ]
    return {"note": measured_note(beside), "rows": rows}


def answers_data(comparison: Comparison) -> dict[str, Any]:
    """Our answers to Vela's schedules, with ratios of energies and verdicts under other timings, if requested.

    ``energy`` is the caveat of the energies, None without energies.
    """
    energy, robust = comparison.energy, comparison.robust
    rows = []
    for index, answer in enumerate(comparison.answers):
        verdict = None if robust is None else robust[index]
        rows.append(
            {
                "condition": answer.condition,
                "bytes": None if answer.ours is None else answer.ours.memory,
                "cycles": None if answer.ours is None else answer.ours.cycles,
                "memory_ratio": answer.memory_ratio,
                "cycles_ratio": answer.cycles_ratio,
                "energy_ratio": None if energy is None else energy.ratios[index],
                "verdict": None if verdict is None else verdict.verdict,
            }
        )
    return {"rows": rows, "energy": None if energy is None else f"Energy by {printable(energy.table)}. {caveat(energy.table)}"}
