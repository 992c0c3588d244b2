"""The HTML report: one file that asks no network for anything, draws in a browser without an error, and takes names as text."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from asked_for import compare, points, schedule, simulate_vela
from browser import Page, browser
from command_line import call, refusal
from msgspec.structs import replace

from npu_model.program import Program
from npu_testbed.comparisons.sweeps import Answer, Result
from npu_testbed.comparisons.sweeps.points import macs_of
from npu_testbed.comparisons.sweeps.sweep_tables import enough
from npu_testbed.energy import load_energy_table
from npu_testbed.findings import findings
from npu_testbed.html import html_report
from npu_testbed.html.beside import answers_data
from npu_testbed.html.data import headline_data, replay_data
from npu_testbed.html.graph import cascades, graph_data
from npu_testbed.html.pages import frontier_data
from npu_testbed.html.sweep import sweep_page
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.replays.simulation import Simulation, replayed, simulate_schedule
from npu_testbed.reports.headline import kibibytes, milliseconds
from npu_testbed.views.arena_map import arena_map
from npu_testbed.views.program_map import program_map
from sim import Cause, Unit
from sim.views.layers import layer_rows
from sim.views.recorder import DRAWN, EventRecorder

EVIL = '</script><img src=x onerror="document.title=1">\u202e'


@cache
def of_ours() -> dict[str, Any]:
    """A cascade: rolling buffers, staged weights and stripes that interleave."""
    plan, events = schedule("zoo:tiny_residual", budget=8000, processes=1), EventRecorder(DRAWN)
    simulation = simulate_schedule(plan, listeners=[events])
    return replay_data(simulation, arena_map(plan, simulation.replay), events, findings(simulation), 8000)


def of_vela(simulation: Simulation | None = None) -> dict[str, Any]:
    events = EventRecorder(DRAWN)
    known = simulate_vela("zoo:resnet8") if simulation is None else simulation
    known = replace(known, replay=replayed(known.network, known.system, [events]))
    return replay_data(known, program_map(known), events, ())


def document(page: bytes) -> dict[str, Any]:
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', page)
    assert found is not None
    return json.loads(found[1])  # type: ignore[no-any-return]  # an object


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


def shown(page: Page, folder: Path, data: dict[str, Any]) -> Page:
    path = folder / "r.html"
    path.write_bytes(html_report("test", data))
    page.open(path)
    return page


def text(page: Page, selector: str) -> str:
    return str(page.run(f"document.querySelector({json.dumps(selector)}).textContent"))


def test_every_cycle_of_every_unit_is_in_the_timeline() -> None:
    simulation = simulate_vela("zoo:tiny_residual")
    for most in (10**6, 5):
        events = EventRecorder(most)
        replay = replayed(simulation.network, simulation.system, [events])
        data = replay_data(replace(simulation, replay=replay), program_map(simulation), events, None)
        line = data["timeline"]
        assert line["every_event"] == (most > 5)
        for number, unit in enumerate(Unit):
            shown = sum(event[5] if len(event) > 5 else event[3] for event in line["events"] if event[:2] == [number, -1])
            assert shown == replay.replays[0].busy.get(unit, 0)
        assert line["cycles"] == replay.cycles
        assert data["findings"] is None


def test_the_ports_bytes_are_those_of_the_layers() -> None:
    data = of_ours()
    moved = [sum(operation[5][port] for operation in data["timeline"]["operations"]) for port in range(3)]
    keys = ("axi0_read_bytes", "axi0_write_bytes", "axi1_read_bytes")
    assert moved == [sum(row[key] for row in data["layers"]) for key in keys]


def test_layers_whose_stripes_interleave_are_a_cascade() -> None:
    assert cascades(["a", "b", "c", "b", "c", "d"]) == [(0, 0), (1, 2), (3, 3)]
    assert cascades(["a", "b", "a", "c", "b", "d"]) == [(0, 2), (3, 3)]
    assert any(first != last for first, last in of_ours()["graph"]["cascades"])
    assert all(first == last for first, last in of_vela()["graph"]["cascades"])


def test_a_residual_connection_is_an_edge_that_skips_layers() -> None:
    graph = of_vela(simulate_vela("zoo:tiny_residual"))["graph"]
    names = [name for name, _, _ in graph["layers"]]
    edges = {(names[source], names[target]) for source, target in graph["edges"]}
    assert {("stem", "depthwise"), ("depthwise", "conv"), ("conv", "add"), ("stem", "add"), ("add", "pool")} == edges


def test_every_layer_of_the_drawing_is_a_row_of_the_table_however_long_its_name_is_and_of_which_program() -> None:
    words = {name: f"model/batch_normalization_{number}/Relu;{'model/' * 30}" for number, name in enumerate(("stem", "conv"))}
    simulation = simulate_vela("zoo:tiny_residual")
    (program,) = simulation.network.programs
    named = replace(program, names=tuple(words.get(name, name) for name in program.names))
    network = replace(simulation.network, steps=(named, replace(named, names=())))
    data = of_vela(replace(simulation, network=network, replay=replayed(network, simulation.system, (EventRecorder(DRAWN),))))
    rows = {row["layer"]: row["short"] for row in data["layers"]}
    drawn = {name: short for name, _, short in data["graph"]["layers"]}
    assert rows.items() - drawn.items() == {(name, name) for name in rows if name.endswith(" DMA")}
    assert drawn.items() <= rows.items()
    assert {"batch_normalization_0", "batch_normalization_1"} <= set(rows.values())
    assert any(name.startswith("1:#") for name in drawn)


def reads(simulation: Simulation) -> set[tuple[str, str]]:
    graph = graph_data(simulation)
    return {(graph["layers"][source][0], graph["layers"][target][0]) for source, target in graph["edges"]}


def test_layers_read_the_same_layers_however_small_the_arena_is_and_however_their_channels_are_cut() -> None:
    """Kernels of some channels leave gaps in a tensor, where an earlier tensor of the same bytes must not show through."""
    ours = simulate_schedule(schedule("zoo:resnet8", budget=40_000, processes=1))
    assert reads(ours) == reads(simulate_vela("zoo:resnet8"))


def test_names_cannot_end_the_data(tmp_path: Path) -> None:
    simulation = simulate_vela("zoo:tiny_conv")
    (step,) = simulation.network.steps
    assert isinstance(step, Program)
    named = replace(simulation.network, steps=(replace(step, names=tuple(EVIL for _ in step.operations)),))
    data = of_vela(replace(simulation, network=named, model=EVIL))
    written = html_report(EVIL, {"replay": data})
    assert written.count(b"</script>") == 2
    assert b"<img" not in written
    assert document(written)["replay"]["layers"][0]["layer"].startswith("</script><img")
    with browser() as opened:
        path = tmp_path / "evil.html"
        path.write_bytes(written)
        opened.open(path)
        assert "<img src=x" in str(opened.run("document.title"))
        assert opened.run("document.querySelectorAll('img').length") == 0
        assert not opened.errors


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_draws_in_both_themes_without_an_error(page: Page, tmp_path: Path, theme: str) -> None:
    page.theme(theme)
    shown(page, tmp_path, {"replay": of_ours()})
    grounds = page.run("getComputedStyle(document.body).backgroundColor")
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[theme]
    for name in ("map", "timeline"):
        canvas = f"document.getElementById('{name}')"
        pixels = f"new Uint32Array({canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, {canvas}.height).data.buffer)"
        assert page.run(f"new Set({pixels}).size") > 5
    assert page.run("document.querySelectorAll('.cascade').length") > 0
    assert not page.errors


def test_a_report_opens_with_time_bytes_whether_they_fit_and_vela(page: Page, tmp_path: Path) -> None:
    plan, path = tmp_path / "s.json", tmp_path / "ours.html"
    call("schedule", "zoo:tiny_residual", "--no-advice", "-o", plan, "--arena-cache-size", 9000, "--report", path)
    ours, theirs = simulate_schedule(read_schedule(plan)), simulate_vela("zoo:tiny_residual")
    page.open(path)
    assert page.run("document.querySelector('main section').id") == "headline"
    values = page.run("[...document.querySelectorAll('.figure')].map((one) => [...one.children].map((part) => part.textContent))")
    assert [value for value, _ in values] == [
        milliseconds(ours.replay.cycles, 500_000_000),
        kibibytes(ours.planned_bytes),
        "fits",
        f"{ours.replay.cycles / theirs.replay.cycles:.1%}",
    ]
    assert values[0][1] == f"{ours.replay.cycles:,} cycles at 500 MHz"
    assert values[2][1] == f"{9000 - ours.planned_bytes:,} of 9,000 bytes stay free"
    assert f"Vela Performance ({theirs.replay.cycles:,})" in values[3][1]
    assert f"{theirs.planned_bytes:,} bytes" in values[3][1]
    assert of_vela(replace(theirs, granted_bytes=3000))["map"]["budget"] == 3000
    assert of_vela(replace(theirs, granted_bytes=1 << 20))["map"]["budget"] is None
    over = headline_data(replace(theirs, granted_bytes=theirs.planned_bytes - 16))
    assert (over[2]["value"], over[2]["state"]) == ("does not fit", "bad")
    assert over[2]["words"] == f"16 bytes more than the {theirs.planned_bytes - 16:,} that are granted"


def test_a_schedule_whose_tensors_lie_elsewhere_has_no_rival(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    call("schedule", "zoo:tiny_conv", "--no-advice", "--home", "input=axi1", "-o", tmp_path / "s.json", "--report", path)
    assert len(document(path.read_bytes())["replay"]["headline"]) == 2


def test_every_wait_of_every_unit_is_drawn_as_what_it_waits_for(page: Page, tmp_path: Path) -> None:
    data = of_ours()
    shown(page, tmp_path, {"replay": data})
    units, causes = ([one.value for one in kind] for kind in (Unit, Cause))
    pairs = json.dumps([[unit, cause] for unit in units for cause in causes])
    assert page.run(f"{pairs}.every(([unit, cause]) => waitColour(unit, cause) in WAITS)")
    assert page.run("[waitColour('MAC array', 'accumulators'), waitColour('output unit', 'accumulators')]") == ["wait-out", "wait-mac"]
    assert "waits for other work" not in text(page, "main")
    assert page.run("new Set(['busy', ...Object.keys(WAITS)].map(colour)).size") == 7


WORDS = """(() => {
  const said = [], plain = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
    const wide = this.measureText(words).width, left = { left: x, start: x, center: x - wide / 2, right: x - wide }[this.textAlign];
    said.push([this.canvas.id, words, left, left + wide, y - 5, y + 5, this.canvas.clientWidth, this.canvas.clientHeight]);
    return plain.call(this, words, x, y);
  };
  redraw();
  CanvasRenderingContext2D.prototype.fillText = plain;
  return said;
})()"""
"""Every text that a page draws on a canvas, with its box and the canvas' size."""


