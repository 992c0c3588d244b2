"""Figures that many documents have, each with its unit or its meaning, and parts: where a network runs, and in which runtimes."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from npu_testbed.documents.document import Entry, meaning

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


class InputsOutputsEntry(Entry, frozen=True):
    """Inputs and outputs of a network, and the regions outside the arena."""

    io_bytes: Annotated[int, meaning("Bytes of inputs and outputs, wherever they live.")]
    outside_bytes: OutsideBytes
    homes: tuple[HomeEntry, ...]


InputsOutputs = Annotated[InputsOutputsEntry, meaning("Inputs and outputs of the network, and what lives outside the arena.")]


class HazardEntry(Entry, frozen=True):
    """A hazard: its sentence, its program, and the operations that it is between (only one if that operation's own partition is wrong)."""

    text: str
    program: int
    operations: tuple[int, ...]
    shared_bytes: int


Hazards = Annotated[
    tuple[HazardEntry, ...], meaning("What no wait, BLOCKDEP, order of the queues or partition of the shared buffer guarantees.")
]


class OwnShareEntry(Entry, frozen=True):
    """Bytes that a runtime takes for itself."""

    least: int = field(name="least_bytes")
    most: int = field(name="most_bytes")


_OWN = meaning("Bytes that the runtime takes for itself; null if not measured.")


class RuntimeEntry(Entry, frozen=True):
    """A network in a runtime; all figures are 0 if the runtime cannot run it."""

    runtime: Annotated[str, meaning("tflm, executorch or bare.")]
    set_aside_bytes: Annotated[int, meaning("Bytes that the application sets aside for the runtime.")]
    planned: Annotated[int, meaning("Bytes of the arena that the file asks for.")] = field(name="file_bytes")
    placed: Annotated[int, meaning("Bytes of inputs and outputs that the runtime places itself.")] = field(name="placed_bytes")
    own: Annotated[OwnShareEntry | None, _OWN] = field(name="own_bytes")
    cycles: Annotated[int | None, meaning("NPU cycles in this runtime; null where nothing was replayed.")] = field(name="npu_cycles")
    ports: Annotated[dict[str, int], meaning("AXI port of each region that the network uses, by its number.")]
    refused: Annotated[str, meaning("Why the runtime cannot run the network; empty if it can.")]


Runtimes = Annotated[tuple[RuntimeEntry, ...], meaning("What each runtime sets aside, and the NPU cycles there.")]
