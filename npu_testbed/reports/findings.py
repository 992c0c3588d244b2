"""Findings as a text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from npu_testbed.findings import Finding, what_bounds
from npu_testbed.findings.finding import LEAST, percent
from npu_testbed.replays.simulation import Simulation
from validation.layout import width

HEADING = "What would make it faster or smaller, each from a replay with that one thing changed:"


def nothing_found(simulation: Simulation) -> str:
    """The sentence that no single change helps, what the MACs wait for, and the effect of a larger NPU or a faster memory."""
    return f"No single change that is tried saves {percent(LEAST)} of the cycles or of the bytes. {what_bounds(simulation)}".rstrip()


def findings_text(found: Sequence[Finding], simulation: Simulation) -> str:
    """A numbered sentence for each finding, the largest first. Without findings, the bound of the replay."""
    limit = width()
    if not found:
        return fill(nothing_found(simulation), limit)
    lines = [fill(f"{number}. {one.text}", limit, subsequent_indent="   ") for number, one in enumerate(found, 1)]
    return "\n".join([fill(HEADING, limit), *lines])