@pytest.mark.parametrize("width", [420, 900, 1400])
def test_nothing_is_clipped_and_no_words_meet_at_any_width(page: Page, tmp_path: Path, width: int) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    try:
        shown(page, tmp_path, {"replay": of_ours()})
        assert page.run("document.documentElement.scrollWidth") <= width
        wide, room = page.run("[document.getElementById('network').clientWidth, document.getElementById('network').parentNode.clientWidth]")
        assert room - 2 <= wide <= room
        said = page.run(WORDS)
        for canvas, words, left, right, top, bottom, canvas_width, height in said:
            assert -1 <= left < right <= canvas_width + 1, (canvas, words)
            assert 0 <= top < bottom <= height, (canvas, words)
        for one, other in combinations(said, 2):
            apart = one[0] != other[0] or one[3] <= other[2] or other[3] <= one[2] or one[5] <= other[4] or other[5] <= one[4]
            assert apart, (one, other)
        for canvas in ("map", "timeline"):
            assert {"cycles", "\u00b5s at 500 MHz"} <= {words for name, words, *_ in said if name == canvas}
        texts = "[...document.querySelectorAll('#network .layer')].map((layer) => [...layer.querySelectorAll('text')])"
        box = "{ const box = one.getBBox(); return [box.x, box.x + box.width, box.width]; }"
        for name, facts in page.run(f"{texts}.map((two) => two.map((one) => {box}))"):
            assert name[1] <= facts[0] or not facts[2]
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")


