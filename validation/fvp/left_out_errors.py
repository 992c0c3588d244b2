"""Errors on networks that took no part in the choice of the model's rules, read from the package's ``left_out.csv``."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from msgspec import Struct

HEADERS = ("family", "adapters", "mean", "worst", "network")


class LeftOut(Struct, frozen=True):
    """Mean and worst absolute error of a family's networks, each with the rules that the other networks choose.

    ``family`` is the beginning of an accelerator's name, ``adapters`` says whether the timing adapters were on. Errors are ratios, rounded
    to a hundredth of a per cent. ``network`` has the worst error.
    """

    family: str
    adapters: bool
    mean: float
    worst: float
    network: str


@cache
def kept_left_out() -> tuple[LeftOut, ...]:
    """The errors in the package. A test compares them with a new measurement."""
    text = Path(__file__).with_name("left_out.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(LeftOut(row["family"], row["adapters"] == "on", float(row["mean"]), float(row["worst"]), row["network"]) for row in rows)
