"""Kept kernels: what lowering a network's schedules has worked out, for schedules of the same network that are lowered later.

A search changes a schedule at one place at a time: most jobs become the kernels that they became before, behind the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cascader.ethosu.cost.blockdep import block_distance, look_back
from npu_model.accelerator import Accelerator
from npu_model.command_stream.counted import WordCounter
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Operation

MOST = 12_000
"""Kernels that are kept before all are forgotten: some 60 megabytes."""

_Ranges = tuple[ByteRange, ...]


class KeptKernels:
    """The kernels of the schedules of one network on one device; it knows them by their identity, and so keeps them all."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._made: dict[object, KernelOperation] = {}
        self._ranges: dict[int, tuple[KernelOperation, _Ranges, _Ranges]] = {}
        self._distances: dict[tuple[int, int], int] = {}
        self._issued: dict[tuple[int, int], tuple[KernelOperation, KernelOperation]] = {}
        self._counter = WordCounter()

    def make_room(self) -> None:
        """Forget all if it is too much; kernels that were asked for before are not to be handed in any more."""
        if len(self._issued) > MOST:
            self._forget()

    def kernel(self, key: object, make: Callable[[], KernelOperation]) -> KernelOperation:
        """The kernel of a job, made once for each ``key``."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def issued(self, earlier: Sequence[KernelOperation], kernel: KernelOperation, accelerator: Accelerator) -> KernelOperation:
        """A kernel with its BLOCKDEP after the ``earlier`` ones, the newest last; these were issued here."""
        value = 0
        if earlier:
            pair = id(earlier[-1]), id(kernel)
            found = self._distances.get(pair)
            if found is None:
                found = self._distances[pair] = block_distance(earlier[-1], kernel, accelerator)
            value = look_back(found, kernel, earlier)
        known = self._issued.get((id(kernel), value))
        if known is None:
            known = self._issued[id(kernel), value] = kernel, kernel.having(blockdep=value)
        return known[1]

    def touches(self, kernel: KernelOperation, transfer: DmaOperation) -> bool:
        """Whether the kernel reads or writes a byte that the transfer writes, or writes one that it reads."""
        known = self._ranges.get(id(kernel))
        if known is None:
            writes = kernel.writes()
            known = self._ranges[id(kernel)] = kernel, kernel.reads() + writes, writes
        _, spans, written = known
        over = any(span.overlaps(target) for target in transfer.writes() for span in spans)
        return over or any(span.overlaps(source) for source in transfer.reads() for span in written)

    def words(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """The words of the command stream from the end of one operation to the end of the next."""
        return self._counter.words(operations)
