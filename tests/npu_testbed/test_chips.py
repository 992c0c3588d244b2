"""Chips by name: each stands for an accelerator and a memory system, which other options override."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from asked_for import system_said
from command_line import call, refusal
from hypothesis import given
from hypothesis import strategies as st

import npu_testbed
from npu_model.errors import InputError
from npu_model.memory.vela_ini import memory_system
from npu_testbed.devices.chips import _chip, chip_names, chips_text, load_chip
from validation.fvp.scores import mean_error
from validation.silicon.scores import STEADY, cycles_per_element, differences

MODEL = "zoo:tiny_conv"
OWN = """
title = "a board"
accelerator = "ethos-u55-32"
config = "own.ini"
system_config = "Own"
memory_mode = "Shared_Sram"
source = "its data sheet"
unknown = "nothing"
"""
INI = """
[System_Config.Own]
core_clock=100e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=1.0
Sram_burst_length=32
Sram_read_latency=1
Sram_write_latency=1
OffChipFlash_clock_scale=0.5
OffChipFlash_burst_length=32
OffChipFlash_read_latency=9
OffChipFlash_write_latency=9
[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


@pytest.mark.parametrize("name", chip_names())
def test_every_shipped_chip_has_a_memory_system_and_says_what_is_not_known(name: str) -> None:
    chip = load_chip(name)
    system = system_said(chip.timing_adapter, chip.system_config, chip.memory_mode, chip.config)
    assert 0 < system.clock_hz <= 500_000_000
    assert chip.source
    assert chip.unknown
    assert name in chips_text()


def test_a_chip_with_a_u85_is_simulated_and_one_of_unknown_numbers_says_which_they_are() -> None:
    found = npu_testbed.simulate_vela(MODEL, chip="corstone-320")
    spelled = npu_testbed.simulate_vela(MODEL, accelerator_config="ethos-u85-256", timing_adapter="u85_sys_dram_low")
    assert found.to_dict() == spelled.to_dict()
    assert "searched for" in refusal("schedule", MODEL, "--chip", "corstone-320", "-o", "x.json")
    for name in ("alif-e4", "alif-e6", "alif-e8"):
        assert "no source says its MACs, its clock, and bandwidth" in refusal("simulate", "vela", MODEL, "--chip", name)
        assert f"{name}: " in chips_text()


@pytest.mark.parametrize("name", ["m55m1", "rz-g3e", "imx93"])
def test_a_chip_without_a_source_is_refused_by_its_name(name: str) -> None:
    said = refusal("schedule", MODEL, "--chip", name, "-o", "x.json")
    assert f"Chip {name} is known by its name, but no source says its MACs, its clock, its SRAM" in said
    assert f"{name}: " in chips_text()


PDSC = """<?xml version="1.0"?>
<package><devices><device Dname="Maker X1">
  <!-- <feature type="NPU" name="Ethos-U65" macs="512"/> -->
  <feature type="NPU" name="Ethos-U55" macs="64"/>
  <file category="other" name="tools/own.ini"/>
</device></devices></package>
"""
CDEF = """npu:
  type: Ethos-U55
  macs: 64
vela:
  ini: tools/own.ini
"""


@pytest.mark.parametrize(
    ("name", "content"), [("x1.pdsc", PDSC), ("x1.PDSC", PDSC), ("x1.cdef", CDEF), ("x1.cdef", "ethos-u55-64: tools/own.ini")]
)
def test_a_device_pack_is_read_where_it_says_enough(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.ini").write_text(INI)
    (tmp_path / name).write_text(content)
    found = npu_testbed.simulate_vela(MODEL, chip=tmp_path / name, no_advice=True)
    (tmp_path / "own.toml").write_text(OWN.replace("own.ini", "tools/own.ini"))
    assert found.simulation.device.name == "ethos-u55-64"
    assert found.simulation.system == npu_testbed.simulate_vela(MODEL, chip=tmp_path / "own.toml", no_advice=True).simulation.system


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('macs="64"', "", "x1.pdsc names no NPU with its number of MACs"),
        ("</device>", '<npu name="Ethos-U55-128"/></device>', "x1.pdsc names more than one NPU"),
        ("tools/own.ini", "", "x1.pdsc names no configuration of Vela (.ini)"),
        ("tools/own.ini", "missing.ini", "missing.ini"),
        ('name="tools/own.ini"', 'name="tools/own.ini tools/two.ini"', "x1.pdsc names more than one configuration of Vela"),
        ("own.ini", "two.ini", "x1.pdsc with tools/two.ini names more than one system config: One, Two"),
    ],
)
def test_a_device_pack_that_says_too_little_is_refused_with_what_it_lacks(before: str, after: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "own.ini").write_text(INI)
    (tmp_path / "tools" / "two.ini").write_text("[System_Config.One]\n[System_Config.Two]\n[Memory_Mode.Shared_Sram]\n")
    (tmp_path / "x1.pdsc").write_text(PDSC.replace(before, after))
    said = refusal("schedule", MODEL, "--chip", tmp_path / "x1.pdsc", "-o", tmp_path / "x.json")
    assert says in said


def test_a_device_pack_that_is_an_archive_is_to_be_unpacked() -> None:
    assert "unpack it, and give its .pdsc" in refusal("schedule", MODEL, "--chip", "x1.pack", "-o", "x.json")


def test_a_chip_is_its_options() -> None:
    by_name = npu_testbed.simulate_vela(MODEL, chip="alif-e7-he")
    chip = load_chip("alif-e7-he")
    spelled = npu_testbed.simulate_vela(
        MODEL, accelerator_config=chip.accelerator, config=chip.config, system_config=chip.system_config, memory_mode=chip.memory_mode
    )
    assert by_name.to_dict() == spelled.to_dict()
    assert by_name.simulation.device.name == "ethos-u55-128"


