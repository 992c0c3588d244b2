"""Estimates: what kernels cost in their best blocks, by which forms of a network are compared before anything is searched."""

from __future__ import annotations

from collections.abc import Iterable

from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.network import ethosu_part
from cascader.graph.cascader_graph import Part
from npu_model.accelerator import Accelerator


def kernel_cycles(parts: Iterable[Part], accelerator: Accelerator, sources: Sources) -> dict[str, float]:
    """Estimated cycles of the kernels among some parts, by name, each in its best block of the depth of its weights."""
    payloads = ((part.name, ethosu_part(part)) for part in parts)
    return {name: choose_block(payload.operation, accelerator, sources)[1] for name, payload in payloads if payload is not None}
