"""Figures that many documents have, each with its unit or its meaning."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import meaning

Bytes = Annotated[int, meaning("Bytes.")]
Cycles = Annotated[int, meaning("NPU cycles.")]
ArenaBytes = Annotated[int, meaning("Bytes of the arena.")]
OutsideBytes = Annotated[int, meaning("Bytes of the tensors that live outside the arena, which counts none of them.")]
Files = Annotated[dict[str, int], meaning("Bytes written, by path.")]
Timing = Annotated[dict[str, int | bool | str], meaning("Timing parameters that differ from the model's.")]
