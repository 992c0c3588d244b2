"""Rows of Vela's per-layer table: the operations that Vela makes of a network, fused ones too, from its debug database."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cascader.frontends.vela.debug_database import read_tables, source_operators, table
from npu_model.program import KernelOperation
from npu_model.tflite.model import TfliteModel
from sim.replay import OperationReplay


class VelaRow(Struct, frozen=True):
    """One operation of Vela's: its operator in the network, its kind, and where it runs.

    ``layer`` is the tensor that the operator makes, and the name of our layer; ``name`` is Vela's own. A ``fused`` operation is part of the
    operation before it.
    """

    original: str
    operator: str
    target: str
    name: str
    layer: str
    fused: bool


def vela_rows(database: str, model: TfliteModel) -> tuple[VelaRow, ...]:
    """The rows of Vela's table in order; none if the database has no such table, as with the Python core."""
    tables = read_tables(database)
    layers = {key: model.tensors[one.outputs[0]].name for key, one in source_operators(tables, model).items() if one.outputs}
    originals = table(tables, "source").column_by("id", "operator")
    queued = {row[0] for row in table(tables, "queue").columns("optimised_id")}
    grouped = {row[0] for row in table(tables, "group").columns("id")}
    found = []
    for number, source, optimised, name, operator in table(tables, "perf").columns("id", "source_id", "optimised_id", "name", "operator"):
        fused = number in grouped
        target = "NPU" if fused or optimised in queued else "CPU"
        found.append(VelaRow(originals.get(source, operator), operator, target, name, layers.get(source, name) or name, fused))
    return tuple(found)


def shared_out(operations: Sequence[OperationReplay], slots: int) -> list[list[OperationReplay]]:
    """A layer's operations by row: a kernel each, with the copies before it, or all in the first row if the numbers differ."""
    kernels = sum(isinstance(one.op, KernelOperation) for one in operations)
    if kernels != slots or slots < 2:
        return [list(operations), *([] for _ in range(slots - 1))]
    found: list[list[OperationReplay]] = [[]]
    for one in operations:
        if found[-1] and isinstance(found[-1][-1].op, KernelOperation) and len(found) < slots:
            found.append([])
        found[-1].append(one)
    return found
