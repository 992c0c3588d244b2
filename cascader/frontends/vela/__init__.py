"""Vela as compiler (the peer that we are compared with) and as legaliser (the front end of the cascader)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cascader.frontends.vela.compiler import compile_network
    from cascader.frontends.vela.compiler_options import CompilerOptions
    from cascader.frontends.vela.legalise import Legalised, alternative, import_network, legalised
    from cascader.frontends.vela.loops import MANY_SPARED
    from cascader.frontends.vela.mend import Mended, mended_network
    from cascader.frontends.vela.naming import named_network
    from cascader.frontends.vela.results import CORES, VelaResult, VelaSummary
    from cascader.frontends.vela.stream_check import checked_network, stream_fault

__all__ = [
    "CORES",
    "MANY_SPARED",
    "CompilerOptions",
    "Legalised",
    "Mended",
    "VelaResult",
    "VelaSummary",
    "alternative",
    "checked_network",
    "compile_network",
    "import_network",
    "legalised",
    "mended_network",
    "named_network",
    "stream_fault",
]

_MODULES = {
    "compiler": ("compile_network",),
    "compiler_options": ("CompilerOptions",),
    "legalise": ("Legalised", "alternative", "import_network", "legalised"),
    "loops": ("MANY_SPARED",),
    "mend": ("Mended", "mended_network"),
    "naming": ("named_network",),
    "results": ("CORES", "VelaResult", "VelaSummary"),
    "stream_check": ("checked_network", "stream_fault"),
}


def __getattr__(name: str) -> Any:
    """A name of this front, from its module, which is imported then: Vela runs before what reads its answers is there."""
    module = next((module for module, names in _MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
