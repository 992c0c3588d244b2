"""CompilerOptions: the options for one run of Vela, by Vela's own names."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import force_setattr

from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator
from npu_model.errors import InputError

DEFAULT_CONFIG = "Arm/vela.ini"
SYSTEM_CONFIGS = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_High_End", "u85": "Ethos_U85_SYS_DRAM_Mid"}
"""The system config of each family where none is named."""
DEFAULT_MEMORY_MODE = "Shared_Sram"

TENSOR_ALIGNMENT = 16
"""Vela's default of ``--cpu-tensor-alignment``, in bytes."""

_LEGALISE = ("--disable-cascading", "--disable-buffering", "--disable-chaining", "--disable-fwd", "--disable-ifm-reuse")
"""With these options and LinearAlloc Vela emits one kernel per operator, and every tensor has an address of its own."""

_LEGALISE_PYTHON = "Sram_Only"
"""The memory mode that makes the Python core do the same. It knows none of the other options, and it copies weights out of slower memories.
"""


class CompilerOptions(Struct, frozen=True):
    """The options of one compilation: names and values are those of Vela's command line.

    ``legalise`` asks for one kernel per operator and one address range per tensor, which :func:`lift` reads. ``legacy`` asks for the
    Python core in place of Regor. ``cpu_operators`` are builtin operators to leave on the CPU (``--ignore-ops``).
    ``separate_io_regions`` gives inputs and outputs their own regions, which Vela writes as COP2. An empty ``system_config`` is the
    default of the accelerator's family, and ``config`` None is Vela's own vela.ini. ``cpu_tensor_alignment`` aligns the tensors of
    CPU and custom operators, in bytes: a power of 2, 16 or more.
    """

    accelerator: str = DEFAULT_ACCELERATOR
    optimise: str = "Performance"
    arena_cache_size: int | None = None
    system_config: str = ""
    memory_mode: str = DEFAULT_MEMORY_MODE
    config: Path | None = None
    legalise: bool = False
    legacy: bool = False
    debug_database: bool = True
    cpu_operators: tuple[str, ...] = ()
    separate_io_regions: bool = False
    cpu_tensor_alignment: int = TENSOR_ALIGNMENT

    def __post_init__(self) -> None:
        if not self.system_config:
            force_setattr(self, "system_config", SYSTEM_CONFIGS[accelerator(self.accelerator).family])

    def words(self) -> list[str]:
        """The words of Vela's command line; InputError if one of the options is wrong."""
        if self.optimise not in ("Performance", "Size"):
            raise InputError(f"--optimise {self.optimise!r} is unknown: choose Performance or Size.")
        require_family(self.accelerator, self.system_config)
        if self.config is not None and not self.config.is_file():
            raise InputError(f"Vela configuration file {str(self.config)!r} does not exist: give the path of an .ini file.")
        words = ["--accelerator-config", accelerator(self.accelerator).name, "--optimise", self.optimise]
        words += ["--config", DEFAULT_CONFIG if self.config is None else str(self.config.resolve())]
        memory_mode = _LEGALISE_PYTHON if self.legalise and self.legacy else self.memory_mode
        words += ["--system-config", self.system_config, "--memory-mode", memory_mode]
        if self.arena_cache_size is not None:
            if self.arena_cache_size < 1:
                raise InputError(f"--arena-cache-size {self.arena_cache_size} is below 1: give a number of bytes.")
            words += ["--arena-cache-size", str(self.arena_cache_size)]
        if self.legalise:
            words += ["--tensor-allocator", "LinearAlloc", *(() if self.legacy else _LEGALISE)]
        return words + self._switches()

    def _switches(self) -> list[str]:
        """The words for options that differ from Vela's defaults."""
        words = []
        if self.legacy:
            words.append("--debug-force-legacy-core")
        if self.debug_database:
            words.append("--enable-debug-db")
        if self.separate_io_regions:
            words += ["--separate-io-regions", "--cop-format", "COP2"]
        if self.cpu_tensor_alignment != TENSOR_ALIGNMENT:
            words += ["--cpu-tensor-alignment", str(self.cpu_tensor_alignment)]
        if self.cpu_operators:
            words += ["--ignore-ops", ",".join(self.cpu_operators)]
        return words


DEFAULT_OPTIONS = CompilerOptions()


def legalising(accelerator_name: str, cpu_operators: tuple[str, ...] = ()) -> CompilerOptions:
    """The options that make Vela's C++ core a legaliser and leave these operators on the CPU."""
    return CompilerOptions(accelerator_name, legalise=True, cpu_operators=cpu_operators)


def require_family(name: str, system_config: str) -> None:
    """InputError if the system config belongs to another NPU family."""
    family = f"Ethos_{accelerator(name).family.upper()}"
    # A vendor may use any name. For an unknown one Vela counts 16 bytes a cycle in its estimates, and its plans for such a file rest on
    # that.
    if system_config.startswith("Ethos_U") and not system_config.startswith(family):
        raise InputError(f"System config {system_config!r} is another NPU's, as {name} is an {family}: choose one of that family.")