def test_other_options_override_a_chip() -> None:
    found = npu_testbed.simulate_vela(MODEL, chip="himax-we2", accelerator_config="ethos-u55-256", memory_mode="Sram_Only")
    assert found.simulation.device.name == "ethos-u55-256"
    assert found.simulation.system.name == "Himax_WE2, Sram_Only"


def test_what_is_not_known_of_a_chip_is_said(tmp_path: Path) -> None:
    outcome = call("schedule", MODEL, "--chip", "ra8p1", "-o", tmp_path / "made.json")
    assert "those of Ethos_U55_High_End_Embedded stand in" in outcome.errors
    assert "on ethos-u55-256" in outcome.output


def test_a_chip_of_ones_own_lies_in_a_toml_file(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    (tmp_path / "own.ini").write_text(INI)
    found = npu_testbed.simulate_vela(MODEL, chip=tmp_path / "own.toml")
    assert (found.simulation.device.name, found.simulation.system.clock_hz) == ("ethos-u55-32", 100_000_000)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--chip", "alif-e7"), "did you mean alif-e7-hp?"),
        (("--chip", "ra8p1", "--timing-adapter", "off"), "drop one of them"),
        (("--timing-adapter=off", "--chip=ra8p1"), "drop one of them"),
        (("--chip", "missing.toml"), "missing.toml"),
    ],
)
def test_a_wrong_chip_is_refused(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal("simulate", "vela", MODEL, *words)


@pytest.mark.parametrize(
    "text", ["sram_bytes = " + "9" * 6000, "title = " + "[" * 5000 + "]" * 5000, "a" + ".a" * 3000 + " = 1", "title = 'a"]
)
def test_a_chip_file_that_no_toml_reader_promises_to_read_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text(text)
    assert "is not TOML" in refusal("simulate", "vela", MODEL, "--chip", tmp_path / "odd.toml")


def test_a_schedule_is_not_replayed_on_a_chip_with_another_npu(tmp_path: Path) -> None:
    assert call("schedule", MODEL, "--no-cascade", "-o", tmp_path / "made.json").status == 0
    assert "has an ethos-u55-64" in refusal("simulate", "schedule", tmp_path / "made.json", "--chip", "himax-we2")
    assert call("simulate", "schedule", tmp_path / "made.json", "--chip", "alif-e7-he").status == 0


@pytest.fixture(scope="module")
def own_chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    (folder / "own.ini").write_text(INI)
    (folder / "own.toml").write_text(OWN)
    return folder / "own.toml"


@pytest.mark.parametrize("name", [*chip_names(), "own"])
def test_a_chip_compiles_and_only_files_of_its_npu_are_held_to_it(name: str, own_chip: Path, tmp_path: Path) -> None:
    chip = own_chip if name == "own" else name
    other = next(one for one in chip_names() if load_chip(one).accelerator != load_chip(str(chip)).accelerator)
    compiled = tmp_path / "tiny_conv_vela.tflite"
    assert call("compile", MODEL, "--chip", chip, "--output-dir", tmp_path).status == 0
    assert call("schedule", MODEL, "--no-cascade", "--chip", chip, "-o", tmp_path / "made.json").status == 0
    for file in (compiled, tmp_path / "made.json"):
        mine, given = call("check", file, "--chip", chip, "--json"), call("check", file, "--chip", chip, "--max-cycles", 1)
        assert (mine.status, given.status) == (0, 1)
        assert load_chip(str(chip)).accelerator in mine.output
        assert f"--chip {other} has an {load_chip(other).accelerator}" in refusal("check", file, "--chip", other, "--json")
        assert "cannot change it" in refusal("check", file, "--accelerator-config", "ethos-u55-128", "--json")
    assert call("simulate", "vela", compiled, "--chip", chip).status == 0
    assert f"--chip {other} has an" in refusal("simulate", "vela", compiled, "--chip", other)


GOOD = {"title": "t", "accelerator": "ethos-u55-32", "system_config": "S", "source": "s", "unknown": "u"}


@given(st.dictionaries(st.sampled_from([*GOOD, "timing_adapter", "sram_bytes", "sram"]), st.none() | st.integers() | st.text(max_size=3)))
def test_a_damaged_chip_is_refused_in_one_sentence(changes: dict[str, object]) -> None:
    values = {key: value for key, value in (GOOD | changes).items() if value is not None}
    with suppress(InputError):
        assert _chip("own", values, Path()).title == values["title"]


def test_the_chip_of_the_silicon_counters_has_the_memories_that_they_ask_for() -> None:
    """A multiplication's cycles an element within one standard error, 0.046; fully connected kernels within 3 %, the maker's 15.6 %."""
    pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")
    chip = load_chip("alif-e7-hp")
    assert chip.config is not None
    text = chip.config.read_text()
    measured, makers = (memory_system(text, name, "Shared_Sram") for name in (chip.system_config or "", "Alif_E7_HP"))
    ours, silicon = cycles_per_element(measured)
    assert silicon == pytest.approx(0.655, abs=0.001)
    assert ours == pytest.approx(silicon, abs=0.01)
    assert cycles_per_element(makers)[0] == pytest.approx(0.58, abs=0.005)
    errors = [found.error for found in differences(system=measured) if found.inputs >= STEADY]
    assert max(map(abs, errors)) < 0.03
    assert mean_error(errors) < 0.007
    assert max(abs(found.error) for found in differences(system=makers) if found.inputs >= STEADY) > 0.15
