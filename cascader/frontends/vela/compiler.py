"""Running Vela: the one place that starts the compiler, in a process of its own.

Vela's native core can crash or hang on a damaged model; here that ends as one InputError and takes nothing along.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.frontends.children import GUARD, LIMITS, nothing, run_child
from cascader.frontends.vela.direct import DirectCall, direct_call, read_figures
from cascader.frontends.vela_timeout import time_limit
from npu_model.accelerator import DEFAULT_ACCELERATOR, require_schedulable
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError, UnfinishedError

if TYPE_CHECKING:
    from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor

DEFAULT_CONFIG = "Arm/vela.ini"
DEFAULT_SYSTEM_CONFIG = "Ethos_U55_High_End_Embedded"
DEFAULT_MEMORY_MODE = "Shared_Sram"
MEMORY_BYTES = 4 << 30
"""Bound of the compiler's address space where the system can set one; those networks take less than 1 GiB."""

_LAUNCH = f"""{GUARD}
import os, runpy, sys
end_with_parent(os.getcwd())
{LIMITS}
runpy.run_module("ethosu.vela", run_name="__main__", alter_sys=True)
"""
"""Program of the child that runs Vela's command line."""

_LEGALISE = ("--disable-cascading", "--disable-buffering", "--disable-chaining", "--disable-fwd", "--disable-ifm-reuse")
"""With LinearAlloc these make Vela emit one kernel per operator and every tensor at an address of its own."""

_LEGALISE_PYTHON = "Sram_Only"
"""The memory mode that makes the Python core do the same: it knows none of the other options, and copies weights out of slower memories."""

CORES = ("C++", "Python")
"""Vela's cores: Regor, the default, and the older one that ``--debug-force-legacy-core`` asks for."""

_COMPILED = "out/network_vela.tflite"
_KIB = 1024
_FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16")


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


def vela_version() -> str:
    """Version of the installed Vela; InputError if there is none."""
    try:
        return metadata.version("ethos-u-vela")
    except metadata.PackageNotFoundError:
        raise InputError("Vela is not installed: pip install 'ethos-u-vela>=5.2,<6'.") from None


def _read_model(model: bytes) -> TfliteModel:
    """The model, if it is one that Vela can be given."""
    from npu_model.compiled.network import is_compiled  # noqa: PLC0415  # as in compile_network
    from npu_model.tflite.model import read_tflite  # noqa: PLC0415  # the same

    parsed = read_tflite(model)
    if is_compiled(parsed):
        raise InputError("The .tflite file is compiled for an Ethos-U already: give the network that it was compiled from.")
    if not parsed.operators:
        raise InputError("The .tflite file has 0 operators: a network of 1 or more is needed.")
    floats = [_float_operand(parsed, operator) for operator in parsed.operators]
    if None not in floats and floats[0] is not None:
        raise InputError(
            f"Tensor {floats[0].name!r} has type {floats[0].dtype}: the NPU works on INT8, UINT8 and INT16; "
            f"quantise the network, of which all {len(floats)} operators compute with floats."
        )
    return parsed


def _float_operand(model: TfliteModel, operator: TfliteOperator) -> TfliteTensor | None:
    """The first floating-point variable operand or result of an operator, which keeps it on the CPU; None if it has none."""
    tensors = (model.tensors[index] for index in operator.inputs + operator.outputs if index >= 0)
    return next((tensor for tensor in tensors if tensor.dtype in _FLOATS and not tensor.data), None)


def _check_device(accelerator: str, system_config: str, *, legalise: bool) -> None:
    """InputError if the system config is another NPU's, or the accelerator one that nothing is scheduled for."""
    family = "Ethos_U65" if accelerator.startswith("ethos-u65-") else "Ethos_U55"
    if not system_config.startswith(family):
        # Vela 5.2 takes the port width from the name: 16 bytes per cycle unless it starts with Ethos_U55.
        raise InputError(
            f"System config {system_config!r} does not start with {family}: rename it, Vela takes the bus width from the name."
        )
    if legalise:
        require_schedulable(accelerator)


def _arguments(  # noqa: PLR0913  # Vela's options
    accelerator: str,
    optimise: str,
    arena_cache_size: int | None,
    system_config: str,
    memory_mode: str,
    config: Path | None,
    *,
    legalise: bool,
    legacy: bool,
    debug_database: bool,
    cpu_operators: tuple[str, ...],
) -> list[str]:
    if optimise not in ("Performance", "Size"):
        raise InputError(f"--optimise {optimise!r} is unknown: choose Performance or Size.")
    _check_device(accelerator, system_config, legalise=legalise)
    if config is not None and not config.is_file():
        raise InputError(f"Vela configuration file {str(config)!r} does not exist: give the path of an .ini file.")
    arguments = ["--accelerator-config", find_accelerator(accelerator).name, "--optimise", optimise]
    arguments += ["--config", DEFAULT_CONFIG if config is None else str(config.resolve())]
    arguments += ["--system-config", system_config, "--memory-mode", _LEGALISE_PYTHON if legalise and legacy else memory_mode]
    if arena_cache_size is not None:
        if arena_cache_size < 1:
            raise InputError(f"--arena-cache-size {arena_cache_size} is below 1: give a number of bytes.")
        arguments += ["--arena-cache-size", str(arena_cache_size)]
    if legalise:
        arguments += ["--tensor-allocator", "LinearAlloc", *(() if legacy else _LEGALISE)]
    if legacy:
        arguments.append("--debug-force-legacy-core")
    if debug_database:
        arguments.append("--enable-debug-db")
    if cpu_operators:
        arguments += ["--ignore-ops", ",".join(cpu_operators)]
    return arguments


