"""Vela as compiler (the peer of our comparisons) and as legaliser (the front end of the cascader)."""

from __future__ import annotations

from npu_model.front import front

# Vela runs before the modules that read its answers are imported.
with front() as __getattr__:
    from cascader.frontends.vela.compiler import compile_network
    from cascader.frontends.vela.compiler_options import CompilerOptions
    from cascader.frontends.vela.debug_database import named_network
    from cascader.frontends.vela.installed import vela_tools
    from cascader.frontends.vela.known_tensors import with_own_shapes
    from cascader.frontends.vela.legalise import MANY_SPARED, Legalised, alternative, import_network, legalised
    from cascader.frontends.vela.mend import mended_network
    from cascader.frontends.vela.result import CORES, VelaResult
    from cascader.frontends.vela.stream_check import checked_network

__all__ = [
    "CORES", "MANY_SPARED", "CompilerOptions", "Legalised", "VelaResult", "alternative", "checked_network", "compile_network",
    "import_network", "legalised", "mended_network", "named_network", "vela_tools", "with_own_shapes",
]  # fmt: skip
