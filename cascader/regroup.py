"""Regrouping: the groups of a proposal with one of them cut, joined, moved or striped otherwise; and all divisions of a small graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from cascader.pull import Group
from cascader.row_graph import RowGraph

Groups = tuple[Group, ...]


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


def _restriped(graph: RowGraph, groups: Groups, rows: Sequence[int]) -> Iterator[Groups]:
    """One group with the next lower or higher number of rows."""
    for at, group in enumerate(groups):
        choices = _choices(graph, group.last, rows)
        if group.first < group.last and group.stripe_rows in choices:
            here = choices.index(group.stripe_rows)
            for choice in choices[max(0, here - 1) : here + 2]:
                if choice != group.stripe_rows:
                    yield _replaced(groups, at, 1, [replace(group, stripe_rows=choice)])


def _bounded(groups: Groups, inner: Sequence[int]) -> Iterator[Groups]:
    """One group with the next lower or higher bound for its inner rows, or with none."""
    for at, group in enumerate(groups):
        choices = [*sorted({*inner, group.inner_rows} - {0}), 0]
        here = choices.index(group.inner_rows)
        for choice in choices[max(0, here - 1) : here + 2] if group.first < group.last else ():
            if choice != group.inner_rows:
                yield _replaced(groups, at, 1, [replace(group, inner_rows=choice)])


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
    yield from _bounded(groups, inner)
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
