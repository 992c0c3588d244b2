"""A report on a sweep: every point with its figures, in a plot and a table."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from npu_model.printable import printable
from npu_testbed.comparisons.sweeps import Result
from npu_testbed.comparisons.sweeps.points import macs_of
from npu_testbed.comparisons.sweeps.sweep_tables import memory_name
from npu_testbed.html.document import html_report


def sweep_page(results: Sequence[Result], deadline: float | None = None) -> bytes:
    """The page; ``deadline`` in milliseconds is its initial setting."""
    points = [
        asdict(one.answer)
        | {
            "model": printable(one.point.source.name),
            "accelerator": one.point.device,
            "memory": printable(memory_name(one)),
            "macs": macs_of(one.point),
            "budget_bytes": one.point.budget,
            "milliseconds": None if one.answer.refused else one.milliseconds,
            "refused": printable(one.answer.refused, 400),
        }
        for one in results
    ]
    models = dict.fromkeys(point["model"] for point in points)
    return html_report(f"{', '.join(models)}: {len(points)} points", {"sweep": points, "deadline": deadline})
