"""The estimate of a kernel: its cycles, with the blocks that it had better be made in. It is the twin of the compiled core's."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import ceil

from cascader.ethosu.cost.block_choice import Ranking
from cascader.ethosu.cost.block_option import BlockOption
from cascader.ethosu.cost.estimate_terms import BLOCKS, PARTITIONS, READ_PENALTY, Facts, Terms
from cascader.ethosu.cost.kernel_flow import Flow, Pipeline
from cascader.ethosu.cost.kernel_load import KernelLoad, operation_load
from cascader.ethosu.cost.memory_path import Sources
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import decoding_cycles


class _Kernel:
    """An operation in one of its blocks: what it asks of the units, and how it flows through them."""

    def __init__(self, block: Shape3D, shram: Shram, load: KernelLoad, terms: Terms, sources: Sources, least: int) -> None:
        """``least`` are the cycles that the kernel takes at least, whatever its flow."""
        self.block = block
        self.shram = shram
        self.load = load
        self._terms = terms
        self._sources = sources
        self._least = least
        self._flows: dict[bool, Flow] = {}

    def flow(self, *, prefetched: bool) -> Flow:
        """The flow of the kernel alone; ``prefetched`` if its first weights are there already."""
        if prefetched not in self._flows:
            self._flows[prefetched] = Pipeline().run(self.load, self._sources, prefetched=prefetched)
        return self._flows[prefetched]

    def cycles(self, *, prefetched: bool) -> int:
        """Cycles of the kernel alone."""
        return self._paced(self.flow(prefetched=prefetched), self._sources)

    def contended_cycles(self) -> int:
        """Cycles beside a copy."""
        return self._paced(Pipeline().run(self.load, self._terms.contended), self._terms.contended)

    def _paced(self, flow: Flow, sources: Sources) -> int:
        # What passes a port moves no faster than its memory keeps up.
        written = 0 if sources.timing.shared_cap else self.load.stored
        read = self.load.maps - written + (self.load.constants if sources.shared else 0)
        return ceil(max(flow.cycles, sources.moving(read, written), self._least)) + self._terms.overhead

    def tail(self, *, prefetched: bool = False) -> int:
        """Cycles at its end in which the decoder reads for the next kernel."""
        return ceil(self.flow(prefetched=prefetched).tail) + self._terms.overhead


def ranked(operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...], sources: Sources) -> Ranking:
    """The blocks of an operation by their estimates; ``work`` is the decoder's for its weight streams."""
    decoding = decoding_cycles(work, terms.timing) if operation.weights else None
    return Ranking(operation, terms.accelerator, sources, decoding, terms.worst_operand_latency(operation))


class KernelEstimate:
    """Estimates of one kernel with its constants in the arena (``staged``) or at home; each part of it is worked out once."""

    def __init__(self, operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...], *, staged: bool) -> None:
        self._operation, self._terms, self._work = operation, terms, work
        self._staged = staged
        self._sources = terms.staged if staged else terms.direct
        self._home_rate = self._sources.constants.rate
        self._operand_latency = terms.operand_latency(operation)
        self._kernels: dict[object, _Kernel] = {}

    @cached_property
    def _ranking(self) -> Ranking:
        return ranked(self._operation, self._terms, self._work, self._sources)

    def _in_blocks(self, count: int, *, partitions: bool) -> list[_Kernel]:
        """The kernel in its own block and in those that may be faster."""
        operation = self._operation
        found = self._ranking.fastest(count, partitions=partitions) if self._terms.choose_blocks else []
        kernels = []
        for block, shram in ((operation.block, operation.shram), *found):
            if (block, shram) not in self._kernels:
                load = self._load(block)
                least = max(self._operand_latency * load.places, self._terms.command_cycles)
                self._kernels[block, shram] = _Kernel(block, shram, load, self._terms, self._sources, least)
            kernels.append(self._kernels[block, shram])
        return kernels

    def _load(self, block: Shape3D) -> KernelLoad:
        """The load of the kernel in another block."""
        operation, maps, constants = replace(self._operation, block=block), self._sources.maps, self._sources.constants
        return operation_load(operation, self._terms.accelerator, self._work, maps.burst, constants.burst, self._terms.timing)

    def _read_penalty(self, load: KernelLoad) -> int:
        """Cycles that are set against a kernel's reads at home, which hold up the copies beside it."""
        return 0 if self._staged else int(load.constants * self._home_rate * READ_PENALTY)

    @cached_property
    def facts(self) -> Facts:
        """The facts of the fastest block; of a kernel that reads its constants in the arena that counts with the first ones there."""
        # Whatever neighbours may agree on counts for one alone too: else each of two pairs would be said to gain by it.
        kernels = self._in_blocks(BLOCKS, partitions=False) + self._in_blocks(PARTITIONS, partitions=True)[1:]
        best = min(kernels, key=lambda kernel: kernel.cycles(prefetched=self._staged) + self._read_penalty(kernel.load))
        return self._beside(best)

    def _beside(self, kernel: _Kernel) -> Facts:
        """The facts of a kernel: what it takes if its first weights are there already and if not, and beside a copy."""
        constants = kernel.load.constants
        if not constants:
            cycles = kernel.cycles(prefetched=self._staged)
            return Facts(cycles, 0, kernel.tail(prefetched=self._staged), cycles, 0)
        prefetched, cold = kernel.cycles(prefetched=True), kernel.cycles(prefetched=False)
        if self._staged:
            return Facts(cold, cold - prefetched, kernel.tail(), cold, 0)
        home = ceil(constants * self._home_rate)
        return Facts(cold, cold - prefetched, kernel.tail(), max(kernel.contended_cycles(), cold), home)

    @cached_property
    def options(self) -> tuple[BlockOption, ...]:
        """The operation's own block, and the fastest ones of different partitions of the shared buffer, so that neighbours may agree."""
        return tuple(self._option(kernel) for kernel in self._in_blocks(PARTITIONS, partitions=True))

    def _option(self, kernel: _Kernel) -> BlockOption:
        """Facts of a block while the kernel before drains: the first weights are read, but all of them pass their port."""
        sources, overhead, load = self._sources, self._terms.overhead, kernel.load
        cycles = max(kernel.cycles(prefetched=True), ceil(load.constants * self._home_rate) + overhead)
        lead = max(0, kernel.cycles(prefetched=False) - cycles)
        return BlockOption(kernel.block, kernel.shram, cycles, load, sources, overhead, self._read_penalty(load), lead, kernel.tail())

    @property
    def size(self) -> int:
        """Bytes that it keeps, about."""
        return sum(kernel.load.flat.nbytes for kernel in self._kernels.values())


class KernelEstimates:
    """The two estimates of a kernel: with its constants in the arena, and at home."""

    def __init__(self, operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...]) -> None:
        self.staged = KernelEstimate(operation, terms, work, staged=True)
        self.direct = KernelEstimate(operation, terms, work, staged=False)

    @property
    def size(self) -> int:
        """Bytes that they keep, about."""
        return self.staged.size + self.direct.size
