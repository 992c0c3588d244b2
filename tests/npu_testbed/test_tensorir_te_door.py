"""Tensor Expressions at the door of every command: a function of a Python file, or a graph at hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorir_only  # noqa: F401  # skips this file where TVM is not installed
from command_line import call, refusal
from msgspec.structs import replace
from te_operators import Constants, image, two_convolutions

import npu_testbed
from cascader.frontends.te.graph import graph_of
from cascader.frontends.te.graph_file import graph_from_file
from npu_model.errors import InputError
from npu_testbed.proofs.verification import HOST
from npu_testbed.replays.scheduling import read_schedule

GRAPH = """
import numpy as np
from tvm import te
from cascader.frontends.te import ethosu_conv2d, scale_records

def make_graph():
    x = te.placeholder((1, 12, 12, 3), "int8", name="x")
    weight, records = te.placeholder((8, 3, 3, 3), "int8", name="w"), te.placeholder((8, 10), "uint8", name="s")
    y = ethosu_conv2d(x, weight, records, padding=(1, 1, 1, 1), ifm_scale=0.5, ifm_zero_point=3, ofm_scale=0.25, name="y")
    random = np.random.default_rng(0)
    return x, y, {weight: random.integers(-99, 99, (8, 3, 3, 3), np.int8), records: scale_records(range(8), 0.5, 0.002, 0.25)}

def other():
    x, y, constants = make_graph()
    return x, y, {tensor: values // 2 if tensor.op.name == "w" else values for tensor, values in constants.items()}

def nothing():
    return 3

def broken():
    return [][0]

def unnamed():
    return "x", "y"
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(GRAPH)
    return path


def test_a_graph_file_is_scheduled_verified_replayed_and_exported(graph: Path, tmp_path: Path) -> None:
    source, plan, exported = f"{graph}:make_graph", tmp_path / "net.json", tmp_path / "net_cascaded.tflite"
    made = npu_testbed.schedule(source, output=plan, optimise="Size")
    provenance = read_schedule(plan).provenance
    assert provenance.model == "net.py:make_graph"
    assert len(provenance.model_sha256) == 64
    assert "apache-tvm" in dict(provenance.tools)
    found = npu_testbed.verify(plan, model=source, tensorir=True)
    assert found.status == 0
    assert {row.reference for row in found.comparisons} == {HOST}
    assert npu_testbed.simulate_schedule(plan).cycles == made.cycles
    npu_testbed.export(plan, exported)
    assert npu_testbed.simulate_vela(exported).cycles == made.cycles
    assert list(tmp_path.glob("__pycache__")) == []


def test_the_ends_carry_the_quantisation_of_the_attributes(graph: Path) -> None:
    network = npu_testbed.schedule(f"{graph}:make_graph", no_cascade=True).schedule.network
    (first,), (last,) = network.inputs, network.outputs
    assert (first.name, first.quantisation.scale, first.quantisation.zero_point) == ("x", 0.5, 3)
    assert (last.name, last.quantisation.scale, last.quantisation.zero_point) == ("y", 0.25, 0)


@pytest.mark.parametrize("place", ["work/shapes/__init__.py", "work/shapes.py", "net/shapes.py"])
def test_a_graph_file_imports_from_its_folder_and_the_working_folder(
    place: str, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (place, "net/net.py", "work/here"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("CHANNELS = 4\n")
    (tmp_path / "net" / "net.py").write_text(f"from shapes import CHANNELS\n{graph.read_text()}")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(tmp_path / "work"))])
    monkeypatch.delitem(sys.modules, "shapes", raising=False)
    before = list(sys.path)
    assert npu_testbed.schedule("../net/net.py:make_graph", no_cascade=True).arena_bytes > 0
    assert sys.path == before
    sys.modules.pop("shapes", None)


def test_what_a_graph_file_prints_and_where_it_goes_does_not_reach_the_answer(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph.write_text(f"import os\nprint('hello')\nos.chdir('/')\n{GRAPH}")
    found = call("schedule", "net.py:make_graph", "--effort", "quick", "-o", "net.json", "--json")
    assert json.loads(found.output)["arena_bytes"] > 0
    assert found.errors.startswith("hello\n")
    assert (tmp_path / "net.json").is_file()


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "import sys\ndef make_graph():\n    sys.exit()"])
def test_a_graph_file_that_ends_the_program_is_refused(text: str, graph: Path, tmp_path: Path) -> None:
    graph.write_text(text)
    assert "raised SystemExit" in refusal("schedule", f"{graph}:make_graph", "-o", tmp_path / "net.json")


def test_a_schedule_is_held_to_the_graph_that_it_was_made_from(graph: Path, tmp_path: Path) -> None:
    plan = tmp_path / "net.json"
    npu_testbed.schedule(f"{graph}:make_graph", output=plan, no_cascade=True)
    with pytest.raises(InputError, match=r"net.json was made from net.py:make_graph with SHA-256 \w+, but net.py:other has \w+"):
        npu_testbed.verify(plan, model=f"{graph}:other")


