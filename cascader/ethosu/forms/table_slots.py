"""Table slots: consecutive look-up tables lie in different slots of SHRAM, so that one is loaded while the last is used.

A compiler that runs a network layer by layer may load every table into the same slot. The load must then wait for the last kernel that uses
the slot. The command processor waits too, and with it every later copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cascader.ethosu.network.network import LUT_SLOT, EthosuPart, LutLoad, Network
from npu_model.accelerator import Accelerator

_SLOTS = 8
"""Slots of a look-up table in SHRAM (core driver)."""


def _free_slots(tables: Sequence[LutLoad], accelerator: Accelerator) -> list[int]:
    """The slots that no table of more than one slot uses."""
    taken = [(table.destination, table.destination + table.source.length) for table in tables if table.source.length > LUT_SLOT]
    starts = {slot: accelerator.lut_address + slot * LUT_SLOT for slot in range(_SLOTS)}
    return [slot for slot, at in starts.items() if not any(start < at + LUT_SLOT and at < end for start, end in taken)]


def _moved(payload: EthosuPart, table: LutLoad, slot: int, accelerator: Accelerator) -> EthosuPart:
    activation = replace(payload.operation.activation, lut=slot)
    place = replace(table, destination=accelerator.lut_address + slot * LUT_SLOT)
    return replace(payload, lut=place, operation=replace(payload.operation, activation=activation))


def with_table_slots(network: Network, accelerator: Accelerator) -> Network:
    """``network`` with its one-slot tables in alternating slots; unchanged if other kernels use the tables' banks.

    A table for several kernels stays in one slot as long as no other table has taken the slot.
    """
    kernels = network.kernels
    slots = _free_slots([kernel.lut for kernel in kernels.values() if kernel.lut is not None], accelerator)
    if accelerator.reserved_lut_banks == 0 or not slots:
        return network
    moved, turn = {}, 0
    loaded: dict[int, LutLoad] = {}
    for name, kernel in kernels.items():
        table = kernel.lut
        if table is None or table.source.length > LUT_SLOT:
            continue
        slot = next((slot for slot, other in loaded.items() if other.source == table.source), None)
        if slot is None:
            slot, turn = slots[turn % len(slots)], turn + 1
            loaded[slot] = table
        moved[name] = _moved(kernel, table, slot, accelerator)
    return network.with_kernels(moved)
