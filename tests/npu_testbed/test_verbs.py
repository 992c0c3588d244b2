"""The one import: each command is a verb with the same options, and its outcome is what the command prints."""

from __future__ import annotations

import json
import pkgutil
import pydoc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from command_line import call

import cascader
import npu_model
import npu_testbed
import sim
import validation
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.commands import COMMANDS, Command
from npu_testbed.asked.option import declared
from npu_testbed.outcomes import Outcome

MODEL = "zoo:tiny_conv"
FOR_PROCESSES = {"device files", "device serve"}
"""Commands that write sources of C and answer a driver: they have no outcome."""


def test_the_import_alone_loads_neither_numpy_nor_simpy() -> None:
    script = "import sys, npu_testbed; print([name for name in ('numpy', 'simpy', 'rich', 'tabulate') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_command_is_a_verb() -> None:
    named = {command.name for command in COMMANDS if command.words not in FOR_PROCESSES}
    assert named == set(npu_testbed.__all__) - {"VERSION", "Error", "Figures"}
    for name in named:
        assert getattr(npu_testbed, name).__name__ == name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_the_options_of_a_command_are_the_fields_of_its_ask(command: Command) -> None:
    ask = command.load()
    assert {one.name for one in declared(ask)} == set(ask.__struct_fields__)
    printed = call(*command.words.split(), "--help").output
    for one in declared(ask):
        assert one.option.help, one.name
        shown = one.option.metavar if one.option.source else one.flag
        hidden = one.option.only == "values" or (one.name == "json" and not ask.has_document)
        assert hidden or (shown or "") in printed, one.name


SEARCHES = [command for command in COMMANDS if command.load().is_search]
EVERYWHERE = {one.name for one in declared(OneSearch)}
BLANKS = {
    ("validate portfolio", "arena_cache_size"): "the bars are at the arenas that Vela plans, and a limit would cut them off",
    ("validate vela", "arena_cache_size"): "the bars are at the arenas that Vela plans, and a limit would cut them off",
    ("validate portfolio", "within"): "the bars are about the fewest bytes and the fewest cycles",
    ("validate vela", "within"): "the bars are about the fewest bytes and the fewest cycles",
}
"""Options that a command which searches does not take, and why."""


@pytest.mark.parametrize("command", SEARCHES, ids=lambda command: command.words)
def test_what_one_search_takes_every_search_takes_unless_a_reason_says_why_not(command: Command) -> None:
    missing = EVERYWHERE - {one.name for one in declared(command.load())}
    assert missing == {name for words, name in BLANKS if words == command.words}


def test_there_are_eight_searches() -> None:
    words = [command.words for command in SEARCHES]
    assert words == ["schedule", "compile", "frontier", "compare", "check", "sweep", "validate vela", "validate portfolio"]


def test_an_outcome_is_what_the_command_prints(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    printed = call("schedule", MODEL, "--arena-cache-size", "8192", "-o", path)
    made = npu_testbed.schedule(MODEL, arena_cache_size=8192, output=path)
    assert made.text() == str(made) == printed.output.rstrip("\n")
    replayed = npu_testbed.simulate_schedule(path, stalls=True)
    assert json.loads(replayed.to_json()) == json.loads(call("simulate", "schedule", path, "--stalls", "--json").output)
    assert replayed.cycles == made.cycles == replayed.to_dict()["summary"]["cycles"]
    assert made.arena_bytes <= 8192


def test_a_schedule_at_hand_is_replayed_verified_and_exported(tmp_path: Path) -> None:
    made = npu_testbed.schedule(MODEL, no_cascade=True, no_advice=True)
    assert npu_testbed.simulate_schedule(made.schedule).cycles == npu_testbed.simulate_schedule(made).cycles == made.cycles
    assert npu_testbed.verify(made, model=MODEL).status == 0
    npu_testbed.export(made, tmp_path / "made.tflite")
    assert npu_testbed.simulate_vela((tmp_path / "made.tflite").read_bytes()).cycles == made.cycles


def test_options_are_python_values() -> None:
    made = npu_testbed.schedule(MODEL, no_cascade=True, no_advice=True)
    slow = npu_testbed.simulate_schedule(made, set={"ext.read_latency": 500}, no_advice=True)
    assert slow.cycles > made.cycles
    assert npu_testbed.simulate_schedule(made, set=["ext.read_latency=500"], no_advice=True).cycles == slow.cycles
    swept = npu_testbed.sweep(MODEL, arena_cache_size=(8192, "none"), effort="quick", jobs=1)
    assert len(swept.to_dict()["points"]) == 2


def test_a_frontier_is_a_picture_in_a_notebook(tmp_path: Path) -> None:
    found = npu_testbed.frontier(MODEL, jobs=1)
    assert "<svg" in found._repr_html_()
    found.plot(tmp_path / "found.svg")
    assert (tmp_path / "found.svg").read_text(encoding="utf-8") == found.svg()
    assert [point.memory for point in found.points] == sorted(point.memory for point in found.points)


def test_progress_is_told_in_words() -> None:
    said: list[str] = []
    npu_testbed.schedule(MODEL, no_cascade=True, progress=said.append)
    assert any(MODEL in sentence for sentence in said)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: npu_testbed.schedule(MODEL, arena_size=1), "did you mean arena_cache_size"),  # type: ignore[call-arg]  # it is refused
        (lambda: npu_testbed.schedule(MODEL, json=True), "no option json"),
        (lambda: npu_testbed.schedule(MODEL, no_cascade=1), "is a switch"),
        (lambda: npu_testbed.schedule(MODEL, effort=True), "takes a value"),
        (lambda: npu_testbed.schedule("zoo:tiny_con"), "did you mean tiny_conv"),
        (lambda: npu_testbed.schedule(MODEL, optimise="Sise"), "did you mean Size"),
        (lambda: npu_testbed.simulate_schedule("missing.json"), "missing.json"),
        (lambda: npu_testbed.schedule(b"PK", no_cascade=True), "not a .tflite"),
    ],
)
def test_what_is_wrong_is_one_error(ask: object, sentence: str) -> None:
    with pytest.raises(npu_testbed.Error, match=sentence):
        ask()  # type: ignore[operator]


