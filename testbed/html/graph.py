"""The network of a schedule as data: layers in the order in which they first run, what each reads of others, and cascades."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_model.compiled.network import CpuOperator
from npu_model.printable import printable
from npu_model.program import BRICK, ByteRange, DmaOperation, FeatureMap, KernelOperation, Layout
from npu_model.shapes import ceil_div
from testbed.simulation import Simulation

Ranges = tuple[ByteRange, ...]

Touched = tuple[str, Ranges, Ranges, bool]
"""A layer with the byte ranges that one of its operations reads and writes, and whether it writes every byte of them."""


def _steps(simulation: Simulation) -> Iterator[Touched]:
    """The operations of the network in order, with the feature maps that they read and write; reads of constants are left out."""
    for step in simulation.network.steps:
        if isinstance(step, CpuOperator):
            reads, writes = (tuple(binding.byte_range for binding in bound) for bound in (step.inputs, step.outputs))
            yield f"{printable(step.code)} on the CPU", reads, writes, True
            continue
        for index, op in enumerate(step.operations):
            if isinstance(op, KernelOperation):
                maps = op.ifm.byte_ranges() + (op.ifm2.byte_ranges() if op.ifm2 else ())
                yield printable(step.name(index)) or f"#{index} {op.mnemonic}", maps, op.writes(), _is_dense(op.ofm)
            elif isinstance(op, DmaOperation) and not op.to_shram:
                yield "", (), op.writes(), True


def _is_dense(fm: FeatureMap) -> bool:
    """Whether the feature map has no gaps, as the part of a concatenation has."""
    width, size = fm.shape.width, fm.dtype.bytes
    if fm.layout is Layout.NHWC:
        return fm.strides.x == fm.shape.depth * size and fm.strides.y == width * fm.strides.x
    return fm.strides.c == width * BRICK * size and fm.strides.y == ceil_div(fm.shape.depth, BRICK) * fm.strides.c


def cascades(runs: list[str]) -> list[tuple[int, int]]:
    """The groups of layers, numbered by first run, whose operations interleave: first and last of each.

    >>> cascades(["a", "b", "a", "b", "c", "c"])
    [(0, 1), (2, 2)]
    """
    order = {name: number for number, name in enumerate(dict.fromkeys(runs))}
    last = {name: step for step, name in enumerate(runs)}
    groups: list[tuple[int, int]] = []
    end = -1
    for step, name in enumerate(runs):
        number = order[name]
        if groups and number <= groups[-1][1]:
            continue
        groups[len(groups) - (step < end) :] = [(groups[-1][0], number)] if step < end else [(number, number)]
        end = max(end, last[name])
    return groups


def graph_data(simulation: Simulation) -> dict[str, Any]:
    """Layers with their number of operations, the edges between them (by number), and the cascades."""
    runs: list[str] = []
    numbers: dict[str, int] = {}
    edges: dict[tuple[int, int], None] = {}
    held: list[tuple[ByteRange, str]] = [(binding.byte_range, "input") for binding in simulation.network.inputs]
    counts: dict[str, int] = {}
    for name, reads, writes, dense in _steps(simulation):
        if name:
            runs.append(name)
            counts[name] = counts.get(name, 0) + 1
            number = numbers.setdefault(name, len(numbers))
            for where in reads:
                for what, writer in held:
                    if writer in numbers and writer != name and what.overlaps(where):
                        edges[numbers[writer], number] = None
        for where in writes if dense else ():
            held = [(left, writer) for what, writer in held for left in _outside(what, where)]
        held += [(where, name) for where in writes if name]
    return {"layers": [[name, counts[name]] for name in numbers], "edges": [list(edge) for edge in edges], "cascades": cascades(runs)}


def _outside(what: ByteRange, where: ByteRange) -> Iterator[ByteRange]:
    """The pieces of ``what`` that are not in ``where``."""
    if not what.overlaps(where):
        yield what
        return
    if what.start < where.start:
        yield ByteRange(what.region, what.start, where.start)
    if where.end < what.end:
        yield ByteRange(what.region, where.end, what.end)
