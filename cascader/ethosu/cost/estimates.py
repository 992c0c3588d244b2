"""Estimates of kernels, known by what decides them.

Stripes of many layers, and of one layer in several forms of a network, are equal in all that their cycles depend on: where their
tensors are and what they compute changes nothing. Such kernels have one estimate, for as long as the process lives.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

from cascader.ethosu.cost.compiled_estimate import IS_BUILT, CompiledEstimate, CompiledEstimates, Core
from cascader.ethosu.cost.estimate_terms import Terms
from cascader.ethosu.cost.kernel_estimate import KernelEstimate, KernelEstimates
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.cost.shram import BlockQuery, flat_query
from npu_model.program import KernelOperation
from npu_model.weight_stream.mlw_work import DecoderWork

_MOST_BYTES = 64 << 20
"""Bytes of loads and decoders' work that are kept before all estimates are forgotten."""


AnyEstimates = KernelEstimates | CompiledEstimates
"""Estimates of a kernel, of the compiled core or not: both are the same."""

AnyEstimate = KernelEstimate | CompiledEstimate
"""One of the two."""


class Estimates:
    """The estimates of all kernels on one device with its memories."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._core = Core(terms)
        self._known: dict[object, AnyEstimates] = {}
        self._bytes = 0

    def __reduce__(self) -> tuple[object, ...]:
        """Another process has estimates of its own."""
        return shared_estimates, (self._terms,)

    def of(self, operation: KernelOperation, work: tuple[DecoderWork, ...], decoding: bytes) -> AnyEstimates:
        """The estimates of a kernel; ``decoding`` are the bytes of :func:`flat_decoding` of the decoder's ``work`` for its streams."""
        row: array[int] = flat_operation(operation, self._terms.accelerator, self._terms.timing, is_known=bool(work))
        query = flat_query(BlockQuery.of(operation), self._terms.accelerator)
        key = row.tobytes(), query.tobytes(), operation.shram, decoding, self._terms.operand_latency(operation)
        found = self._known.get(key)
        if found is None:
            self._make_room(len(decoding))
            found = self._core.estimates(operation, row, query, work) if IS_BUILT else KernelEstimates(operation, self._terms, work)
            self._known[key] = found
        return found

    def _make_room(self, size: int) -> None:
        # The newest estimate has worked out what is asked of it first by the time that the next one is made.
        newest = next(reversed(self._known.values()), None)
        self._bytes += size + (newest.size if newest is not None else 0)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = 0


@lru_cache(maxsize=8)
def shared_estimates(terms: Terms) -> Estimates:
    """The estimates that all networks on these terms share."""
    return Estimates(terms)


@lru_cache(maxsize=1024)
def decoding_bytes(work: tuple[DecoderWork, ...]) -> bytes:
    """The decoder's work as the key of an estimate."""
    return flat_decoding(work).tobytes()
