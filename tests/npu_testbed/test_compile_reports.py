"""Vela's by-products of a compilation: its debug database, the lines of its summary and the rows of its table, about our file."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from asked_for import compile_model
from command_line import call
from cpu_networks import cpu_split_network
from msgspec.structs import replace

from cascader.frontends.vela.debug_database import layer_names, read_tables
from npu_model.compiled.network import read_compiled
from npu_model.tflite.model import read_tflite
from npu_testbed.compilation.compile_options import Target
from npu_testbed.compilation.compiler import Compilation, debug_files
from npu_testbed.compilation.debug_xml import debug_xml
from npu_testbed.models.sources import load_model
from sim.views.layers import layers
from validation.zoo import build

NETWORKS = ("zoo:ds_cnn", "zoo:tiny_residual", "portfolio:cpu_first", "portfolio:mnist")


def vela(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "ethosu.vela", *words, "--output-dir", "theirs"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def database(found: Compilation) -> str:
    return debug_files(found)[f"{found.name}_debug.xml"].decode("utf-8")


@pytest.mark.parametrize("model", NETWORKS)
def test_the_debug_database_names_every_kernel_of_the_file_as_the_reader_of_velas_own_finds_it(model: str) -> None:
    found = compile_model(model)
    assert found.schedule is not None
    text = database(found)
    assert {table.get("name") for table in ET.fromstring(text)} >= {
        "source",
        "optimised",
        "queue",
        "cmdstream",
        "perf",
        "group",
    }  # our own
    source = load_model(model).data
    written = read_compiled(next(iter(found.files.values())))
    named = layer_names(text, read_tflite(source))
    assert len(named) == len(written.programs)
    for program, meant, names in zip(written.programs, found.simulation.network.programs, named, strict=True):
        assert names == {offset: meant.name(index) for index, offset in program.kernel_offsets.items()}
    rows = read_tables(text)["perf"]
    assert sum(int(row["op_cycles"]) for row in rows) == found.simulation.replay.cycles
    assert {row["name"] for row in rows} == {name for names in named for name in names.values()}


def test_names_that_would_end_a_table_do_not_break_the_debug_database() -> None:
    found = compile_model("zoo:tiny_conv")
    replay = found.simulation.replay
    (one,) = replay.replays
    odd = [replace(operation, name='a]]>b","c\n') for operation in one.operations]
    simulation = replace(found.simulation, replay=replace(replay, replays=(replace(one, operations=tuple(odd)),)))
    text = debug_xml(simulation, read_tflite(build("tiny_conv")), 'x"<&')
    tables = {table.get("name"): table.text for table in ET.fromstring(text)}  # our own
    rows = list(csv.DictReader(io.StringIO((tables["perf"] or "").strip())))
    assert {row["name"] for row in rows} == {'a]]>b","c\\n'}


def test_velas_own_database_is_written_where_velas_own_schedule_is(tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(build("tiny_residual"))
    vela(tmp_path, "net.tflite", "--enable-debug-db", "--cpu-tensor-alignment", "4096")
    found = compile_model(str(model), Target(cpu_tensor_alignment=4096), "ethos-u55-256")
    assert found.schedule is None
    theirs = (tmp_path / "theirs" / "net_debug.xml").read_text()
    assert read_tables(database(found)) == read_tables(theirs)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "split"])
def test_the_table_of_layers_has_velas_rows_and_adds_up_to_our_cycles(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.tflite").write_bytes(cpu_split_network() if name == "split" else build(name))
    vela(tmp_path, f"{name}.tflite", "--verbose-performance")
    found = compile_model(str(tmp_path / f"{name}.tflite"), device="ethos-u55-256")
    columns = ("Original Operator", "NNG Operator", "Target", "Name")
    theirs, ours = table((tmp_path / "theirs" / f"{name}_per-layer.csv").read_text()), table(found.files[f"{name}_per-layer.csv"].decode())
    assert [[row[column] for column in columns] for row in ours[: len(theirs)]] == [[row[column] for column in columns] for row in theirs]
    assert sum(int(row["Op Cycles"]) for row in ours) == found.simulation.replay.cycles
    assert sum(int(row["Op Cycles"]) > 0 for row in ours) >= sum(layer.cycles > 0 for layer in layers(found.simulation.replay))


def test_the_lines_of_velas_summary_are_printed_in_its_words_and_units(tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(build("ds_cnn"))
    options = ("--config", "Arm/vela.ini", "--system-config", "Ethos_U55_Deep_Embedded", "--memory-mode", "Shared_Sram")
    options += ("--verbose-cycle-estimate",)
    theirs = vela(tmp_path, "net.tflite", *options).partition("Network summary")[2]
    words = ("compile", tmp_path / "net.tflite", "--output-dir", tmp_path / "ours", *options, "--jobs", "1")
    ours = call(*words).output

    def shape(line: str) -> str:
        return " ".join(re.sub(r"[\d.]+", "N", line).split())

    printed = set(map(shape, ours.splitlines()))
    wanted = [shape(line) for line in theirs.splitlines()[1:] if re.search(r"\d", line)]
    assert [line for line in wanted if line not in printed] == []
    for line in ("Accelerator configuration", "System configuration", "Memory mode", "Accelerator clock", "Design peak SRAM"):
        said = [next(one for one in text.splitlines() if one.startswith(line)) for text in (theirs, ours)]
        assert said[0] == said[1]
    row = table((tmp_path / "ours" / "net_summary_Ethos_U55_Deep_Embedded.csv").read_text())[0]
    (used,) = re.findall(r"^Total SRAM used +([\d.]+) KiB$", ours, re.MULTILINE)
    assert float(used) == pytest.approx(float(row["sram_memory_used"]), abs=0.005)
