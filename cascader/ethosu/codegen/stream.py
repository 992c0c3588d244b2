"""The operations of one Program as they are issued: tables, staged weights and kernels, each after the waits that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cascader.ethosu.cost.blockdep import MAX_BLOCKDEP, blockdep
from cascader.ethosu.network.network import ARENA, LUT_SLOT, LutLoad
from npu_model.accelerator import Accelerator
from npu_model.program import ActivationKind, ByteRange, DmaOperation, DmaWait, KernelOperation, KernelWait, Operation


class Stream(Struct):
    """Operations issued so far, and the kernels, transfers and tables that the NPU may hold after the last operation."""

    accelerator: Accelerator
    operations: list[Operation] = []
    names: list[str] = []
    kernels: list[KernelOperation] = []
    """All kernels so far, the newest last."""
    running: int = 0
    """Number of the newest kernels that may not have finished."""
    transfers: list[DmaOperation] = []
    """The newest transfers, which may not have finished. Another one starts only when it can be outstanding too."""
    tables: list[LutLoad] = []
    """Look-up tables that are in SHRAM, or on their way there."""

    def issue(self, operation: Operation, name: str) -> None:
        """Append an operation of the layer ``name``."""
        self.operations.append(operation)
        self.names.append(name)

    def load(self, table: LutLoad, name: str) -> None:
        """Begin to transfer a table after the kernels that use its slot, unless the table is already there."""
        if table in self.tables:
            return
        self._finish_kernels([age for age in range(self.running) if self._uses(self.kernels[-1 - age], table)], name)
        self._transfer(DmaOperation(table.source, table.destination, to_shram=True), name)
        self.tables = [other for other in self.tables if not other.overlaps(table)] + [table]

    def stage(self, ranges: Sequence[ByteRange], address: int, name: str) -> None:
        """Begin to copy ranges of the constants, one after the other, to ``address`` of the arena.

        The copy begins after the kernels that use those bytes.
        """
        for span in ranges:
            self.move((DmaOperation(span, address, ARENA),), name)
            address += span.length

    def move(self, transfers: Sequence[DmaOperation], name: str) -> None:
        """Begin to copy bytes within the arena, after the kernels that write them and the kernels that use their target."""
        for transfer in transfers:
            self._finish_kernels([age for age in range(self.running) if touches(self.kernels[-1 - age], transfer)], name)
            self._transfer(transfer, name)

    def run(self, kernel: KernelOperation, name: str) -> None:
        """Issue a kernel after the others and after the transfers of its operands and results, but not after other transfers."""
        if self.transfers:
            newest_first = self.transfers[::-1]
            self._finish_transfers([age for age, transfer in enumerate(newest_first) if self._needs(kernel, transfer)], name)
        # No value looks back over more kernels than that, because each has a block.
        issued = kernel.having(blockdep=blockdep(self.kernels[-MAX_BLOCKDEP:], kernel, self.accelerator))
        self.issue(issued, name)
        self.kernels.append(issued)
        self.running = min(self.running + 1, self.accelerator.max_outstanding_kernels)
        if self.accelerator.reserved_lut_banks == 0 and kernel.activation.kind is not ActivationKind.LUT:
            # The banks of the tables are not reserved here: such a kernel has its accumulators or operands there.
            self.tables = []

    def _transfer(self, transfer: DmaOperation, name: str) -> None:
        self.issue(transfer, name)
        self.transfers = [*self.transfers, transfer][-self.accelerator.max_outstanding_dma :]

    def _finish_kernels(self, ages: Sequence[int], name: str) -> None:
        """Wait for the kernels of these ages (0: the newest), in ascending order; younger ones may still run."""
        if ages:
            self.issue(KernelWait(ages[0]), name)
            self.running = ages[0]

    def _finish_transfers(self, ages: Sequence[int], name: str) -> None:
        """Wait for the transfers of these ages (0: the newest), in ascending order; younger ones may still run."""
        if ages:
            self.issue(DmaWait(ages[0]), name)
            self.transfers = self.transfers[len(self.transfers) - ages[0] :]

    def _needs(self, kernel: KernelOperation, transfer: DmaOperation) -> bool:
        """Whether the kernel uses a byte that the transfer writes, in memory or in SHRAM, or overwrites one that it reads."""
        if transfer.to_shram:
            return self._uses(kernel, LutLoad(transfer.source, transfer.destination))
        return touches(kernel, transfer)

    def _uses(self, kernel: KernelOperation, table: LutLoad) -> bool:
        """Whether the kernel uses the table's bytes in SHRAM."""
        if self.accelerator.reserved_lut_banks == 0:
            return True
        activation = kernel.activation
        if activation.kind is not ActivationKind.LUT:
            return False
        start = self.accelerator.lut_address + activation.lut * LUT_SLOT
        size = next((t.source.length for t in self.tables if t.destination == start), LUT_SLOT)
        return start < table.destination + table.source.length and table.destination < start + size


def touches(kernel: KernelOperation, transfer: DmaOperation) -> bool:
    """Whether the kernel reads or writes a byte that the transfer writes, or writes one that it reads."""
    written = kernel.writes()
    over = any(span.overlaps(target) for target in transfer.writes() for span in (*kernel.reads(), *written))
    return over or any(span.overlaps(source) for source in transfer.reads() for span in written)
