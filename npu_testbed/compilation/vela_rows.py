"""Rows of Vela's per-layer table: the operations that Vela makes of a network, fused ones too, from its debug database."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cascader.frontends.vela.debug_database import read_tables, source_operators, table
from npu_model.program import KernelOperation
from npu_model.tflite.model import TfliteModel
from sim.replay import OperationReplay


class VelaRow(Struct, frozen=True):
    """One operation of Vela's: of which operator of the network, as what, and where.

    ``layer`` is the network's tensor that its operator makes, which our layers are called by; ``name`` is Vela's. A ``fused`` one is part
    of the operation before it.
    """

    original: str
    operator: str
    target: str
    name: str
    layer: str
    fused: bool


def vela_rows(database: str, model: TfliteModel) -> tuple[VelaRow, ...]:
    """The rows of Vela's table in its order; none if the database has no such table, as the Python core's has none."""
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
    """A layer's operations by the rows that it has: a kernel each, with the copies before it, or all to the first if numbers differ."""
    kernels = sum(isinstance(one.op, KernelOperation) for one in operations)
    if kernels != slots or slots < 2:
        return [list(operations), *([] for _ in range(slots - 1))]
    found: list[list[OperationReplay]] = [[]]
    for one in operations:
        if found[-1] and isinstance(found[-1][-1].op, KernelOperation) and len(found) < slots:
            found.append([])
        found[-1].append(one)
    return found
