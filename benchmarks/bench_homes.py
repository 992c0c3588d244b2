# ruff: noqa: INP001  # a script of its own, no package
"""Smallest schedules in four conventions, beside Vela's: the tables of docs/memory.md on homes.

    python benchmarks/bench_homes.py KEPT MODEL.tflite... [--memory ext] [--effort standard] [--jobs N] [--verify] [--known] [--plot F.svg]

For each network it prints the smallest arena that a search reaches, with its cycles: in the arena, with the input outside, and with inputs
and outputs outside. Each of the three is also searched with tiles and recomputed skips (the default bound, 1.1 times the
multiply-accumulates). Beside them stand Vela Size in one arena (the better of its cores) and with ``--separate-io-regions``. ``--memory``
is where the ends are, by the name of a memory of the default timing adapter. ``KEPT`` is a folder that keeps each figure as soon as it is
known; it answers for one commit, so give another one after a change. ``--verify`` also runs each schedule bit by bit and compares it with
LiteRT. ``--known`` prints what is kept and finds nothing out; ``--plot`` draws the bytes of each network.
"""

from __future__ import annotations

import argparse
import json
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from cascader.ethosu.network.homes import home_bytes
from cascader.ethosu.search.effort import EFFORTS, STANDARD
from cascader.ethosu.search.request import Run
from cascader.frontends.folders import own_folder
from cascader.frontends.vela import CORES
from cascader.frontends.vela.known_tensors import with_own_shapes
from cascader.frontends.vela.model_changes import without_constant_outputs
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_testbed.asked.request import requested
from npu_testbed.ground.files import write_file
from npu_testbed.models.legalise import load_task
from npu_testbed.models.sources import load_model
from npu_testbed.proofs.file_verification import verify
from npu_testbed.proofs.verification import LITERT
from npu_testbed.replays.scheduling import choice_of, write_schedule
from npu_testbed.replays.separate_regions import end_ports
from npu_testbed.replays.vela_runs import VelaBatch, VelaPoint, VelaRun, VelaTask, outcomes
from npu_testbed.reports.macs import recomputed_share
from npu_testbed.views import svg
from validation.tables import Table

CONVENTIONS = {"in arena": (), "input off": ("input",), "both ends off": ("input", "output")}
"""Tensors outside the arena, by the name of the convention."""

NOTHING_TWICE, DEFAULT = Fraction(1), None
"""Bounds of the multiply-accumulates."""

Row = dict[str, Any]


def ours(  # noqa: PLR0913  # a figure follows from all of them
    model: str, what: tuple[str, ...], memory: str, recompute: Fraction | None, effort: str, processes: int, *, verified: bool
) -> Row:
    """The smallest schedule of a search; bytes of LiteRT's outputs that differ, None if they were not asked for."""
    homes = tuple(f"{one}={memory}" for one in what)
    asked = requested(model, recompute=recompute, homes=homes, optimise="Size", effort=effort)
    point = choice_of(load_task(asked), asked, Run(processes)).point
    network = point.schedule.network
    differing = None
    if verified:
        with own_folder() as folder:
            write_schedule(point.schedule, folder / "plan.json")
            differing = sum(row.differing for row in verify(folder / "plan.json", model).comparisons if row.reference == LITERT)
    again = recomputed_share(network.macs, network.recomputed_macs)
    return {"bytes": point.memory, "cycles": point.cycles, "outside": home_bytes(network), "again": again, "differing": differing}


def velas(model: str, what: tuple[str, ...], memory: str) -> Row:
    """Vela Size in that convention, the better of the cores that have it; its reason where there is none."""
    task = load_task(requested(model, homes=tuple(f"{one}={memory}" for one in what)))
    data, _ = without_constant_outputs(with_own_shapes(load_model(model).data))
    ends = end_ports(task.network)
    asked = VelaTask(data, task.accelerator, DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE, None, task.system, end_ports=ends)
    found = [one for core in (CORES if ends is None else CORES[:1]) for one in outcomes(VelaBatch(asked, (VelaRun(core, "Size"),)))]
    points = [one.point for one in found if not hasattr(one, "reason")]
    best: VelaPoint | None = min(points, key=lambda one: (one.memory, one.cycles), default=None)
    return {"failed": str(found[0])} if best is None else {"bytes": best.memory, "cycles": best.cycles}


