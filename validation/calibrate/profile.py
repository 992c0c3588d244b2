"""A calibration as a data file in TOML: the fitted timing parameters with their basis."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from importlib import resources
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from npu_model.documents import typed
from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from npu_model.toml_text import parse_toml
from validation.calibrate.evaluation import Errors

SCHEMA = 1
REFERENCE = "corstone_fvp_u55.toml"


class FittedValue(Struct, frozen=True, forbid_unknown_fields=True):
    """One fitted parameter: its value, what it was before, its bounds, and its bootstrap interval, in the parameter's unit."""

    name: str
    value: str
    default: str
    lower: str
    upper: str
    interval_low: float
    interval_high: float


class CloseSet(Struct, frozen=True, forbid_unknown_fields=True):
    """A set of parameter values within the noise of the fit: ``values`` in the order of the fitted parameters, and the mean error.

    ``draws`` is the number of the bootstrap's draws that the set suits best.
    """

    values: tuple[str, ...]
    mean: float
    draws: int


class FittedPoint(Struct, frozen=True, forbid_unknown_fields=True):
    """One measurement that the fit saw: the network, the measured cycles, and the fitted model's cycles."""

    name: str
    sha256: str
    npu_active: int
    cycles: int
    source: str


class FoldErrors(Struct, frozen=True, forbid_unknown_fields=True):
    """Errors on one group by a fit to all others; ``kind`` is network or accelerator."""

    kind: str
    left_out: str
    count: int
    mean: float
    worst: float


class ErrorFigures(Struct, frozen=True, forbid_unknown_fields=True):
    """Relative errors of NPU ACTIVE: mean absolute and worst signed; ``mean_low`` and ``mean_high`` bound the mean (bootstrap)."""

    default_mean: float
    default_worst: float
    mean: float
    worst: float
    mean_low: float
    mean_high: float


class _Kept(Struct, frozen=True, kw_only=True):
    """Fields of a calibration and of its file."""

    name: str
    date: str
    seed: int
    errors: ErrorFigures
    fitted: tuple[FittedValue, ...] = ()
    folds: tuple[FoldErrors, ...] = ()
    points: tuple[FittedPoint, ...] = ()
    undecided: tuple[str, ...] = ()
    sets: tuple[CloseSet, ...] = ()


class CalibrationProfile(_Kept, frozen=True, kw_only=True):
    """A calibration: fitted parameters, provenance and errors.

    ``date`` is the caller's, ``seed`` the bootstrap's. ``undecided`` names the fitted parameters with other, equally good values.
    ``sets`` are the parameter sets within the noise, the fit first.
    """

    tools: tuple[tuple[str, str], ...]
    timing: TimingParameters

    def held_out(self, kind: str) -> Errors:
        """The errors of all measurements when their group of this kind was left out; empty if there was one group."""
        folds = [fold for fold in self.folds if fold.kind == kind]
        count = sum(fold.count for fold in folds)
        mean = sum(fold.mean * fold.count for fold in folds) / count if count else 0.0
        return Errors(count, mean, max((fold.worst for fold in folds), key=abs, default=0.0))


def _plain(value: Any) -> str:
    """A value as TOML: strings escaped as in JSON, which TOML's basic strings are a superset of."""
    if isinstance(value, BlockdepRule):
        return json.dumps(value.value)
    if isinstance(value, (str, Fraction)):
        return json.dumps(str(value)).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _entries(value: Any) -> list[str]:
    return [f"{name} = {_plain(getattr(value, name))}" for name in value.__struct_fields__]


def _array(title: str, values: Iterable[Any]) -> list[str]:
    return [line for value in values for line in ("", f"[[{title}]]", *_entries(value))]


def to_toml(profile: CalibrationProfile) -> str:
    """The profile's file; the same profile gives the same bytes."""
    lines = [
        "# Timing parameters of npu-testbed, fitted to measurements. Errors are ratios, cycles are NPU cycles.",
        f"schema = {SCHEMA}",
        f"name = {_plain(profile.name)}",
        f"date = {_plain(profile.date)}",
        f"seed = {profile.seed}",
        f"undecided = {_plain(profile.undecided)}",
        "",
        "[tools]",
        *(f"{_plain(tool)} = {_plain(version)}" for tool, version in profile.tools),
        "",
        "[timing]",
        *_entries(profile.timing),
        "",
        "[errors]",
        *_entries(profile.errors),
        *_array("fitted", profile.fitted),
        *_array("sets", profile.sets),
        *_array("folds", profile.folds),
        *_array("points", profile.points),
    ]
    return "\n".join(lines) + "\n"


_RATIO = re.compile(r"\d{1,18}(\.\d{1,18}|/\d{1,18})?", re.ASCII)
"""Ratios that are accepted: an exponent would turn a few characters into a number of millions of digits."""


def _fraction(value: Any) -> Fraction:
    text = str(value)
    try:
        if _RATIO.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise InputError(f"Timing parameter output_scale is {printable(text, 40)!r}: write a ratio such as 1 or 7/6.")


def timing_from_table(table: Any) -> TimingParameters:
    """Timing parameters from the ``[timing]`` table of a profile; a parameter that is not named keeps its default.

    InputError for an unknown name or a value out of range.
    """
    if not isinstance(table, dict):
        raise InputError("The calibration profile has no table [timing]: write the profile again with calibrate fit.")
    known = DEFAULT_TIMING.__struct_fields__
    for key in table:
        if key not in known:
            raise InputError(f"Timing parameter {str(key)[:60]!r} is unknown: the parameters are {', '.join(known)}.")
    values = dict(table)
    if "output_scale" in values:
        values["output_scale"] = _fraction(values["output_scale"])
    if "blockdep" in values:
        rules = {rule.value: rule for rule in BlockdepRule}
        if str(values["blockdep"]) not in rules:
            raise InputError(f"Timing parameter blockdep is {str(values['blockdep'])[:40]!r}: choose {', '.join(rules)}.")
        values["blockdep"] = rules[str(values["blockdep"])]
    return TimingParameters(**values)


def _table(text: str) -> Mapping[str, Any]:
    table = parse_toml(text, "The calibration profile", "give a file that calibrate fit wrote")
    if table.get("schema") != SCHEMA:
        raise InputError(f"The calibration profile has schema {str(table.get('schema'))[:20]}: schema {SCHEMA} is read; fit it again.")
    return table


def timing_from_toml(text: str) -> TimingParameters:
    """The timing parameters of a profile. Your own file needs only its schema and the table ``[timing]``."""
    return timing_from_table(_table(text).get("timing"))


class _File(_Kept, frozen=True, kw_only=True):
    """The keys of a profile's file, without its table of timing parameters."""

    tools: dict[str, str]


def from_toml(text: str) -> CalibrationProfile:
    """The profile that a TOML text describes; InputError names what is missing or wrong."""
    table = _table(text)
    timing = timing_from_table(table.get("timing"))
    file = typed(_File, table, "The calibration profile", remedy="write the profile again with calibrate fit")
    own = asdict(file) | {"tools": tuple(file.tools.items()), "timing": timing}
    return CalibrationProfile(**own)


def reference_profile() -> CalibrationProfile:
    """The fit to the published FVP points, for the record: its values are not the defaults (docs/board.md says why)."""
    return from_toml((resources.files("validation.calibrate") / REFERENCE).read_text(encoding="utf-8"))
