"""Flash: the bytes of constants and command streams that a compiled network takes there."""

from __future__ import annotations

from npu_model.compiled.network import CompiledNetwork
from npu_model.program import RegionRole

_WORD = 4
"""Bytes of a word of a command stream."""


def flash_bytes(compiled: CompiledNetwork) -> int:
    """Bytes of all weights, scales and tables, which several Programs may share, and of the words of all command streams."""
    regions = (region for program in compiled.programs for region in program.regions if region.role is RegionRole.CONSTANTS)
    constants = {region.content: region.size for region in regions}
    return sum(constants.values()) + _WORD * sum(sum(program.words) for program in compiled.programs)