def kept(folder: Path, name: str, work: partial[Row], *, known: bool) -> Row:
    """A figure that is kept, or that is found out now unless only ``known`` ones are asked for."""
    file = folder / f"{name.replace(' ', '_')}.json"
    if known and not file.exists():
        return {"failed": "It is not known yet."}
    if not file.exists():
        try:
            found = work()
        except InputError as error:
            found = {"failed": str(error)}
        file.write_text(json.dumps(found))
        sys.stderr.write(f"{name}: {found}\n")
    row: Row = json.loads(file.read_text())
    return row


def pair(row: Row) -> str:
    """Bytes and cycles of a figure; what is done again in brackets."""
    if "failed" in row:
        return "-"
    again = f" ({row['again']})" if row.get("again", "0") != "0" else ""
    return f"{row['bytes']:,} / {row['cycles']:,}{again}"


Found = dict[str, dict[tuple[str, str], Row]]
"""For each network its figures by convention and side: rows (nothing done twice), again, or vela."""


def figures(arguments: argparse.Namespace) -> Found:
    """All figures, those that are not kept found out now."""
    found: Found = {}
    for model in arguments.models:
        name = Path(model).stem if model.endswith(".tflite") else model
        rows = found.setdefault(name, {})
        for convention, what in CONVENTIONS.items():
            for side, bound in (("rows", NOTHING_TWICE), ("again", DEFAULT)):
                work = partial(ours, model, what, arguments.memory, bound, arguments.effort, arguments.jobs, verified=arguments.verify)
                label = f"{name} {arguments.memory} {convention} {side}"
                rows[convention, side] = kept(arguments.kept, label, work, known=arguments.known)
            # Vela's option takes both ends out of its arena.
            if convention != "input off":
                work = partial(velas, model, what, arguments.memory)
                label = f"{name} {arguments.memory} {convention} vela"
                rows[convention, "vela"] = kept(arguments.kept, label, work, known=arguments.known)
    return found


_COLUMNS = (
    ("in arena", "rows", "in arena"),
    ("input off", "rows", "input off"),
    ("both ends off", "rows", "both ends off"),
    ("in arena", "again", "in arena, with recompute"),
    ("input off", "again", "input off, with recompute"),
    ("both ends off", "again", "both ends off, with recompute"),
    ("in arena", "vela", "Vela Size in one arena"),
    ("both ends off", "vela", "Vela Size --separate-io-regions"),
)
"""The columns of the tables: convention, side, heading."""


def tables(found: Found) -> list[Table]:
    """A table for ours without and with recompute, and one of Vela's; notes say what was verified."""
    titles = {"rows": "Nothing done twice", "again": "With tiles and skips made again", "vela": "Vela's"}
    made = []
    for side, heading in titles.items():
        columns = [(convention, title) for convention, one, title in _COLUMNS if one == side]
        rows = tuple((name, *(pair(row[convention, side]) for convention, _ in columns)) for name, row in found.items())
        made.append(Table(heading, ("network", *(title for _, title in columns)), rows))
    checked = [row["differing"] for rows in found.values() for row in rows.values() if row.get("differing") is not None]
    note = f"{len(checked)} schedules run bit by bit beside LiteRT: {sum(map(bool, checked))} differ."
    return [*made[:-1], Table(made[-1].title, made[-1].headers, made[-1].rows, (note,) if checked else ())]


_COLORS = {"vela": "#b04a3a", "rows": "#3a6ea5", "again": "#2e8b57"}
_WIDTH, _LEFT, _STEP, _TOP = 1000, 250, 46, 120
_SHAPES = {"in arena": "square", "input off": "diamond", "both ends off": "circle"}


