"""A compilation by Vela: the compiled file, and Vela's output."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cascader.frontends.vela.compiler_options import CompilerOptions
from npu_model.brief import Noted
from npu_model.errors import UnfinishedError

CORES = ("C++", "Python")
"""Vela's cores: Regor, the default, and the older one of ``--debug-force-legacy-core``."""


class VelaSummary(Struct, frozen=True):
    """Vela's own estimate: the arena's peak in bytes, and all cycles."""

    sram_memory_used: int
    cycles_total: int


class VelaResult(Noted, frozen=True):
    """A compilation: the compiled .tflite file and what Vela says of it.

    ``layers`` has one table per command stream, from the byte offset of a kernel command to its layer's name. It is empty if the
    compilation has no debug database, whose text is ``database``. ``core`` is one of :data:`CORES`. ``said`` is Vela's printed output.
    ``cpu_operators`` are the operator types that the user left on the CPU.
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
"""Earlier compilations of a model: the result of each, or that it did not end in time."""

NOTHING_KNOWN: Known = {}
