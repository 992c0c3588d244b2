"""Options: the blocks that a job may be made in, each with what it asks of the units."""

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
    """A block that a job may be made in, and the partition of the shared buffer that it needs.

    ``load`` is what it asks of the units, with its data from ``sources``; ``cycles`` are the job's with nothing before and after it but
    with its first weights there, ``latency`` those until what it has stored may be read. ``read_penalty`` is set against it besides.
    It takes ``lead`` more if they are not there; in its last ``tail`` cycles the decoder reads for the next job already.
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
        """Cycles that the choice of blocks makes least: the job's own and its read penalty."""
        return self.cycles + self.read_penalty


_OPTION = 12
"""Integers of an option: ``Option`` of cascader/ethosu/native/option.h."""


class Options(Sequence[BlockOption]):
    """The options of a kernel as its estimates have them, ``length`` from ``begin`` on; each is made once it is asked for.

    The first number of ``flat`` is where the loads begin that the options refer to.
    """

    def __init__(self, flat: memoryview, begin: int, length: int, sources: Sources, latency: int) -> None:
        self.flat = flat
        self.begin = begin
        self._length = length
        self.sources = sources
        self.latency = latency

    @property
    def end(self) -> int:
        """The place behind them."""
        return self.begin + _OPTION * self._length

    @cached_property
    def shrams(self) -> frozenset[tuple[int, ...]]:
        """Their partitions of the shared buffer."""
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
        """One of them, or some."""
        return self._all[index]
