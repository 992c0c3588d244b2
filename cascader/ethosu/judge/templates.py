"""Templates: kernels as integers, with addresses relative to their tensors. The core makes rows of operations from them."""

from __future__ import annotations

from array import array
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache

from cascader.ethosu.job.staging import with_staged_weights
from cascader.ethosu.job.transfers import transfers
from cascader.ethosu.network.network import CONSTANTS
from npu_model.command_stream.registers import MAP_REGISTERS, PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.u55.encode import over_earlier_values, set_kernel, set_weights
from npu_model.command_stream.writer import RegisterWriter
from npu_model.cost.traversal import block_count
from npu_model.program import ActivationKind, ByteRange, FeatureMap, KernelOperation
from npu_model.program.alignment import ALIGNMENT

IFM, OFM, IFM2, STAYS, STAGED, BLOCKDEP = range(6)
"""Causes of a change in an address or a value: one of three tensors, nothing, the copy of the weights, or the previous kernel."""

_LONG = 1 << 10
"""Position of the first register of two words; registers of one word are below."""
_MASK = _LONG - 1

_UNKNOWN = -1
"""Stands for the value of a register that is held."""

_HEAD = 27
"""Integers of a template before its lists: ``Template`` of cascader/ethosu/native/issue.c."""

SHRAM = 1
"""Position of the number of the SHRAM partition, which is 0 until tables give it theirs."""

_MOST = 4096
"""Number of templates that are kept, some 10 megabytes."""

_BASES = tuple(tuple(PAYLOAD_BIT | base.value for base in MAP_REGISTERS[name].bases) for name in ("IFM", "OFM", "IFM2"))
_STREAM_BASES = tuple(PAYLOAD_BIT | Cmd1[f"{name}{core}_BASE"].value for name in ("WEIGHT", "SCALE") for core in ("", "1"))

Offsets = tuple[int, int, int]
"""The offsets in bytes of a kernel's maps (IFM, OFM and IFM2) from their tensors."""


def place(number: int) -> int:
    """The position of a register, by its number with the payload bit."""
    return number & _MASK | (_LONG if number & PAYLOAD_BIT else 0)


def _written(operation: KernelOperation) -> RegisterWriter:
    """The registers of a kernel after other kernels, which may have SET registers that it need not set."""
    writer = RegisterWriter()
    writer.where = f"A {operation.mnemonic}"
    writer.registers.set_short(Cmd0.IFM2_IB_START, _UNKNOWN)
    writer.registers.set_long(Cmd1.OFM_SCALE, _UNKNOWN, _UNKNOWN)
    writer.registers.set_short(Cmd0.PARALLEL_MODE, _UNKNOWN)
    set_kernel(writer, operation)
    return writer


def _maps(operation: KernelOperation) -> Iterator[tuple[int, FeatureMap]]:
    for number, one in enumerate((operation.ifm, operation.ofm, operation.ifm2)):
        if one is not None:
            yield number, one


def _movers(operation: KernelOperation) -> dict[int, int]:
    """The cause of a move for each address register, except for addresses that stay, such as weights at home."""
    found = {Cmd0.BLOCKDEP.value: BLOCKDEP}
    for number, one in _maps(operation):
        if one.region != CONSTANTS:
            moved = one.moved(ALIGNMENT).tiles.bases
            pairs = zip(_BASES[number], one.tiles.bases, moved, strict=True)
            found |= {register: number for register, base, other in pairs if base != other}
    return found


def _registers(settings: Mapping[int, int], movers: Mapping[int, int], optional: Container[int], offsets: Offsets) -> list[int]:
    """Each register of the kernel: its position, its value, the cause that changes the value, and whether it is SET only if held."""
    found: list[int] = []
    for number, value in settings.items():
        mover = movers.get(number, STAYS)
        at = number & _MASK | (_LONG if number & PAYLOAD_BIT else 0)  # place(number) for a hundred registers
        found += (at, value - offsets[mover] if mover < STAYS else value, mover, number in optional)
    return found


def _staged_registers(at_home: list[int], copied: KernelOperation, where: str) -> list[int]:
    """The registers of a kernel with its weights copied, from its registers with its weights at home."""
    writer, found, places = RegisterWriter(), at_home.copy(), at_home[::4]
    writer.where = where
    set_weights(writer, copied)
    for number, value in writer.settings(but=_UNKNOWN).items():
        at = 4 * places.index(place(number))
        found[at + 1] = value
        if number in _STREAM_BASES:
            found[at + 2] = STAGED
    return found


def _map_ranges(operation: KernelOperation, offsets: Offsets) -> tuple[list[int], list[int], list[int]]:
    """First byte, end (exclusive), region and mover of each tile of the maps that are read, and of the map that is written.

    Then the bytes from the first to the last of IFM, OFM and IFM2, and its region; region -1 for a constant, or if there is none.
    """
    ranges: tuple[list[int], list[int]] = [], []
    spans = [0, 0, -1] * 3
    for number, one in _maps(operation):
        offset, mover = (0, STAYS) if one.region == CONSTANTS else (offsets[number], number)
        flat, found = ranges[number == OFM], one.byte_ranges()
        for span in found:
            flat += (span.start - offset, span.end - offset, span.region, mover)
        if mover < STAYS:
            spans[3 * number : 3 * number + 3] = found[0].start - offset, max([span.end for span in found]) - offset, one.region
    return *ranges, spans


def _streams(spans: Iterable[ByteRange], mover: int) -> Iterator[int]:
    for span in spans:
        yield from (span.start, span.end, span.region, mover)


def _pieces(operation: KernelOperation, offsets: Offsets) -> Iterator[int]:
    """For each transfer that replaces a copying kernel: source region and byte, target region and byte, and length."""
    for one in transfers(operation):
        yield from (one.source.region, one.source.start - offsets[IFM], one.destination_region, one.destination - offsets[OFM], one.length)


@lru_cache(_MOST)
def template(operation: KernelOperation, offsets: Offsets, *, is_transfer: bool) -> array[int]:
    """A kernel whose tensors begin at address 0, its weights at home, as integers.

    Lists follow the head, which says where they begin and how many items each has. Forms of a network share many kernels.
    """
    copied = with_staged_weights(operation, 0)
    has_copy = copied.weights != operation.weights or copied.scales != operation.scales
    writer, movers = _written(operation), _movers(operation)
    optional = {one.value | (PAYLOAD_BIT if isinstance(one, Cmd1) else 0) for one in over_earlier_values(operation)}
    at_home = _registers(writer.settings(but=_UNKNOWN), movers, optional, offsets)
    moved = _staged_registers(at_home, copied, writer.where) if has_copy else []
    table = operation.activation.lut if operation.activation.kind is ActivationKind.LUT else -1
    read, written, spans = _map_ranges(operation, offsets)
    lists = (
        (4, read),
        (4, written),
        (4, _streams((*operation.weights, *operation.scales), STAYS)),
        (4, _streams((*copied.weights, *copied.scales), STAGED)),
        (4, at_home),
        (4, moved),
        (5, _pieces(operation, offsets) if is_transfer else ()),
    )
    flat, places = array("q", bytes(8 * _HEAD)), []
    for width, items in lists:
        begin = len(flat)
        flat.extend(items)
        places.append((begin, (len(flat) - begin) // width))
    reads, writes, home, staged, own, others, pieces = places
    head = (block_count(operation), 0, operation.ofm.region, table, *spans, *reads, *writes, *home, *staged)
    flat[:_HEAD] = array("q", (*head, own[0], others[0], own[1], others[1], *pieces))
    return flat
