"""The command line on good input: what it prints, writes and returns."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from asked_for import schedule
from command_line import call, refusal
from cpu_networks import cpu_split_network
from reference_data import shared_data

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.accelerator import accelerator_names
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile_names
from npu_model.program.text import to_text
from npu_model.tflite.model import read_tflite
from npu_testbed import VERSION
from npu_testbed.asked.parser import HELP_WIDTH, Parser
from npu_testbed.commands.cli import build_parser, main
from npu_testbed.documents import schema_version
from npu_testbed.proofs.verification import VELA_STREAM, Verification, compare
from npu_testbed.replays.program_files import read_network
from npu_testbed.replays.scheduling import read_schedule
from npu_testbed.replays.simulation import simulate_schedule
from validation.zoo import build

COMMANDS = (
    (),
    ("schedule",),
    ("compile",),
    ("diff",),
    ("check",),
    ("frontier",),
    ("compare",),
    ("simulate",),
    ("simulate", "schedule"),
    ("simulate", "vela"),
    ("inspect",),
    ("verify",),
    ("export",),
    ("validate",),
    ("validate", "fvp"),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "tiny.json"
    outcome = call("schedule", "zoo:tiny_residual", "-o", path)
    assert outcome.status == 0, outcome
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_a_help_text_whose_examples_parse(command: tuple[str, ...]) -> None:
    outcome = call(*command, "--help")
    assert outcome.status == 0
    examples = [line.split() for line in outcome.output.replace("\\\n", "").splitlines() if line.startswith("  npu-testbed ")]
    assert examples
    assert all(len(line) <= HELP_WIDTH for line in outcome.output.partition("example")[2].splitlines())
    for words in examples:
        arguments = words[1 : words.index(">")] if ">" in words else words[1:]
        assert callable(build_parser().parse_args(arguments).asked.load)


def test_a_schedule_is_no_model_and_the_error_names_the_command_that_replays_it(plan: Path) -> None:
    assert "`npu-testbed simulate schedule` replays a schedule file" in refusal("simulate", "vela", plan)


def test_the_help_names_every_accelerator_and_timing_adapter() -> None:
    text = " ".join(call("schedule", "--help").output.split())
    assert all(name in text for name in accelerator_names())
    assert all(name in text for name in profile_names())


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version").output.splitlines()[0] == f"npu-testbed {VERSION}"


@pytest.mark.usefixtures("every_search_runs")
def test_a_schedule_is_the_same_bytes_every_time_and_replays_to_its_planned_peak(plan: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    assert call("schedule", "zoo:tiny_residual", "-o", again).status == 0
    assert again.read_bytes() == plan.read_bytes()
    document = json.loads(call("simulate", "schedule", plan, "--json").output)
    summary = document["summary"]
    assert summary["peak_bytes"] == summary["planned_bytes"] == read_schedule(plan).arena_size
    assert summary["as_planned"] is True


def test_the_python_api_gives_what_the_command_line_prints(plan: Path) -> None:
    document = json.loads(call("simulate", "schedule", plan, "--json").output)
    simulation = simulate_schedule(schedule("zoo:tiny_residual"))
    assert document["summary"]["cycles"] == simulation.replay.cycles
    assert f"{simulation.replay.cycles:,} (" in call("simulate", "schedule", plan).output


def test_layers_and_stalls_account_for_every_cycle(plan: Path) -> None:
    document = json.loads(call("simulate", "schedule", plan, "--json", "--stalls").output)
    cycles = document["summary"]["cycles"]
    assert sum(layer["cycles"] for layer in document["layers"]) == cycles
    assert {row["busy"] + row["idle"] + sum(row["waits"].values()) for row in document["stalls"]} == {cycles}


def test_json_carries_versions_and_where_the_figures_are_from(plan: Path) -> None:
    document = json.loads(call("simulate", "schedule", plan, "--json").output)
    assert document["schema"] == schema_version("simulate schedule")
    assert document["tools"]["npu-testbed"] == document["version"] == VERSION
    assert document["tools"]["ethos-u-vela"].startswith("5.")
    assert document["memory_system"]["name"] == "timing adapter u55_high_end"


def test_a_schedule_is_replayed_on_the_memory_system_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert call("schedule", "zoo:tiny_conv", "--system-config", "Ethos_U55_Deep_Embedded", "-o", path).status == 0
    recorded = json.loads(call("simulate", "schedule", path, "--json").output)
    assert recorded["memory_system"]["name"] == "Ethos_U55_Deep_Embedded, Shared_Sram"
    given = json.loads(call("simulate", "schedule", path, "--timing-adapter", "off", "--json").output)
    assert given["memory_system"]["name"] == "timing adapter off"
    assert given["summary"]["cycles"] < recorded["summary"]["cycles"]


def test_a_trace_is_valid_and_its_compressed_form_holds_the_same(plan: Path, tmp_path: Path) -> None:
    plain, packed = tmp_path / "t.json", tmp_path / "t.json.gz"
    for path in (plain, packed):
        assert call("simulate", "schedule", plan, "--trace", path).status == 0
    text = plain.read_text()
    assert gzip.decompress(packed.read_bytes()).decode() == text
    assert json.loads(text)["traceEvents"]


@pytest.mark.parametrize("report", [(), ("--stalls",), ("--json", "--stalls")])
def test_the_simpy_engine_reports_what_the_fast_recurrence_does(plan: Path, report: tuple[str, ...]) -> None:
    fast = call("simulate", "schedule", plan, *report)
    for engine in ("simpy", "fast"):
        assert call("simulate", "schedule", plan, *report, "--engine", engine).output == fast.output


def test_a_trace_of_the_fast_recurrence_is_refused(plan: Path, tmp_path: Path) -> None:
    outcome = call("simulate", "schedule", plan, "--engine", "fast", "--trace", tmp_path / "t.json")
    assert outcome.status == 2
    assert "leave it out, or give --engine simpy" in outcome.errors
    assert not (tmp_path / "t.json").exists()


def test_a_compiled_file_replays_as_the_compilation_does(tmp_path: Path) -> None:
    compiled = tmp_path / "net_vela.tflite"
    compiled.write_bytes(compile_network(build("tiny_residual"), CompilerOptions(optimise="Size")).compiled)
    by_file = json.loads(call("simulate", "vela", compiled, "--json").output)["summary"]
    by_name = json.loads(call("simulate", "vela", "zoo:tiny_residual", "--optimise", "Size", "--json").output)["summary"]
    assert by_file == by_name
    assert by_name["as_planned"] is True


def test_operators_on_the_cpu_are_named_and_cost_no_npu_cycles(tmp_path: Path) -> None:
    model = tmp_path / "split.tflite"
    model.write_bytes(cpu_split_network())
    summary = json.loads(call("simulate", "vela", model, "--json").output)["summary"]
    assert sum(summary["cpu_operators"].values()) == 1
    (name,) = summary["cpu_operators"]
    assert f"1 {name} (no NPU cycles are counted for them)" in call("simulate", "vela", model).output


def test_a_fast_scratch_is_counted_apart_from_an_arena_in_another_memory(tmp_path: Path) -> None:
    ini = tmp_path / "soc.ini"
    ini.write_text(
        "[System_Config.Ethos_U55_Dram]\ncore_clock=500e6\naxi0_port=Sram\naxi1_port=Dram\n"
        "Sram_clock_scale=1.0\nSram_burst_length=32\nSram_read_latency=32\nSram_write_latency=32\n"
        "Dram_clock_scale=0.5\nDram_burst_length=128\nDram_read_latency=500\nDram_write_latency=250\n"
        "[Memory_Mode.Dedicated_Sram]\nconst_mem_area=Axi1\narena_mem_area=Axi1\ncache_mem_area=Axi0\narena_cache_size=393216\n"
    )
    options = ("--config", ini, "--system-config", "Ethos_U55_Dram", "--memory-mode", "Dedicated_Sram")
    outcome = call("simulate", "vela", "zoo:tiny_residual", *options, "--json")
    summary = json.loads(outcome.output)["summary"]
    assert summary["as_planned"] is True
    assert summary["peak_bytes"] <= 393216


def test_inspect_prints_the_text_form_of_each_program(plan: Path, tmp_path: Path) -> None:
    compiled = tmp_path / "net_vela.tflite"
    compiled.write_bytes(compile_network(build("tiny_residual")).compiled)
    for path in (plan, compiled):
        texts = [to_text(one) for one in read_network(path).network.programs]
        assert texts
        assert all(text in call("inspect", path).output for text in texts)


@pytest.mark.parametrize(("name", "file_format", "written"), [("net.tflite", "tflite", 1), ("net.c", "c", 2), ("net.tar", "mlf", 1)])
def test_an_export_is_written_under_the_name_that_was_asked_for(
    name: str, file_format: str, written: int, plan: Path, tmp_path: Path
) -> None:
    outcome = call("export", plan, "--format", file_format, "-o", tmp_path / name, "--json")
    assert outcome.status == 0, outcome
    sizes = json.loads(outcome.output)["files"]
    assert {path: Path(path).stat().st_size for path in sizes} == sizes
    assert str(tmp_path / name) in sizes
    assert len(list(tmp_path.iterdir())) == len(sizes) == written


def test_an_exported_network_replays_as_its_schedule_does(plan: Path, tmp_path: Path) -> None:
    exported = tmp_path / "net_vela.tflite"
    assert call("export", plan, "-o", exported, "--model", "zoo:tiny_residual").status == 0
    by_schedule = json.loads(call("simulate", "schedule", plan, "--json").output)["summary"]
    assert json.loads(call("simulate", "vela", exported, "--json").output)["summary"] == by_schedule


def test_verify_finds_a_schedule_equal_to_the_stream_it_was_made_from(plan: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")
    outcome = call("verify", plan, "--json")
    assert outcome.status == 0
    document = json.loads(outcome.output)
    assert {row["reference"] for row in document["comparisons"]} == {"Vela's legalised stream", "LiteRT's reference kernels"}
    assert all(row["differing"] == 0 < row["size"] for row in document["comparisons"])
    assert "0 of " in call("verify", plan).output


def test_verify_finds_a_difference() -> None:
    found = [{"out": np.array([1, 2, 3], np.int8)}]
    rows = compare(VELA_STREAM, found, [{"out": np.array([1, 0, 3], np.int8)}])
    assert [(row.differing, row.size) for row in rows] == [(1, 3)]
    assert not Verification("m", 1, 0, rows).passed


def test_an_interrupt_ends_with_its_status_and_no_traceback(monkeypatch: pytest.MonkeyPatch, plan: Path) -> None:
    def interrupted(_path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("npu_testbed.replays.program_files.inspect", interrupted)
    outcome = call("inspect", plan)
    assert outcome.status == 130
    assert outcome.errors == "npu-testbed: stopped: by an interrupt before it had a result, and nothing was written.\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_search_that_is_left_before_it_has_found_anything_says_so(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(number)

    # A shell without job control starts what runs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("npu_testbed.models.legalise.load_task", interrupted)
    outcome = call("schedule", "zoo:tiny_conv", "-o", tmp_path / "s.json")
    assert (outcome.status, outcome.output) == (128 + number, "")
    assert "before it had a result, and nothing was written." in outcome.errors
    monkeypatch.setattr("npu_testbed.searches.frontiers.load_task", interrupted)
    outcome = call("frontier", "zoo:tiny_conv", "--schedules", tmp_path / "points")
    assert f"the same command continues from {tmp_path / 'points'}." in outcome.errors


def test_a_search_whose_report_is_left_has_written_its_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("npu_testbed.findings.findings", interrupted)
    outcome = call("schedule", "zoo:tiny_conv", "--csv", tmp_path / "s.csv", "-o", tmp_path / "s.json")
    assert (outcome.status, [path.name for path in tmp_path.iterdir()]) == (130, ["s.json"])
    assert "by an interrupt of its report" in outcome.errors


LATE = ("--csv", "--report", "--sram-map", "--trace", "--node-data")


@pytest.mark.parametrize(("words", "options"), [(("schedule", "zoo:tiny_conv"), LATE[:2]), (("simulate", "vela", "zoo:tiny_conv"), LATE)])
def test_a_command_that_fails_late_leaves_no_file(
    words: tuple[str, ...], options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise InputError("It was not to be.")

    ends = {"--csv": "csv", "--report": "html", "--sram-map": "svg", "--trace": "json.gz", "--node-data": "json"}
    files = [word for option in options for word in (option, tmp_path / f"f.{ends[option]}")]
    output = ("-o", tmp_path / "s.json") if words[0] == "schedule" else ()
    assert call(*words, *files, *output).status == 0
    assert len(list(tmp_path.iterdir())) == len(options) + bool(output)
    for path in tmp_path.iterdir():
        path.unlink()
    monkeypatch.setattr("npu_testbed.findings.findings", failing)
    assert "It was not to be." in refusal(*words, *files, *output)
    assert not list(tmp_path.iterdir())


def test_a_reader_that_has_seen_enough_causes_no_noise(plan: Path) -> None:
    command = [sys.executable, "-m", "npu_testbed", "inspect", str(plan)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_hash_seed_changes_nothing(tmp_path: Path) -> None:
    seen = set()
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.json"
        command = [sys.executable, "-m", "npu_testbed", "schedule", "zoo:tiny_residual", "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2])
        seen.add(path.read_bytes())
    assert len(seen) == 1


def test_a_key_word_network_is_replayed_in_about_a_second(tmp_path: Path) -> None:
    path = tmp_path / "kws.json"
    assert call("schedule", shared_data() / "models" / "ds_cnn_kws_i8.tflite", "--no-cascade", "-o", path).status == 0
    start = os.times().children_user
    subprocess.run(
        [sys.executable, "-m", "npu_testbed", "simulate", "schedule", str(path)],
        check=True,
        capture_output=True,
        cwd=Path(__file__).parents[2],
    )
    assert os.times().children_user - start < 1.5


def test_help_imports_no_library() -> None:
    code = "import sys; from npu_testbed.__main__ import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert "npu_testbed.commands.cli" in done.stderr.split()
    assert not {"msgspec", "numpy", "tflite", "ethosu", "tvm", "cascader.tensorir"} & set(done.stderr.split())


@pytest.mark.parametrize("words", [("schedule", "-o"), ("compile", "--output-dir")])
def test_numpy_is_imported_while_vela_runs_not_before(words: tuple[str, str], tmp_path: Path) -> None:
    model, plan = tmp_path / "net.tflite", tmp_path / "plan.json"
    model.write_bytes(build("tiny_conv"))
    code = (
        "import sys; from cascader.frontends.vela import compiler, together; from npu_testbed.__main__ import main\n"
        "before = compiler.child\n"
        "def child(*given, **named):\n    print('numpy' in sys.modules, file=sys.stderr)\n    return before(*given, **named)\n"
        f"compiler.child = together.child = child; main([{words[0]!r}, {str(model)!r}, {words[1]!r}, {str(plan)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stderr.split()[0] == "False"


OF_OTHER_COMMANDS = {
    "dataclasses", "difflib", "html", "importlib.metadata", "importlib.resources", "json", "pkgutil", "rich", "simpy", "statistics",
    "tarfile", "zipfile",
    "cascader.ethosu.search.as_fast",
    "npu_testbed.reports.cpu_operators", "npu_testbed.reports.tables", "sim.hazards",
    "cascader.ethosu.striped", "cascader.frontends.te", "cascader.tensorir", "npu_model.command_stream.u85",
    "npu_model.compiled.containers", "npu_model.export.c_source", "npu_model.export.model_library", "npu_model.memory.vela_ini",
    "npu_testbed.comparisons.comparison", "npu_testbed.compilation.debug_xml", "npu_testbed.findings", "npu_testbed.firmware",
    "npu_testbed.searches.frontiers", "npu_testbed.html", "npu_testbed.portfolio", "npu_testbed.replays.streaming",
    "npu_testbed.comparisons.sweeps",
    "npu_testbed.documents.published", "npu_testbed.proofs.verification", "npu_testbed.views", "sim.device", "sim.engine.engine",
    "sim.functional.network", "sim.views.trace",
    "validation.calibrate", "validation.fvp.ablation", "validation.fvp.references", "validation.litert", "validation.portfolio",
    "validation.silicon", "validation.vela", "validation.zoo",
}  # fmt: skip
"""Modules that reports, other formats, other families and other commands need."""


def test_a_compilation_imports_what_it_needs(tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(build("tiny_conv"))
    code = (
        "import sys; from npu_testbed.__main__ import main; "
        f"assert main(['compile', {str(model)!r}, '--output-dir', {str(tmp_path)!r}]) == 0; print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    found = set(done.stderr.split())
    assert "npu_testbed.compilation.compiler" in found
    assert OF_OTHER_COMMANDS & found == set()


@pytest.mark.parametrize("words", COMMANDS[1:], ids=" ".join)
def test_the_parser_of_one_command_refuses_what_the_parser_of_all_refuses(words: tuple[str, ...]) -> None:
    said = []
    for parser in (build_parser(), build_parser(words[0])):
        with pytest.raises(InputError) as raised:
            parser.parse_args([*words, "--no-such-option"])
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_options_are_not_abbreviated() -> None:
    parser = build_parser()
    assert isinstance(parser, Parser)
    assert not parser.allow_abbrev


def test_the_timeline_of_the_page_is_what_is_drawn_now() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text(encoding="utf-8")
    shown = page.rpartition("ends with\n\n```\n")[2].removesuffix("```\n")
    outcome = call("simulate", "vela", "zoo:tiny_conv", "--timeline", "2000:4000", "--no-advice")
    assert outcome.output.endswith(shown), "put what is drawn now into docs/simulator.md"


@pytest.mark.parametrize("window", ["5:5", "9:3", "3", "a:", "1:2:3", "-1:4", "9" * 50 + ":", "²:"])
def test_a_window_that_is_none_is_refused(window: str) -> None:
    assert "is not a window of cycles" in refusal("simulate", "vela", "zoo:tiny_conv", f"--timeline={window}")


def test_a_timeline_begins_within_the_replay_and_is_no_json(plan: Path) -> None:
    assert "give a smaller one" in refusal("simulate", "schedule", plan, "--timeline", "99999999:")
    assert "has no drawings" in refusal("simulate", "schedule", plan, "--timeline", "--json")


def test_the_node_data_of_model_explorer_are_cycles_by_the_names_of_the_networks_tensors(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    document = json.loads(call("simulate", "vela", "zoo:ds_cnn", "--node-data", path, "--json").output)
    data = json.loads(path.read_text())
    assert sum(one["value"] for one in data["results"].values()) == document["summary"]["cycles"]
    model = read_tflite(build("ds_cnn"))
    written = {model.tensors[index].name for operator in model.operators for index in operator.outputs}
    # A reshape moves nothing: the NPU has no operation for it.
    assert written - set(data["results"]) == {"flatten"}
    assert [stop["stop"] for stop in data["gradient"]] == [0, 1]


@pytest.mark.parametrize("command", [("sweep", "zoo:tiny_conv"), ("simulate", "vela", "zoo:tiny_conv"), ("calibrate", "check")])
def test_an_argument_that_a_command_does_not_know_points_to_that_commands_help(command: tuple[str, ...]) -> None:
    name = " ".join(part for part in command if ":" not in part)
    assert f"Unrecognized arguments: --colour=red (see `npu-testbed {name} --help`)." in refusal(*command, "--colour=red")


def test_what_schedule_and_diff_say_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    output = tmp_path / "s.json"
    monkeypatch.chdir(tmp_path)
    made = call("schedule", "zoo:tiny_conv", "--no-cascade", "--no-advice", "-o", output.name).output
    beside = call("diff", "zoo:tiny_conv", "--optimise", "Size,Performance").output
    assert "\n        " in beside.partition("after   ")[0]
    assert max(map(len, (made + beside).splitlines())) <= 60


@pytest.mark.parametrize(("command", "threads"), [("schedule -o s.json", "1"), ("frontier", "1"), ("compare", "1"), ("verify", None)])
def test_only_commands_that_multiply_matrices_have_threads_for_them(
    command: str, threads: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    # What is set first is put back in the end.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    name, *options = command.split()
    assert main([name, "missing", *(["--model", "missing"] if name == "verify" else options)]) == 2
    assert os.environ.get("OPENBLAS_NUM_THREADS") == threads