def test_a_stream_that_computes_something_else_fails() -> None:
    made, x = Constants(), image((1, 8, 8, 4))
    honest = graph_of(x, made.conv2d(x, 4, (1, 1), "y"), made.values)
    plan = npu_testbed.schedule(honest, no_cascade=True).schedule
    # The first record's scale, doubled.
    damaged = plan.network.constants[:9] + bytes([plan.network.constants[9] - 1]) + plan.network.constants[10:]
    found = npu_testbed.verify(replace(plan, network=replace(plan.network, constants=damaged)), model=honest)
    assert found.status == 1


def test_a_graph_at_hand_is_scheduled_and_verified() -> None:
    graph = two_convolutions()
    made = npu_testbed.schedule(graph, optimise="Size")
    assert made.schedule.provenance.model == "tensor_expressions"
    assert npu_testbed.verify(made, model=graph).status == 0
    assert npu_testbed.frontier(graph, rungs=2).frontier.points[0].memory <= made.arena_bytes + 16


def test_a_graph_is_scheduled_alike_every_time(graph: Path) -> None:
    one, other = (npu_testbed.schedule(f"{graph}:make_graph").schedule for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("absent", "has no function 'absent': define it without arguments"),
        ("nothing", r"returned int where \(inputs, outputs, constants\) is expected"),
        ("broken", "raised IndexError: list index out of range: correct it"),
        ("unnamed", "returned str among the inputs: tensor expressions are expected there"),
    ],
)
def test_a_function_that_makes_no_graph_is_told_so_in_one_sentence(graph: Path, function: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        graph_from_file(f"{graph}:{function}")


def test_a_file_that_is_missing_or_wrong_is_told_so_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no.py' is not a file: give a Python file and its function"):
        npu_testbed.schedule(f"{tmp_path / 'no.py'}:make_graph")
    (tmp_path / "bad.py").write_text("def make_graph(:\n")
    with pytest.raises(InputError, match=r"bad.py' raised SyntaxError: .*: correct it\."):
        npu_testbed.schedule(f"{tmp_path / 'bad.py'}:make_graph")
    with pytest.raises(InputError, match=r"bad.py' names no function: write '.*bad.py:make_graph'"):
        npu_testbed.schedule(str(tmp_path / "bad.py"))


def test_commands_and_options_that_need_a_model_file_say_so(graph: Path) -> None:
    source = f"{graph}:make_graph"
    for asked in (lambda: npu_testbed.compare(source), lambda: npu_testbed.compile(source)):
        with pytest.raises(InputError, match="is a graph of Tensor Expressions where a model file is needed"):
            asked()
    with pytest.raises(InputError, match=r"--input-shape was given with .*: the shapes of Tensor Expressions"):
        npu_testbed.schedule(source, input_shape="1,24,24,3")


def test_the_help_says_that_the_file_is_run() -> None:
    done = subprocess.run([sys.executable, "-m", "npu_testbed", "schedule", "--help"], capture_output=True, text=True, check=True)
    assert "that file is your own code, and it is run" in " ".join(done.stdout.split())


WITHOUT_TVM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "tvm":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from npu_testbed.__main__ import main
sys.argv = ["npu-testbed", *sys.argv[1:]]
raise SystemExit(main())
"""


def test_without_tvm_the_door_says_so_in_one_sentence_and_writes_nothing(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "net.json"
    words = ["schedule", f"{graph}:make_graph", "-o", str(out), "--json"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TVM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "install the extra 'tensorir' (pip install 'npu-testbed[tensorir]')." in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_the_document_of_a_graph_s_schedule_is_that_of_a_model_s(graph: Path) -> None:
    found = json.loads(npu_testbed.schedule(f"{graph}:make_graph").to_json())
    assert found["model"] == "net.py:make_graph"
    assert found["command"] == "schedule"


@pytest.mark.parametrize("command", ["schedule", "frontier"])
def test_a_time_for_vela_is_refused_where_vela_has_no_work(command: str, graph: Path, tmp_path: Path) -> None:
    source, out = f"{graph}:make_graph", tmp_path / "net.json"
    words = f"--vela-timeout 5 was given with {source}: Vela compiles no Tensor Expressions; drop the option."
    assert refusal(command, source, "-o", out, "--vela-timeout", 5).strip().endswith(words)
    assert not out.exists()
    with pytest.raises(InputError, match="Vela compiles no Tensor Expressions"):
        npu_testbed.verify("net.json", model=source, vela_timeout=5)


def test_a_memory_to_spill_a_graph_to_is_one_that_is_there(graph: Path, tmp_path: Path) -> None:
    source = f"{graph}:make_graph"
    assert "names no memory of timing adapter u55_high_end" in refusal("schedule", source, "--spill", "tape", "-o", tmp_path / "no.json")
