"""The layers of a compilation in the columns of Vela's ``NAME_per-layer.csv``, with the figures of our replay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from npu_model.compiled.network import CpuOperator
from npu_model.program import KernelOperation
from npu_model.tflite.model import TfliteModel
from npu_testbed.compilation.names import builtin_operator, npu_operator
from npu_testbed.compilation.traffic import access_cycles
from npu_testbed.simulation import Simulation
from sim import Beats, NetworkReplay
from sim.events import Unit
from sim.views.layers import Layer, layers

COLUMNS = (
    *("Original Operator", "NNG Operator", "Target", "Staging Usage", "Peak% (Staging)", "Op Cycles", "Network% (cycles)", "NPU"),
    *("SRAM AC", "DRAM AC", "OnFlash AC", "OffFlash AC", "MAC Count", "Network% (MAC)", "Util% (MAC)", "Name"),
)
"""The columns, in Vela's order."""

_NO_ACCESS = (0, 0, 0, 0)
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

    def npu(self, layer: Layer) -> Row:
        """The row of a layer on the NPU."""
        replay = self._replay.replays[layer.number]
        kernels = [one.op for one in layer.operations if isinstance(one.op, KernelOperation)]
        macs = sum(op.macs for op in kernels)
        name = next((one.name for one in layer.operations), layer.label) or layer.label
        operator = "+".join(dict.fromkeys(npu_operator(op) for op in kernels)) or "DMA"
        code = self._codes.get(name, "")
        live = self._replay.footprint.live
        staging = max((live[self._firsts[layer.number] + one.index] for one in layer.operations), default=0)
        access = access_cycles(sum((one.beats for one in layer.operations), Beats()), replay.system)
        npu = max((sum(one.busy.get(unit, 0) for one in layer.operations) for unit in _COMPUTING), default=0)
        return (
            *(builtin_operator(code) if code else operator, operator, "NPU"),
            *(staging, _percent(staging, self._peak), layer.cycles, _percent(layer.cycles, self._replay.cycles), npu),
            *(*access.values(), macs, _percent(macs, self._macs)),
            *(_percent(macs, layer.cycles * replay.accelerator.macs_per_cycle), name),
        )

    def cpu(self, step: CpuOperator) -> Row:
        """The row of an operator on the CPU, whose cycles nobody counts."""
        operator, name = builtin_operator(step.code), step.outputs[0].name if step.outputs else ""
        return operator, operator, "CPU", 0, 0.0, 0, 0.0, 0, *_NO_ACCESS, 0, 0.0, 0.0, name


def layer_table(simulation: Simulation, model: TfliteModel) -> list[Row]:
    """The rows of the table, in the order in which the layers first run.

    Cycles are those by which a layer delays the end (:class:`sim.views.layers.LayerRow`); ``NPU`` is the work of the MAC array or of the
    output unit, whichever is more; staging is the arena's live bytes while the layer runs.
    """
    rows, by_program = _Rows(simulation, model), iter(_by_program(simulation.replay))
    found: list[Row] = []
    for step in simulation.network.steps:
        found += [rows.cpu(step)] if isinstance(step, CpuOperator) else [rows.npu(layer) for layer in next(by_program)]
    return found


def _by_program(replay: NetworkReplay) -> Iterator[list[Layer]]:
    every = layers(replay)
    for number in range(len(replay.replays)):
        yield [layer for layer in every if layer.number == number]
