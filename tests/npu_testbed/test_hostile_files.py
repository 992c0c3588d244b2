"""Files that are made to hang, fill memory or lead elsewhere: read within bounds, or refused in a sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from asked_for import system_said
from cascades import cascade, cuts
from command_line import call, refusal
from msgspec.structs import replace

from cascader.ethosu.schedule.file import MAX_VALUES, digest, from_json, schedule_of, to_json
from npu_model.documents import plain, typed
from npu_model.errors import InputError
from npu_model.memory.vela_ini import memory_system
from npu_testbed.devices.configs import load_memory_system
from npu_testbed.replays.scheduling import read_schedule
from validation.reading import MAX_CONFIGURATION_BYTES, read_file

SIMULATE = ("simulate", "vela", "zoo:tiny_conv")
MINE = ("--system-config", "Ethos_U55_High_End_Embedded")
SECONDS = 5.0


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "tiny.json"
    assert call("schedule", "zoo:tiny_residual", "--no-cascade", "-o", path).status == 0
    return path


OPTIONS = [
    ("inspect", "{}"),
    ("verify", "{}"),
    ("simulate", "schedule", "{}"),
    ("schedule", "{}", "-o", "out.json"),
    (*SIMULATE, "--config", "{}"),
    (*SIMULATE, "--timing-adapter", "{}"),
    ("calibrate", "fit", "{}", "-o", "out.toml"),
    ("calibrate", "check", "{}"),
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(words: tuple[str, ...], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert "not a regular file" in refusal(*(word.replace("{}", str(pipe)) for word in words))


OUTPUTS = [
    ("schedule", "zoo:tiny_conv", "-o", "{}"),
    ("schedule", "zoo:tiny_conv", "-o", "s.json", "--csv", "{}"),
    ("frontier", "zoo:tiny_conv", "-o", "{}"),
    ("simulate", "vela", "zoo:tiny_conv", "--trace", "{}"),
    ("compile", "zoo:tiny_conv", "--output-dir", "{}"),
]


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a model fails: nothing has begun when an output is refused."""

    def fail(source: str) -> None:
        raise AssertionError(f"{source} is read")

    for name in ("npu_testbed.asked.request", "npu_testbed.asked.replays"):
        monkeypatch.setattr(f"{name}.load_model", fail)


@pytest.mark.usefixtures("no_search")
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
def test_a_place_that_takes_no_file_is_refused_before_anything_is_done(words: tuple[str, ...], tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    (folder / "tiny_conv_vela.tflite").mkdir()
    for place in (pipe, folder, tmp_path / "file" / "below"):
        (tmp_path / "file").write_bytes(b"")
        outcome = call(*(word.replace("{}", str(place)) for word in words))
        assert outcome.status in (1, 2), outcome
        assert re.search("named pipe|is not a directory|directory: give|a directory", outcome.errors), outcome.errors


def test_what_standard_output_is_takes_a_schedule_even_if_it_is_a_pipe() -> None:
    command = [sys.executable, "-m", "npu_testbed", "schedule", "zoo:tiny_conv", "--no-cascade", "--no-advice", "-o", "/dev/stdout"]
    if not Path("/dev/stdout").exists():
        pytest.skip("this system has no /dev/stdout")
    done = subprocess.run(command, capture_output=True, check=True)
    assert b'"digest"' in done.stdout


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
@pytest.mark.parametrize("words", OPTIONS, ids=" ".join)
def test_an_endless_device_is_not_read_behind_any_option(words: tuple[str, ...], tmp_path: Path) -> None:
    link = tmp_path / "zero.toml"
    link.symlink_to("/dev/zero")
    assert "not a regular file" in refusal(*(word.replace("{}", str(link)) for word in words))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_csv_that_names_a_device_as_its_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chip.csv"
    path.write_text("model,NPU_ACTIVE,timing_adapter\n/dev/zero,7,off\n")
    assert "not a regular file" in refusal("calibrate", "fit", path, "-o", tmp_path / "out.toml")


def test_a_configuration_larger_than_any_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * (MAX_CONFIGURATION_BYTES + 1))
    for option in ("--config", "--timing-adapter"):
        assert f"{MAX_CONFIGURATION_BYTES} is the most" in refusal(*SIMULATE, option, path)


def test_a_file_that_says_it_has_no_bytes_and_has_some_is_read() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("this system has no /proc")
    assert b"Name:" in read_file(status, "Status")
    with pytest.raises(InputError, match="10 is the most"):
        read_file(status, "Status", 10)


