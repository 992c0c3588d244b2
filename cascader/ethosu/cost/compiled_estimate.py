"""Compiled estimates: those of :mod:`cascader.ethosu.cost.kernel_estimate`, worked out in one call of the compiled core."""

from __future__ import annotations

from array import array
from functools import cached_property

from cascader.ethosu.cost.block_chain import BlockOption
from cascader.ethosu.cost.block_choice import PROMISING, WORTHWHILE, Estimator, candidates
from cascader.ethosu.cost.estimate_terms import BLOCKS, BURDEN, PARTITIONS, Facts, Terms
from cascader.ethosu.cost.kernel_flow import KernelLoad
from cascader.ethosu.cost.memory_path import Sources
from npu_model.cost.flat_operation import flat_decoding
from npu_model.cost.shram import BlockQuery, flat_query
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import decoding_cycles

_NATIVE = native("cascader.ethosu")
"""Compiled: the estimates of a kernel; None if it is not built."""

_FACTS, _OPTION = 5, 12
"""Integers of the facts, and of an option: ``push_facts`` and ``push_option`` of the core."""


class CompiledEstimate:
    """The estimate of a kernel with its constants in one place: the integers from ``begin`` on of what the core has found."""

    def __init__(self, flat: memoryview, begin: int, sources: Sources, latency: int) -> None:
        self._flat = flat
        self._options = begin + _FACTS + 1
        self._sources = sources
        self._latency = latency
        self.facts = Facts(*flat[begin : begin + _FACTS])
        self.end = self._options + _OPTION * flat[self._options - 1]

    @cached_property
    def options(self) -> tuple[BlockOption, ...]:
        """The operation's own block, and the fastest ones of different partitions of the shared buffer."""
        return tuple(self._option(at) for at in range(self._options, self.end, _OPTION))

    def _option(self, at: int) -> BlockOption:
        flat = self._flat
        height, width, depth, end, start, start2, cycles, burden, lead, tail, first, last = flat[at : at + _OPTION]
        load = KernelLoad(flat[flat[0] + first : flat[0] + last])
        block, shram = Shape3D(height, width, depth), Shram(end, start, start2)
        return BlockOption(block, shram, cycles, load, self._sources, self._latency, burden, lead, tail)


class CompiledEstimates:
    """The two estimates of a kernel: with its constants in the arena, and at home."""

    def __init__(self, flat: memoryview, terms: Terms) -> None:
        self.staged = CompiledEstimate(flat, 1, terms.staged, terms.overhead)
        self.direct = CompiledEstimate(flat, self.staged.end, terms.direct, terms.overhead)
        self.size = flat.nbytes
        """Bytes that they keep, about."""


class Core:
    """The compiled core on some terms."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        staged, direct = terms.staged, terms.direct
        rates = staged.constants.rate, direct.constants.rate
        self._memories = array("d", (*staged.flat, *direct.flat, *terms.crowded.flat, *rates, PROMISING, WORTHWHILE, BURDEN))

    @property
    def is_usable(self) -> bool:
        """Whether the core is built."""
        return _NATIVE is not None

    def estimates(self, operation: KernelOperation, row: array[int], work: tuple[DecoderWork, ...]) -> CompiledEstimates:
        """The estimates of a kernel; ``row`` is that of ``flat_operation``, ``work`` the decoder's for its streams."""
        terms, shram = self._terms, operation.shram
        decoding = decoding_cycles(work, terms.timing) if operation.weights else None
        kernel = Estimator(operation, terms.accelerator, terms.staged, decoding).flat
        query = flat_query(BlockQuery.of(operation), terms.accelerator)
        latencies = terms.operand_latency(operation), terms.worst_operand_latency(operation)
        counts = terms.command_cycles, terms.overhead, BLOCKS, PARTITIONS, terms.choose_blocks
        numbers = array("q", (shram.ib_end, shram.ab_start, shram.ib2_start, *latencies, *counts))
        assert _NATIVE is not None  # noqa: S101  # is_usable
        blocks = candidates(operation, terms.accelerator)
        found = _NATIVE.kernel_estimates(row, flat_decoding(work), kernel, query, blocks, self._memories, numbers)
        return CompiledEstimates(memoryview(found).cast("q"), terms)
