"""The layers of a compilation in the columns of Vela's ``NAME_per-layer.csv``, with the figures of our replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from npu_model.compiled.network import CpuOperator
from npu_model.program import KernelOperation
from npu_model.tflite.model import TfliteModel
from npu_testbed.compilation.names import builtin_operator, npu_operator
from npu_testbed.compilation.traffic import access_cycles
from npu_testbed.compilation.vela_rows import VelaRow, shared_out
from npu_testbed.replays.simulation import Simulation
from sim import Beats, NetworkReplay
from sim.events import Unit
from sim.replay import OperationReplay
from sim.views.layers import Layer, layer_cycles, layers

COLUMNS = (
    *("Original Operator", "NNG Operator", "Target", "Staging Usage", "Peak% (Staging)", "Op Cycles", "Network% (cycles)", "NPU"),
    *("SRAM AC", "DRAM AC", "OnFlash AC", "OffFlash AC", "MAC Count", "Network% (MAC)", "Util% (MAC)", "Name"),
)
"""The columns, in Vela's order."""

_NOTHING = (0, 0.0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
"""The columns of a row without any cycles."""
_COMPUTING = (Unit.MAC, Unit.AO)

Row = tuple[object, ...]


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


class _Rows:
    """The rows of a simulation's layers."""

    def __init__(self, simulation: Simulation, model: TfliteModel) -> None:
        self._replay: NetworkReplay = simulation.replay
        self._peak = simulation.planned_bytes
        self._codes = {model.tensors[index].name: operator.name for operator in model.operators for index in operator.outputs if index >= 0}
        counts = [len(one.program.operations) for one in self._replay.replays]
        self._firsts = [0, *accumulate(counts)]
        self._macs = sum(op.macs for one in self._replay.replays for op in one.program.kernels)
        self._cycles = [layer_cycles(one) for one in self._replay.replays]

    def npu(self, layer: Layer) -> Row:
        """The row of a layer on the NPU."""
        kernels = [one.op for one in layer.operations if isinstance(one.op, KernelOperation)]
        name = next((one.name for one in layer.operations), layer.label) or layer.label
        operator = "+".join(dict.fromkeys(npu_operator(op) for op in kernels)) or "DMA"
        code = self._codes.get(name, "")
        return (
            builtin_operator(code) if code else operator,
            operator,
            "NPU",
            *self._figures(layer.number, layer.operations, layer.cycles),
            name,
        )

    def of_vela(self, row: VelaRow, number: int, operations: Sequence[OperationReplay]) -> Row:
        """A row of Vela's with the figures of our operations in the Program ``number``."""
        cycles = sum(self._cycles[number].get(one.index, 0) for one in operations)
        return (row.original, row.operator, row.target, *self._figures(number, operations, cycles), row.name)

    def _figures(self, number: int, operations: Sequence[OperationReplay], cycles: int) -> Row:
        """The columns between the target and the name."""
        replay = self._replay.replays[number]
        macs = sum(one.op.macs for one in operations if isinstance(one.op, KernelOperation))
        live = self._replay.footprint.live
        staging = max((live[self._firsts[number] + one.index] for one in operations), default=0)
        access = access_cycles(sum((one.beats for one in operations), Beats()), replay.system)
        npu = max((sum(one.busy.get(unit, 0) for one in operations) for unit in _COMPUTING), default=0)
        return (
            *(staging, _percent(staging, self._peak), cycles, _percent(cycles, self._replay.cycles), npu),
            *(*access.values(), macs, _percent(macs, self._macs)),
            _percent(macs, cycles * replay.accelerator.macs_per_cycle),
        )

    def cpu(self, step: CpuOperator) -> Row:
        """The row of an operator on the CPU, whose cycles are not counted."""
        operator, name = builtin_operator(step.code), step.outputs[0].name if step.outputs else ""
        return operator, operator, "CPU", *_NOTHING, name


def layer_table(simulation: Simulation, model: TfliteModel, rows: Sequence[VelaRow] = ()) -> list[Row]:
    """The rows of the table: Vela's ``rows`` in their order, ours without any in the order in which the layers first run.

    Cycles say by how much a layer delays the end (:class:`sim.views.layers.LayerRow`). ``NPU`` is the larger of the work of the MAC array
    and of the output unit. Staging is the arena's live bytes while the layer runs. If Vela splits a layer into several operations and ours
    has the same number, each gets a row. Otherwise the first row has the whole layer. Layers without a row of Vela's follow at the end.
    """
    made, by_program = _Rows(simulation, model), iter(_by_program(simulation.replay))
    slots: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        if not row.fused:
            slots.setdefault(row.layer, []).append(number)
    table = [_of_nothing(row) for row in rows]
    further: list[Row] = []
    for step in simulation.network.steps:
        if isinstance(step, CpuOperator):
            names = {binding.name for binding in step.outputs}
            further += [] if any(row.target == "CPU" and row.layer in names for row in rows) else [made.cpu(step)]
            continue
        for layer in next(by_program):
            places = slots.pop(next((one.name for one in layer.operations), layer.label), None)
            if places is None:
                further.append(made.npu(layer))
                continue
            for place, operations in zip(places, shared_out(layer.operations, len(places)), strict=True):
                table[place] = made.of_vela(rows[place], layer.number, operations)
    return [*table, *further]


def _of_nothing(row: VelaRow) -> Row:
    """A row of Vela's that takes no time of ours: its operation is fused, on the CPU, or part of another."""
    return row.original, row.operator, row.target, *_NOTHING, row.name


def _by_program(replay: NetworkReplay) -> Iterator[list[Layer]]:
    every = layers(replay)
    for number in range(len(replay.replays)):
        yield [layer for layer in every if layer.number == number]