def nested_ini(levels: int, width: int) -> str:
    """A core clock that refers to ``width`` keys, each of which refers to ``width``, ``levels`` times over."""
    lines = ["[System_Config.Ethos_U55_High_End_Embedded]", "core_clock=" + "%(a0)s" * width]
    lines += [f"a{level}=" + f"%(a{level + 1})s" * width for level in range(levels)]
    return "\n".join([*lines, f"a{levels}=", "[Memory_Mode.Shared_Sram]", "const_mem_area=Axi1"]) + "\n"


@pytest.mark.parametrize(("levels", "width"), [(8, 90), (9, 90), (200, 2), (3, 60)])
def test_references_to_references_are_not_expanded_for_hours(levels: int, width: int, tmp_path: Path) -> None:
    path = tmp_path / "nested.ini"
    path.write_text(nested_ini(levels, width))
    start = time.process_time()
    assert "expands over" in refusal(*SIMULATE, "--config", path, *MINE)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("value", ["400%%(x)s", "%(axi0_port)s", "%(x)s%", "%", "100%"])
def test_a_reference_means_what_it_means_to_configparser(value: str) -> None:
    import configparser  # noqa: PLC0415  # the twin

    from npu_model.memory.vela_ini import _expanded  # noqa: PLC0415  # what is compared

    parser = configparser.ConfigParser()
    parser.read_string(f"[a]\naxi0_port=Sram\nkey={value}\n")
    try:
        expected: object = dict(parser.items("a"))
    except configparser.InterpolationError:
        expected = None
    try:
        found: object = _expanded("a", {"axi0_port": "Sram", "key": value})
    except InputError:
        found = None
    assert found == expected


def test_a_long_line_of_parents_is_refused() -> None:
    sections = "".join(f"[Memory_Mode.M{i}]\ninherit=Memory_Mode.M{i + 1}\n" for i in range(40))
    text = sections + "[Memory_Mode.M40]\nconst_mem_area=Axi1\n[System_Config.Ethos_U55_X]\ncore_clock=1\n"
    with pytest.raises(InputError, match="inherits more than 32 others"):
        memory_system(text, "Ethos_U55_X", "M0")


@pytest.mark.parametrize(
    "text",
    [
        "clock_hz = " + "9" * 6000,
        "clock_hz = 0x" + "f" * 6000,
        "clock_hz = " + "[" * 5000 + "]" * 5000,
        "a" + ".a" * 3000 + " = 1",
        "clock_hz = 1e999999999",
    ],
)
def test_numbers_and_tables_that_toml_does_not_promise_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(text)
    for words in ((*SIMULATE, "--timing-adapter", path), ("calibrate", "check", path)):
        assert len(refusal(*words)) < 1000


