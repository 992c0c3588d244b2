"""The energy of a replay by a table, and two energies side by side: only ratios and shares."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.program import KernelOperation
from npu_testbed.documents.differences import EnergyRatioEntry, EnergySharesEntry
from npu_testbed.energy.table import ILLUSTRATIVE, EnergyTable
from sim import NetworkReplay
from validation.layout import filled, grid


class Energy(Struct, frozen=True):
    """The energy of one replay by consumer. Its unit is the table's, so that only ratios and shares are shown."""

    parts: Mapping[str, Fraction]

    @property
    def whole(self) -> Fraction:
        """The sum of the parts."""
        return sum(self.parts.values(), Fraction(0))

    def share(self, part: str) -> float:
        """A part of the whole, 0 to 1."""
        return float(self.parts.get(part, Fraction(0)) / self.whole) if self.whole else 0.0


def energy(replay: NetworkReplay, table: EnergyTable) -> Energy:
    """The energy of a replay; InputError if the table lacks one of its memories.

    Every multiply-accumulate of the kernels counts, including those that stripes repeat. So does every data beat of a port, including the
    fetch of commands, and every cycle of NPU ACTIVE. Operators on the CPU do not count.
    """
    parts: dict[str, Fraction] = {}

    def add(part: str, amount: Fraction) -> None:
        parts[part] = parts.get(part, Fraction(0)) + amount

    for one in replay.replays:
        add("multiply-accumulates", sum(op.op.macs for op in one.operations if isinstance(op.op, KernelOperation)) * table.mac)
        beats, word = one.beats, one.accelerator.port_bytes_per_cycle
        counted = ((beats.axi0_read, beats.axi0_write), (beats.axi1_read, beats.axi1_write))
        for memory, (reads, writes) in zip(one.system.ports, counted, strict=True):
            if not reads and not writes:
                continue
            if memory.name not in table.memories:
                names = printable(", ".join(table.memories))
                raise InputError(f"The energy table {printable(table.name)} has no [memory.{memory.name}] but {names}: add it.")
            read, write = table.memories[memory.name]
            add(memory.name, (reads * read + writes * write) * word)
        active = min(one.pmu()["MAC_ACTIVE"], one.cycles)
        add("cycles of the MAC array", active * table.active)
        add("other cycles", (one.cycles - active) * table.idle)
    return Energy(parts)


def energy_ratio(ours: Energy, others: Energy) -> float:
    """The energy of one replay per unit of the other's; InputError if the table makes the other's energy zero."""
    if not others.whole:
        raise InputError("By the energy table nothing takes energy, so that there is no ratio: write figures above 0.")
    return float(ours.whole / others.whole)


UNIT = "Figures of a table say nothing of joules: only their ratio is shown."
MADE_UP = "The table illustrative is of no device: give one of your own."


def caveat(table: str) -> str:
    """The sentence that says how the ratios of a table must not be read."""
    return f"{UNIT} {MADE_UP}" if table == ILLUSTRATIVE else UNIT


def _parts(before: Energy, after: Energy) -> list[str]:
    return [part for part in dict.fromkeys((*before.parts, *after.parts)) if before.parts.get(part) or after.parts.get(part)]


def energy_text(table: str, before: Energy, after: Energy) -> str:
    """The ratio of the whole and of each part, with the shares on both sides."""
    rows = []
    for part in _parts(before, after):
        first, last = before.parts.get(part, 0), after.parts.get(part, 0)
        ratio = f"{float(last / first):.3f}" if first else "-"
        rows.append((part, f"{before.share(part):.1%}", f"{after.share(part):.1%}", ratio))
    rows.append(("whole", "100.0%", "100.0%", f"{energy_ratio(after, before):.3f}"))
    headers = (f"energy by {printable(table)}", "share before", "share after", "after / before")
    return f"{grid(headers, rows, (True, False, False, False))}\n{filled(caveat(table))}"


def energy_json(table: str, before: Energy, after: Energy) -> EnergyRatioEntry:
    """The same as values that JSON can hold."""
    parts = tuple(EnergySharesEntry(part, before.share(part), after.share(part)) for part in _parts(before, after))
    return EnergyRatioEntry(table, energy_ratio(after, before), parts)
