"""The environment of a calibration: the files of its measurements, its tools, and its profile as JSON."""

from __future__ import annotations

import csv
from importlib import metadata
from pathlib import Path

from npu_testbed.ground.versions import Tools, tool_versions
from validation.reading import MAX_TABLE_BYTES, read_text

_FILES = ("model", "config", "timing_adapter")
"""Columns of the measurements that may name a file, relative to the CSV's folder."""


def source_files(measurements: Path | None) -> tuple[Path, ...]:
    """The CSV file of measurements and every file that it names, which a profile must not overwrite. None: no file."""
    if measurements is None:
        return ()
    rows = csv.DictReader(read_text(measurements, "Measurements", MAX_TABLE_BYTES).splitlines())
    named = {(row.get(column) or "").strip() for row in rows for column in _FILES}
    return (measurements, *(measurements.parent / name for name in sorted(named - {""})))


def fit_tools() -> Tools:
    """Versions of the tools that make a fit."""
    try:
        return tool_versions((("scipy", metadata.version("scipy")),))
    except metadata.PackageNotFoundError:
        # The fit itself says what to install.
        return tool_versions(())
