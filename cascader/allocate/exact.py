"""Branch and bound over the orders in which buffers can be stacked: exact for a dozen buffers.

Sort the buffers of an optimal solution by address, push each down onto those before it that it is in conflict with, and repeat
until nothing moves: no address ever grows. So it is enough to look at stacks: each buffer goes directly onto the placed
ones, and addresses never fall along the order.
"""

from __future__ import annotations

from cascader.allocate.geometry import Geometry
from cascader.allocate.problem import sections, stack_height


class _Search:
    """The state of the depth-first search; ``addresses[i]`` is -1 while buffer i is not placed."""

    def __init__(self, geometry: Geometry, best: list[int], target: int, nodes: int, *, skip_same: bool) -> None:
        self.geometry = geometry
        self.best = best
        self.peak = geometry.peak(best)
        self.target = target
        self.nodes = nodes
        self.skip_same = skip_same
        self.addresses = [-1] * len(best)
        self.sections = sections(geometry.buffers)

    def floor(self, index: int) -> int:
        """The lowest address on top of the placed buffers in conflict."""
        lowest = max((self.addresses[j] + over for j, _, over in self.geometry.gaps[index] if self.addresses[j] >= 0), default=0)
        return self.geometry.align(index, lowest)

    def hopeless(self, floors: dict[int, int]) -> bool:
        """Whether no completion beats the best peak: some section's unplaced buffers cannot be stacked below it."""
        buffers = self.geometry.buffers
        for section in self.sections:
            left = [index for index in section if index in floors]
            if left and min(floors[index] for index in left) + stack_height(buffers[index] for index in left) >= self.peak:
                return True
        return False

    def descend(self, lowest: tuple[int, int], left: int) -> None:
        """Try every next buffer; ``lowest`` is the last one's (address, index), ``left`` counts the unplaced ones."""
        if self.peak <= self.target or self.nodes <= 0:
            return
        self.nodes -= 1
        if left == 0:
            peak = self.geometry.peak(self.addresses)
            if peak < self.peak:
                self.best, self.peak = list(self.addresses), peak
            return
        floors = {index: self.floor(index) for index, address in enumerate(self.addresses) if address < 0}
        if self.hopeless(floors):
            return
        tried = set()
        for index, address in sorted(floors.items(), key=lambda item: (item[1], item[0])):
            buffer = self.geometry.buffers[index]
            alike = (buffer.size, buffer.start, buffer.end, buffer.alignment)
            too_high = address + buffer.size >= self.peak
            if too_high or (address, index) < lowest or (self.skip_same and alike in tried):
                continue
            tried.add(alike)
            self.addresses[index] = address
            self.descend((address, index), left - 1)
            self.addresses[index] = -1


def branch_and_bound(geometry: Geometry, best: list[int], target: int, max_nodes: int, *, skip_same: bool) -> list[int]:
    """Addresses of a peak below that of ``best`` if there are any, else ``best``; a peak of ``target`` ends the search.

    The result is optimal unless ``max_nodes`` were not enough.
    """
    search = _Search(geometry, best, target, max_nodes, skip_same=skip_same)
    search.descend((0, -1), len(best))
    return search.best
