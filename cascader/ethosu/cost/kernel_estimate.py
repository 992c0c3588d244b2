"""The estimate of a kernel: its cycles and its best blocks. It is the twin of the compiled core's."""

from __future__ import annotations

from array import array
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import Ranking
from cascader.ethosu.cost.estimate_terms import BLOCKS, PARTITIONS, READ_PENALTY, Facts, Terms
from cascader.ethosu.cost.kernel_flow import Pipeline
from cascader.ethosu.cost.kernel_load import KernelLoad, operation_load
from cascader.ethosu.cost.memory_path import Sources
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import decoding_cycles


def ranked(operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...], sources: Sources) -> Ranking:
    """The blocks of an operation by their estimates; ``work`` is the decoder's work for its weight streams."""
    decoding = decoding_cycles(work, terms.timing) if operation.weights else None
    return Ranking(operation, terms.accelerator, sources, decoding, terms.worst_operand_latency(operation))


_READ_BEFORE_STORES = 2
"""Blocks that read before the first store: the slots of the input buffer."""


class _InBlock(Struct, frozen=True):
    """A kernel alone in one of its blocks: its cycles and its tail, ``prefetched`` if its first weights are already read, else ``cold``.

    The tail is the cycles at its end in which the decoder reads for the next kernel. ``read_penalty`` counts against reads at home, which
    hold up parallel copies.
    """

    block: Shape3D
    shram: Shram
    load: KernelLoad
    prefetched: tuple[int, int]
    cold: tuple[int, int]
    read_penalty: int


def _on_stores_path(load: KernelLoad, sources: Sources) -> float:
    """Cycles in which a load's words pass the path of the stores, with the gaps before reads; 0 if nothing is read there.

    Two blocks read before the first store.
    """
    reading = load.fetching if sources.behind else load.places if sources.constants_behind and load.constants else 0
    if reading <= _READ_BEFORE_STORES:
        return 0.0
    path = sources.stores_path(load.maps - load.stored, load.constants, load.stored)
    return path + sources.gap * (reading - _READ_BEFORE_STORES)


class KernelEstimate:
    """A kernel with its constants in the arena (``staged``) or at home; ``work`` is the decoder's for its weight streams."""

    def __init__(self, operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...], *, staged: bool) -> None:
        self._operation, self._terms, self._work = operation, terms, work
        self._staged = staged
        self._sources = terms.staged if staged else terms.direct
        self._home_rate = self._sources.constants.rate

    def in_blocks(self) -> tuple[list[_InBlock], list[_InBlock]]:
        """The kernel in its own block, in blocks that may be faster, and in the fastest blocks of different partitions."""
        operation, terms = self._operation, self._terms
        found = [[(operation.block, operation.shram)] for _ in range(2)]
        if terms.choose_blocks:
            ranking = ranked(operation, terms, self._work, self._sources)
            found[0] += ranking.fastest(BLOCKS)
            found[1] += ranking.fastest(PARTITIONS, partitions=True)
        made = {one: self._in_block(*one) for one in dict.fromkeys(found[0] + found[1])}
        return [made[one] for one in found[0]], [made[one] for one in found[1]]

    def _in_block(self, block: Shape3D, shram: Shram) -> _InBlock:
        sources, operation = self._sources, replace(self._operation, block=block)
        bursts = sources.maps.burst, sources.constants.burst
        load = operation_load(operation, self._terms.accelerator, self._work, *bursts, self._terms.timing)
        prefetched, cold = (self._paced(load, sources, prefetched=ahead) for ahead in (True, False))
        return _InBlock(block, shram, load, prefetched, cold, 0 if self._staged else int(load.constants * self._home_rate * READ_PENALTY))

    def _paced(self, load: KernelLoad, sources: Sources, *, prefetched: bool) -> tuple[int, int]:
        """Cycles and tail of a load. Words pass a port no faster than its memory keeps up."""
        terms, flow = self._terms, Pipeline().run(load, sources, prefetched=prefetched)
        written = 0 if sources.timing.shared_cap and sources.stores is None else load.stored
        read = load.maps - written + (load.constants if sources.shared else 0)
        least = max(terms.operand_latency(self._operation) * load.places + sources.start_cycles, terms.command_cycles)
        moving = max(sources.moving(read, written), _on_stores_path(load, sources))
        return ceil(max(flow.cycles, moving, least)) + terms.overhead, ceil(flow.tail) + terms.overhead

    def facts(self, blocks: list[_InBlock]) -> Facts:
        """The facts in the fastest of some blocks: with the first constants read, for a kernel with its constants in the arena."""
        alone = [one.prefetched if self._staged else one.cold for one in blocks]
        (cycles, tail), best = min(zip(alone, blocks, strict=True), key=lambda found: found[0][0] + found[1].read_penalty)
        if not best.load.constants:
            return Facts(cycles, 0, tail, cycles, 0, 0)
        (cold, tail), lead = best.cold, best.cold[0] - best.prefetched[0]
        if self._staged:
            return Facts(cold, lead, tail, cold, 0, 0)
        contended, _ = self._paced(best.load, self._terms.contended, prefetched=False)
        rates = self._home_rate, self._sources.weights.rate
        return Facts(cold, lead, tail, max(contended, cold), *(ceil(best.load.constants * rate) for rate in rates))

    def option(self, one: _InBlock) -> tuple[int, ...]:
        """A block, as a BlockOption, while the previous kernel drains: the first weights are read, but all of them pass their port."""
        cycles = max(one.prefetched[0], ceil(one.load.constants * self._sources.weights.rate) + self._terms.overhead)
        return cycles, one.read_penalty, max(0, one.cold[0] - cycles), one.cold[1]


def kernel_estimates(operation: KernelOperation, terms: Terms, work: tuple[DecoderWork, ...]) -> bytes:
    """The estimates of a kernel in the compiled core's form (``kernel_estimates`` of ``cascader/ethosu/native/kernel.c``).

    They hold facts and options with its constants in the arena, the same with the constants at home, and the options' loads. A number
    before them says where the loads begin. ``work`` is the decoder's work for its weight streams.
    """
    found, loads = array("q", (0,)), array("q")
    for staged in (True, False):
        kernel = KernelEstimate(operation, terms, work, staged=staged)
        some, partitions = kernel.in_blocks()
        # Options that neighbours may share count for a single kernel too. Otherwise each of two pairs would seem to gain by them.
        found.extend((*kernel.facts(some + partitions[1:]), len(partitions)))
        for one in partitions:
            (block, shram), begin = (one.block, one.shram), len(loads)
            loads.extend(one.load.flat)
            sides = block.height, block.width, block.depth, shram.ib_end, shram.ab_start, shram.ib2_start
            found.extend((*sides, *kernel.option(one), begin, len(loads)))
    found[0] = len(found)
    return (found + loads).tobytes()