def _mark(x: float, y: float, shape: str, color: str, words: str) -> str:
    if shape == "circle":
        return svg.element("circle", svg.title(words), cx=x, cy=y, r=6.0, fill=color, fill_opacity=0.85)
    r = 6.0 if shape == "square" else 7.5
    corners = [(-r, -r), (r, -r), (r, r), (-r, r)] if shape == "square" else [(0, -r), (r, 0), (0, r), (-r, 0)]
    path = svg.path_of((x + dx, y + dy) for dx, dy in corners) + "Z"
    return svg.element("path", svg.title(words), d=path, fill=color, fill_opacity=0.85)


def picture(found: Found) -> str:
    """The bytes of each network in every convention, on one logarithmic axis."""
    sizes = [row["bytes"] for rows in found.values() for row in rows.values() if "bytes" in row]
    bottom = _TOP + _STEP * len(found)
    x = svg.PlotAxis(min(sizes) * 0.8, max(sizes) * 1.2, _LEFT, _WIDTH - 40, unit=1024, logarithmic=True)
    body = [svg.text(20, 34, "Bytes of the arena: ours (smallest) and Vela Size", size=17)]
    names = {"vela": "Vela Size", "rows": "ours, nothing done twice", "again": "ours, with recompute"}
    for number, (side, label) in enumerate(names.items()):
        body += [
            svg.element("rect", x=20 + 250 * number, y=50, width=12, height=12, fill=_COLORS[side]),
            svg.text(40 + 250 * number, 61, label),
        ]
    for number, (convention, shape) in enumerate(_SHAPES.items()):
        body += [_mark(26.0 + 250 * number, 82.0, shape, svg.INK, convention), svg.text(40 + 250 * number, 87, convention)]
    for position, label in x.ticks(12):
        body += [
            svg.element("path", d=svg.path_of([(position, _TOP), (position, bottom)]), stroke=svg.FAINT),
            svg.text(position, bottom + 20, label, anchor="middle"),
        ]
    body.append(svg.text((_LEFT + _WIDTH - 40) / 2, bottom + 44, "arena [KiB], logarithmic", size=14, anchor="middle"))
    for line, (name, rows) in enumerate(found.items()):
        middle = _TOP + _STEP * (line + 0.5)
        body.append(svg.text(_LEFT - 12, middle + 4.5, name, anchor="end"))
        for offset, side in ((-13, "vela"), (0, "rows"), (13, "again")):
            shown = [(convention, row) for (convention, one), row in rows.items() if one == side and "bytes" in row]
            ends = [x.at(row["bytes"]) for _, row in shown]
            if ends:
                body.append(
                    svg.element("path", d=svg.path_of([(min(ends), middle + offset), (max(ends), middle + offset)]), stroke=_COLORS[side])
                )
            for convention, row in shown:
                words = f"{name}, {names[side]}, {convention}: {row['bytes']:,} bytes, {row['cycles']:,} cycles"
                body.append(_mark(x.at(row["bytes"]), middle + offset, _SHAPES[convention], _COLORS[side], words))
    return svg.document(_WIDTH, bottom + 60, body)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kept", metavar="KEPT", type=Path)
    parser.add_argument("models", metavar="MODEL", nargs="+")
    parser.add_argument("--memory", default="ext", help="memory that the ends live in (default: ext, behind AXI1)")
    parser.add_argument("--effort", choices=EFFORTS, default=STANDARD)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--known", action="store_true", help="print what is kept, and find nothing out")
    parser.add_argument("--plot", metavar="F.svg", help="draw the bytes of each network")
    arguments = parser.parse_args()
    arguments.kept.mkdir(parents=True, exist_ok=True)
    found = figures(arguments)
    for table in tables(found):
        sys.stdout.write(table.markdown() + "\n")
    sys.stdout.write(f"On {DEFAULT_ACCELERATOR}, timing adapter u55_high_end; bytes / cycles, in brackets what is done again.\n")
    if arguments.plot is not None:
        write_file(arguments.plot, picture(found).encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
