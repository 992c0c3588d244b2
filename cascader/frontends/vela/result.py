"""A compilation by Vela: the compiled file, and what Vela says of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cascader.frontends.vela.compiler_options import CompilerOptions
from npu_model.brief import Noted
from npu_model.errors import UnfinishedError

CORES = ("C++", "Python")
"""Vela's cores: Regor, the default, and the older one that ``--debug-force-legacy-core`` asks for."""


class VelaSummary(Struct, frozen=True):
    """Vela's own estimate: the arena's peak in bytes, and cycles in all."""

    sram_memory_used: int
    cycles_total: int


class VelaResult(Noted, frozen=True):
    """A compilation: the compiled .tflite file and what Vela says of it.

    ``layers`` has one table per command stream, from the byte offset of a kernel command to its layer's name; it is
    empty if the compilation was asked for no debug database, whose text is ``database``. ``core`` is one of :data:`CORES`. ``said`` is
    what Vela printed, and ``cpu_operators`` are the types of operators that it was asked to leave on the CPU.
    """

    unshown = ("compiled", "layers", "database", "said")
    notes = ("said",)

    compiled: bytes
    layers: tuple[dict[int, str], ...]
    summary: VelaSummary
    version: str
    database: str = ""
    core: str = CORES[0]
    said: str = ""
    cpu_operators: tuple[str, ...] = ()


Known = Mapping[CompilerOptions, VelaResult | UnfinishedError]
"""Compilations of a model that were made before: the result of each, or that it did not end in time."""

NOTHING_KNOWN: Known = {}
