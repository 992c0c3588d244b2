"""Parts that say where a network runs: its memory system, and the homes of its inputs and outputs."""

from __future__ import annotations

from typing import Annotated

from npu_testbed.documents.document import Entry, meaning
from npu_testbed.documents.units import Bytes, OutsideBytes, Sha256


class MemorySystemEntry(Entry, frozen=True):
    """A memory system by its name, its clock and the digest of its values."""

    name: str
    sha256: Sha256
    clock_hz: Annotated[int, meaning("NPU clock in Hz.")]


class HomeEntry(Entry, frozen=True):
    """A region outside the arena."""

    region: Annotated[int, meaning("Base pointer, 3 to 7.")]
    port: Annotated[int, meaning("AXI port, 0 or 1.")]
    bytes: Bytes


class EndsEntry(Entry, frozen=True):
    """Inputs and outputs of a network, and the regions outside the arena."""

    io_bytes: Annotated[int, meaning("Bytes of inputs and outputs, wherever they live.")]
    outside_bytes: OutsideBytes
    homes: tuple[HomeEntry, ...]


NetworkEnds = Annotated[EndsEntry, meaning("Inputs and outputs of the network, and what lives outside the arena.")]


class HazardEntry(Entry, frozen=True):
    """A hazard: its sentence, its program, and the operations that it is between (only one if that operation's own partition is wrong)."""

    text: str
    program: int
    operations: tuple[int, ...]
    shared_bytes: int


Hazards = Annotated[
    tuple[HazardEntry, ...], meaning("What no wait, BLOCKDEP, order of the queues or partition of the shared buffer guarantees.")
]
