"""The steps of an OFM block: chunks of IFM channels under parts of the kernel, each with the pace of the MAC array."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.cost.cycles import MacPace, mac_pace
from npu_model.cost.shram import ifm_depth_step
from npu_model.cost.traversal import reduces_depth, sub_kernels
from npu_model.program import KernelOperation
from npu_model.timing import TimingParameters


class Step(Struct, frozen=True):
    """A step of every OFM block: its MAC array's pace, the IFM channels that it fetches (0: the OFM's) and its share of the weights.

    ``first`` steps read the scales too.
    """

    pace: MacPace
    channels: int
    share: int
    first: bool


class Steps:
    """The steps of every OFM block of an operation: the distinct ``kinds``, and how often each kind and each pair of neighbours occurs.

    ``first`` and ``last`` are the numbers of the kinds of the first and of the last step; ``shares`` is the sum of all steps' shares.
    """

    def __init__(self, operation: KernelOperation, accelerator: Accelerator, timing: TimingParameters, *, is_known: bool) -> None:
        """``is_known`` says that the cycles of the weight decoder are counted separately."""
        self.kinds, order = _in_order(operation, accelerator, timing, is_known=is_known)
        self.count, self.first, self.last = len(order), order[0], order[-1]
        self.times = Counter(order)
        self.pairs = Counter(pairwise(order))
        self.shares = sum(self.kinds[number].share * times for number, times in self.times.items())

    @classmethod
    def known(cls, op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, *, is_known: bool) -> Steps:
        """The steps of an operation, which are kept: rows, addresses and blocks do not matter, so all stripes of a layer have the same."""
        facts = op.kind, op.pool, op.kernel, op.ifm.shape.depth, op.ifm.dtype, op.part_kernel, op.decompose, op.accumulator
        key = facts, accelerator, timing, is_known
        found = _KNOWN.get(key)
        if found is None:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            found = _KNOWN[key] = cls(op, accelerator, timing, is_known=is_known)
        return found


_KNOWN: dict[object, Steps] = {}
_MOST = 1024
"""The most steps that are kept; beyond it all are dropped."""


def _in_order(op: KernelOperation, accelerator: Accelerator, timing: TimingParameters, *, is_known: bool) -> tuple[list[Step], list[int]]:
    """The distinct steps of an OFM block, and for each step in order the number of its kind."""
    kernels, deep = sub_kernels(op), reduces_depth(op)
    depth, most = op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=op.part_kernel)
    channels = [min(most, depth - first) for first in range(0, depth, most)] if deep else [depth]
    numbers: dict[Step, int] = {}
    chunks: dict[tuple[int, bool], list[int]] = {}
    order: list[int] = []
    for number, count in enumerate(channels):
        chunk = count, number == 0
        if chunk not in chunks:
            steps = [
                Step(
                    mac_pace(op, accelerator, part.taps, count, timing, is_known=is_known),
                    count if deep else 0,
                    part.taps * (count if deep else 1),
                    number == index == 0,
                )
                for index, part in enumerate(kernels)
            ]
            chunks[chunk] = [numbers.setdefault(one, len(numbers)) for one in steps]
        order += chunks[chunk]
    return list(numbers), order
