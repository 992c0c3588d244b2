"""Running Vela: the one place that starts the compiler, in a process of its own.

Vela's native core can crash or hang on a damaged model; here that ends as one InputError and takes nothing along.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.frontends.children import GUARD, LIMITS, nothing, run_child
from cascader.frontends.vela.direct import DirectCall, direct_call
from cascader.frontends.vela.results import COMPILED, CORES, VelaResult, failure, read_result
from cascader.frontends.vela_timeout import time_limit
from npu_model.accelerator import DEFAULT_ACCELERATOR, require_schedulable
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError, UnfinishedError
from npu_model.tflite.identifiers import is_tosa
from npu_model.values import dataclass

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

_FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16")


def vela_version() -> str:
    """Version of the installed Vela; InputError if there is none."""
    try:
        return metadata.version("ethos-u-vela")
    except metadata.PackageNotFoundError:
        raise InputError("Vela is not installed: pip install 'ethos-u-vela>=5.2,<6'.") from None


def read_model(model: bytes) -> TfliteModel:
    """The model, if it is one that Vela can be given."""
    from npu_model.compiled.network import is_compiled  # noqa: PLC0415  # as in compile_network
    from npu_model.tflite.tosa import model_of  # noqa: PLC0415  # the same

    parsed = model_of(model)
    if is_tosa(model):
        return parsed  # only Vela knows what is in it
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


@dataclass(frozen=True, slots=True)
class VelaOptions:
    """The options of a compilation, as :func:`compile_network` has them."""

    accelerator: str
    optimise: str
    arena_cache_size: int | None
    system_config: str
    memory_mode: str
    config: Path | None
    legalise: bool = False
    legacy: bool = False
    debug_database: bool = True
    cpu_operators: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """The words of Vela's command line; InputError if one of the options is wrong."""
        if self.optimise not in ("Performance", "Size"):
            raise InputError(f"--optimise {self.optimise!r} is unknown: choose Performance or Size.")
        _check_device(self.accelerator, self.system_config, legalise=self.legalise)
        if self.config is not None and not self.config.is_file():
            raise InputError(f"Vela configuration file {str(self.config)!r} does not exist: give the path of an .ini file.")
        words = ["--accelerator-config", find_accelerator(self.accelerator).name, "--optimise", self.optimise]
        words += ["--config", DEFAULT_CONFIG if self.config is None else str(self.config.resolve())]
        memory_mode = _LEGALISE_PYTHON if self.legalise and self.legacy else self.memory_mode
        words += ["--system-config", self.system_config, "--memory-mode", memory_mode]
        if self.arena_cache_size is not None:
            if self.arena_cache_size < 1:
                raise InputError(f"--arena-cache-size {self.arena_cache_size} is below 1: give a number of bytes.")
            words += ["--arena-cache-size", str(self.arena_cache_size)]
        if self.legalise:
            words += ["--tensor-allocator", "LinearAlloc", *(() if self.legacy else _LEGALISE)]
        if self.legacy:
            words.append("--debug-force-legacy-core")
        if self.debug_database:
            words.append("--enable-debug-db")
        if self.cpu_operators:
            words += ["--ignore-ops", ",".join(self.cpu_operators)]
        return words

    def direct_call(self) -> DirectCall | None:
        """The call of Vela's core that compiles a .tflite file; None where the command line is needed."""
        names = self.system_config, self.memory_mode
        if names != (DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE) or self.config or self.legacy or self.cpu_operators:
            return None
        device = find_accelerator(self.accelerator)
        return direct_call(device, self.optimise, self.arena_cache_size, names, legalise=self.legalise, debug_database=self.debug_database)


def unfinished(timeout: float) -> UnfinishedError:
    """The error for a Vela that was ended after so many seconds."""
    return UnfinishedError(f"Vela did not finish within {timeout:g} s: give it longer (--vela-timeout), or get a fresh copy.")


def child(
    words: Sequence[str], folder: Path, timeout: float, meanwhile: Callable[[], object] = nothing
) -> subprocess.CompletedProcess[str]:
    """Run a program of Vela's; UnfinishedError if it does not start, or end in time."""
    try:
        return run_child(words, folder=folder, timeout=timeout, meanwhile=meanwhile)
    except subprocess.TimeoutExpired:
        raise unfinished(timeout) from None
    except OSError as error:
        raise UnfinishedError(f"Vela cannot be started ({error.strerror}): check the Python installation and the free memory.") from None


def _run(
    arguments: Sequence[str], network: str, call: DirectCall | None, folder: Path, timeout: float, meanwhile: Callable[[], object]
) -> None:
    """Compile the file ``network`` in ``folder`` by a direct call of Vela's core, or by its command line if there is none or it fails."""
    limits = [str(MEMORY_BYTES), str(2 * ceil(timeout))]
    if call is not None:
        for name, text in call.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        process = child([*call.command, *limits, *call.words], folder, timeout, meanwhile)
        if process.returncode == 0 and (folder / COMPILED).is_file():
            return
        shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.executable, "-c", _LAUNCH, *limits, network, "--output-dir", "out", *arguments]
    process = child(command, folder, timeout, meanwhile if call is None else nothing)
    if process.returncode != 0:
        raise failure(process.returncode, process.stderr + process.stdout)


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
    """Compile a .tflite or TOSA ``model`` with Vela's command line; names and values are those of its options.

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
        parsed = read_model(model)
        meanwhile()

    version, tosa = vela_version(), is_tosa(model)
    if legacy and tosa:
        raise InputError(f"Vela's {CORES[1]} core reads no TOSA: leave --debug-force-legacy-core out.")
    options = VelaOptions(
        accelerator, optimise, arena_cache_size, system_config, memory_mode, config, legalise, legacy, debug_database, cpu_operators
    )
    words, call = options.words(), None if tosa else options.direct_call()
    network = "network.tosa" if tosa else "network.tflite"  # by the name Vela tells what it is
    with tempfile.TemporaryDirectory(prefix="npu-testbed-") as name:
        folder = Path(name)
        (folder / network).write_bytes(model)
        _run(words, network, call, folder, time_limit() if timeout is None else timeout, read)
        assert parsed is not None  # noqa: S101  # it was read while Vela ran
        return read_result(folder, parsed, version, CORES[legacy])
