"""The bounded least-squares problem that a fit solves in every step, by SciPy (extra ``calibrate``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu_model.errors import InputError

Matrix = Sequence[Sequence[float]]


def _optimiser() -> Any:
    try:
        from scipy import optimize  # noqa: PLC0415  # an extra: everything but a fit works without it
    except ImportError:
        raise InputError("SciPy is not installed, which fits the timing parameters: pip install 'npu-testbed[calibrate]'.") from None
    return optimize


def require_solver() -> None:
    """InputError if SciPy is not installed. Call it before the first of many replays."""
    _optimiser()


def bounded_step(slopes: Matrix, residuals: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> list[float]:
    """The step x in [``lower``, ``upper``] with the least sum of squares of ``residuals`` + ``slopes`` x.

    ``slopes`` has a row per residual and a column per parameter. A parameter without room to move stays.
    """
    movable = [j for j, (low, high) in enumerate(zip(lower, upper, strict=True)) if low < high]
    step = [0.0] * len(lower)
    if movable:
        rows = [[row[j] for j in movable] for row in slopes]
        bounds = [lower[j] for j in movable], [upper[j] for j in movable]
        solution = _optimiser().lsq_linear(rows, [-residual for residual in residuals], bounds, method="bvls")
        for j, value in zip(movable, solution.x, strict=True):
            step[j] = float(value)
    return step
