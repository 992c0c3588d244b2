"""Sentences on how many of our wins over Vela hold under other timings."""

from __future__ import annotations

from collections.abc import Sequence

from npu_testbed.comparisons.answer import AT_SIZE_CYCLES, IN_PERFORMANCE_BYTES
from npu_testbed.comparisons.comparison import NOISE, Comparison
from npu_testbed.comparisons.robust import RobustAnswer
from validation.fvp.undecided import undecided


def _sentence(what: str, wins: Sequence[tuple[str, RobustAnswer]]) -> str:
    lost = "; ".join(f"{name} ({one.ratio:.3f}, {one.low:.3f} to {one.high:.3f}) {one.verdict}" for name, one in wins if one.against)
    return f"{what}: {sum(one.holds for _, one in wins)} of {len(wins)} hold" + (f"; {lost}." if lost else ".")


def robust_notes(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """Sentences on the comparisons that have verdicts under other timings; none if no comparison has them.

    Wins in bytes at Vela Size's cycles count, and wins in cycles of ``NOISE`` or more in Vela Performance's bytes.
    """
    asked = [(one, one.robust) for one in comparisons if one.robust is not None]
    if not asked:
        return ()
    both = [
        (one.frontier.model.removesuffix(".tflite"), answer, judged)
        for one, robust in asked
        for answer, judged in zip(one.answers, robust, strict=True)
        if judged is not None
    ]
    in_bytes = [(name, judged) for name, answer, judged in both if answer.condition == AT_SIZE_CYCLES and (answer.memory_ratio or 1) < 1]
    in_cycles = [(name, judged) for name, answer, judged in both if answer.condition == IN_PERFORMANCE_BYTES and judged.ratio <= 1 - NOISE]
    return (
        f"Under {len(undecided())} changes of the timing model that public data cannot exclude:",
        _sentence("Wins in bytes at Vela Size's cycles", in_bytes),
        _sentence(f"Wins in cycles of {NOISE:.0%} or more in Vela Performance's bytes", in_cycles),
    )
