"""Results of Vela: the compiled file and what Vela says of it, as values, from the folder that Vela wrote them into."""

from __future__ import annotations

import csv
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.frontends.vela.direct import read_figures
from npu_model.errors import InputError
from npu_model.values import dataclass

if TYPE_CHECKING:
    from npu_model.tflite.model import TfliteModel

CORES = ("C++", "Python")
"""Vela's cores: Regor, the default, and the older one that ``--debug-force-legacy-core`` asks for."""

COMPILED = "out/network_vela.tflite"
"""Where the compiled network is in the folder of a compilation."""

_KIB = 1024


@dataclass(frozen=True, slots=True)
class VelaSummary:
    """Vela's own estimate: arena peak in bytes, and cycles in all, of the NPU alone and per memory (plain sums)."""

    sram_memory_used: int
    cycles_total: int
    cycles_npu: int
    cycles_sram_access: int
    cycles_off_chip_flash_access: int


@dataclass(frozen=True, slots=True)
class VelaResult:
    """A compilation: the compiled .tflite file and what Vela says of it.

    ``layers`` has one table per command stream, from the byte offset of a kernel command to its layer's name; it is
    empty if the compilation was asked for no debug database, whose text is ``database``. ``core`` is one of :data:`CORES`.
    """

    compiled: bytes = field(repr=False)
    layers: tuple[dict[int, str], ...] = field(repr=False)
    summary: VelaSummary
    version: str
    database: str = field(default="", repr=False)
    core: str = CORES[0]


def _reason(status: int, said: str) -> str:
    """Why Vela failed: its own last error line, or the signal that ended it."""
    if status < 0:
        return f"crashed with signal {-status}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    reason = (errors or lines or [f"exit status {status}"])[-1]
    return f"says {reason[:300]!r}"


def failure(status: int, said: str) -> InputError:
    """The error for a Vela that ended with a status other than 0, after it ``said`` something."""
    return InputError(f"Vela cannot compile the network, it {_reason(status, said)}: check the model and the configuration names.")


def _summary(folder: Path) -> VelaSummary:
    if (figures := folder / "summary.txt").is_file():
        found = read_figures(figures.read_text(encoding="utf-8"))
        return VelaSummary(found["sram_used"], *(found[f"{name}_cycles"] for name in ("total", "npu", "sram", "offchipflash")))
    files = sorted(folder.glob("*_summary_*.csv"))
    if not files:
        raise InputError("Vela wrote no summary of the compilation: check the model.")
    with files[0].open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    # The CSV gives memory in KiB as a decimal fraction, which is exact: bytes are its multiple of 1/1024.
    return VelaSummary(
        sram_memory_used=round(float(row["sram_memory_used"]) * _KIB),
        cycles_total=round(float(row["cycles_total"])),
        cycles_npu=round(float(row["cycles_npu"])),
        cycles_sram_access=round(float(row["cycles_sram_access"])),
        cycles_off_chip_flash_access=round(float(row["cycles_off_chip_flash_access"])),
    )


def read_result(folder: Path, model: TfliteModel, version: str, core: str) -> VelaResult:
    """The result of a compilation of ``model`` in ``folder``; InputError if there is none, or nothing runs on the NPU."""
    output = folder / COMPILED
    if not output.is_file():
        raise InputError("Vela wrote no compiled network: it found nothing that the NPU can run; use quantised operators that it supports.")
    compiled = output.read_bytes()
    summary = _summary(folder / "out")
    database = folder / "out" / "network_debug.xml"
    text = database.read_text(encoding="utf-8", errors="replace") if database.is_file() else ""
    # What reads a model takes longer to import than Vela to start: it is imported while Vela runs.
    from cascader.frontends.vela.debug_database import layer_names  # noqa: PLC0415
    from npu_model.compiled.network import is_compiled  # noqa: PLC0415
    from npu_model.tflite.model import read_tflite  # noqa: PLC0415

    if not is_compiled(read_tflite(compiled)):
        raise InputError(f"Vela left all {len(model.operators)} operators on the CPU: use quantised operators that the NPU supports.")
    return VelaResult(compiled, layer_names(text, model), summary, version, text, core)
