"""Regrouping: the groups of a proposal with one group cut, joined, moved or striped differently; and all divisions of a small graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from itertools import product

from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import Group

Groups = tuple[Group, ...]

_NO_BOUND = 1 << 40
"""Stands for a bound of 0, which means none."""


def _choices(graph: RowGraph, last: int, rows: Sequence[int]) -> list[int]:
    """The numbers of rows that a group's last part may be asked for. If that part is atomic, its successors are asked."""
    part = graph.parts[last]
    return sorted(set(rows)) if part.atomic else sorted({min(choice, part.rows) for choice in (*rows, part.rows)})


def _beside(choices: Sequence[int], choice: int) -> Sequence[int]:
    """The next lower and the next higher choice. A value that is not a choice has no neighbours."""
    here = choices.index(choice) if choice in choices else -1
    return choices[max(0, here - 1) : here + 2] if here >= 0 else (choice,)


class Neighbourhood:
    """Changes of the groups of one graph.

    The results for one group, or for two neighbours, are computed once. ``rows`` are the numbers of rows to ask a group's last part for;
    ``inner`` are the bounds of the rows of earlier parts.
    """

    def __init__(self, graph: RowGraph, rows: Sequence[int], inner: Sequence[int] = ()) -> None:
        self._graph = graph
        self._rows = rows
        self._inner = inner
        self._every: tuple[tuple[int, Callable[..., list[Groups]]], ...] = (
            (1, cache(partial(self._restriped, lambda more_rows, higher: more_rows != 0 and not higher))),
            (1, cache(partial(self._restriped, lambda more_rows, higher: not more_rows and higher != 0))),
            # More rows with a lower bound, or fewer with a higher one: alone, the first may not fit, and the second may gain nothing.
            (1, cache(partial(self._restriped, lambda more_rows, higher: more_rows * higher < 0))),
            (2, cache(self._joined)),
            (1, cache(self._cut)),
            (2, cache(self._moved)),
        )

    def of(self, groups: Groups, parts: Collection[int] | None = None) -> Iterator[Groups]:
        """All results of one change of ``groups``, in a fixed order; with ``parts``, only changes of the groups that hold some of them."""
        holds = [parts is None or any(group.first <= part <= group.last for part in parts) for group in groups]
        for count, change in self._every:
            for at in range(len(groups) + 1 - count):
                for others in change(*groups[at : at + count]) if any(holds[at : at + count]) else ():
                    yield groups[:at] + others + groups[at + count :]

    def _group(self, first: int, last: int, like: Group) -> Group:
        """A group striped like another one, with at most its last part's rows. A single part is not striped."""
        part = self._graph.parts[last]
        if first == last:
            return Group(first, last, part.rows)
        return Group(first, last, like.stripe_rows if part.atomic else min(like.stripe_rows, part.rows), like.inner_rows)

    def _restriped(self, differs: Callable[[int, int], bool], group: Group) -> list[Groups]:
        """A group of several parts with the next lower or higher number of rows or bound for its inner rows, or none, or both.

        ``differs`` says which of them differ from the group.
        """
        if group.first == group.last:
            return []
        bounds = [*sorted({*self._inner, group.inner_rows} - {0}), 0]
        ways = _beside(_choices(self._graph, group.last, self._rows), group.stripe_rows), _beside(bounds, group.inner_rows)
        return [
            (group._replace(stripe_rows=rows, inner_rows=inner),)
            for rows, inner in product(*ways)
            if differs(rows - group.stripe_rows, (inner or _NO_BOUND) - (group.inner_rows or _NO_BOUND))
        ]

    def _cut(self, group: Group) -> list[Groups]:
        """One group as two."""
        middles = range(group.first, group.last)
        return [(self._group(group.first, middle, group), self._group(middle + 1, group.last, group)) for middle in middles]

    def _may_join(self, one: Group, two: Group) -> bool:
        return self._graph.parts[one.first].segment == self._graph.parts[two.last].segment

    def _joined(self, one: Group, two: Group) -> list[Groups]:
        """Two neighbours as one group, striped as either."""
        ways = sorted({one[2:], two[2:]}) if self._may_join(one, two) else []
        return [(self._group(one.first, two.last, Group(one.first, two.last, rows, inner)),) for rows, inner in ways]

    def _moved(self, one: Group, two: Group) -> list[Groups]:
        """The border between two neighbouring groups moved by one part."""
        borders = (one.last - 1, one.last + 1) if self._may_join(one, two) else ()
        return [
            (self._group(one.first, border, one), self._group(border + 1, two.last, two))
            for border in borders
            if one.first <= border < two.last
        ]


def neighbours(graph: RowGraph, groups: Groups, rows: Sequence[int], inner: Sequence[int] = ()) -> Iterator[Groups]:
    """All results of one change of ``groups``, in a fixed order; see :class:`Neighbourhood`."""
    return Neighbourhood(graph, rows, inner).of(groups)


def divisions(graph: RowGraph, rows: Sequence[int], inner: Sequence[int] = (), first: int = 0) -> Iterator[Groups]:
    """All groups that cover the parts from ``first`` on, in a fixed order; their number doubles with every part, and more.

    Bounds for inner rows are tried where a group's last part is asked for the fewest rows.
    """
    if first == len(graph.parts):
        yield ()
    for last in range(first, len(graph.parts)):
        if graph.parts[last].segment != graph.parts[first].segment:
            break
        choices = _choices(graph, last, rows) if first < last else [graph.parts[last].rows]
        groups = [Group(first, last, choice) for choice in choices]
        groups += [Group(first, last, choices[0], bound) for bound in inner if first < last]
        for rest in divisions(graph, rows, inner, last + 1):
            yield from ((group, *rest) for group in groups)
