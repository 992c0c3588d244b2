"""Known plans: plans of windows that recur in other graphs. A window is the parts that groups with the same last part may have.

The plans of a window follow from its parts and tensors, from what the parts around it do with these tensors, and from the bytes of the
tensors that pass by. Every plan holds the passing bytes in addition, so windows with different passing bytes share their plans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from cascader.plan.depth_first import DepthFirstScheduler

Lines = npt.NDArray[np.int64]

_FAR = 1 << 40
_VALUE_BYTES = 1024
"""Approximate bytes of a numbered value."""
_FIRST, _MEMORY = 0, 1
"""Columns of a line whose numbers are relative while they are kept."""


class KnownPlans:
    """The plans of windows on a device on which all stripes cost the same. Beyond about ``most_bytes`` all are dropped."""

    def __init__(self, most_bytes: int = 64 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._next = count()
        self._numbers: dict[Hashable, int] = {}
        self._lines: dict[Hashable, Lines] = {}

    def number(self, value: Hashable) -> int:
        """The number of a value; equal values have equal numbers until they are dropped, and no two values ever share one."""
        found = self._numbers.get(value)
        return self._numbers.setdefault(value, next(self._next)) if found is None else found

    def find(self, key: Hashable) -> Lines | None:
        """The lines of a window."""
        return self._lines.get(key)

    def keep(self, key: Hashable, lines: Lines) -> None:
        """Keep the lines of a window."""
        if self._bytes + _VALUE_BYTES * len(self._numbers) > self._most_bytes:
            self._numbers.clear()
            self._lines.clear()
            self._bytes = 0
        self._lines[key] = lines
        self._bytes += lines.nbytes


class Windows:
    """Looks up windows of a graph."""

    def __init__(self, scheduler: DepthFirstScheduler, known: KnownPlans, passing: Sequence[int]) -> None:
        """``passing`` holds the bytes of all tensors between each part and the next one."""
        self._known, self._scheduler, graph = known, scheduler, scheduler.graph
        self._users = [self._users_of(tensor) for tensor in range(len(graph.tensors))]
        tensors = [self._tensor(tensor) for tensor in range(len(graph.tensors))]
        self._parts = np.array([self._part(number, tensors) for number in range(len(graph.parts))], dtype=np.int64)
        self._passing = passing
        there = [users for users, tensor in zip(self._users, graph.tensors, strict=True) if tensor.kind.is_there_at_first]
        self._begun = max((users[0] if users else _FAR for users in map(sorted, there)), default=-1)
        """The last part that is first to use an input of the network."""

    def _users_of(self, tensor: int) -> list[int]:
        scheduler = self._scheduler
        return [*(part for part, _ in scheduler.writers[tensor]), *(part for part, _ in scheduler.consumers[tensor])]

    def _tensor(self, number: int) -> tuple[int, int]:
        """A tensor's number, without its place in the graph, and the part from which the places of its users count."""
        scheduler, tensor, base = self._scheduler, self._scheduler.graph.tensors[number], min(self._users[number], default=0)
        parts = scheduler.graph.parts
        writers = tuple(
            (part - base, output, parts[part].map(output), parts[part].atomic, scheduler.needed[part])
            for part, output in scheduler.writers[number]
        )
        readers = tuple(
            (part - base, [one for one, _ in parts[part].inputs].index(number), propagator)
            for part, propagator in scheduler.consumers[number]
        )
        kind = tensor.kind.is_there_at_first, tensor.kind.stays_to_the_end
        return self._known.number((kind, tensor.rows, tensor.row_bytes, tensor.roll, writers, readers)), base

    def _part(self, number: int, tensors: Sequence[tuple[int, int]]) -> int:
        """A part's number. Parts have equal numbers if they and their tensors differ only in their place in the graph."""
        part = self._scheduler.graph.parts[number]

        def placed(tensor: int) -> tuple[int, int]:
            found, base = tensors[tensor]
            return found, number - base

        inputs = tuple((*placed(tensor), propagator) for tensor, propagator in part.inputs)
        outputs = tuple((*placed(tensor), part.map(output)) for output, tensor in enumerate(part.outputs))
        in_place = None if part.in_place is None else placed(part.in_place)
        after = tuple(number - earlier for earlier in part.after)
        own = part.rows, part.align, part.atomic, part.phase, part.most_rows, self._scheduler.needed[number]
        return self._known.number((own, inputs, outputs, in_place, after))

    def key(self, first: int, last: int, how: Hashable) -> Hashable | None:
        """The key of the plans of the groups between two parts; None if the window is not kept.

        A window at the graph's first part is kept only if it uses all inputs: inputs that the window does not use hold bytes
        while its first part runs.
        """
        if first == 0 and self._begun > last:
            return None
        return self._parts[first : last + 1].tobytes(), first == 0, how

    def lines(self, first: int, last: int, how: Hashable, made: Callable[[], Lines]) -> Lines:
        """The lines of the groups between two parts: those of an equal window if there is one, otherwise as ``made``."""
        key = self.key(first, last, how)
        found = None if key is None else self._known.find(key)
        if found is not None:
            return self._moved(found, last, self._passing[last])
        lines = made()
        if key is not None:
            self._known.keep(key, self._moved(lines, -last, -self._passing[last]))
        return lines

    @staticmethod
    def _moved(lines: Lines, parts: int, size: int) -> Lines:
        moved: Lines = lines.copy()
        moved[:, _FIRST] += parts
        moved[:, _MEMORY] += size
        return moved
