"""Residual sums: results that may overwrite an operand which earlier parts also read, because these parts are done with its rows by then.

A residual block has two 3x3 convolutions and a sum with the block's input. Row y of the first convolution needs rows y - 1 to y + 1 of the
input. Row y of the sum needs the first convolution up to row y + 1, which has then read the input up to row y + 2. So only the sum needs
row y of the input by then, for all groups and stripes.
"""

from __future__ import annotations

from functools import cache

from cascader.graph.row_graph import RowGraph
from cascader.graph.row_maps import RowPropagator


def _is_done(propagator: RowPropagator, made: int, rows: int, until: int) -> bool:
    """Whether a part that has made ``made`` of its ``rows`` reads none of the first ``until`` rows of its input any more."""
    return made >= rows or (not propagator.whole and propagator.demand(made, made + 1)[0] >= until)


class LastReaders:
    """Last readers of the tensors of one graph; the needs of a part's first rows are computed once."""

    def __init__(self, graph: RowGraph) -> None:
        self._graph = graph
        self._readers, self._writers = graph.readers(), graph.writers()
        self._needed = cache(self._needs)

    def _needs(self, part: int, made: int) -> tuple[tuple[int, int], ...]:
        """Earlier parts, each with rows that it surely has made once ``part`` has made its first ``made`` rows."""
        facts, parts = self._graph.parts[part], self._graph.parts
        return tuple(
            (producer, parts[producer].rows_until(output, propagator.demand(0, made)[1]))
            for tensor, propagator in facts.inputs
            for producer, output in self._writers[tensor]
            if producer < part
        )

    def _rows_behind(self, part: int, count: int, first: int) -> list[int]:
        """Rows of each part from ``first`` up to ``part`` that are surely made once ``part`` has made its first ``count`` rows."""
        made = [0] * part + [count]
        for index in range(part, first - 1, -1):
            if made[index]:
                facts = self._graph.parts[index]
                made[index] = facts.rows if facts.atomic else made[index]
                for producer, rows in self._needed(index, made[index]):
                    if producer >= first and rows > made[producer]:
                        made[producer] = rows
        return made

    def is_last(self, part: int, tensor: int) -> bool:
        """Whether no other part reads a row of the tensor once ``part`` may make the same row of its output, however parts are grouped."""
        graph = self._graph
        others = [(reader, propagator) for reader, propagator in self._readers[tensor] if reader != part]
        if any(reader > part for reader, _ in others):
            return False
        facts = graph.parts[part]
        first = min((reader for reader, _ in others), default=part)
        for count in range(1, facts.rows + 1) if others else ():
            made, until = self._rows_behind(part, count, first), facts.written(0, 0, count, graph.tensors[tensor].rows)[1]
            if not all(_is_done(propagator, made[reader], graph.parts[reader].rows, until) for reader, propagator in others):
                return False
        return True
