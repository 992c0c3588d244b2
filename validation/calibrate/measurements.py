"""Measurements for calibration: compiled networks with their memory systems and their counters."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable
from pathlib import Path

from npu_model.brief import Noted
from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import parse_profile, profile, profile_names
from npu_model.memory.vela_ini import memory_system
from npu_model.program import Program
from npu_model.weight_stream.work import StreamWork
from validation.fvp.live.counters import parse_log
from validation.fvp.references.records import ReferencePoint, measured_program, measured_work, points
from validation.reading import MAX_TABLE_BYTES, read_configuration, read_file, read_text

NPU_ACTIVE = "NPU_ACTIVE"
BEATS = ("AXI0_RD_DATA_BEAT_RECEIVED", "AXI0_WR_DATA_BEAT_WRITTEN", "AXI1_RD_DATA_BEAT_RECEIVED")
"""Counters in addition to NPU_ACTIVE, by Arm's PMU event names."""

CALIBRATE, TEST = "calibrate", "test"
_MEMORY = ("timing_adapter", "config", "system_config", "memory_mode")
COLUMNS = ("model", NPU_ACTIVE, *_MEMORY, *BEATS, "network", "use", "source", "log")
"""Columns of a user's CSV file; :func:`read_measurements` describes them."""

_MAX_MODEL_BYTES = 256 << 20
"""A number of cycles that no network for this NPU reaches."""

_MAX_DIGITS = 15
_MAX_COUNT = 1 << 48
"""The PMU's cycle counter has 48 bits (core driver ``ethosu55_interface.h``)."""


class Measurement(Noted, frozen=True):
    """One measured inference.

    ``active`` is NPU ACTIVE in NPU cycles, ``beats`` holds the counters of :data:`BEATS` that were measured. ``calibrates`` says whether a
    fit may use it; otherwise it only tests a fit. ``work`` is the work of each program's weight streams, empty if the programs hold their
    constants. ``sha256`` of the compiled file identifies the programs when measurements are compared.
    """

    unshown = ("programs", "system", "work")
    notes = ("programs", "work")

    name: str
    network: str
    memory: str
    programs: tuple[Program, ...]
    system: MemorySystem
    active: int
    beats: tuple[tuple[str, int], ...] = ()
    calibrates: bool = True
    sha256: str = ""
    source: str = ""
    work: tuple[StreamWork, ...] = ()

    @property
    def accelerator(self) -> str:
        """Name of the accelerator that the network is compiled for."""
        return self.programs[0].accelerator


def _reference(point: ReferencePoint) -> Measurement:
    adapter = profile("u55_high_end" if point.adapters else "off")
    counts = (point.beats.axi0_read, point.beats.axi0_write, point.beats.axi1_read) if point.beats else ()
    return Measurement(
        name=f"{point.network} {point.accelerator} {adapter.name}",
        network=point.network,
        memory=adapter.name,
        programs=(measured_program(point.network, point.accelerator),),
        system=adapter.memory_system(),
        active=point.active,
        beats=tuple(zip(BEATS, counts, strict=False)),
        sha256=point.stream_sha256,
        source=point.source,
        work=(measured_work(point.network, point.accelerator),),
    )


def reference_measurements() -> tuple[Measurement, ...]:
    """The declared calibration points: three networks, four accelerators, timing adapters on and off."""
    return tuple(_reference(point) for point in points())


def _count(where: str, column: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS) or not 1 <= int(text) < _MAX_COUNT:
        raise InputError(f"{where} has {column} {text[:40]!r}: a whole number from 1 to {_MAX_COUNT - 1} is needed; write the counter.")
    return int(text)


def _system(where: str, row: dict[str, str], folder: Path) -> MemorySystem:
    """The memory system of a row: a timing-adapter profile, or names in a vela.ini."""
    adapter, vela = row["timing_adapter"], [key for key in _MEMORY[1:] if row[key]]
    if (adapter and vela) or (not adapter and len(vela) != len(_MEMORY) - 1):
        raise InputError(f"{where} names no memory system: give timing_adapter alone, or config, system_config and memory_mode together.")
    if not adapter:
        return memory_system(read_configuration(folder / row["config"], "Configuration file"), row["system_config"], row["memory_mode"])
    if adapter in profile_names():
        return profile(adapter).memory_system()
    if not adapter.endswith(".toml"):
        raise InputError(f"{where} has timing_adapter {adapter!r}: choose {', '.join(profile_names())}, or give a .toml file.")
    return parse_profile(Path(adapter).stem, read_configuration(folder / adapter, "Timing-adapter profile")).memory_system()


