"""Figures that many documents have, each with its unit or its meaning."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import meaning

Bytes = Annotated[int, meaning("Bytes.")]
Cycles = Annotated[int, meaning("NPU cycles.")]
ArenaBytes = Annotated[int, meaning("Bytes of the arena.")]
OutsideBytes = Annotated[int, meaning("Bytes of the tensors that live outside the arena, which counts none of them.")]
CarriedBytes = Annotated[
    int, meaning("Bytes that transfers carry between the arena and other homes; what leaves and comes back counts twice.")
]
Files = Annotated[dict[str, int], meaning("Bytes written, by path.")]
Timing = Annotated[dict[str, int | bool | str], meaning("Timing parameters that differ from the model's.")]
Tools = Annotated[dict[str, str], meaning("Versions by tool.")]
Macs = Annotated[int, meaning("Multiply-accumulates of the mathematics.")]
RecomputedMacs = Annotated[int, meaning("Multiply-accumulates that are recomputed: done a second time, by tiles and skips.")]
PlannedCycles = Annotated[int, meaning("Cycles by the device's rates; nothing replays them.")]
DifferingBytes = Annotated[int, meaning("Bytes that differ.")]
Seed = Annotated[int, meaning("Seed of the random numbers.")]
Homes = Annotated[tuple[str, ...], meaning("Pairs WHAT=MEMORY that were asked for.")]
RelativeError = Annotated[float, meaning("Relative difference from the measured value: 0.01 is one per cent.")]
Sha256 = Annotated[str, meaning("SHA-256 in hexadecimal.")]
