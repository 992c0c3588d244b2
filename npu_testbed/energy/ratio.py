"""The energy of a replay by a table, and the ratio of two."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import printable
from npu_model.program import KernelOperation
from npu_testbed.energy.table import EnergyTable
from sim import NetworkReplay


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
