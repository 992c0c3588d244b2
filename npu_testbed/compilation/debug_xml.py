"""``NAME_debug.xml``: Vela's debug database of a compiled network, whose tables name our operations as Vela's name its own.

Tools look an operation of the command stream up by the byte offset of its command: ``queue`` leads to ``optimised``, which leads to
``source`` and ``perf``. ``source`` has the operator's number in the .tflite file, ``perf`` the layer's name and figures.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from npu_model.printable import printable
from npu_model.program import KernelOperation, Program
from npu_model.tflite.model import TfliteModel, TfliteOperator
from npu_testbed.compilation.names import builtin_operator, npu_operator
from npu_testbed.compilation.traffic import access_cycles
from npu_testbed.ground.csv_file import plain_text
from npu_testbed.replays.simulation import Simulation
from sim import Beats
from sim.events import Unit
from sim.replay import OperationReplay, Replay
from sim.views.layers import layer_cycles

_MEMORIES = {"sram": "Sram", "dram": "Dram", "on_chip_flash": "OnChipFlash", "off_chip_flash": "OffChipFlash"}
_SHAPE = ("kernel_w", "kernel_h", "ofm_w", "ofm_h", "ofm_d")
_TABLES = re.compile(r"<table name=.*?</table>\s*", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

_Row = Sequence[object]


def _table(name: str, columns: Sequence[str], rows: Iterable[_Row]) -> str:
    """One table as Vela writes it: texts in quotes, integers without."""
    text = io.StringIO(newline="")
    cells = ([plain_text(cell) if isinstance(cell, str) else cell for cell in row] for row in (columns, *rows))
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(cells)
    # A name is any text, but the end of a CDATA section may not stand inside such a section.
    body = text.getvalue().replace("]]>", "]]]]><![CDATA[>")
    return f'<table name="{name}">\n<![CDATA[\n{body}]]>\n</table>\n'


def document(name: str, tables: str) -> str:
    """The file that holds the tables of the network ``name``."""
    source = printable(name).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n<debug source=\"{source}\">\n{tables}</debug>\n"


def of_vela(name: str, database: str) -> str:
    """Vela's own database, as the database of the network ``name``. Characters that XML forbids become escapes."""
    return document(name, _FORBIDDEN.sub(lambda found: printable(found[0]), "".join(_TABLES.findall(database))))


def _source_row(number: int, operator: TfliteOperator, model: TfliteModel) -> _Row:
    shape = model.tensors[operator.outputs[0]].shape if operator.outputs and operator.outputs[0] >= 0 else ()
    height, width, depth = (1, 1, 1, *(max(size, 1) for size in shape))[-3:]
    return number, builtin_operator(operator.name), 1, 1, width, height, depth, number - 1


class _Kind(Struct, frozen=True):
    """Kernels of one stream that do one operation in several stripes: the same layer, operator and kernel."""

    stream: int
    layer: str
    operator: str
    kernel: tuple[int, int]


class _Tables:
    """The tables of a simulation, in the making."""

    def __init__(self, simulation: Simulation, model: TfliteModel) -> None:
        self._simulation = simulation
        named = [(one.outputs, number) for number, one in enumerate(model.operators, 1)]
        self._sources = {model.tensors[index].name: number for outputs, number in named for index in outputs if index >= 0}
        self._live = simulation.replay.footprint.live
        self._firsts = [0, *accumulate(len(one.program.operations) for one in simulation.replay.replays)]
        self._kinds: dict[_Kind, tuple[int, list[OperationReplay]]] = {}
        self.queue: list[_Row] = []
        for stream, replay in enumerate(simulation.replay.replays, 1):
            self._add(stream, replay)

    def _add(self, stream: int, replay: Replay) -> None:
        program = replay.program
        offsets, waiting = program.kernel_offsets, list[OperationReplay]()
        for one in replay.operations:
            waiting.append(one)
            if isinstance(one.op, KernelOperation):
                kind = _kind(stream, program, one)
                number, operations = self._kinds.setdefault(kind, (len(self._kinds) + 1, []))
                operations += waiting
                waiting = []
                self.queue.append((offsets[one.index], stream, number, number))

    def source(self, layer: str) -> int:
        """The id of the operator that makes a layer's tensor; -1 if there is none."""
        return self._sources.get(layer, -1)

    def optimised(self) -> list[_Row]:
        """A row for each kind of kernel, with the shape of its largest result."""
        rows: list[_Row] = []
        for kind, (number, operations) in self._kinds.items():
            shapes = [one.op.ofm.shape for one in operations if isinstance(one.op, KernelOperation)]
            shape = max(shapes, key=lambda one: one.height * one.width * one.depth)
            rows.append((number, self.source(kind.layer), kind.operator, *kind.kernel, shape.width, shape.height, shape.depth))
        return rows

    def perf(self) -> list[_Row]:
        """A row for each kind of kernel, with its figures in the replay."""
        cycles = [layer_cycles(one) for one in self._simulation.replay.replays]
        rows: list[_Row] = []
        for kind, (number, operations) in self._kinds.items():
            access = access_cycles(sum((one.beats for one in operations), Beats()), self._simulation.system)
            npu = max(sum(one.busy.get(unit, 0) for one in operations) for unit in (Unit.MAC, Unit.AO))
            macs = sum(one.op.macs for one in operations if isinstance(one.op, KernelOperation))
            spent = sum(cycles[kind.stream - 1].get(one.index, 0) for one in operations)
            staging = max((self._live[self._firsts[kind.stream - 1] + one.index] for one in operations), default=0)
            names = (number, self.source(kind.layer), number, kind.operator, kind.layer)
            rows.append((*names, staging, spent, npu, macs, *(access[one] for one in _MEMORIES)))
        return rows


def _kind(stream: int, program: Program, one: OperationReplay) -> _Kind:
    operation = program.operations[one.index]
    assert isinstance(operation, KernelOperation)  # noqa: S101  # who calls has looked
    return _Kind(stream, one.name, npu_operator(operation), (operation.kernel.width, operation.kernel.height))


def debug_xml(simulation: Simulation, model: TfliteModel, name: str) -> str:
    """The debug database of a replayed network of ours: the layer of each kernel in its streams, and the kernel's cycles."""
    tables = _Tables(simulation, model)
    columns = ("id", "source_id", "operator", *_SHAPE)
    access = [f"{memory}_ac" for memory in _MEMORIES.values()]
    figures = ("id", "source_id", "optimised_id", "operator", "name", "staging_usage", "op_cycles", "npu_cycles", "mac_count", *access)
    streams = range(1, len(simulation.replay.replays) + 1)
    sources = [_source_row(number, one, model) for number, one in enumerate(model.operators, 1)]
    parts = (
        _table("perf", figures, tables.perf()),
        _table("cmdstream", ("id",), [(stream,) for stream in streams]),
        _table("queue", ("offset", "cmdstream_id", "optimised_id", "scheduled_id"), tables.queue),
        _table("group", ("id", "group_id"), ()),
        _table("optimised", columns, tables.optimised()),
        _table("source", ("id", "operator", *_SHAPE, "ext_key"), sources),
    )
    return document(name, "".join(parts))
