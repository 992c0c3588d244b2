"""From Vela's configuration files and timing-adapter profiles to memory systems."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from reference_data import shared_data

from npu_model.errors import InputError
from npu_model.memory.system import AXI0, AXI1, NPU_MAX_READS, NPU_MAX_WRITES, Memory, MemorySystem, Pulse
from npu_model.memory.timing_adapter import TimingAdapter, TimingProfile, parse_profile, profile, profile_names
from npu_model.memory.vela_ini import arena_cache_size, config_names, memory_system
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter, vela_ini_text

INI = """
[System_Config.Ethos_U55_Custom]
core_clock=400e6
axi0_port=Sram
axi1_port=OnChipFlash
Sram_clock_scale=0.762
Sram_burst_length=32
Sram_read_latency=29
Sram_write_latency=30
OnChipFlash_clock_scale=0.121
OnChipFlash_burst_length=128
OnChipFlash_read_latency=60
OnChipFlash_write_latency=0
vendor_note=ignored

[Memory_Mode.Shared_Sram]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0

[Memory_Mode.Small]
inherit=Memory_Mode.Shared_Sram
arena_cache_size=262144

[Memory_Mode.Dedicated_Sram]
const_mem_area=Axi1
arena_mem_area=Axi1
cache_mem_area=Axi0
"""

PROFILE = """
clock_hz = 250_000_000
burst_bytes = 128
shared_data_path = false
[memory_mode]
const_mem_area = "Axi0"
arena_mem_area = "Axi0"
cache_mem_area = "Axi0"
[sram]
MAXR = 4
MAXW = 3
RLATENCY = 10
WLATENCY = 20
PULSE_ON = 30
PULSE_OFF = 10
BWCAP = 20
[ext]
MAXR = 0
MAXW = 0
RLATENCY = 0
WLATENCY = 0
PULSE_ON = 0
PULSE_OFF = 0
BWCAP = 0
"""


def custom(old: str = "", new: str = "", config: str = "Ethos_U55_Custom", mode: str = "Shared_Sram") -> MemorySystem:
    assert old in INI
    return memory_system(INI.replace(old, new) if old else INI, config, mode)


def test_velas_default_is_the_high_end_embedded_system_with_shared_sram() -> None:
    system = load_memory_system()
    assert system.name == "Ethos_U55_High_End_Embedded, Shared_Sram"
    assert system.clock_hz == 500_000_000
    assert system.ports == (Memory("Sram", 32, 32, 32, 16, 64), Memory("OffChipFlash", 64, 0, 32, 16, 64, Fraction(8)))
    assert system.region_ports == (AXI1, AXI0, AXI0, AXI0, AXI0, AXI0, AXI0, AXI0)
    assert system.command_port == AXI1


def test_every_combination_of_velas_own_file_is_read_or_refused_for_an_arena_in_flash() -> None:
    systems, modes = config_names(vela_ini_text())
    assert len(systems) == 11
    assert len(modes) == 6
    flash_systems = {
        "Ethos_U55_Deep_Embedded",
        "Ethos_U55_High_End_Embedded",
        "Ethos_U65_Embedded",
        "Ethos_U85_SYS_Flash_Low",
        "Ethos_U85_SYS_Flash_High",
    }
    for system in systems:
        for mode in modes:
            if mode.startswith("Dedicated") and system in flash_systems:
                with pytest.raises(InputError, match=r"OffChipFlash of .*cannot write"):
                    load_memory_system(system, mode)
            else:
                assert load_memory_system(system, mode).name == f"{system}, {mode}"


def test_deep_embedded_flash_moves_half_a_byte_a_cycle() -> None:
    flash = load_memory_system("Ethos_U55_Deep_Embedded").ports[AXI1]
    assert 8 / flash.cycles_per_word == Fraction(1, 2)


def test_in_sram_only_everything_goes_through_axi0_to_one_memory() -> None:
    system = load_memory_system(memory_mode="Sram_Only")
    assert system.ports[AXI0] == system.ports[AXI1] == Memory("Sram", 32, 32, 32, 16, 64)
    assert set(system.region_ports) == {AXI0}
    assert system.command_port == AXI0


def test_in_dedicated_sram_only_the_fast_scratch_is_behind_axi0() -> None:
    system = load_memory_system("Ethos_U65_Mid_End", "Dedicated_Sram_384KB")
    assert [system.port_of(region) for region in range(3)] == [AXI1, AXI1, AXI0]
    assert system.ports[AXI1] == Memory("Dram", 500, 250, 32, 16, 64, Fraction(32, 15))


def test_a_memory_mode_inherits_its_ports_and_adds_an_arena_size() -> None:
    assert replace(custom(mode="Small"), name="") == replace(custom(), name="")
    assert arena_cache_size(INI, "Small") == 262144
    assert arena_cache_size(INI, "Shared_Sram") is None
    assert arena_cache_size(vela_ini_text(), "Dedicated_Sram_512KB") == 512 * 1024


def test_a_section_inherits_along_a_chain_and_its_own_value_wins() -> None:
    second = "[System_Config.B]\ninherit=System_Config.Ethos_U55_Custom\ncore_clock=160e6\n"
    third = "[System_Config.C]\ninherit=System_Config.B\nSram_read_latency=13\n"
    system = memory_system(INI + second + third, "C", "Shared_Sram")
    assert (system.clock_hz, system.ports[AXI0].read_latency, system.ports[AXI0].write_latency) == (160_000_000, 13, 30)


def test_a_vendor_file_needs_no_outstanding_limits_as_the_npu_has_its_own() -> None:
    system = custom()
    assert system.ports[AXI0] == Memory("Sram", 29, 30, 32, 16, 64, Fraction(500, 381))
    assert system.ports[AXI1] == Memory("OnChipFlash", 60, 0, 32, 16, 64, Fraction(1000, 121))


def test_a_memory_faster_than_the_port_moves_a_word_a_cycle() -> None:
    assert custom("Sram_clock_scale=0.762", "Sram_clock_scale=2.5").ports[AXI0].cycles_per_word == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Sram_clock_scale=0.762", "", "has no Sram_clock_scale: add"),
        ("core_clock=400e6", "", "has no core_clock: add"),
        ("axi1_port=OnChipFlash", "", "has no axi1_port: add"),
        ("axi1_port=OnChipFlash", "axi1_port=Mram", "not a memory that Vela knows: write one of Sram, Dram"),
        ("Sram_read_latency=29", "Sram_read_latency=fast", "is not a number"),
        ("Sram_read_latency=29", "Sram_read_latency=29.5", "is not whole"),
        ("Sram_read_latency=29", "Sram_read_latency=-1", "out of range"),
        ("Sram_read_latency=29", "Sram_read_latency=nan", "out of range"),
        ("Sram_read_latency=29", "Sram_read_latency=1e999999999", "out of range"),
        ("Sram_clock_scale=0.762", "Sram_clock_scale=0", "out of range"),
        ("Sram_clock_scale=0.762", "Sram_clock_scale=1e-999999999", "out of range"),
        ("Sram_clock_scale=0.762", "Sram_clock_scale=0.762 ; note", "is not a number"),
        ("Sram_burst_length=32", "Sram_burst_length=0", "out of range"),
        ("Sram_burst_length=32", "Sram_burst_length=20", "multiple of 8"),
        ("core_clock=400e6", "core_clock=0", "out of range"),
        ("core_clock=400e6", "core_clock=400e6\ncore_clock=1", r"core_clock appears twice in \[System_Config\.Ethos_U55_Custom\]"),
        ("core_clock=400e6", "core_clock", "line 3 is not key=value"),
        ("core_clock=400e6", "core_clock=%(x)s", "core_clock in .* cannot be expanded"),
        ("[Memory_Mode.Small]", "[Memory_Mode.Shared_Sram]", r"section \[Memory_Mode\.Shared_Sram\] appears twice"),
        ("const_mem_area=Axi1\narena_mem_area=Axi0", "arena_mem_area=Axi0", "has no const_mem_area"),
        ("const_mem_area=Axi1\narena_mem_area=Axi0", "const_mem_area=axi1\narena_mem_area=Axi0", "write Axi0 or Axi1"),
    ],
)
def test_a_broken_configuration_is_refused_with_the_key_and_the_remedy(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        custom(old, new)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match="System config 'X' is not in the Vela configuration: it has Ethos_U55_Custom"):
        custom(config="X")
    with pytest.raises(InputError, match=r"Memory mode 'shared_sram' .* Shared_Sram, Small, Dedicated_Sram"):
        custom(mode="shared_sram")
    with pytest.raises(InputError, match="has none at all"):
        memory_system("", "X", "Y")


def test_sections_that_inherit_in_a_circle_or_from_nowhere_are_refused() -> None:
    circle = INI + "[Memory_Mode.A]\ninherit=Memory_Mode.B\n[Memory_Mode.B]\ninherit=Memory_Mode.A\n"
    with pytest.raises(InputError, match=r"Memory_Mode\.A -> Memory_Mode\.B -> Memory_Mode\.A"):
        memory_system(circle, "Ethos_U55_Custom", "A")
    with pytest.raises(InputError, match="which is not in the file"):
        memory_system(INI + "[Memory_Mode.A]\ninherit=Memory_Mode.Z\n", "Ethos_U55_Custom", "A")


def test_an_arena_in_flash_is_refused() -> None:
    with pytest.raises(InputError, match="puts the arena into OnChipFlash"):
        custom(mode="Dedicated_Sram")


@given(st.text())
def test_any_text_is_refused_in_one_sentence(text: str) -> None:
    for read in (lambda: memory_system(text), lambda: parse_profile("x", text)):
        with pytest.raises(InputError) as caught:
            read()
        assert "Traceback" not in str(caught.value)


@settings(max_examples=200)
@given(st.integers(0, len(INI) - 1), st.characters(), st.integers(0, len(INI)))
def test_a_damaged_file_is_read_or_refused(position: int, character: str, resume: int) -> None:
    text = INI[:position] + character + INI[max(resume, position) :]
    try:
        outcome: object = memory_system(text, "Ethos_U55_Custom", "Small")
    except InputError as error:
        outcome = str(error)
    assert isinstance(outcome, MemorySystem) or (isinstance(outcome, str) and outcome.endswith("."))


def test_the_high_end_profile_caps_sram_at_a_word_a_cycle_and_flash_at_a_byte() -> None:
    system = load_timing_adapter("u55_high_end")
    assert system.ports == (
        Memory("sram", 32, 32, 8, 8, 64, shared=False, pulse=Pulse(3999, 1, 4000)),
        Memory("ext", 64, 0, 2, 0, 64, shared=False, pulse=Pulse(320, 80, 50)),
    )
    assert system.region_ports[:3] == (AXI1, AXI0, AXI0)


def test_with_the_adapters_off_the_port_width_and_the_npu_s_own_bounds_remain() -> None:
    for memory in load_timing_adapter("off").ports:
        assert replace(memory, name="") == Memory("", 0, 0, NPU_MAX_READS, NPU_MAX_WRITES, 64, Fraction(1), shared=False, pulse=None)


def test_every_built_in_profile_is_read() -> None:
    deep = tuple(f"u85_sys_dram_{kind}" for kind in ("high", "low", "mid"))
    assert profile_names() == ("off", "u55_high_end", "u65_high_end", "u65_off", *deep)
    assert tuple(profile(name).name for name in profile_names()) == profile_names()


def sweep_setting(row: dict[str, str]) -> TimingProfile:
    base = profile("u55_high_end")
    return replace(
        base,
        sram=replace(base.sram, bwcap=int(row["sram_bwcap_words_per_4000"])),
        ext=replace(base.ext, rlatency=int(row["ext_read_latency"]), bwcap=int(row["ext_bwcap_words_per_400"])),
    )


def test_every_setting_of_the_measured_memory_sweeps_can_be_expressed() -> None:
    with (shared_data() / "fvp" / "u55_memory_sweeps.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    for row in rows:
        sram, ext = sweep_setting(row).memory_system().ports
        assert sram.pulse == Pulse(3999, 1, int(row["sram_bwcap_words_per_4000"]))
        assert ext.pulse == Pulse(320, 80, int(row["ext_bwcap_words_per_400"]))
        assert ext.read_latency == int(row["ext_read_latency"])
        assert (sram.read_latency, sram.max_reads, ext.max_reads) == (32, 8, 2)


def test_a_profile_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text(PROFILE, encoding="utf-8")
    system = load_timing_adapter(path)
    assert system.name == "timing adapter board"
    assert system.clock_hz == 250_000_000
    assert system.ports[AXI0] == system.ports[AXI1] == Memory("sram", 10, 20, 4, 3, 128, shared=False, pulse=Pulse(30, 10, 20))
    assert system.command_port == AXI0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MAXR = 4", "MAXR = 64", r"MAXR is 64 \(64 would wrap to 0 in its register\): the range is 0 to 63; write 0 for no bound"),
        ("MAXW = 3", "MAXW = 65", "would wrap to 1"),
        ("RLATENCY = 10", "RLATENCY = 4096", r"wrap to 0.*0 to 4095; write a value in range"),
        ("WLATENCY = 20", "WLATENCY = -1", "WLATENCY is -1: the range is 0 to 4095"),
        ("BWCAP = 20", "BWCAP = 2.5", "an integer from 0 to 65535 is needed"),
        ("BWCAP = 20", "BWCAP = true", "BWCAP is True"),
        ("PULSE_ON = 30\nPULSE_OFF = 10", "PULSE_ON = 0\nPULSE_OFF = 10", "no address ever passes"),
        ("MAXR = 4\n", "", r"\[sram\] of the timing-adapter profile lacks MAXR"),
        ("MAXR = 4\n", "MAXR = 4\nMODE = 1\n", "has the unknown MODE"),
        ("[sram]", "[dram]", "lacks sram"),
        ("burst_bytes = 128", "burst_bytes = 32", "splits bursts at 64, 128, 256"),
        ("shared_data_path = false", "shared_data_path = 0", "shared_data_path is 0: true or false"),
        ("clock_hz = 250_000_000", "clock_hz = 0", "clock_hz is 0"),
        ('arena_mem_area = "Axi0"', "arena_mem_area = 0", "arena_mem_area is 0: .*write Axi0 or Axi1"),
        ("clock_hz = 250_000_000", "clock_hz = ", "is not TOML"),
        ("[memory_mode]", "memory_mode = 1\n[other]", "unknown other"),
    ],
)
def test_a_broken_profile_is_refused_with_the_value_and_the_bound(old: str, new: str, message: str) -> None:
    assert old in PROFILE
    with pytest.raises(InputError, match=message) as caught:
        parse_profile("board", PROFILE.replace(old, new, 1))
    assert "\n" not in str(caught.value)


def test_an_adapter_changed_in_code_is_checked_too() -> None:
    with pytest.raises(InputError, match="MAXR is 64"):
        replace(profile("u55_high_end").sram, maxr=64)
    with pytest.raises(InputError, match="no address ever passes"):
        TimingAdapter(0, 0, 0, 0, 0, 0, 1)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "model.toml"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="is not text from byte 0 on"):
        load_memory_system(config=binary)
    with pytest.raises(InputError, match="is not text from byte 0 on"):
        load_timing_adapter(binary)
    with pytest.raises(InputError, match=r"cannot be read \(no such file"):
        load_memory_system(config=tmp_path / "absent.ini")
    with pytest.raises(InputError, match="is a directory"):
        load_memory_system(config=tmp_path)
    with pytest.raises(
        InputError,
        match=r"nul is unknown: choose off, u55_high_end, u65_high_end, u65_off, .*, or give a \.toml file",
    ):
        load_timing_adapter("nul")
    with pytest.raises(InputError, match="cannot be read"):
        load_timing_adapter("a\0b.toml")


def test_a_configuration_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "soc.ini"
    path.write_text(INI, encoding="utf-8")
    assert load_memory_system("Ethos_U55_Custom", "Shared_Sram", path) == custom()
