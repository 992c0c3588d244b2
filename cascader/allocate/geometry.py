"""The buffers of one part with the gaps between them, worked out once for the search."""

from __future__ import annotations

from collections.abc import Sequence

from cascader.allocate.problem import Buffer, gap
from npu_model.shapes import round_up


class Geometry:
    """``gaps[i]`` lists, for every buffer j in conflict with i: (j, gap of i below j, gap of j below i)."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self.buffers = buffers
        self.gaps: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
        by_birth = sorted(range(len(buffers)), key=lambda index: buffers[index].start)
        for rank, i in enumerate(by_birth):
            for j in by_birth[rank + 1 :]:
                if buffers[j].start >= buffers[i].end:
                    break
                under, over = gap(buffers[i], buffers[j]), gap(buffers[j], buffers[i])
                if under is not None and over is not None:
                    self.gaps[i].append((j, under, over))
                    self.gaps[j].append((i, over, under))

    def align(self, index: int, address: int) -> int:
        """The first address from ``address`` on that buffer ``index`` may have."""
        return round_up(max(0, address), self.buffers[index].alignment)

    def peak(self, addresses: Sequence[int]) -> int:
        """End of the highest buffer, in bytes."""
        return max((address + buffer.size for address, buffer in zip(addresses, self.buffers, strict=True)), default=0)
