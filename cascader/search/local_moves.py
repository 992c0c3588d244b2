"""Regrouping: the groups of a proposal with one of them cut, joined, moved or striped otherwise; and all divisions of a small graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from cascader.graph.row_graph import RowGraph
from cascader.plan.depth_first import Group

Groups = tuple[Group, ...]

_NO_BOUND = 1 << 40
"""In place of a bound of 0, which is none."""


def _replaced(groups: Groups, at: int, count: int, others: Sequence[Group]) -> Groups:
    return (*groups[:at], *others, *groups[at + count :])


def _choices(graph: RowGraph, last: int, rows: Sequence[int]) -> list[int]:
    """The numbers of rows that a group's last part can be asked for; those of an atomic one are asked of the parts behind it."""
    part = graph.parts[last]
    return sorted(set(rows)) if part.atomic else sorted({min(choice, part.rows) for choice in (*rows, part.rows)})


def _group(graph: RowGraph, first: int, last: int, rows: int, inner: int) -> Group:
    """The group with at most the rows that its last part has; a single part is not striped."""
    part = graph.parts[last]
    if first == last:
        return Group(first, last, part.rows)
    return Group(first, last, rows if part.atomic else min(rows, part.rows), inner)


def _beside(choices: Sequence[int], choice: int) -> Sequence[int]:
    """A choice between the next lower and the next higher one; none if it is none of them."""
    here = choices.index(choice) if choice in choices else -1
    return choices[max(0, here - 1) : here + 2] if here >= 0 else ()


def _ways(graph: RowGraph, group: Group, rows: Sequence[int], inner: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """The numbers of rows, and the bounds for inner rows, that are no more than a step away from a group's; none for a single part."""
    if group.first == group.last:
        return (), ()
    return _beside(_choices(graph, group.last, rows), group.stripe_rows), _beside(
        [*sorted({*inner, group.inner_rows} - {0}), 0], group.inner_rows
    )


def _restriped(graph: RowGraph, groups: Groups, rows: Sequence[int]) -> Iterator[Groups]:
    """One group with the next lower or higher number of rows."""
    for at, group in enumerate(groups):
        for choice in _ways(graph, group, rows, ())[0]:
            if choice != group.stripe_rows:
                yield _replaced(groups, at, 1, [group._replace(stripe_rows=choice)])


def _bounded(graph: RowGraph, groups: Groups, inner: Sequence[int]) -> Iterator[Groups]:
    """One group with the next lower or higher bound for its inner rows, or with none."""
    for at, group in enumerate(groups):
        for choice in _ways(graph, group, (), inner)[1]:
            if choice != group.inner_rows:
                yield _replaced(groups, at, 1, [group._replace(inner_rows=choice)])


def _traded(graph: RowGraph, groups: Groups, rows: Sequence[int], inner: Sequence[int]) -> Iterator[Groups]:
    """One group with the next higher number of rows and the next lower bound for its inner rows, or the other way round.

    Alone the first may not fit, and the second gain nothing.
    """
    for at, group in enumerate(groups):
        for choice, bound in product(*_ways(graph, group, rows, inner)):
            if (choice - group.stripe_rows) * ((bound or _NO_BOUND) - (group.inner_rows or _NO_BOUND)) < 0:
                yield _replaced(groups, at, 1, [group._replace(stripe_rows=choice, inner_rows=bound)])


def _joined(graph: RowGraph, groups: Groups) -> Iterator[Groups]:
    """Two neighbours as one group, striped as either."""
    for at, (one, two) in enumerate(pairwise(groups)):
        if graph.parts[one.first].segment == graph.parts[two.last].segment:
            for rows, inner in sorted({(one.stripe_rows, one.inner_rows), (two.stripe_rows, two.inner_rows)}):
                yield _replaced(groups, at, 2, [_group(graph, one.first, two.last, rows, inner)])


def _cut(graph: RowGraph, groups: Groups) -> Iterator[Groups]:
    """One group as two."""
    for at, group in enumerate(groups):
        for middle in range(group.first, group.last):
            rows, inner = group.stripe_rows, group.inner_rows
            halves = [_group(graph, group.first, middle, rows, inner), _group(graph, middle + 1, group.last, rows, inner)]
            yield _replaced(groups, at, 1, halves)


def _moved(graph: RowGraph, groups: Groups) -> Iterator[Groups]:
    """The border between two neighbours one part up or down."""
    for at, (one, two) in enumerate(pairwise(groups)):
        if graph.parts[one.first].segment != graph.parts[two.last].segment:
            continue
        for border in (one.last - 1, one.last + 1):
            if one.first <= border < two.last:
                pair = [
                    _group(graph, one.first, border, one.stripe_rows, one.inner_rows),
                    _group(graph, border + 1, two.last, two.stripe_rows, two.inner_rows),
                ]
                yield _replaced(groups, at, 2, pair)


def neighbours(graph: RowGraph, groups: Groups, rows: Sequence[int], inner: Sequence[int] = ()) -> Iterator[Groups]:
    """All that one change makes of ``groups``, in a fixed order.

    ``rows`` are the numbers of rows to ask a group's last part for, ``inner`` those to bound the rows of the parts before it by.
    """
    yield from _restriped(graph, groups, rows)
    yield from _bounded(graph, groups, inner)
    yield from _traded(graph, groups, rows, inner)
    yield from _joined(graph, groups)
    yield from _cut(graph, groups)
    yield from _moved(graph, groups)


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
