"""Transfers within the arena: their least cycles, what they wait for, and which kernels wait for them, wherever the tensors lie.

A kernel and a transfer that share a byte of a tensor share its place in every schedule, also where the tensor rolls.
"""

from __future__ import annotations

from functools import cache
from math import ceil

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.job.transfers import transfers
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, ethosu_part
from cascader.ethosu.proof.chains import least_read
from cascader.ethosu.proof.least_flow import LONG_AGO
from cascader.ethosu.proof.spans import shared, spans_of
from cascader.ethosu.proof.state import Past, Sent
from cascader.plan.depth_first import StripeJob
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.memory.system import MemorySystem
from npu_model.program import ByteRange, KernelOperation
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import ceil_div


class TransferTimes:
    """Transfers of one form on tensors at ``places``, each with room for all of its rows."""

    def __init__(self, plans: Cascader, system: MemorySystem, places: dict[str, BufferPlace]) -> None:
        self._graph = plans.graph
        found = enumerate(map(ethosu_part, plans.network.graph.parts))
        self._payloads = {number: payload for number, payload in found if payload is not None}
        self._places = places
        self._memory = system.ports[system.port_of(ARENA)]
        self.moved = frozenset(number for number in self._payloads if self._is_moved(number))
        """Parts that are made by transfers."""
        self._kernels = {number: self._makers(number) - self.moved for number in self.moved}
        self._fed = {number: self._makers(number) & self.moved for number in self._payloads}
        self._kernel = cache(self._made)
        self._ranges = cache(self._bytes)
        self.cycles = cache(self._cycles)
        self._feeds = cache(self._has_written)
        self._read = cache(self._end_read)

    @property
    def all_known(self) -> bool:
        """Whether all transfers of the form are known to be such."""
        return all(number in self.moved for number, payload in self._payloads.items() if payload.transfer)

    def _is_moved(self, number: int) -> bool:
        """Whether all of a part's jobs are transfers, wherever its tensors lie and roll."""
        payload, part, tensors = self._payloads[number], self._graph.parts[number], self._graph.tensors
        if not payload.transfer or payload.axis is not Axis.ROWS:
            return False
        sizes = [tensors[tensor].row_bytes for tensor in (*(read for read, _ in part.inputs), *part.outputs)]
        found = transfers(stripe(payload, 0, payload.operation.ofm.shape.height, self._places))
        return len(found) == 1 and all(size % ALIGNMENT == 0 for size in sizes)

    def _makers(self, number: int) -> frozenset[int]:
        """Parts that write what a part reads."""
        read = {tensor for tensor, _ in self._graph.parts[number].inputs}
        return frozenset(other for other, part in enumerate(self._graph.parts) if read & set(part.outputs))

    def _made(self, job: StripeJob) -> KernelOperation:
        return stripe(self._payloads[job.part], job.start, job.end, self._places)

    def _bytes(self, job: StripeJob) -> tuple[ByteRange, ByteRange]:
        """Bytes that a transfer reads and those that it writes."""
        operation = self._kernel(job)
        (read,), (written,) = operation.ifm.byte_ranges(), operation.ofm.byte_ranges()
        return read, written

    def size(self, job: StripeJob) -> int:
        """Bytes that a transfer copies."""
        written = self._ranges(job)[1]
        return written.end - written.start

    def _cycles(self, size: int) -> int:
        """Cycles at least from the start of a transfer until so many of its bytes are written, in however many pieces."""
        return least_read(self._memory, ceil_div(size, BEAT_BYTES)) + ceil(self._memory.cycles_per_word) + self._memory.write_latency

    def _end_read(self, kernel: StripeJob, transfer: StripeJob) -> int | None:
        """The number of bytes of a transfer until the last of those that a kernel reads, at least; None if it need not read any."""
        operation, axis = self._kernel(kernel), self._payloads[kernel.part].axis
        written = self._ranges(transfer)[1]
        spans = [*spans_of(operation.ifm, axis), *spans_of(operation.ifm2, axis)]
        return max((end - written.start for span in spans if (end := shared(span, written)) is not None), default=None)

    def _has_written(self, kernel: StripeJob, transfer: StripeJob) -> bool:
        """Whether a transfer reads what a kernel has written."""
        read = self._ranges(transfer)[0]
        spans = spans_of(self._kernel(kernel).ofm, self._payloads[kernel.part].axis)
        return any(shared(span, read) is not None for span in spans)

    def made(self, past: Past | None, transfer: StripeJob) -> int:
        """The cycle at which the kernels have finished that made what a transfer reads, at the earliest."""
        sources = self._kernels[transfer.part]
        while past is not None and sources:
            if past.job.part in sources and self._feeds(past.job, transfer):
                return past.cycle
            past = past.before
        return LONG_AGO

    def there(self, sent: Sent | None, kernel: StripeJob) -> tuple[int, int]:
        """The cycle at which the transfers have written what a kernel reads, at the earliest, and how many of them are whole then."""
        fed = self._fed[kernel.part]
        while sent is not None and fed:
            if sent.job.part in fed and (count := self._read(kernel, sent.job)) is not None:
                if count >= self.size(sent.job):
                    return sent.done, sent.number
                return sent.begin + self.cycles(count), sent.number - 1
            sent = sent.before
        return LONG_AGO, 0