def test_a_click_on_a_heading_sorts_the_layers(page: Page, tmp_path: Path) -> None:
    data = of_vela()
    shown(page, tmp_path, {"replay": data})
    click = "document.querySelectorAll('#layers th button')[2].click()"
    column = "[...document.querySelectorAll('#layers tbody tr')].map((row) => Number(row.cells[2].textContent.replaceAll(',', '')))"
    cycles = [row["cycles"] for row in data["layers"]]
    assert page.run(column) == cycles
    page.run(click)
    assert page.run(column) == sorted(cycles, reverse=True)
    page.run(click)
    assert page.run(column) == sorted(cycles)
    assert page.run("document.querySelectorAll('#layers th')[2].ariaSort") == "ascending"


def test_a_measurement_stands_beside_the_replay_the_largest_difference_first(page: Page, tmp_path: Path) -> None:
    simulation = simulate_vela("zoo:tiny_residual")
    layers = [(row.layer, row.cycles) for row in layer_rows(simulation.replay)]
    file = tmp_path / "board.csv"
    file.write_text("layer,cycles\n" + "".join(f"{name},{cycles + 100 * index}\n" for index, (name, cycles) in enumerate(layers)))
    written = tmp_path / "r.html"
    command = ["simulate", "vela", "zoo:tiny_residual", "--no-advice", "--measured", str(file), "--report", str(written)]
    assert "Measured and replayed" in call(*command).output
    measured = document(written.read_bytes())["replay"]["measured"]
    assert [row["difference"] for row in measured["rows"]] == [-100 * index for index in reversed(range(len(layers)))]
    page.open(written)
    assert page.run("document.querySelectorAll('#measured tbody tr').length") == len(layers)
    shown_first = page.run("[...document.querySelector('#measured tbody tr').cells].map((cell) => cell.textContent)")
    name, cycles = layers[-1]
    late = 100 * (len(layers) - 1)
    assert [shown_first[0], *shown_first[3:6]] == [name, f"{cycles + late:,}", f"{cycles:,}", f"-{late}"]
    assert f"Together {sum(row['measured'] for row in measured['rows']):,} cycles measured" in text(page, "main")
    page.run("document.querySelectorAll('#measured th button')[3].click()")
    assert page.run("document.querySelectorAll('#measured th')[3].ariaSort") == "descending"
    assert not page.errors


