"""The network of a schedule as nodes: layers in the order in which they first run, with their cycles, and cascades as groups."""

from __future__ import annotations

from msgspec import Struct

from npu_model.printable import printable
from npu_testbed.asked.replays import is_schedule, replay_of
from npu_testbed.commands.simulate import SimulateVela
from npu_testbed.html.graph import NAME, graph_data
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.replays.simulation import Simulation, simulate
from npu_testbed.reports.summary import summary_lines
from npu_testbed.views.arena_map import ArenaMap, arena_map
from npu_testbed.views.program_map import program_map
from sim.views.layers import LayerRow, layer_rows

PALE, STRONG = (245, 248, 255), (217, 48, 37)
"""Red, green and blue of the least and the most cycles."""


class Node(Struct, frozen=True):
    """A layer: the ``group`` that it is drawn in ("" if in none), what the side panel says, the nodes that it reads, its colour."""

    name: str
    group: str
    facts: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    colour: str


class Drawing(Struct, frozen=True):
    """The nodes of a network, and what is said of the whole."""

    title: str
    nodes: tuple[Node, ...]
    facts: tuple[tuple[str, str], ...]


def colour(share: float) -> str:
    """A colour between pale (0) and strong (1).

    >>> colour(0), colour(1)
    ('#f5f8ff', '#d93025')
    """
    return "#" + "".join(f"{round(low + (high - low) * share):02x}" for low, high in zip(PALE, STRONG, strict=True))


def _replayed(path: str) -> tuple[Simulation, ArenaMap]:
    simulation = simulate(replay_of(SimulateVela(model=path), path))
    return simulation, arena_map(read_schedule(path), simulation.replay) if is_schedule(path) else program_map(simulation)


def _facts(row: LayerRow, count: int) -> tuple[tuple[str, str], ...]:
    return (
        ("operator", row.operator),
        ("NPU cycles", f"{row.cycles:,}"),
        ("share of the cycles", f"{row.share:.1%}"),
        ("bound by", row.binding),
        ("operations", f"{count:,}"),
        ("AXI0 read bytes", f"{row.axi0_read_bytes:,}"),
        ("AXI0 write bytes", f"{row.axi0_write_bytes:,}"),
        ("AXI1 read bytes", f"{row.axi1_read_bytes:,}"),
        ("MAC array used", f"{row.mac_utilisation:.1%}"),
    )


def _held(arena: ArenaMap) -> dict[str, list[tuple[str, str]]]:
    """The SRAM that each layer's tensor, and each copy of its weights, takes, by the layer's name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for area in arena.areas:
        if area.slabs:
            low, high = min(slab.low for slab in area.slabs), max(slab.high for slab in area.slabs)
            found.setdefault(printable(area.name, NAME), []).append((f"in SRAM, {area.kind.value}", f"{high - low:,} bytes from {low:#x}"))
    return found


def drawing(path: str) -> Drawing:
    """The drawing of a schedule file, a ``*_vela.tflite``, a ``.pte`` or a network, which Vela compiles; InputError if it is none."""
    simulation, arena = _replayed(path)
    data, held = graph_data(simulation), _held(arena)
    rows = {printable(row.layer, NAME): row for row in layer_rows(simulation.replay)}
    names = [name for name, _, _ in data["layers"]]
    groups = {
        number: f"cascade of layers {first + 1} to {last + 1}"
        for first, last in data["cascades"]
        if first < last
        for number in range(first, last + 1)
    }
    most = max((row.cycles for row in rows.values()), default=0)
    nodes = []
    for number, (name, count, _) in enumerate(data["layers"]):
        row = rows.get(name)
        facts = () if row is None else _facts(row, count)
        nodes.append(
            Node(
                name,
                groups.get(number, ""),
                (*facts, *held.get(name, [])),
                tuple(names[first] for first, last in data["edges"] if last == number),
                colour(row.cycles / most if row is not None and most else 0),
            )
        )
    return Drawing(simulation.model, tuple(nodes), tuple(summary_lines(simulation)))
