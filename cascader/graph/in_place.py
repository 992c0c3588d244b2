"""Residual sums: results that may overwrite an operand which earlier parts also read, because these parts are done with its rows by then.

A residual block has two 3x3 convolutions and a sum with the block's input. Row y of the first convolution needs rows y - 1 to y + 1 of the
input. Row y of the sum needs the first convolution up to row y + 1, which has then read the input up to row y + 2. So only the sum needs
row y of the input by then, for all groups and stripes.
"""

from __future__ import annotations

import numpy as np

from cascader.graph.row_graph import RowGraph
from cascader.graph.row_maps import RowPropagator, Rows


def _is_done(propagator: RowPropagator, made: Rows, rows: int, until: Rows) -> bool:
    """Whether a part that has made ``made`` of its ``rows`` reads none of the first ``until`` rows of its input any more, at any time."""
    done = made >= rows
    return bool((done if propagator.whole else done | (propagator.first_rows(made) >= until)).all())


class LastReaders:
    """Last readers of the tensors of one graph."""

    def __init__(self, graph: RowGraph) -> None:
        self._graph = graph
        self._readers, self._writers = graph.readers(), graph.writers()

    def _rows_behind(self, part: int, counts: Rows, first: int) -> dict[int, Rows]:
        """Rows of parts from ``first`` up to ``part`` that are surely made once ``part`` has made its first ``counts`` rows.

        A part that is left out may have made none.
        """
        made = {part: counts}
        for index in range(part, first - 1, -1):
            if index not in made:
                continue
            facts, rows = self._graph.parts[index], made[index]
            begun = rows > 0
            made[index] = rows = np.where(begun, facts.rows, 0) if facts.atomic else rows
            for tensor, propagator in facts.inputs:
                for producer, output in self._writers[tensor]:
                    if first <= producer < index:
                        sure = self._graph.parts[producer].rows_until_each(output, propagator.end_rows(np.maximum(rows, 1)))
                        sure = np.where(begun, sure, 0)
                        made[producer] = np.maximum(made[producer], sure) if producer in made else sure
        return made

    def is_last(self, part: int, tensor: int) -> bool:
        """Whether no other part reads a row of the tensor once ``part`` may make the same row of its output, however parts are grouped."""
        graph = self._graph
        others = [(reader, propagator) for reader, propagator in self._readers[tensor] if reader != part]
        if any(reader > part for reader, _ in others):
            return False
        if not others:
            return True
        facts = graph.parts[part]
        counts = np.arange(1, facts.rows + 1)
        until = facts.written_until(0, counts, graph.tensors[tensor].rows)
        made, none = self._rows_behind(part, counts, min(reader for reader, _ in others)), np.zeros_like(counts)
        return all(_is_done(needs, made.get(reader, none), graph.parts[reader].rows, until) for reader, needs in others)
