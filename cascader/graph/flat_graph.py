"""A RowGraph as one flat array of integers, for the compiled core (``cascader/native/graph.h`` has the same layout)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cascader.graph.row_graph import RowGraph
from cascader.graph.row_maps import RowMap, RowPropagator

Numbers = npt.NDArray[np.int64]


def _view(at: RowMap | None) -> tuple[int, ...]:
    return (0, 0, 0, 0, 1) if at is None else (1, at.offset, at.step, at.reach, at.unit)


def _input(tensor: int, p: RowPropagator) -> tuple[int, ...]:
    return (tensor, p.rows, p.stride, p.taps, p.pad, p.upscale, int(p.whole), *_view(p.at))


def _lists(lists: Sequence[Sequence[int]], width: int = 1) -> tuple[list[int], list[int]]:
    """The beginning of each list, in items of ``width`` integers, with the end of the last list, and all lists in a row."""
    begins = [0]
    for items in lists:
        begins.append(begins[-1] + len(items) // width)
    return begins, [item for items in lists for item in items]


def _joined(items: Iterable[Sequence[int]]) -> list[int]:
    return [number for item in items for number in item]


def flat_graph(graph: RowGraph, needed: Sequence[int]) -> Numbers:
    """The array: where each section begins, then the sections; ``needed`` holds the rows that each part makes."""
    readers: list[list[int]] = [[] for _ in graph.tensors]
    writers: list[list[tuple[int, int]]] = [[] for _ in graph.tensors]
    parts, inputs, outputs = [], [], []
    reads = writes = 0
    for index, part in enumerate(graph.parts):
        in_place = -1 if part.in_place is None else part.in_place
        parts += [part.rows, part.align, int(part.atomic), in_place, part.segment, part.phase, part.most_rows, needed[index]]
        inputs.append(_joined(_input(tensor, propagator) for tensor, propagator in part.inputs))
        outputs.append(_joined((tensor, *_view(part.map(output))) for output, tensor in enumerate(part.outputs)))
        for tensor, _ in part.inputs:
            readers[tensor] += [index, reads]
            reads += 1
        for tensor in part.outputs:
            writers[tensor].append((index, writes))
            writes += 1
    asked = [sorted(found, key=lambda one: graph.is_asked_last(one[0], tensor)) for tensor, found in enumerate(writers)]
    tensors = [[int(t.kind.is_there_at_first), int(t.kind.stays_to_the_end), t.rows, t.row_bytes, t.roll] for t in graph.tensors]
    sections = [
        [len(graph.parts), len(graph.tensors)],
        parts,
        *_lists(inputs, 12),
        *_lists(outputs, 6),
        *_lists([part.after for part in graph.parts]),
        *_lists(readers, 2),
        *_lists([_joined(found) for found in asked], 2),
        _joined(tensors),
    ]
    begins = np.cumsum([len(sections), *(len(section) for section in sections[:-1])])
    return np.array([*begins, *_joined(sections)], dtype=np.int64)
