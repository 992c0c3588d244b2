"""One step of a proof: the least times of the units behind a kernel in each of its blocks, whichever block the one before was made in.

The compiled form (``native/least_step.c``) gives the same; both take flat arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from cascader.ethosu.proof.least_flow import FLOW, RELEASED, FlowTimes
from npu_model.native import native

_NATIVE = native("cascader.ethosu")
_ROW = len(FlowTimes._fields)


def with_least(rows: Sequence[int]) -> array[int]:
    """Times of some blocks, one after the other, and then the least of each."""
    return array("q", [*rows, *(min(rows[unit::_ROW]) for unit in range(_ROW))])


def _behind(flow: Sequence[int], released: Sequence[int], before: Sequence[int]) -> tuple[int, int, int, int]:
    """Times of the units but of the last response behind a kernel: ``flow`` is :attr:`LeastFlow.flat`."""
    load, mac, output, store, finish = before
    return (
        max(load + flow[0], mac + flow[4], output + flow[8], store + flow[12], finish + released[0]),
        max(load + flow[1], mac + flow[5], output + flow[9], store + flow[13], finish + released[1]),
        max(load + flow[2], mac + flow[6], output + flow[10], store + flow[14], finish + released[2]),
        max(load + flow[3], mac + flow[7], output + flow[11], store + flow[15], finish + released[3]),
    )


def _delayed(flow: Sequence[int], times: Sequence[int], start: int, macs: int) -> tuple[int, ...]:
    units = [max(time, start + flow[unit], macs + flow[4 + unit]) for unit, time in enumerate(times)]
    return (*units, units[-1] + flow[16])


def python_step(times: array[int], link: array[int], origins: array[int], start: int, macs: int) -> bytes:
    """The Python form of :func:`step`."""
    befores = [times[at : at + _ROW] for at in range(0, len(times) - _ROW, _ROW)]
    blocks = len(link) // (FLOW + len(befores) * RELEASED)
    at, rows = blocks * FLOW, list[int]()
    for block in range(blocks):
        flow = link[block * FLOW : (block + 1) * FLOW]
        ways = []
        for before in befores:
            ways.append(_behind(flow, link[at : at + RELEASED], before))
            at += RELEASED
        ways = [ways[origins[block]]] if origins else ways
        rows += _delayed(flow, tuple(map(min, zip(*ways, strict=True))), start, macs)
    return with_least(rows).tobytes()


def step(times: array[int], link: array[int], origins: array[int], start: int, macs: int) -> array[int]:
    """Times behind a kernel for each of its blocks, and then the least of each, by those behind the kernel before.

    ``link`` has the kernel's flow in each block, and then for each of these and each block of the kernel before what is released when that
    has finished. ``origins`` has for each block that of the kernel before; none of them: it may be any. The kernel does not begin before
    cycle ``start``, nor its MACs before cycle ``macs``.
    """
    return array("q", (python_step if _NATIVE is None else _NATIVE.least_step)(times, link, origins, start, macs))
