"""Names from files: whatever they hold, a report says what it says, and a picture is well-formed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import call
from hypothesis import given
from hypothesis import strategies as st

from npu_model.printable import printable, shown
from npu_model.tflite.model import read_tflite
from npu_testbed.replays.layer_names import NAME_WIDTH, shortened
from validation.tables import Table
from validation.zoo import build

HOSTILE = "\x1b[2K\r\n"
FORGED = "NPU cycles  1\n"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network in which every name of four or more characters begins with an escape character and ends in a line of its own."""
    model = bytearray(build("tiny_residual"))
    names = sorted({tensor.name for tensor in read_tflite(bytes(model)).tensors if len(tensor.name) >= 4}, key=len, reverse=True)
    assert len(names) > 3
    for number, name in enumerate(names):
        new = f"\x1b{number}{name}"[: len(name) - 2].encode() + b"\n<"
        model[:] = model.replace(name.encode() + b"\0", new + b"\0")
    path = tmp_path_factory.mktemp("hostile") / "net\n|\x1b[31m.tflite"
    path.write_bytes(model)
    assert sum("\x1b" in tensor.name for tensor in read_tflite(bytes(model)).tensors) == len(names)
    return path


def lines_of(text: str) -> list[str]:
    assert re.search(r"[^\n\t -~]", text) is None, text
    return text.splitlines()


@given(st.text(), st.integers(8, 60))
def test_any_text_is_one_printable_line_of_bounded_length(text: str, limit: int) -> None:
    found = printable(text, limit)
    assert found.isprintable()
    assert len(found) <= limit
    assert found == text or not text.isprintable() or len(text) > limit


@given(st.recursive(st.integers() | st.text() | st.none() | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_value_is_shown_in_one_printable_line(value: object) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) <= 60


@given(st.text())
def test_a_layer_is_called_by_one_line(name: str) -> None:
    assert shortened(name).isprintable()
    assert len(shortened(name)) <= NAME_WIDTH


def test_a_table_has_one_line_per_row_whatever_its_cells_hold() -> None:
    table = Table("a\nb", ("name", "cycles"), ((HOSTILE + FORGED, "1"), ("x|<b>", "2")), ("note\nb",))
    assert len(lines_of(table.text())) == 4 + 2 + 1
    assert r"| x\|&lt;b> | 2 |" in table.markdown().splitlines()


def test_reports_of_a_network_with_hostile_names_hold_no_line_of_its_own(hostile: Path, tmp_path: Path) -> None:
    plan = tmp_path / "s.json"
    made = call("schedule", hostile, "--no-cascade", "-o", plan)
    assert made.status == 0, made
    assert not any(line.startswith("<") for line in lines_of(made.output))
    for words in (("simulate", "schedule", plan), ("simulate", "vela", hostile), ("verify", plan, "--model", hostile)):
        done = call(*words)
        assert done.status == 0, done
        assert "\\x1b" in done.output
        assert not any(line.startswith("<") for line in lines_of(done.output))
    clean = call("simulate", "vela", "zoo:tiny_residual")
    assert len(lines_of(call("simulate", "vela", hostile).output)) == len(lines_of(clean.output))
    lines_of(call("inspect", plan).output)


def test_pictures_and_traces_of_a_network_with_hostile_names_are_well_formed(hostile: Path, tmp_path: Path) -> None:
    plan, picture, trace, points = tmp_path / "s.json", tmp_path / "m.svg", tmp_path / "t.json.gz", tmp_path / "f.svg"
    assert call("schedule", hostile, "--no-cascade", "-o", plan).status == 0
    assert call("simulate", "schedule", plan, "--sram-map", picture, "--trace", trace).status == 0
    assert call("frontier", hostile, "--plot", points, "--rungs", "2", "--jobs", "1").status == 0
    for path in (picture, points):
        text = path.read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert ET.fromstring(text).tag.endswith("svg")
    names = [event["name"] for event in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]]
    assert all(name.isprintable() for name in names)
    assert any("\\n<" in name for name in names)


def test_a_refusal_that_quotes_a_hostile_name_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J\nb.json"
    done = call("inspect", path)
    assert done.status == 2
    assert len(lines_of(done.errors)) == 1


def test_a_profile_with_hostile_keys_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('"\\u001b[2J\\n" = 1\n')
    done = call("simulate", "vela", "zoo:tiny_conv", "--timing-adapter", path)
    assert done.status == 2
    assert len(lines_of(done.errors)) == 1