def test_a_comparison_has_its_answers_with_ratios_of_energies_and_verdicts_where_they_were_asked_for(page: Page, tmp_path: Path) -> None:
    table = load_energy_table("illustrative")
    plain = compare("zoo:tiny_conv", sweep=0, rungs=2, processes=1)
    asked = compare("zoo:tiny_conv", sweep=0, rungs=2, processes=1, energy=table, robust=True)
    for comparison, columns in ((plain, 5), (asked, 7)):
        shown(page, tmp_path, {"answers": answers_data(comparison)})
        assert page.run("document.querySelectorAll('#answers th').length") == columns
        assert page.run("document.querySelectorAll('#answers tbody tr').length") == len(comparison.answers)
    assert asked.energy is not None
    ratios = page.run("[...document.querySelectorAll('#answers tbody tr')].map((row) => row.cells[5].textContent)")
    assert ratios == ["-" if one is None else f"{one:.3f}" for one in asked.energy.ratios]
    assert "say nothing of joules" in text(page, "main")
    assert "of no device" in text(page, "main")
    assert not page.errors


def test_the_wheel_zooms_the_map_and_the_timeline_together_and_a_double_click_shows_all(page: Page, tmp_path: Path) -> None:
    shown(page, tmp_path, {"replay": of_ours()})
    whole = page.run("time.to - time.from")
    for name in ("map", "timeline"):
        page.run(f"document.getElementById('{name}').dispatchEvent(new WheelEvent('wheel', {{deltaY: -400, cancelable: true}}))")
    assert page.run("time.to - time.from") < whole / 4
    page.run("document.getElementById('map').dispatchEvent(new MouseEvent('dblclick'))")
    assert page.run("time.to - time.from") == whole == of_ours()["map"]["cycles"]


