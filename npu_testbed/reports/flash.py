"""Flash: a sentence on the bytes of weights and commands, and on how many more they are than for the network layer by layer."""

from __future__ import annotations

from cascader.ethosu.codegen.flash import flash_bytes
from npu_model.compiled.network import CompiledNetwork


def flash_text(compiled: CompiledNetwork, whole: int | None) -> str:
    """The sentence; empty if ``whole``, the bytes for Vela's kernels layer by layer, is not known or as large."""
    taken = flash_bytes(compiled)
    if whole is None or taken == whole:
        return ""
    change = f"{abs(taken - whole):,} {'more' if taken > whole else 'fewer'}"
    return f"Its weights and commands take {taken:,} bytes of flash, {change} than Vela's kernels layer by layer."
