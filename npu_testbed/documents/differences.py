"""The documents of ``check`` and ``diff``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType, field

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import ArenaBytes, Cycles, InputsOutputs, MemorySystemEntry, Timing

_Share = Annotated[float, meaning("Part of one side's energy, 0 to 1.")]


class SideEntry(Entry, frozen=True):
    """A replayed schedule and its totals."""

    model: str
    planner: str
    accelerator: str
    memory_system: MemorySystemEntry
    timing: Timing
    cycles: Cycles
    arena_bytes: ArenaBytes


class LayerCyclesEntry(Entry, frozen=True):
    """A layer and its cycles."""

    layer: str
    cycles: Cycles


class BarEntry(Entry, frozen=True):
    """A figure, its limit, and where the limit is from."""

    what: str
    value: int
    limit: int
    source: str
    is_met: bool = field(name="met")


class CheckDocument(Document, frozen=True, tag="check"):
    """A schedule held to bars; another check reads it as a baseline."""

    subject: SideEntry
    inputs_outputs: InputsOutputs
    layers: tuple[LayerCyclesEntry, ...]
    bars: tuple[BarEntry, ...]
    passed: Annotated[bool, meaning("Whether every bar is met.")]
    schema: Annotated[Literal[3], STRUCTURE] = 3


class MovedEntry(Entry, frozen=True):
    """A layer that differs; null where a side does not have it."""

    layer: str
    cycles_before: int | None
    cycles_after: int | None
    changes: tuple[str, ...]


class EnergySharesEntry(Entry, frozen=True):
    """A part of the NPU and its share of the energy on both sides."""

    part: str
    share_before: _Share
    share_after: _Share


class EnergyRatioEntry(Entry, frozen=True):
    """Energies of two sides by one table, as ratios."""

    table: str
    energy_ratio: Annotated[float, meaning("Energy after for each unit of energy before.")]
    parts: tuple[EnergySharesEntry, ...]


class DiffDocument(Document, frozen=True, tag="diff"):
    """Two replays, and the layers that moved between them."""

    before: SideEntry
    after: SideEntry
    moved: Annotated[tuple[MovedEntry, ...], meaning("Layers that are different, the largest difference of cycles first.")]
    energy: Annotated[EnergyRatioEntry, meaning("The ratio of energies by a table of the user's, with --energy.")] | UnsetType = UNSET
    schema: Annotated[Literal[2], STRUCTURE] = 2
