"""Program: the ordered NPU operations with the memory regions that they work on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import accumulate
from math import prod
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from npu_model.brief import Brief, Noted
from npu_model.program.feature_map import ByteRange, DataType
from npu_model.program.operations import DmaOperation, KernelOperation, Operation

WORD_BYTES = 4
"""Bytes of a word of the command stream."""


class RegionRole(Enum):
    """Content of a base-pointer region; HOME: tensors that live outside the arena, such as the network's inputs and outputs."""

    CONSTANTS = "constants"
    ARENA = "arena"
    FAST_SCRATCH = "fast scratch"
    HOME = "home"
    UNUSED = "unused"


class Region(Brief, frozen=True):
    """One base-pointer region: its role, its size in bytes and, for constants, its content."""

    unshown = ("content",)

    index: int
    role: RegionRole
    size: int
    content: bytes = b""


class Quantisation(Struct, frozen=True):
    """Affine quantisation of a network tensor: real = scale * (value - zero_point)."""

    scale: float
    zero_point: int


class Binding(Struct, frozen=True):
    """An input or output of the program: a named NHWC array at an address of a region.

    ``shape`` is the tensor's shape in the network, of any rank.
    """

    name: str
    region: int
    address: int
    shape: tuple[int, ...]
    dtype: DataType
    quantisation: Quantisation | None = None

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return prod(self.shape) * self.dtype.bytes

    @property
    def byte_range(self) -> ByteRange:
        """The bytes of the array."""
        return ByteRange(self.region, self.address, self.address + self.size)


class Program(Noted, frozen=True):
    """The work that the NPU runs: operations in stream order, with regions, inputs and outputs.

    ``words[i]`` counts the command-stream words (32-bit) from the end of operation ``i - 1`` to the end of operation ``i``: the words that
    the command processor fetches and parses for it. ``names[i]`` is the layer that operation ``i`` belongs to ("" if unknown); names are
    annotations and take no part in equality.

    Regions are sorted by index. Two regions may alias one memory only as the driver binds them: Vela's scratch (1) and fast scratch (2) are
    the same tensor unless the memory mode is Dedicated_Sram.
    """

    notes = ("names",)

    accelerator: str
    operations: tuple[Operation, ...]
    words: tuple[int, ...]
    regions: tuple[Region, ...]
    inputs: tuple[Binding, ...] = ()
    outputs: tuple[Binding, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.words) != len(self.operations):
            raise ValueError(f"{len(self.words)} word counts for {len(self.operations)} operations: one each is needed.")
        if self.names and len(self.names) != len(self.operations):
            raise ValueError(f"{len(self.names)} names for {len(self.operations)} operations: one each, or none, is needed.")

    def region(self, index: int) -> Region:
        """The region with this index; KeyError if the program has none."""
        for region in self.regions:
            if region.index == index:
                return region
        raise KeyError(index)

    @property
    def kernels(self) -> tuple[KernelOperation, ...]:
        """The kernel operations, in order."""
        return tuple(op for op in self.operations if isinstance(op, KernelOperation))

    @property
    def kernel_offsets(self) -> dict[int, int]:
        """Byte offset of each kernel's command in the stream, by the index of its operation. The command is the operation's last word."""
        ends = enumerate(accumulate(self.words))
        return {index: (end - 1) * WORD_BYTES for index, end in ends if isinstance(self.operations[index], KernelOperation)}

    @property
    def transfers(self) -> tuple[DmaOperation, ...]:
        """The DMA operations, in order."""
        return tuple(op for op in self.operations if isinstance(op, DmaOperation))

    def keeping(self, kept: Sequence[int], operations: Iterable[Operation]) -> Program:
        """The program with one of the ``operations`` in place of each that is ``kept``, by its index, and without the others."""
        return replace(
            self,
            operations=tuple(operations),
            words=tuple(self.words[index] for index in kept),
            names=tuple(self.names[index] for index in kept) if self.names else (),
        )

    def name(self, index: int) -> str:
        """Layer name of operation ``index``, "" if unknown."""
        return self.names[index] if self.names else ""


T = TypeVar("T")


class ConstantOutput(Brief, frozen=True):
    """An output with its values: ``place`` is its number among all outputs of the network, ``content`` its bytes, row-major."""

    unshown = ("content",)

    place: int
    name: str
    shape: tuple[int, ...]
    dtype: DataType
    content: bytes
    quantisation: Quantisation | None = None


def in_order(written: Sequence[T], constants: Sequence[ConstantOutput], made: Sequence[T]) -> list[T]:
    """Put the outputs of a network in their order: ``written`` are its operators' outputs, ``made`` the outputs of the ``constants``.

    >>> one = ConstantOutput(1, "anchors", (2,), DataType(8, signed=True), bytes(2))
    >>> in_order(["boxes", "scores"], [one], ["anchors"])
    ['boxes', 'anchors', 'scores']
    """
    result = list(written)
    for constant, item in sorted(zip(constants, made, strict=True), key=lambda pair: pair[0].place):
        result.insert(constant.place, item)
    return result
