"""Compiled estimates: those of :mod:`cascader.ethosu.cost.kernel_estimate`, worked out in one call of the compiled core."""

from __future__ import annotations

from array import array

from cascader.ethosu.cost.block_choice import PROMISING, WORTHWHILE, candidates
from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.block_option import CompiledOptions
from cascader.ethosu.cost.estimate_terms import BLOCKS, PARTITIONS, READ_PENALTY, Facts, Terms
from cascader.ethosu.cost.memory_path import Sources
from npu_model.cost.flat_operation import flat_decoding
from npu_model.native import native
from npu_model.program import KernelOperation
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import decoding_cycles

_NATIVE = native("cascader.ethosu")
"""Compiled: the estimates of a kernel; None if it is not built."""

IS_BUILT = _NATIVE is not None

_FACTS = 5
"""Integers of the facts: ``push_facts`` of cascader/ethosu/native/kernel.c. The number of options is behind them."""


class CompiledEstimate:
    """The estimate of a kernel with its constants in one place: the integers from ``begin`` on of what the core has found."""

    def __init__(self, flat: memoryview, begin: int, sources: Sources, latency: int) -> None:
        self.facts = Facts(*flat[begin : begin + _FACTS])
        self.options = CompiledOptions(flat, begin + _FACTS + 1, flat[begin + _FACTS], sources, latency)
        """The operation's own block, and the fastest ones of different partitions of the shared buffer."""


class CompiledEstimates:
    """The two estimates of a kernel: with its constants in the arena, and at home."""

    def __init__(self, flat: memoryview, terms: Terms) -> None:
        self.staged = CompiledEstimate(flat, 1, terms.staged, terms.overhead)
        self.direct = CompiledEstimate(flat, self.staged.options.end, terms.direct, terms.overhead)
        self.size = flat.nbytes
        """Bytes that they keep, about."""


class Core:
    """The compiled core on some terms."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        staged, direct = terms.staged, terms.direct
        rates = staged.constants.rate, direct.constants.rate
        self._memories = array("d", (*staged.flat, *direct.flat, *terms.contended.flat, *rates, PROMISING, WORTHWHILE, READ_PENALTY))

    def estimates(self, operation: KernelOperation, row: array[int], query: array[int], work: tuple[DecoderWork, ...]) -> CompiledEstimates:
        """The estimates of a kernel; ``row`` and ``query`` are its flat forms, ``work`` is the decoder's for its streams."""
        terms, shram = self._terms, operation.shram
        decoding = decoding_cycles(work, terms.timing) if operation.weights else None
        kernel = Estimator(operation, terms.accelerator, terms.staged, decoding).flat
        latencies = terms.operand_latency(operation), terms.worst_operand_latency(operation)
        counts = terms.command_cycles, terms.overhead, BLOCKS, PARTITIONS, terms.choose_blocks
        numbers = array("q", (shram.ib_end, shram.ab_start, shram.ib2_start, *latencies, *counts))
        assert _NATIVE is not None  # noqa: S101  # IS_BUILT
        blocks = candidates(operation, terms.accelerator)
        found = _NATIVE.kernel_estimates(row, flat_decoding(work), kernel, query, blocks, self._memories, numbers)
        return CompiledEstimates(memoryview(found).cast("q"), terms)
