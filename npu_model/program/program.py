"""Program: the ordered NPU operations with the memory regions that they work on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import accumulate
from typing import Protocol

from msgspec import Struct, field

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
        elements = 1
        for extent in self.shape:
            elements *= extent
        return elements * self.dtype.bytes

    @property
    def byte_range(self) -> ByteRange:
        """Where the array lies."""
        return ByteRange(self.region, self.address, self.address + self.size)


MOVED_WEIGHTS = 1024
"""Bytes of which an address of weights is a multiple from its origin's: a whole number of bursts in any memory system."""


class Moved(Protocol):
    """A kernel with its ``origin``: one that differs from it by its BLOCKDEP and by addresses of feature maps alone.

    Each of its addresses lies a multiple of 16 bytes from the origin's, those of its weights and scales a multiple of
    :data:`MOVED_WEIGHTS`. Regions and lengths are the same. What depends on nothing else, nor on what the bytes are, is the same for both.
    """

    @property
    def kernel(self) -> KernelOperation:
        """The kernel."""

    @property
    def origin(self) -> KernelOperation:
        """The operation that it was made of."""

    @property
    def home(self) -> KernelOperation:
        """One with the same streams of weights, all in the constants."""


class Program(Noted, frozen=True):
    """The work that the NPU runs: operations in stream order, with regions, inputs and outputs.

    ``words[i]`` counts the command-stream words (32-bit) from the end of operation ``i - 1`` to the end of
    operation ``i``: what the command processor fetches and parses for it. ``names[i]`` is the layer that
    operation ``i`` belongs to ("" if unknown); names are annotations and take no part in equality.

    ``moved`` tells by the identity of kernels, here or elsewhere, of what they were made; it takes no part in equality either.

    Regions are sorted by index. Two regions may alias one memory only as the driver binds them: Vela's
    scratch (1) and fast scratch (2) are the same tensor unless the memory mode is Dedicated_Sram.
    """

    unshown = ("moved",)
    notes = ("names", "moved")

    accelerator: str
    operations: tuple[Operation, ...]
    words: tuple[int, ...]
    regions: tuple[Region, ...]
    inputs: tuple[Binding, ...] = ()
    outputs: tuple[Binding, ...] = ()
    names: tuple[str, ...] = ()
    moved: Mapping[int, Moved] = field(default_factory=dict)

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
        """Byte offset of each kernel's command in the stream, by the index of its operation: the command is the last word that it takes."""
        ends = enumerate(accumulate(self.words))
        return {index: (end - 1) * WORD_BYTES for index, end in ends if isinstance(self.operations[index], KernelOperation)}

    @property
    def transfers(self) -> tuple[DmaOperation, ...]:
        """The DMA operations, in order."""
        return tuple(op for op in self.operations if isinstance(op, DmaOperation))

    def origin(self, kernel: KernelOperation) -> KernelOperation:
        """The kernel that another one was made of, itself if that is unknown."""
        made_of = self.made_of(kernel)
        return kernel if made_of is None else made_of.origin

    def made_of(self, kernel: KernelOperation) -> Moved | None:
        """The values that a kernel was made of; None if these are unknown."""
        moved = self.moved.get(id(kernel))
        return moved if moved is not None and moved.kernel is kernel else None

    def name(self, index: int) -> str:
        """Layer name of operation ``index``, "" if unknown."""
        return self.names[index] if self.names else ""
