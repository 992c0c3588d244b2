"""Networks with one state that is read and assigned in an order, as resource variables hold it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite
from hand_built import Graph
from msgspec.structs import replace

from npu_model.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.writer import write_tflite


class States:
    """A network whose one state is read and assigned as a test says, and begun by CALL_ONCE."""

    def __init__(self, *, first: Any = 5) -> None:
        self.graph, self.first = Graph(), first
        self.x = self.graph.tensor("image", (1, 4, 4, 8))
        self.last = self.graph.conv(self.x, 8, "conv")

    def handle(self) -> int:
        """Another handle of the state."""
        number = self.graph.tensor(f"handle_{len(self.graph.tensors)}", (), "int32", None)
        self.graph.tensors[number] = replace(self.graph.tensors[number], dtype=tflite.TensorType.RESOURCE)
        self.graph.operator("VAR_HANDLE", (), (number,), "VarHandleOptions", version=1, Container="", SharedName="state")
        return number

    def like(self, name: str) -> int:
        """A tensor as the last one."""
        self.graph.tensors.append(replace(self.graph.tensors[self.last], name=name))
        return len(self.graph.tensors) - 1

    def read(self, handle: int) -> None:
        """Add what the state holds to the last tensor."""
        held, total = self.like(f"held_{handle}_{self.last}"), self.like(f"total_{self.last}")
        self.graph.operator("READ_VARIABLE", (handle,), (held,), "ReadVariableOptions", version=1)
        self.graph.operator("ADD", (self.last, held), (total,), "AddOptions", version=2)
        self.last = total

    def assign(self, handle: int) -> None:
        """Assign the last tensor."""
        self.graph.operator("ASSIGN_VARIABLE", (handle, self.last), (), "AssignVariableOptions", version=1)

    def finish(self, *, once: bool = True) -> bytes:
        """The file, with the subgraph that begins the state."""
        shape = self.graph.tensors[self.last].shape
        value = replace(self.graph.tensors[self.last], name="first", data=np.full(shape, self.first, np.int8).tobytes())
        handle = TensorRecord("first_handle", (), tflite.TensorType.RESOURCE)
        codes = tflite.BuiltinOperator
        begin = SubgraphRecord(
            "begin",
            (handle, value),
            (
                OperatorRecord(codes.VAR_HANDLE, 1, (), (0,), "VarHandleOptions", (("Container", ""), ("SharedName", "state"))),
                OperatorRecord(codes.ASSIGN_VARIABLE, 1, (0, 1), ()),
            ),
            (),
            (),
        )
        call_once = OperatorRecord(codes.CALL_ONCE, 1, (), (), "CallOnceOptions", (("InitSubgraphIndex", 1),))
        operators = ((call_once, *self.graph.operators), (begin,)) if once else (tuple(self.graph.operators), ())
        return write_tflite(ModelRecord("main", "", tuple(self.graph.tensors), operators[0], (self.x,), (self.last,), others=operators[1]))


def with_state(order: str, *, handles: int = 1) -> bytes:
    """A network that reads (r) and assigns (a) its state in an order, by turns of its handles."""
    net = States()
    known = [net.handle() for _ in range(handles)]
    for number, letter in enumerate(order):
        (net.read if letter == "r" else net.assign)(known[number % handles])
    return net.finish()
