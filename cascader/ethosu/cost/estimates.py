"""Estimates of kernels, by the facts that decide them.

Stripes of many layers, and of one layer in several forms of a network, agree in everything that decides their cycles. Addresses of
tensors do not matter. Such kernels share one estimate while the process lives.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from functools import lru_cache
from itertools import count

from cascader.ethosu.cost.block_choice import PROMISING, WORTHWHILE, candidates
from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.block_option import Options
from cascader.ethosu.cost.estimate_terms import BLOCKS, PARTITIONS, READ_PENALTY, Facts, Terms
from cascader.ethosu.cost.kernel_estimate import kernel_estimates
from cascader.ethosu.cost.memory_path import Sources
from npu_model.cost.flat_operation import LARGEST_WORD, flat_decoding, flat_operation
from npu_model.cost.shram import BlockQuery, flat_query
from npu_model.native import native
from npu_model.program import ByteRange, KernelOperation
from npu_model.shapes import Shape3D
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.shares import decoding_cycles

_NATIVE = native("cascader.ethosu")
"""The compiled estimates of a kernel; None if they are not built."""

_MOST_BYTES = 64 << 20
"""The most bytes of loads and decoders' work that are kept; beyond it all estimates are dropped."""

_FACTS = len(Facts._fields)

_NUMBERS = count()


def _placeless(ranges: tuple[ByteRange, ...]) -> tuple[ByteRange, ...]:
    """Ranges of constants, reduced to their position inside a word, because only that matters."""
    starts = (where.start % LARGEST_WORD for where in ranges)
    return tuple(ByteRange(where.region, start, start + where.length) for where, start in zip(ranges, starts, strict=True))


class Estimate:
    """The estimate of a kernel with its constants in the arena or at home.

    It is the integers from ``begin`` on in the result of :func:`kernel_estimates`.
    """

    def __init__(self, flat: memoryview, begin: int, sources: Sources, latency: int) -> None:
        self.facts = Facts(*flat[begin : begin + _FACTS])
        self.options = Options(flat, begin + _FACTS + 1, flat[begin + _FACTS], sources, latency)
        """The operation's own block, and the fastest ones of different partitions of the shared buffer, so that neighbours may agree."""


class KernelEstimates:
    """The two estimates of a kernel: with its constants in the arena, and at home."""

    def __init__(self, found: bytes, terms: Terms) -> None:
        flat = memoryview(found).cast("q")
        self.staged = Estimate(flat, 1, terms.staged, terms.overhead)
        self.direct = Estimate(flat, self.staged.options.end, terms.direct, terms.overhead)
        self.size = flat.nbytes
        """The approximate bytes of both."""


class Estimates:
    """The estimates of all kernels on one device with its memories."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        staged, direct = terms.staged, terms.direct
        rates = staged.constants.rate, direct.constants.rate
        self._memories = array("d", (*staged.flat, *direct.flat, *terms.contended.flat, *rates, PROMISING, WORTHWHILE, READ_PENALTY))
        self._known: dict[object, KernelEstimates] = {}
        self._bytes = 0
        self._layers: dict[Hashable, int] = {}
        self.stripes: dict[tuple[int, int, int], KernelEstimates] = {}
        """Estimates of stripes by the number of their layer, their first row and their height."""
        self.pairs: dict[Hashable, int] = {}
        """Cycles that two consecutive stripes share, by all facts that decide them."""
        self.near: dict[Hashable, tuple[Shape3D, ...]] = {}
        """Blocks with the best estimates, by all facts that decide them."""

    def layer(self, operation: KernelOperation, axis: Hashable, decoding: bytes) -> int:
        """The number for all layers that compute the same, wherever their constants are; other estimates have other numbers.

        Stripes of equal rows of such layers have equal estimates. Most layers of a network occur in several of its forms.
        """
        key = operation.having(weights=_placeless(operation.weights), scales=_placeless(operation.scales)), axis, decoding
        number = self._layers.get(key)
        return self._layers.setdefault(key, next(_NUMBERS)) if number is None else number

    def of(self, operation: KernelOperation, work: tuple[DecoderWork, ...], decoding: bytes) -> KernelEstimates:
        """The estimates of a kernel; ``decoding`` are the bytes of :func:`flat_decoding` of the decoder's ``work`` for its streams."""
        row: array[int] = flat_operation(operation, self._terms.accelerator, self._terms.timing, is_known=bool(work))
        query = flat_query(BlockQuery.of(operation), self._terms.accelerator)
        key = row.tobytes(), query.tobytes(), operation.shram, decoding, self._terms.operand_latency(operation)
        found = self._known.get(key)
        if found is None:
            made = kernel_estimates(operation, self._terms, work) if _NATIVE is None else self._compiled(operation, row, query, work)
            found = KernelEstimates(made, self._terms)
            self._bytes += found.size + len(decoding)
            if self._bytes > _MOST_BYTES:
                for known in (self._known, self._layers, self.stripes, self.pairs, self.near):
                    known.clear()
                self._bytes = found.size + len(decoding)
            self._known[key] = found
        return found

    def _compiled(self, operation: KernelOperation, row: array[int], query: array[int], work: tuple[DecoderWork, ...]) -> bytes:
        """Like :func:`kernel_estimates`, by the compiled core; ``row`` and ``query`` are the kernel's flat forms."""
        terms, shram = self._terms, operation.shram
        decoding = decoding_cycles(work, terms.timing) if operation.weights else None
        kernel = Estimator(operation, terms.accelerator, terms.staged, decoding).flat
        latencies = terms.operand_latency(operation), terms.worst_operand_latency(operation)
        counts = terms.command_cycles, terms.overhead, BLOCKS, PARTITIONS, terms.choose_blocks
        numbers = array("q", (shram.ib_end, shram.ab_start, shram.ib2_start, *latencies, *counts))
        blocks = candidates(operation, terms.accelerator)
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        found: bytes = _NATIVE.kernel_estimates(row, flat_decoding(work), kernel, query, blocks, self._memories, numbers)
        return found


@lru_cache(maxsize=16)
def shared_estimates(terms: Terms) -> Estimates:
    """The estimates for all networks on these terms."""
    return Estimates(terms)


@lru_cache(maxsize=1024)
def decoding_bytes(work: tuple[DecoderWork, ...]) -> bytes:
    """The decoder's work as the key of an estimate."""
    return flat_decoding(work).tobytes()