def _with_log(row: dict[str, str], folder: Path) -> dict[str, str]:
    """A row with the counters of its log, if it names one. The row's own values take precedence."""
    if not row["log"]:
        return row
    counters = parse_log(read_text(folder / row["log"], "Log", MAX_TABLE_BYTES))
    printed = {name: str(counters.values[name]) for name in (NPU_ACTIVE, *BEATS) if name in counters.values}
    return row | {name: row[name] or value for name, value in printed.items()}


def _measurement(where: str, row: dict[str, str], folder: Path) -> Measurement:
    if not row["model"]:
        raise InputError(f"{where} has no model: give the path of a compiled .tflite file.")
    use = row["use"] or CALIBRATE
    if use not in (CALIBRATE, TEST):
        raise InputError(f"{where} has use {use!r}: write {CALIBRATE} or {TEST}.")
    row = _with_log(row, folder)
    data = read_file(folder / row["model"], "Model", _MAX_MODEL_BYTES)
    system, network = _system(where, row, folder), row["network"] or Path(row["model"]).name.partition(".")[0]
    programs = read_compiled(data).programs
    memory = system.name.removeprefix("timing adapter ")
    return Measurement(
        name=f"{network} {programs[0].accelerator} {memory}",
        network=network,
        memory=memory,
        programs=programs,
        system=system,
        active=_count(where, NPU_ACTIVE, row[NPU_ACTIVE]),
        beats=tuple((name, _count(where, name, row[name])) for name in BEATS if row[name]),
        calibrates=use == CALIBRATE,
        sha256=hashlib.sha256(data).hexdigest(),
        source=row["source"],
    )


def _numbered(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """InputError if two measurements have one name, because a profile could not distinguish them."""
    seen: set[str] = set()
    result = []
    for measurement in measurements:
        if measurement.name in seen:
            raise InputError(f"Measurement {measurement.name!r} is there twice: keep one, or give each its own network.")
        seen.add(measurement.name)
        result.append(measurement)
    return tuple(result)


def read_measurements(path: Path) -> tuple[Measurement, ...]:
    """Measurements of a user's own chip, from a CSV file with a header.

    Columns (those of :data:`COLUMNS`; ``model`` and ``NPU_ACTIVE`` or ``log`` are required, any other may be left out or empty):

    - ``model``: compiled ``*_vela.tflite`` that was run, relative to the CSV file
    - ``NPU_ACTIVE``: the PMU's count of active NPU cycles of one inference
    - ``timing_adapter``: name of a built-in profile or path of a TOML file; or instead ``config`` (a ``vela.ini``), ``system_config`` and
      ``memory_mode``
    - the counters of :data:`BEATS`, where they were measured
    - ``network``: name of the network, to leave one out at a time; the file's name up to its first dot if absent
    - ``use``: ``calibrate`` (if absent) or ``test``, for a measurement that no fit may see
    - ``source``: where the figures are from
    - ``log``: the firmware's log of the run, relative to the CSV file, in place of counters (:mod:`validation.fvp.live.counters`)

    InputError names the line and its fault.
    """
    reader = csv.DictReader(read_text(path, "Measurements", MAX_TABLE_BYTES).splitlines(), restval="")
    header = reader.fieldnames or []
    for column in COLUMNS[:2]:
        if column not in header and (column == "model" or "log" not in header):
            raise InputError(f"Measurements {str(path)!r} have no column {column}: the columns are {', '.join(COLUMNS)}.")
    unknown = [column for column in header if column not in COLUMNS]
    if unknown:
        raise InputError(f"Measurements {str(path)!r} have the unknown column {unknown[0]!r}: the columns are {', '.join(COLUMNS)}.")
    measurements = []
    try:
        for row in reader:
            where = f"Line {reader.line_num} of {path.name}"
            if row.pop(None, None) is not None:  # csv keeps surplus cells under the key None
                raise InputError(f"{where} has more cells than the header: quote cells that hold a comma.")
            cells = dict.fromkeys(COLUMNS, "") | {key: value.strip() for key, value in row.items()}
            measurements.append(_measurement(where, cells, path.parent))
    except csv.Error as error:
        raise InputError(f"Measurements {str(path)!r} are not CSV ({error}): write comma-separated lines.") from None
    if not measurements:
        raise InputError(f"Measurements {str(path)!r} have 0 lines: 1 or more are needed below the header.")
    return _numbered(measurements)
