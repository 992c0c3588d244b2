"""Transfers in parallel with kernels: the cycles that transfers to or from a home share with the kernels that make and read their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from cascader.ethosu.network.carried_rows import carriers
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import StripeJob
from cascader.plan.group_costs import JobTimes

Times = Callable[[int, int, int], JobTimes]
"""The cycles of a part's rows: number of the part, first row, end (exclusive)."""


class _Transfer(Struct, frozen=True):
    """A transfer that takes rows away, or brings some, ``ahead`` by a number of rows.

    The ``kernels`` (parts) make its rows, or read them.
    """

    is_away: bool
    ahead: int
    kernels: tuple[int, ...]


class TransfersBeside:
    """The transfers of one network.

    A transfer that is ahead by its own rows runs in parallel with the kernel that makes, or reads, the next rows.

    If one transfer brings a kernel's input and another takes its output, the second runs during the part of the kernel that the first
    leaves free. So the three together take the kernel's cycles, or the cycles of both transfers if those are more.

    With ``counts_memory`` a kernel also leaves no time for transfers while it keeps the memory of the constants busy itself.
    """

    def __init__(self, network: Network, graph: RowGraph, times: Times, *, counts_memory: bool) -> None:
        self._graph = graph
        self._times = times
        self._counts_memory = counts_memory
        kernels = [ethosu_part(part) for part in network.graph.parts]
        self._transfers = dict[int, _Transfer]()
        for number, transfer, is_away in carriers(network):
            tensor = transfer.ifm if is_away else transfer.ofm
            uses = ((at, one) for at, one in enumerate(kernels) if one is not None and not one.transfer)
            found = tuple(at for at, one in uses if tensor in ((one.ofm,) if is_away else (one.ifm, one.ifm2)))
            self._transfers[number] = _Transfer(is_away, transfer.ahead, found)
        self._brought = {kernel: number for number, one in self._transfers.items() if not one.is_away for kernel in one.kernels}

    def __contains__(self, part: int) -> bool:
        return part in self._transfers

    def __len__(self) -> int:
        return len(self._transfers)

    def _cycles(self, part: int, height: int, *, staged: bool) -> int:
        """Cycles of a stripe; one that is ``staged`` has its constants copied."""
        times = self._times(part, 0, height)
        return times.staged if staged else times.direct

    def _as_high(self, part: int, other: int, height: int) -> int:
        """Rows of a part that are the same fraction of it as ``height`` rows are of another part, at least one."""
        rows = self._graph.parts[part].rows
        return min(rows, max(1, height * rows // self._graph.parts[other].rows))

    def _left(self, kernel: int, height: int, *, staged: bool, is_away: bool) -> int:
        """Cycles of a kernel's stripe that are left for a transfer.

        If it takes rows away, the cycles in which another transfer brings rows do not count.
        """
        cycles, before = self._cycles(kernel, height, staged=staged), self._brought.get(kernel)
        if self._counts_memory:
            times = self._times(kernel, 0, height)
            cycles -= times.staged_home if staged else times.home
        if is_away and before is not None:
            cycles -= self._cycles(before, self._as_high(before, kernel, height), staged=False)
        return max(0, cycles)

    def hidden(self, part: int, height: int) -> int:
        """Cycles of a part's stripe in which kernels run too, as plans count; 0 except for transfers that run ahead by a stripe."""
        transfer = self._transfers.get(part)
        if transfer is None or transfer.ahead < height:
            return 0
        heights = ((kernel, self._as_high(kernel, part, height)) for kernel in transfer.kernels)
        # A plan stages what it may: a kernel that reads its constants at home leaves more time for other transfers.
        left = sum(self._left(kernel, rows, staged=True, is_away=transfer.is_away) for kernel, rows in heights)
        return min(self._cycles(part, height, staged=False), left)

    def shared(self, before: StripeJob, after: StripeJob, stages: Sequence[bool]) -> int | None:
        """Cycles that a consecutive transfer and kernel share; ``stages`` says whether each is staged. None for two kernels.

        A transfer runs at the same time as a kernel that does not use its rows. If it runs ahead by its own rows, the kernel may use them.
        Two transfers share nothing.
        """
        pair = (before, stages[0]), (after, stages[1])
        transfers = [job for job, _ in pair if job.part in self._transfers]
        if len(transfers) != 1:
            return 0 if transfers else None
        job, transfer = transfers[0], self._transfers[transfers[0].part]
        (kernel, staged), is_before = next(((one, at) for one, at in pair if one is not job)), job is before
        height, is_own = kernel.end - kernel.start, kernel.part in transfer.kernels
        if is_own and (transfer.ahead < job.end - job.start or is_before == transfer.is_away):
            return 0
        left = self._left(kernel.part, height, staged=staged, is_away=is_own and transfer.is_away)
        return min(self._cycles(job.part, job.end - job.start, staged=False), left)