@pytest.mark.parametrize("ratio", ['"1e999999999"', "1e-300", '"1/0"', "inf"])
def test_a_ratio_with_an_exponent_is_no_number_of_a_billion_digits(ratio: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(
        f'schema = 1\nname = "a"\ndate = "b"\nseed = 1\n[tools]\n[timing]\noutput_scale = {ratio}\n[errors]\n', encoding="utf-8"
    )
    assert "write a ratio such as 1 or 7/6" in refusal("calibrate", "check", path)


def test_a_schedule_carries_its_memory_system_and_opens_no_file(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path(__file__).parents[2] / "npu_model" / "data" / "timing_adapters" / "u55_high_end.toml"
    profile, path = tmp_path / "mine.toml", tmp_path / "s.json"
    profile.write_text(source.read_text().replace("RLATENCY = 64", "RLATENCY = 4000"))
    assert call("schedule", "zoo:tiny_residual", "--no-cascade", "--timing-adapter", profile, "-o", path).status == 0
    profile.unlink()
    replayed = json.loads(call("simulate", "schedule", path, "--json").output)
    assert replayed["memory_system"]["name"] == "timing adapter mine"
    fast = json.loads(call("simulate", "schedule", plan, "--json").output)
    assert replayed["summary"]["cycles"] > fast["summary"]["cycles"]
    off = json.loads(call("simulate", "schedule", path, "--timing-adapter", "off", "--json").output)
    assert off["summary"]["cycles"] < fast["summary"]["cycles"]


def with_memory(plan: Path, path: Path, change: Any) -> Path:
    """The schedule file as one who knows how to write one would edit its memory system."""
    document = json.loads(plan.read_text())
    change(document["schedule"]["provenance"]["memory_system"])
    edited = document["schedule"]
    try:
        document["digest"] = digest(schedule_of(edited))
    except InputError:
        document["digest"] = ""
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "change",
    [
        {"clock_hz": 0},
        {"clock_hz": -5},
        {"region_ports": [0]},
        {"region_ports": [0, 1, 2, 0, 0, 0, 0, 0]},
        {"command_port": 7},
        {"ports": []},
        {"name": 3},
        {"file": "/etc/passwd"},
    ],
    ids=str,
)
def test_a_recorded_memory_system_that_none_is_like_is_refused(change: dict[str, object], plan: Path, tmp_path: Path) -> None:
    refusal("simulate", "schedule", with_memory(plan, tmp_path / "e.json", lambda system: system.update(change)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("read_latency", -1),
        ("write_latency", 1 << 40),
        ("max_reads", -1),
        ("burst_bytes", 0),
        ("cycles_per_word", "0"),
        ("cycles_per_word", "1/0"),
        ("cycles_per_word", "9" * 41),
        ("cycles_per_word", 1.5),
        ("pulse", {"on": 0, "off": 1, "cap_words": 0}),
    ],
)
def test_a_recorded_memory_that_none_is_like_is_refused(key: str, value: object, plan: Path, tmp_path: Path) -> None:
    refusal("simulate", "schedule", with_memory(plan, tmp_path / "e.json", lambda system: system["ports"][0].update({key: value})))


@pytest.mark.parametrize("names", [("Ethos_U55_Deep_Embedded", "Shared_Sram"), ("Ethos_U55_High_End_Embedded", "Sram_Only")])
def test_a_memory_system_survives_its_json_form(names: tuple[str, str]) -> None:
    system = load_memory_system(*names)
    assert typed(type(system), plain(system)) == system


@pytest.mark.parametrize("value", ["[],", "{},", "0,", '"",'])
def test_a_schedule_of_many_values_takes_no_more_memory_than_its_text(value: str) -> None:
    text = '{"schema": 6, "digest": "", "schedule": [' + value * (8 * MAX_VALUES) + "0]}"
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"{MAX_VALUES} is the most"):
            from_json(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_schedule_with_other_characters_than_ascii_is_refused_before_it_is_parsed(plan: Path) -> None:
    with pytest.raises(InputError, match="not ASCII"):
        from_json(plan.read_text() + "\N{GRINNING FACE}")


def test_the_time_that_vela_may_take_is_an_option_for_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "s.json"
    assert "within 0.01 s" in refusal("schedule", "zoo:tiny_conv", "-o", output, "--vela-timeout", "0.01")
    assert "within 0.01 s" in refusal("simulate", "vela", "zoo:tiny_conv", "--vela-timeout", "0.01")
    assert "within 0.01 s" in refusal("compare", "zoo:tiny_conv", "--jobs", "2", "--vela-timeout", "0.01")
    assert "above 0" in refusal("schedule", "zoo:tiny_conv", "-o", output, "--vela-timeout", "nan")
    assert "--live" in refusal("validate", "fvp", "--vela-timeout", "5")
    assert call("schedule", "zoo:tiny_conv", "-o", output, "--no-cascade", "--vela-timeout", "300").status == 0
    assert "NPU_TESTBED_VELA_TIMEOUT" not in os.environ
    monkeypatch.setenv("NPU_TESTBED_VELA_TIMEOUT", "-1")
    assert "NPU_TESTBED_VELA_TIMEOUT is '-1'" in refusal("simulate", "vela", "zoo:tiny_conv")


def test_velas_own_configuration_is_named_as_vela_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert system_said(config=Path("Arm/vela.ini")) == load_memory_system()
    assert call(*SIMULATE, "--config", "Arm/vela.ini", *MINE).status == 0
    assert "no such file" in refusal(*SIMULATE, "--config", "Arm/none.ini")
    assert "no such file" in refusal(*SIMULATE, "--config", "../vela.ini")


def test_a_copy_that_another_one_overwrites_unread_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    staged = cascade("tiny_residual", cuts("tiny_residual", (), 2), staged=(1,))
    path.write_text(to_json(replace(staged, copies=(staged.copies[0], *staged.copies))))
    sentence = refusal("simulate", "schedule", path, "--timing-adapter", "off", "--sram-map", tmp_path / "map.svg")
    assert "again before any job of it" in sentence
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [1 << 31, (1 << 32) - 16])
def test_an_arena_that_no_system_has_is_not_made_to_run_it(size: int, plan: Path, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_text(to_json(replace(read_schedule(plan), arena_size=size)))
    assert f"has {size} bytes: 536870912 is the most" in refusal("verify", path)
    assert call("simulate", "schedule", path).status == 0
