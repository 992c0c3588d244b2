"""Vela as compiler (the peer of our comparisons) and as legaliser (the front end of the cascader)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_model.front import front

if TYPE_CHECKING:
    from cascader.frontends.vela.compiler import compile_network
    from cascader.frontends.vela.compiler_options import CompilerOptions
    from cascader.frontends.vela.debug_database import named_network
    from cascader.frontends.vela.installed import vela_tools
    from cascader.frontends.vela.known_faults import known_fault
    from cascader.frontends.vela.known_tensors import prepared, with_own_shapes
    from cascader.frontends.vela.legalise import MANY_SPARED, Legalised, alternative, import_network, legalised
    from cascader.frontends.vela.mend import Mended, mended_network, with_whole_bytes
    from cascader.frontends.vela.model_changes import with_simpler_operators, without_constant_outputs, without_identities
    from cascader.frontends.vela.moves import spared_kernels
    from cascader.frontends.vela.result import CORES, VelaResult, VelaSummary
    from cascader.frontends.vela.state_order import state_fault
    from cascader.frontends.vela.stream_check import checked_network, stream_fault

_MODULES = {
    "compiler": ("compile_network",),
    "compiler_options": ("CompilerOptions",),
    "debug_database": ("named_network",),
    "known_faults": ("known_fault",),
    "known_tensors": ("prepared", "with_own_shapes"),
    "installed": ("vela_tools",),
    "legalise": ("MANY_SPARED", "Legalised", "alternative", "import_network", "legalised"),
    "mend": ("Mended", "mended_network", "with_whole_bytes"),
    "model_changes": ("with_simpler_operators", "without_constant_outputs", "without_identities"),
    "moves": ("spared_kernels",),
    "result": ("CORES", "VelaResult", "VelaSummary"),
    "state_order": ("state_fault",),
    "stream_check": ("checked_network", "stream_fault"),
}
__all__ = [
    "CORES", "MANY_SPARED", "CompilerOptions", "Legalised", "Mended", "VelaResult", "VelaSummary", "alternative", "checked_network",
    "compile_network", "import_network", "known_fault", "legalised", "mended_network", "named_network", "prepared", "spared_kernels",
    "state_fault", "stream_fault", "vela_tools", "with_own_shapes", "with_simpler_operators", "with_whole_bytes",
    "without_constant_outputs", "without_identities",
]  # fmt: skip

# Vela runs before the modules that read its answers are imported.
__getattr__ = front(__name__, {f"{__name__}.{module}": names for module, names in _MODULES.items()})
