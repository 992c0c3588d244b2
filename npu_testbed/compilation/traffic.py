"""Bytes that a replayed network moves over each memory, by what they are: feature maps, weights, anything else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.cost.flat_work import MovedWords, moved_words
from npu_model.memory.system import Memory, MemorySystem
from npu_model.program import DmaOperation, KernelOperation, Operation, Program, RegionRole
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING
from npu_model.weight_stream.work import stream_work
from sim import Beats, NetworkReplay

KINDS = {"sram": "SRAM", "dram": "DRAM", "on_chip_flash": "On-chip Flash", "off_chip_flash": "Off-chip Flash"}
"""Kinds of memories, as the columns of Vela's summary name them, with Vela's words for each."""

_KIND_OF = {"sram": "sram", "dram": "dram", "onchipflash": "on_chip_flash", "offchipflash": "off_chip_flash", "ext": "off_chip_flash"}
"""Names of memories in Vela's configuration and in timing-adapter profiles, in lower case."""


def memory_kind(memory: Memory) -> str:
    """The kind of a memory.

    >>> memory_kind(Memory("OffChipFlash", 64, 0))
    'off_chip_flash'
    """
    return _KIND_OF[memory.name.lower()]


def cycles_per_word(memory: Memory) -> Fraction:
    """Cycles of a data word when a memory is never idle, including the pulse and the cap of its timing adapter."""
    pulse = memory.pulse
    if pulse is None:
        return memory.cycles_per_word
    period = pulse.on + pulse.off
    gated = memory.cycles_per_word * Fraction(period, pulse.on)
    return max(gated, Fraction(period, pulse.cap_words)) if pulse.cap_words else gated


class ClassBytes(Struct, frozen=True):
    """Bytes of one memory in whole data beats; ``total`` has scales, tables and the command stream as well."""

    feature_map_read: int = 0
    feature_map_write: int = 0
    weight_read: int = 0
    weight_write: int = 0
    total: int = 0


_Moved = Counter[tuple[int, str]]
"""Data beats by port and class."""


def _of_kernel(op: KernelOperation, words: MovedWords, system: MemorySystem) -> _Moved:
    moved: _Moved = Counter()
    for what, found in (("feature_map_read", words.fetched), ("weight_read", words.weights)):
        for region, count in found.items():
            moved[system.port_of(region), what] += count
    moved[system.port_of(op.ofm.region), "feature_map_write"] += words.written
    return moved


def _of_transfer(op: DmaOperation, program: Program, system: MemorySystem, word: int) -> _Moved:
    """The class of a transfer: a copy of constants counts as weights, with any scales in it; a table for SHRAM is in neither class."""
    if op.to_shram:
        return Counter()
    is_constant = any(r.index == op.source.region and r.role is RegionRole.CONSTANTS for r in program.regions)
    what, words = "weight" if is_constant else "feature_map", ceil_div(op.length, word)
    moved: _Moved = Counter({(system.port_of(op.source.region), f"{what}_read"): words})
    moved[system.port_of(op.destination_region), f"{what}_write"] += words
    return moved


def _moved(operations: Iterator[tuple[int, Operation]], program: Program, system: MemorySystem) -> _Moved:
    device, moved = accelerator(program.accelerator), _Moved()
    work = stream_work(program, device) if DEFAULT_TIMING.decodes_streams else {}
    for index, op in operations:
        if isinstance(op, KernelOperation):
            moved.update(_of_kernel(op, moved_words(op, device, DEFAULT_TIMING, work.get(index, ())), system))
        elif isinstance(op, DmaOperation):
            moved.update(_of_transfer(op, program, system, device.port_bytes_per_cycle))
    return moved


def port_beats(beats: Beats) -> tuple[int, int]:
    """Data beats of AXI0 and AXI1."""
    return beats.axi0_read + beats.axi0_write, beats.axi1_read + beats.axi1_write


def class_bytes(replay: NetworkReplay) -> Mapping[str, ClassBytes]:
    """The bytes that a network moves, by the kind of memory."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in replay.replays:
        word = one.accelerator.port_bytes_per_cycle
        kinds = [memory_kind(memory) for memory in one.system.ports]
        for (port, what), beats in _moved(iter(enumerate(one.program.operations)), one.program, one.system).items():
            found[kinds[port]][what] += beats * word
        for kind, beats in zip(kinds, port_beats(one.beats), strict=True):
            found[kind]["total"] += beats * word
    return {kind: ClassBytes(**found[kind]) for kind in KINDS}


def access_cycles(beats: Beats, system: MemorySystem) -> dict[str, int]:
    """The least cycles in which the memory of each kind moves its data beats, reads and writes one after the other."""
    cycles = dict.fromkeys(KINDS, Fraction(0))
    for memory, count in zip(system.ports, port_beats(beats), strict=True):
        cycles[memory_kind(memory)] += count * cycles_per_word(memory)
    return {kind: -(-value.numerator // value.denominator) for kind, value in cycles.items()}
