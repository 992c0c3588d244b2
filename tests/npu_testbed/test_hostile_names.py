"""Names from files and models are data: no spreadsheet runs them, no document breaks by them, whatever bytes a file's name has."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from command_line import call, refusal
from hypothesis import given
from hypothesis import strategies as st

from npu_model.errors import InputError
from npu_model.toml_text import parse_toml
from npu_testbed.compilation import compiler
from npu_testbed.devices.configs import vela_ini_text
from npu_testbed.ground.csv_file import csv_file
from validation.builder import NetworkBuilder
from validation.fvp.live.json_events import events
from validation.zoo import build

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "npu_model" / "data" / "timing_adapters"
HOSTILE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", '@SUM("a")', "\t=1", "a\x1b[2Kb", "]]>&<x", "\x00\ufffe")


@given(st.text(max_size=30))
def test_no_cell_of_a_csv_file_is_a_formula(text: str) -> None:
    (row,) = csv.reader(io.StringIO(csv_file([[text, -7, f"={text}"]]).decode()))
    assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert row[1] == "-7"
    assert row[2].startswith("'=")


def test_layers_of_any_name_are_cells_and_well_formed_tables(tmp_path: Path) -> None:
    net = NetworkBuilder("hostile")
    x = net.input((1, 8, 8, 8), "x")
    for name in HOSTILE:
        x = net.conv2d(x, 8, name=name)
    (tmp_path / "net.tflite").write_bytes(net.finish([x]))
    made = ("schedule", tmp_path / "net.tflite", "--no-cascade", "-o", tmp_path / "made.json", "--csv", tmp_path / "layers.csv")
    assert call(*made).status == 0
    compiled = ("compile", tmp_path / "net.tflite", "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path)
    assert call(*compiled).status == 0
    ET.parse(tmp_path / "net_debug.xml")  # a file of ours
    for name in ("layers.csv", "net_per-layer.csv"):
        text = (tmp_path / name).read_text()
        assert text.isascii()
        assert "\x1b" not in text
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert any("=cmd" in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


@pytest.mark.parametrize("written", ["ours", "vela"])
@pytest.mark.parametrize("name", ["z\x00y", "a\x1b[2Kb", "\x00\ufffe", "\x0b&<x"])
def test_a_database_is_well_formed_whatever_a_layer_is_called(
    name: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise InputError("Ours fails.")

    if written == "vela":
        monkeypatch.setattr(compiler, "_ours", fails)
    net = NetworkBuilder("hostile")
    (tmp_path / "net.tflite").write_bytes(net.finish([net.conv2d(net.input((1, 6, 6, 8), "x"), 8, (3, 3), name=name)]))
    made = call("compile", tmp_path / "net.tflite", "--enable-debug-db", "--output-dir", tmp_path, "--json")
    assert (made.status, json.loads(made.output)["promise"]["written"]) == (0, written)
    ET.parse(tmp_path / "net_debug.xml")  # a file of ours


@pytest.mark.parametrize("name", ['"', 'a"b', "]]>", 'a]]>"b', 'x","y', '"]]>"', "\n]]>\n</table>"])
@pytest.mark.parametrize("memory", [(), ("--system-config", "Ethos_U55_Deep_Embedded")], ids=["default", "from Vela's command line"])
def test_names_that_end_a_cell_or_a_table_of_velas_database_are_read(name: str, memory: tuple[str, ...], tmp_path: Path) -> None:
    net = NetworkBuilder("hostile")
    first = net.conv2d(net.input((1, 6, 6, 8), f"{name}0"), 8, (3, 3), name=name)
    (tmp_path / "net.tflite").write_bytes(net.finish([net.conv2d(first, 8, (3, 3), name=f"{name}2")]))
    found = call("simulate", "vela", tmp_path / "net.tflite", "--no-advice", "--json", *memory)
    assert [layer["layer"] for layer in json.loads(found.output)["layers"]] == [name, f"{name}2"]
    assert (
        call("compile", tmp_path / "net.tflite", "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path, *memory).status == 0
    )
    ET.parse(tmp_path / "net_debug.xml")  # a file of ours


@pytest.mark.parametrize("name", [b"a\xff.tflite", b"\xe9\xe8.tflite", b"\xc3.tflite"])
def test_a_file_whose_name_is_not_utf8_is_scheduled_swept_and_compiled(name: bytes, tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(name)
    try:
        source.write_bytes(build("tiny_conv"))
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    assert call("schedule", source, "--no-cascade", "-o", tmp_path / "made.json").status == 0
    assert call("verify", tmp_path / "made.json", "--model", source).status == 0
    assert call("sweep", source, "--effort", "quick", "--json").status == 0
    assert call("frontier", source, "-o", tmp_path / "frontier.json").status == 0
    assert call("compile", source, "--disable-cascading", "--enable-debug-db", "--output-dir", tmp_path / "out").status == 0


@pytest.mark.parametrize(
    ("option", "content", "more"),
    [
        ("--timing-adapter", (ADAPTERS / "off.toml").read_text(), ()),
        ("--config", vela_ini_text(), ("--system-config", "Ethos_U55_Deep_Embedded", "--memory-mode", "Shared_Sram")),
        ("--timing", (ROOT / "validation" / "calibrate" / "corstone_fvp_u55.toml").read_text(), ()),
    ],
)
def test_a_file_of_an_option_whose_name_is_not_utf8_is_read_and_named(
    option: str, content: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    given, made = tmp_path / os.fsdecode(b"a\xff.toml"), tmp_path / os.fsdecode(b"s\xff.json")
    try:
        given.write_text(content)
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    words = ("zoo:tiny_conv", option, given, *more)
    assert call("schedule", *words, "--effort", "quick", "--no-advice", "-o", made).status == 0
    assert call("check", made, "--max-bytes", 1 << 20, "--json").status == 0
    assert call("frontier", *words, "--rungs", 2, "--schedules", tmp_path / os.fsdecode(b"points\xff"), "--json").status == 0
    assert call("sweep", *words, "--effort", "quick", "--results", tmp_path / os.fsdecode(b"kept\xff"), "--json").status == 0
    named = tuple("--timing-profile" if word == "--timing" else word for word in words)
    for _ in range(2):  # made, and found again
        kept = ("--output-dir", tmp_path / os.fsdecode(b"out\xff"), "--results", tmp_path / os.fsdecode(b"kept\xff"))
        assert call("compile", *named, *kept, "--json").status == 0


@pytest.mark.parametrize(
    "text", ["a" + ".a" * 30_000 + " = 1", "[" + "a." * 30_000 + "a]", '"a"' + ' . "b"' * 9000 + " = 1", "x = {" + "a." * 20 + "a = 1}"]
)
def test_a_key_of_thousands_of_parts_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(InputError, match="a key of more than 16 parts"):
        parse_toml(text, "The file", "write less")


def test_dots_that_are_no_keys_are_read() -> None:
    text = 'a.b.c = "' + "." * 500 + '"\nd = [' + "1.5, " * 500 + "]\n[e.f.g]\nh = 1"
    assert parse_toml(text, "The file", "write less")["e"] == {"f": {"g": {"h": 1}}}


@pytest.mark.parametrize("content", [b" ", b"[" + b"1,", b'{"a":"'])
def test_a_trace_that_unpacks_to_a_thousand_times_its_bytes_is_refused(content: bytes, tmp_path: Path) -> None:
    bomb = gzip.compress(content[:1] + content[1:] * (1 << 23) if len(content) > 1 else content * (1 << 25), mtime=0)
    with pytest.raises(InputError, match=r"unpacks to more than|not JSON|has more than"):
        list(events(bomb))
    (tmp_path / "trace.json.gz").write_bytes(bomb)
    assert refusal("simulate", "vela", "zoo:tiny_conv", "--measured", tmp_path / "trace.json.gz")
