"""Kernels of a draft's jobs, each made on demand."""

from __future__ import annotations

from cascader.draft.draft import JOB, PLACE, ROW_BYTES, Draft, line
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.network import Network, ethosu_part
from npu_model.program import KernelOperation


class DraftKernels:
    """The kernels of drafts of one network."""

    def __init__(self, network: Network) -> None:
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._tensors = {tensor.name: (number, tensor.size) for number, tensor in enumerate(network.placed_tensors)}

    def kernel(self, draft: Draft, step: int) -> KernelOperation | None:
        """The kernel of a job, at its tensors' addresses and in its part's own block; None for a transfer and for a job on the CPU."""
        part, start, end = line(draft.jobs, JOB, step)[:3]
        payload = self._payloads[part]
        if payload is None or payload.transfer:
            return None
        used = {name for name in (payload.ifm, payload.ofm, payload.ifm2) if name in self._tensors}
        places = {name: self._place(draft, *self._tensors[name]) for name in used}
        first, last = (start, end) if end >= 0 else (0, payload.axis.extent(payload.operation.ofm.shape))
        return stripe(payload, first, last, places)

    @staticmethod
    def _place(draft: Draft, tensor: int, size: int) -> BufferPlace:
        address, rows, row_bytes = line(draft.places, PLACE, tensor)[: ROW_BYTES + 1]
        return BufferPlace(address, rows or 1, row_bytes if rows else size)