def _failure(process: subprocess.CompletedProcess[str]) -> str:
    """Why Vela failed: its own last error line, or the signal that ended it."""
    if process.returncode < 0:
        return f"crashed with signal {-process.returncode}"
    lines = [line.strip() for line in (process.stderr + process.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    reason = (errors or lines or [f"exit status {process.returncode}"])[-1]
    return f"says {reason[:300]!r}"


def _child(words: Sequence[str], folder: Path, timeout: float, meanwhile: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    """Run a program of Vela's."""
    try:
        return run_child(words, folder=folder, timeout=timeout, meanwhile=meanwhile)
    except subprocess.TimeoutExpired:
        raise UnfinishedError(f"Vela did not finish within {timeout:g} s: give it longer (--vela-timeout), or get a fresh copy.") from None
    except OSError as error:
        raise UnfinishedError(f"Vela cannot be started ({error.strerror}): check the Python installation and the free memory.") from None


def _run(arguments: Sequence[str], call: DirectCall | None, folder: Path, timeout: float, meanwhile: Callable[[], object]) -> None:
    """Compile the network in ``folder`` by a direct call of Vela's core, or by its command line if there is none or it fails."""
    limits = [str(MEMORY_BYTES), str(2 * ceil(timeout))]
    if call is not None:
        for name, text in call.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        process = _child([*call.command, *limits, *call.words], folder, timeout, meanwhile)
        if process.returncode == 0 and (folder / _COMPILED).is_file():
            return
        shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.executable, "-c", _LAUNCH, *limits, "network.tflite", "--output-dir", "out", *arguments]
    process = _child(command, folder, timeout, meanwhile if call is None else nothing)
    if process.returncode != 0:
        raise InputError(f"Vela cannot compile the network, it {_failure(process)}: check the model and the configuration names.")


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


def compile_network(  # noqa: PLR0913  # Vela's options
    model: bytes,
    accelerator: str = DEFAULT_ACCELERATOR,
    *,
    optimise: str = "Performance",
    arena_cache_size: int | None = None,
    system_config: str = DEFAULT_SYSTEM_CONFIG,
    memory_mode: str = DEFAULT_MEMORY_MODE,
    config: Path | None = None,
    legalise: bool = False,
    legacy: bool = False,
    debug_database: bool = True,
    cpu_operators: tuple[str, ...] = (),
    timeout: float | None = None,
    meanwhile: Callable[[], object] = nothing,
) -> VelaResult:
    """Compile a .tflite ``model`` with Vela's command line; names and values are those of its options.

    ``legalise`` asks for one kernel per operator and one address range per tensor, what :func:`lift` reads;
    ``legacy`` for the Python core in place of Regor; ``cpu_operators`` are builtin operators to leave on the CPU
    (``--ignore-ops``); ``config`` None is the vela.ini that Vela comes with. ``timeout`` is in seconds, None for
    that of :data:`TIMEOUT_VARIABLE` or else :data:`TIMEOUT_SECONDS`. ``meanwhile`` is called once Vela runs,
    and the model was found to be one that Vela can be given.

    Raises InputError if the model is damaged, floating-point or compiled already, a name is unknown, or Vela fails,
    crashes, hangs or places no operator on the NPU.
    """
    parsed: TfliteModel | None = None

    def read() -> None:
        nonlocal parsed
        parsed = _read_model(model)
        meanwhile()

    version = vela_version()
    arguments = _arguments(
        accelerator,
        optimise,
        arena_cache_size,
        system_config,
        memory_mode,
        config,
        legalise=legalise,
        legacy=legacy,
        debug_database=debug_database,
        cpu_operators=cpu_operators,
    )
    names, call = (system_config, memory_mode), None
    if names == (DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE) and config is None and not legacy and not cpu_operators:
        device = find_accelerator(accelerator)
        call = direct_call(device, optimise, arena_cache_size, names, legalise=legalise, debug_database=debug_database)
    with tempfile.TemporaryDirectory(prefix="npu-testbed-") as name:
        folder = Path(name)
        (folder / "network.tflite").write_bytes(model)
        _run(arguments, call, folder, time_limit() if timeout is None else timeout, read)
        output = folder / _COMPILED
        if not output.is_file():
            raise InputError(
                "Vela wrote no compiled network: it found nothing that the NPU can run; use quantised operators that it supports."
            )
        compiled = output.read_bytes()
        summary = _summary(folder / "out")
        database = folder / "out" / "network_debug.xml"
        text = database.read_text(encoding="utf-8", errors="replace") if database.is_file() else ""
    # What reads a model takes longer to import than Vela to start: it is imported while Vela runs.
    from cascader.frontends.vela.debug_database import layer_names  # noqa: PLC0415
    from npu_model.compiled.network import is_compiled  # noqa: PLC0415
    from npu_model.tflite.model import read_tflite  # noqa: PLC0415

    assert parsed is not None  # noqa: S101  # it was read while Vela ran
    if not is_compiled(read_tflite(compiled)):
        raise InputError(f"Vela left all {len(parsed.operators)} operators on the CPU: use quantised operators that the NPU supports.")
    return VelaResult(compiled, layer_names(text, parsed), summary, version, text, CORES[legacy])
