"""A kernel that reads its constants at home: by when its units are done if its decoder has the port to itself, transaction by transaction.

Whatever else passes the port makes each transaction later, and what comes later makes nothing else earlier. The compiled form
(``native/home_reads.c``) gives the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from cascader.ethosu.proof.home_port import ENDS, HomePort, Issued
from cascader.ethosu.proof.least_flow import Begun, FlowRun, FlowTimes, LeastFlow
from cascader.ethosu.proof.least_step import with_least
from cascader.ethosu.proof.least_work import Reads
from npu_model.native import native

_NATIVE = native("cascader.ethosu")
_ROW = len(FlowTimes._fields)

Held = tuple[int, int]
"""A block that waits for the kernel before, and for how many cycles more."""


class Before(NamedTuple):
    """Before a kernel: when each unit is free at the earliest and the kernel before has finished.

    Its constants are asked for from cycle ``gate`` on. The Program began at cycle ``begin``; ``issued`` has its transactions so far.
    """

    load: int
    mac: int
    output: int
    store: int
    finish: int
    gate: int
    begin: int
    issued: Issued


def _step(reads: Reads, home: HomePort, issued: Issued, request: int) -> Issued:
    """The transactions of a step, all asked for at one cycle, those of weights and of scales in whichever order is best."""
    weights, scales = reads
    row = list(accumulate(weights, lambda before, words: home.issue(before, request, words), initial=issued))
    for scale in scales:
        further = [home.issue(row[0], request, scale)]
        for words, before in zip(weights, row[1:], strict=True):
            further.append(home.least([home.issue(before, request, scale), home.issue(further[-1], request, words)]))
        row = further
    return row[-1]


def _read(flow: LeastFlow, held: Held, home: HomePort, before: Before) -> tuple[FlowTimes, Issued]:
    """The times behind a kernel in one block, and its transactions with those before."""
    at, drained = held
    run = FlowRun(flow.slots, Begun(before.load, max(before.load, before.gate), before.mac, before.output, before.store))
    issued = before.issued

    def decode(reads: Reads, request: int) -> int:
        nonlocal issued
        issued = _step(reads, home, issued, request - before.begin)
        return max(request, issued[ENDS] + before.begin) if any(reads) else request

    for number, block in enumerate(flow.work.blocks):
        if number == at:
            run.load = max(run.load, before.finish + drained)
        run.block(block, flow.response, lambda step, request: decode(block.reads[step], request))  # noqa: B023  # called at once
    return flow.ended(run), issued


class HomeReads:
    """The reads of a kernel in each of its blocks, in each of which one block of it waits for the kernel before.

    ``held`` has the number of that block, and cycles from the end of the kernel before for which it waits.
    """

    def __init__(self, flows: Sequence[LeastFlow], held: Sequence[Held], home: HomePort) -> None:
        self._flows = flows
        self._held = held
        self._home = home
        self._flat = [array("q", chain(*some)) for some in ([flow.stream for flow in flows], held, [home.flat])]

    def python_behind(self, before: Before, times: Sequence[int]) -> tuple[array[int], Issued]:
        """The Python form of :meth:`behind`."""
        ways = [_read(flow, wait, self._home, before) for flow, wait in zip(self._flows, self._held, strict=True)]
        rows = [max(pair) for pair in zip(times, (time for found, _ in ways for time in found), strict=False)]
        return with_least(rows), self._home.least([issued for _, issued in ways])

    def behind(self, before: Before, times: array[int]) -> tuple[array[int], Issued]:
        """Times behind the kernel for each of its blocks, and then the least of each, raised to what its reads take; the port then."""
        if _NATIVE is None:
            return self.python_behind(before, times)
        *units, issued = before
        found = array("q", _NATIVE.home_reads(*self._flat, array("q", (*units, self._flows[0].slots, *issued)), times))
        return found[: len(times)], tuple(found[len(times) :])
