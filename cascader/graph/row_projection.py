"""Row projection: the rows of a graph's tensors and parts along one axis of each, from the views of the parts.

A tensor's row is the smallest step by which a part goes through it. Other accesses are views of these rows: coarser (a reshape), from a
later row on (a crop, a part of a concatenation), or scattered over all rows (a transposition).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from math import lcm

from cascader.graph.cascader_graph import CascaderGraph, Part, TensorKind
from cascader.graph.row_graph import RowPart, RowTensor
from cascader.graph.row_maps import RowPropagator
from cascader.graph.views import PartViews, View


class RowProjection:
    """Rows of the tensors of a graph, and the parts that make them."""

    def __init__(
        self,
        graph: CascaderGraph,
        striped: Mapping[str, tuple[PartViews, int]],
        alike: Iterable[tuple[str, str]],
        in_one_piece: Container[str],
        units: Mapping[str, int] | None = None,
    ) -> None:
        """``striped`` are the views of parts, each with the axis of its stripes; any other part reads and writes its tensors as a whole.

        Tensors of equal size in a pair of ``alike`` get the same rows. Those ``in_one_piece`` have no rolling buffers. ``units`` gives the
        bytes of a row if they are known; otherwise a row is the smallest step of a view.
        """
        self._striped = striped
        seen: dict[str, list[tuple[View, int]]] = {tensor.name: [] for tensor in graph.tensors}
        for views, axis in striped.values():
            for tensor, view in views.everything:
                seen[tensor].append((view, axis))
        sizes = {tensor.name: tensor.size for tensor in graph.tensors}
        head = _families(sizes, alike)
        steps: dict[str, set[int]] = {}
        for name, found in seen.items():
            own = {step for view, axis in found if (step := view.step(axis)) is not None and sizes[name] % step == 0}
            steps.setdefault(head[name], set()).update(own)
        given = units or {}
        self._units = {name: given.get(name) or min(steps[head[name]], default=size) for name, size in sizes.items()}
        self.tensors = tuple(
            RowTensor(
                tensor.name,
                tensor.kind,
                rows := tensor.size // (unit := self._units[tensor.name]),
                unit,
                rows if tensor.name in in_one_piece else _roll(seen[tensor.name], rows, unit),
            )
            for tensor in graph.tensors
            if tensor.kind is not TensorKind.CONSTANT
        )
        self._index = {tensor.name: index for index, tensor in enumerate(self.tensors)}

    def part(self, part: Part, *, whole: bool) -> RowPart:
        """The rows that a part makes and needs; with ``whole`` it runs whole, as it does if it cannot be cut."""
        if part.name not in self._striped:
            return self._opaque(part)
        seen, axis = self._striped[part.name]
        rows = seen.view.shape[axis]
        cut = None if whole or rows == 1 or not all(view.regular for _, view in seen.everything) else seen.cuts[axis]
        if cut is None:
            return self._uncut(part, seen, axis)
        inputs = []
        for operand in seen.operands:
            at = operand.view.rows(axis, self._units[operand.tensor])
            needs = RowPropagator.projected(operand.propagator, axis, axis, operand.view.shape[axis], at)
            inputs.append((self._index[operand.tensor], needs))
        written = seen.view.rows(axis, self._units[seen.output])
        maps = () if written is None else (written,)
        output = self._index[seen.output]
        return RowPart(part.name, tuple(inputs), (output,), rows, cut.align, phase=cut.phase, most_rows=cut.most, maps=maps)

    def _uncut(self, part: Part, seen: PartViews, axis: int) -> RowPart:
        """A part that makes all of its array at once, from all of its operands."""
        inputs = []
        for operand in seen.operands:
            at = operand.view.rows(axis, self._units[operand.tensor])
            inputs.append((self._index[operand.tensor], RowPropagator(operand.view.shape[axis], whole=True, at=at)))
        written = seen.view.whole(self._units[seen.output])
        return RowPart(part.name, tuple(inputs), (self._index[seen.output],), 1, atomic=True, maps=(written,))

    def _opaque(self, part: Part) -> RowPart:
        """A part whose reads and writes are known, but nothing else."""
        read = [self._index[name] for name in part.inputs if name in self._index]
        inputs = tuple((tensor, RowPropagator(self.tensors[tensor].rows, whole=True)) for tensor in read)
        return RowPart(part.name, inputs, tuple(self._index[name] for name in part.outputs), 1, 1, atomic=True)


def _families(sizes: Mapping[str, int], alike: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A representative of the tensors that are to have the same rows, by tensor."""
    head = {name: name for name in sizes}

    def find(name: str) -> str:
        while head[name] != name:
            name = head[name]
        return name

    for one, other in alike:
        if sizes[one] == sizes[other]:
            head[find(one)] = find(other)
    return {name: find(name) for name in head}


def _roll(views: Sequence[tuple[View, int]], rows: int, unit: int) -> int:
    """Unit of a rolling buffer's rows in a tensor: all rows if a view must be contiguous and has more than one row."""
    multiples = []
    for view, axis in views:
        step, (first, end) = view.step(axis), view.extent
        if step is not None and view.base % step + view.reach(axis) <= step:
            multiples.append(lcm(step, unit) // unit)
        elif not (view.regular and first // unit == (end - 1) // unit):
            return rows
    return min(rows, lcm(*multiples))