def test_a_point_of_the_frontier_says_what_it_is_and_a_budget_picks_one(page: Page, tmp_path: Path) -> None:
    comparison = compare("zoo:tiny_conv", sweep=0, rungs=2, processes=1)
    points = comparison.frontier.points
    shown(page, tmp_path, {"frontier": frontier_data(comparison.frontier, comparison.points, "npu-testbed schedule 'a b'")})
    click = "document.querySelectorAll('#frontier .ours')[0].dispatchEvent(new MouseEvent('click'))"
    page.run(click)
    assert f"{points[0].memory:,} bytes" in text(page, "#chosen")
    assert f"npu-testbed schedule 'a b' --arena-cache-size {points[0].memory} -o schedule.json" in text(page, "#chosen")
    budget = "const field = document.getElementById('budget'); field.value = '{}'; field.dispatchEvent(new Event('input'))"
    page.run("{" + budget.format(points[-1].memory + 1) + "}")
    assert f"{points[-1].cycles:,}" in text(page, "#chosen")
    page.run("{" + budget.format(points[0].memory - 1) + "}")
    assert "none of ours fits" in text(page, "#chosen")
    assert page.run("document.querySelectorAll('#frontier path.point').length") == len(comparison.points)
    assert not page.errors


def test_a_deadline_marks_what_meets_it_with_fewest_macs_and_bytes(page: Page, tmp_path: Path) -> None:
    results = []
    for macs, arena, cycles in ((64, 9000, 2), (128, 9000, 1), (64, 20_000, 1), (128, 20_000, 1), (32, 0, 0)):
        (point,) = points(["zoo:tiny_conv"], accelerator_config=[f"ethos-u55-{macs}"])
        results.append(Result(point, Answer(arena, 500_000 * cycles, 1, 2, "", "" if arena else EVIL)))
    path = tmp_path / "sweep.html"
    path.write_bytes(sweep_page(results, 1.0))
    page.open(path)
    marked = "[...document.querySelectorAll('#sweep .ours')].map((mark) => mark.classList.contains('chosen'))"
    assert page.run(marked) == [False, True, True, False]
    assert [(macs_of(one.point), one.answer.arena_bytes) for one in enough(results, 1.0)] == [(128, 9000), (64, 20_000)]
    assert page.run("document.querySelectorAll('#points tbody tr').length") == len(results)
    assert not page.errors


def test_what_all_points_of_a_sweep_share_is_said_once(page: Page, tmp_path: Path) -> None:
    found = points(["zoo:tiny_conv"], accelerator_config=[f"ethos-u55-{macs}" for macs in (64, 128)])
    path = tmp_path / "sweep.html"
    path.write_bytes(sweep_page([Result(point, Answer(9000 + index, 500_000, 1, 2, "", "")) for index, point in enumerate(found)]))
    page.open(path)
    said = text(page, "main")
    assert said.count(f"memory system {found[0].memory.name}") == said.count("network zoo:tiny_conv") == 1
    headings = page.run("[...document.querySelectorAll('#points th')].map((one) => one.textContent)")
    assert headings[0] == "accelerator"
    assert not {"network", "memory system", "why not"} & set(headings)


def test_each_line_of_a_sweep_has_a_key_of_its_own_however_many_there_are(page: Page, tmp_path: Path) -> None:
    found = points(["zoo:tiny_conv", "zoo:tiny_residual"], accelerator_config=[f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)])
    path = tmp_path / "sweep.html"
    path.write_bytes(sweep_page([Result(point, Answer(9000 + index, 500_000, 1, 2, "", "")) for index, point in enumerate(found)], 1.0))
    page.open(path)
    looks = "[...document.querySelectorAll('{}')].map((line) => line.getAttribute('stroke') + line.getAttribute('stroke-dasharray'))"
    lines, keys = (page.run(looks.format(where)) for where in ("#sweep path[stroke-dasharray]", ".stroke line"))
    assert lines == keys
    assert len(set(keys)) == len(found) == 8


