"""Options: the blocks in which a job may be computed, each with its load on the units."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import overload

from msgspec import Struct

from cascader.ethosu.cost.kernel_load import KernelLoad
from cascader.ethosu.cost.memory_path import Sources
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D


class BlockOption(Struct, frozen=True, eq=False):
    """A block in which a job may be computed, and its partition of the shared buffer.

    ``load`` is its load on the units, with its data from ``sources``. ``cycles`` is the job's cycles alone, with its first weights already
    read. ``latency`` is the cycles until its stored result may be read. ``read_penalty`` is an extra cost. Without its first weights the
    job takes ``lead`` more cycles. In its last ``tail`` cycles the decoder already reads for the next job.
    """

    block: Shape3D
    shram: Shram
    cycles: int
    load: KernelLoad
    sources: Sources
    latency: int
    read_penalty: int = 0
    lead: int = 0
    tail: int = 0

    @property
    def cost(self) -> int:
        """The cycles that the choice of blocks minimises: the job's own and its read penalty."""
        return self.cycles + self.read_penalty


_OPTION = 12
"""Integers of an option: ``Option`` of cascader/ethosu/native/option.h."""


class Options(Sequence[BlockOption]):
    """The options of a kernel from its estimates, ``length`` from ``begin`` on; each is made on demand.

    The first number of ``flat`` says where the options' loads begin.
    """

    def __init__(self, flat: memoryview, begin: int, length: int, sources: Sources, latency: int) -> None:
        self.flat = flat
        self.begin = begin
        self._length = length
        self.sources = sources
        self.latency = latency

    @property
    def end(self) -> int:
        """The position after the options."""
        return self.begin + _OPTION * self._length

    @cached_property
    def shrams(self) -> frozenset[tuple[int, ...]]:
        """The options' partitions of the shared buffer."""
        return frozenset(tuple(self.flat[at + 3 : at + 6]) for at in range(self.begin, self.end, _OPTION))

    @cached_property
    def _all(self) -> tuple[BlockOption, ...]:
        return tuple(map(self._option, range(self.begin, self.end, _OPTION)))

    def _option(self, at: int) -> BlockOption:
        flat = self.flat
        height, width, depth, end, start, start2, cycles, read_penalty, lead, tail, first, last = flat[at : at + _OPTION]
        load = KernelLoad(flat[flat[0] + first : flat[0] + last])
        block, shram = Shape3D(height, width, depth), Shram(end, start, start2)
        return BlockOption(block, shram, cycles, load, self.sources, self.latency, read_penalty, lead, tail)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> BlockOption: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BlockOption, ...]: ...
    def __getitem__(self, index: int | slice) -> BlockOption | tuple[BlockOption, ...]:
        """One option, or several."""
        return self._all[index]
