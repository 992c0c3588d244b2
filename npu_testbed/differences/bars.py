"""Bars that a schedule must keep to: limits of cycles and bytes, and a baseline that an earlier check printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_testbed.differences.difference_tables import side_json
from npu_testbed.documents.differences import BarEntry, CheckDocument, LayerCyclesEntry
from npu_testbed.documents.published import structure
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.inputs_outputs import inputs_outputs_json, outside_bytes
from npu_testbed.runtimes.runtime_use import NAMES, RuntimeUse
from sim.views.layers import layers
from validation.reading import read_text

COMMAND, _SCHEMA = CheckDocument.__struct_config__.tag, structure(CheckDocument)

_BEFORE = 2
"""The previous version of baselines, which is still read: ``ends`` is ``inputs_outputs`` now."""

_FIRST = 1
"""Version of baselines that do not say which tensors live outside the arena. They are read, and their homes are not compared."""


class Bar(Struct, frozen=True):
    """One figure and its limit; ``source`` names the origin of the limit."""

    what: str
    value: int
    limit: int
    source: str

    @property
    def is_met(self) -> bool:
        """Whether the figure is at most its limit."""
        return self.value <= self.limit


class Baseline(Struct, frozen=True):
    """Figures that an earlier check printed, with the accelerator, the memory system and the timing that they hold for.

    ``outside_bytes`` are None where the check did not say them.
    """

    accelerator: str
    memory_sha256: str
    timing: dict[str, Any]
    cycles: int
    arena_bytes: int
    outside_bytes: int | None
    layers: dict[str, int]


def _field(document: Any, key: str, kind: type, path: str) -> Any:
    value = document.get(key) if isinstance(document, dict) else None
    if type(value) is not kind:
        raise InputError(f"Baseline {path!r} has {key} {shown(value)}: make it anew with `npu-testbed check --json`.")
    return value


def read_baseline(path: str) -> Baseline:
    """The baseline in a file; InputError if no check of this version has printed it."""
    text = read_text(path, "Baseline")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"Baseline {path!r} is not a JSON document: make it anew with `npu-testbed check --json`.") from None
    if not isinstance(document, dict) or document.get("command") != COMMAND:
        raise InputError(f"Baseline {path!r} was not printed by `npu-testbed check --json`: make it so.")
    if document.get("schema") not in (_FIRST, _BEFORE, _SCHEMA):
        raise InputError(
            f"Baseline {path!r} has schema {shown(document.get('schema'))}: {_SCHEMA} is read; "
            "make it anew with `npu-testbed check --json`."
        )
    subject, homes = _field(document, "subject", dict, path), "ends" if document["schema"] == _BEFORE else "inputs_outputs"
    rows = _field(document, "layers", list, path)
    return Baseline(
        accelerator=_field(subject, "accelerator", str, path),
        memory_sha256=_field(_field(subject, "memory_system", dict, path), "sha256", str, path),
        timing=_field(subject, "timing", dict, path),
        cycles=_field(subject, "cycles", int, path),
        arena_bytes=_field(subject, "arena_bytes", int, path),
        outside_bytes=None if document["schema"] == _FIRST else _field(_field(document, homes, dict, path), "outside_bytes", int, path),
        layers={_field(row, "layer", str, path): _field(row, "cycles", int, path) for row in rows},
    )


def earlier_baseline(path: str) -> Baseline | None:
    """The baseline to replace; None if there is none yet or another version printed it.

    InputError if the file is not a check's, so that it is not overwritten.
    """
    if not Path(path).exists():
        return None
    try:
        return read_baseline(path)
    except InputError as error:
        try:
            document = json.loads(read_text(path, "Baseline"))
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and document.get("command") == COMMAND:
            return None
        raise InputError(f"Baseline {path!r} was not printed by `npu-testbed check`, and is not overwritten: give another file.") from error


def require_comparable(baseline: Baseline, simulation: Simulation, path: str) -> None:
    """InputError unless both have the same accelerator, memory system and timing. Else the difference is not the schedule's."""
    now = side_json(simulation)
    if baseline.accelerator != now.accelerator:
        raise InputError(
            f"Baseline {Path(path).name!r} is for {shown(baseline.accelerator)} and the schedule for {now.accelerator}: "
            "give a baseline of the same accelerator."
        )
    if baseline.memory_sha256 != now.memory_system.sha256:
        raise InputError(
            f"Baseline {Path(path).name!r} is for another memory system than {now.memory_system.name}: "
            "give a baseline of the same, or the options that it was made with."
        )
    outside = outside_bytes(simulation.network)
    if baseline.outside_bytes not in (None, outside):
        raise InputError(
            f"Baseline {Path(path).name!r} has {baseline.outside_bytes} bytes outside the arena and the schedule {outside}: "
            "give a baseline of the same homes."
        )
    if baseline.timing != now.timing:
        raise InputError(f"Baseline {Path(path).name!r} is for another timing of the NPU: give one of a schedule with the same profile.")


def bars(
    simulation: Simulation,
    max_cycles: int | None,
    max_bytes: int | None,
    baseline: Baseline | None,
    tolerance: Fraction = Fraction(0),
    use: RuntimeUse | None = None,
) -> list[Bar]:
    """The requested bars; a figure may exceed its baseline by the share ``tolerance``.

    The bytes that ``--arena-cache-size`` or the memory mode grants are a bar, too, unless ``max_bytes`` sets another. The limits hold for
    the bytes that an application sets aside for a runtime, and for the cycles there, if its ``use`` of the network is given.
    """
    cycles, arena, memory = simulation.replay.cycles, simulation.planned_bytes, f"{simulation.memory_name} bytes"
    there = cycles if use is None or use.cycles is None else use.cycles
    name, aside = (memory, arena) if use is None else (f"{NAMES[use.runtime]} bytes", use.arena + use.fast)
    found = [Bar("NPU cycles", there, max_cycles, "--max-cycles")] if max_cycles is not None else []
    found += [Bar(name, aside, max_bytes, "--max-bytes")] if max_bytes is not None else []
    if simulation.granted_bytes is not None and max_bytes is None:
        found.append(Bar(memory, arena, simulation.granted_bytes, "arena_cache_size"))
    if baseline is not None:
        found.append(Bar("NPU cycles", cycles, int(baseline.cycles * (1 + tolerance)), "the baseline"))
        found.append(Bar(memory, arena, int(baseline.arena_bytes * (1 + tolerance)), "the baseline"))
    return found


def layer_cycles(simulation: Simulation) -> list[tuple[str, int]]:
    """The layers with their cycles in the order in which they first run; layers of the same name are summed."""
    found: dict[str, int] = {}
    for layer in layers(simulation.replay):
        found[layer.label] = found.get(layer.label, 0) + layer.cycles
    return list(found.items())


def check_json(simulation: Simulation, found: Sequence[Bar]) -> CheckDocument:
    """The document of a check, which another check reads as a baseline."""
    return CheckDocument(
        subject=side_json(simulation),
        inputs_outputs=inputs_outputs_json(simulation.network, simulation.system),
        layers=tuple(LayerCyclesEntry(name, cycles) for name, cycles in layer_cycles(simulation)),
        bars=convert(found, tuple[BarEntry, ...], from_attributes=True),
        passed=all(bar.is_met for bar in found),
    )