def test_commands_write_reports_and_nothing_else(tmp_path: Path) -> None:
    plan, ours, theirs = tmp_path / "s.json", tmp_path / "ours.html", tmp_path / "theirs.html"
    outcome = call("schedule", "zoo:tiny_conv", "--no-cascade", "-o", plan, "--arena-cache-size", 9000, "--report", ours)
    data = document(ours.read_bytes())["replay"]
    # The report compares with Vela, so the first screen does, too.
    cycles = data["headline"][-1]["words"].split("(")[1].split(")")[0]
    assert "Vela Performance needs 0.0" in outcome.output
    assert f"({cycles} cycles)" in outcome.output.splitlines()[1]
    assert data["map"]["budget"] == 9000
    call("simulate", "vela", "zoo:tiny_conv", "--report", theirs, "--no-advice")
    rows = layer_rows(simulate_vela("zoo:tiny_conv").replay)
    assert [row["cycles"] for row in document(theirs.read_bytes())["replay"]["layers"]] == [row.cycles for row in rows]
    again = tmp_path / "again.html"
    call("simulate", "vela", "zoo:tiny_conv", "--report", again, "--no-advice")
    assert again.read_bytes() == theirs.read_bytes()


def test_a_frontier_is_reported_with_its_fastest_schedule(tmp_path: Path) -> None:
    path = tmp_path / "f.html"
    outcome = call("frontier", "zoo:tiny_conv", "--rungs", 2, "--jobs", 1, "--report", path)
    assert outcome.status == 0, outcome
    data = document(path.read_bytes())
    assert data["replay"]["map"]["bytes"] == data["frontier"]["points"][-1]["bytes"]
    assert data["frontier"]["vela"] == []


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--accelerator-config", "ethos-u55-64", "--home", "input=ext"),
        ("--chip", "himax-we2", "--recompute", "2"),
        ("--timing-adapter", "off", "--spill", "ext", "--effort", "quick"),
        ("--within", "5", "--arena-cache-size", "8KiB", "--set", "ext.read_latency=9", "--set", "sram.max_reads=2"),
    ],
)
def test_the_command_of_each_point_makes_it(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "f.html"
    assert call("frontier", "zoo:tiny_conv", *options, "--rungs", 2, "--jobs", 1, "--report", path).status == 0
    found = document(path.read_bytes())["frontier"]
    words = shlex.split(found["command"])[1:]
    for point in found["points"]:
        said = call(*words, "--arena-cache-size", point["bytes"], "-o", tmp_path / "s.json", "--json", "--no-advice")
        assert said.status == 0, said
        made = json.loads(said.output)
        assert made["arena_bytes"] <= point["bytes"]
        # A search for one budget tries other schedules than a frontier.
        assert made["cycles"] <= point["cycles"] * 1.002


def test_a_report_is_named_html(tmp_path: Path) -> None:
    assert "does not end in .html" in refusal("simulate", "vela", "zoo:tiny_conv", "--report", tmp_path / "r.pdf")
    assert "one by one" in refusal("compare", "zoo:tiny_conv", "zoo:resnet8", "--report", tmp_path / "r.html")
    assert "--report" in refusal("frontier", "zoo:tiny_conv", "--with-vela")


@pytest.mark.skipif(not os.environ.get("NPU_TESTBED_ALL"), reason="half a minute: set NPU_TESTBED_ALL=1")
@pytest.mark.parametrize("most", [0, 10**9])
def test_mobilenet_v2_takes_less_than_5_mb(most: int) -> None:
    plan, events = schedule("zoo:mobilenet_v2", cascade=False), EventRecorder(min(DRAWN, most))
    simulation = simulate_schedule(plan, listeners=[events])
    page = html_report("test", {"replay": replay_data(simulation, arena_map(plan, simulation.replay), events, ())})
    assert len(page) < 5_000_000
