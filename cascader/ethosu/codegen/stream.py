"""The operations of one Program as they are issued: tables, staged weights and kernels, each behind the waits that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cascader.ethosu.codegen.kept import Issued, IssuedOperation, KeptKernels, Placed
from cascader.ethosu.network.network import LUT_SLOT, LutLoad
from npu_model.accelerator import Accelerator
from npu_model.program import ActivationKind, ByteRange, DmaOperation, DmaWait, KernelWait


@dataclass(slots=True)
class Stream:
    """Operations issued so far, with the kernels, transfers and tables that the NPU may hold behind the last of them."""

    accelerator: Accelerator
    kept: KeptKernels = field(default_factory=KeptKernels)
    operations: list[IssuedOperation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kernels: list[Issued] = field(default_factory=list)
    """All kernels so far, the newest last."""
    running: int = 0
    """Number of the newest kernels that may not have finished."""
    transfers: list[DmaOperation] = field(default_factory=list)
    """The newest transfers, those that may not have finished: a further one is only started when it can be outstanding too."""
    tables: list[LutLoad] = field(default_factory=list)
    """Look-up tables that are in SHRAM, or on their way."""

    def issue(self, operation: IssuedOperation, name: str) -> None:
        """Append an operation of the layer ``name``."""
        self.operations.append(operation)
        self.names.append(name)

    def load(self, table: LutLoad, name: str) -> None:
        """Begin to transfer a table unless it is in its place already, after the kernels that use that place."""
        if table in self.tables:
            return
        self._finish_kernels([age for age in range(self.running) if self._uses(self.kernels[-1 - age].placed, table)], name)
        self._transfer(DmaOperation(table.source, table.destination, to_shram=True), name)
        self.tables = [other for other in self.tables if not overlapping(other, table)] + [table]

    def stage(self, ranges: Sequence[ByteRange], address: int, name: str) -> None:
        """Begin to copy ranges of the constants, one after the other, to ``address`` of the arena, behind the kernels that use them."""
        for span in ranges:
            self.move((self.kept.transfer(span, address),), name)
            address += span.length

    def move(self, transfers: Sequence[DmaOperation], name: str) -> None:
        """Begin to copy bytes within the arena, behind the kernels that make them and those that use their new place."""
        for transfer in transfers:
            newest = [self.kernels[-1 - age].placed for age in range(self.running)]
            self._finish_kernels([age for age, kernel in enumerate(newest) if self.kept.touches(kernel, transfer)], name)
            self._transfer(transfer, name)

    def run(self, kernel: Placed, name: str) -> None:
        """Issue a kernel behind the others and behind the transfers of what it works on, but no later ones."""
        if self.transfers:
            newest_first = self.transfers[::-1]
            self._finish_transfers([age for age, transfer in enumerate(newest_first) if self._needs(kernel, transfer)], name)
        earlier = self.kernels
        issued = (earlier and self.kept.behind.get((earlier[-1], kernel))) or self.kept.issued(earlier, kernel, self.accelerator)
        self.issue(issued, name)
        self.kernels.append(issued)
        self.running = min(self.running + 1, self.accelerator.max_outstanding_kernels)
        if self.accelerator.reserved_lut_banks == 0 and kernel.template.home.activation.kind is not ActivationKind.LUT:
            # The banks of the tables are not reserved here: such a kernel has its accumulators or operands there.
            self.tables = []

    def _transfer(self, transfer: DmaOperation, name: str) -> None:
        self.issue(transfer, name)
        self.transfers = [*self.transfers, transfer][-self.accelerator.max_outstanding_dma :]

    def _finish_kernels(self, ages: Sequence[int], name: str) -> None:
        """Wait for the kernels of these ages (0: the newest), in ascending order; the younger ones may run on."""
        if ages:
            self.issue(KernelWait(ages[0]), name)
            self.running = ages[0]

    def _finish_transfers(self, ages: Sequence[int], name: str) -> None:
        """Wait for the transfers of these ages (0: the newest), in ascending order; the younger ones may run on."""
        if ages:
            self.issue(DmaWait(ages[0]), name)
            self.transfers = self.transfers[len(self.transfers) - ages[0] :]

    def _needs(self, kernel: Placed, transfer: DmaOperation) -> bool:
        """Whether the kernel works on a byte that the transfer writes, in memory or in SHRAM, or overwrites one that it reads."""
        if transfer.to_shram:
            return self._uses(kernel, LutLoad(transfer.source, transfer.destination))
        return self.kept.touches(kernel, transfer)

    def _uses(self, kernel: Placed, table: LutLoad) -> bool:
        """Whether the kernel holds SHRAM bytes of the table's place."""
        if self.accelerator.reserved_lut_banks == 0:
            return True
        activation = kernel.template.home.activation
        if activation.kind is not ActivationKind.LUT:
            return False
        start = self.accelerator.lut_address + activation.lut * LUT_SLOT
        size = next((t.source.length for t in self.tables if t.destination == start), LUT_SLOT)
        return start < table.destination + table.source.length and table.destination < start + size


def overlapping(a: LutLoad, b: LutLoad) -> bool:
    """Whether two tables cannot be in SHRAM at once."""
    return a.destination < b.destination + b.source.length and b.destination < a.destination + a.source.length