WRONG = (object(), b"x", 1 + 2j, frozenset({1}), [object()], {"a": object()}, {1: "x"})
"""Values of types that no option takes."""


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.words not in FOR_PROCESSES], ids=lambda command: command.words)
def test_a_value_of_a_wrong_type_is_one_sentence_for_every_option_of_every_verb(command: Command) -> None:
    verb, ask = getattr(npu_testbed, command.name), command.load()
    needed = dict.fromkeys(ask.__match_args__, "zoo:none")
    for one in declared(ask):
        for value in WRONG if one.option.only != "words" and not one.option.source else ():
            with pytest.raises(
                npu_testbed.Error, match=rf"^{one.name}=.* (cannot be: (give|{one.name} is a switch)|is not a value)"
            ) as caught:
                verb(**{**needed, one.name: value})
            assert "object at 0x" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("schedul", MODEL), "did you mean schedule?"),
        (("schedule", MODEL, "--arena-cache-siz=4", "-o", "x.json"), "did you mean --arena-cache-size?"),
        (("inspect", "portfolio:mnis"), ""),
        (("schedule", "tiny_conv", "-o", "x.json"), "'tiny_conv' is not a file (did you mean zoo:tiny_conv?)"),
        (("schedule", "mnist", "-o", "x.json"), "'mnist' is not a file (did you mean portfolio:mnist?)"),
        (("schedule", "other.tflite", "-o", "x.json"), "'other.tflite' cannot be read (no such file or directory): give the path"),
        (("validate", "portfolio", "mnis"), "did you mean mnist?"),
        (("verify", MODEL), f"it names a network, and a file is needed, such as `npu-testbed schedule {MODEL} -o SCHEDULE.json` writes"),
        (("frontier", MODEL, "--engine", "fast"), "Unrecognized arguments: --engine fast (see"),
        (("simulate", "vela", MODEL, "--set", "ext.read_latnecy=3"), "did you mean read_latency?): write MEMORY.PARAMETER=VALUE with"),
        (("schedule", "portfolio:mnis", "-o", "x.json"), "did you mean mnist?"),
        (("schedule", MODEL, "--chip", "alif-e7", "-o", "x.json"), "did you mean alif-e7-hp?"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(words: tuple[str, ...], meant: str) -> None:
    outcome = call(*words)
    assert outcome.status == 2
    assert meant in outcome.errors


@pytest.mark.parametrize(
    ("name", "converter"), [("a.onnx", "onnx2tf"), ("a.h5", "TFLiteConverter"), ("a.keras", "TFLiteConverter"), ("a.pt2", "ExecuTorch")]
)
def test_files_of_other_frameworks_are_refused_with_their_converter(name: str, converter: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\x08\x07")
    outcome = call("schedule", tmp_path / name, "-o", tmp_path / "x.json")
    assert (outcome.status, converter in outcome.errors) == (2, True)


def test_a_module_that_tvm_saved_is_refused_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "module.json").write_text('{"root_index":1,"nodes":[{"type":"None"}],"metadata":{"tvm_version":"0.27.0"}}')
    outcome = call("schedule", tmp_path / "module.json", "-o", tmp_path / "x.json")
    assert outcome.status == 2
    assert "'module.json' is a module that TVM has saved as JSON" in outcome.errors
    assert "give the function that makes them, as GRAPH.py:FUNCTION." in outcome.errors


@pytest.mark.parametrize("package", [cascader, npu_model, sim, validation])
def test_help_of_every_package_and_of_what_it_offers_is_printed(package: ModuleType) -> None:
    assert package.__name__ in pydoc.plain(pydoc.render_doc(package))
    for name in getattr(package, "__all__", ()):
        # An alias of types goes by another name.
        assert len(pydoc.plain(pydoc.render_doc(getattr(package, name))).splitlines()) > 2


@pytest.mark.parametrize("package", [cascader, npu_model, npu_testbed, sim, validation])
def test_help_of_every_module_is_printed(package: ModuleType) -> None:
    """The types of a Struct's fields are found, also those that are imported on demand."""
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        if not name.endswith("__main__"):
            assert name in pydoc.plain(pydoc.render_doc(import_module(name)))


def test_help_of_every_name_and_of_every_outcome_is_printed() -> None:
    text = pydoc.plain(pydoc.render_doc(npu_testbed))
    assert "arena_bytes" in text
    for name in set(npu_testbed.__all__) - {"VERSION"}:
        assert name in pydoc.plain(pydoc.render_doc(getattr(npu_testbed, name)))
    for kind in Outcome.__subclasses__():
        assert kind.__name__ in pydoc.plain(pydoc.render_doc(kind))
