"""Bad input: one sentence, status 2, nothing written, for whatever is wrong."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import call, refusal
from cpu_networks import cpu_split_network, float_network

from cascader.frontends.vela import compile_network
from validation.zoo import build

PERCENTS = range(0, 100, 3)
"""Where files are cut off; the readers themselves are asked at every per cent (test_container.py, test_vela_frontend.py)."""

READERS = (
    ("schedule", "{}", "-o", "{out}"),
    ("simulate", "vela", "{}"),
    ("simulate", "schedule", "{}"),
    ("inspect", "{}"),
    ("verify", "{}"),
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "tiny.json"
    assert call("schedule", "zoo:tiny_residual", "-o", path).status == 0
    return path


def command(words: tuple[str, ...], path: object, out: Path) -> list[str]:
    return [word.replace("{out}", str(out)).replace("{}", str(path)) for word in words]


def require_empty(folder: Path) -> None:
    assert list(folder.iterdir()) == []


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("words", READERS, ids=lambda words: " ".join(words[:2]))
def test_files_that_are_no_files(words: tuple[str, ...], tmp_path: Path, empty: Path) -> None:
    nothing, text, binary = tmp_path / "empty.tflite", tmp_path / "text.tflite", tmp_path / "binary.tflite"
    nothing.write_bytes(b"")
    text.write_text("this is no network\n")
    binary.write_bytes(bytes(range(256)) * 4)
    out = empty / "out.json"
    assert "0 bytes" in refusal(*command(words, nothing, out))
    assert "is a directory" in refusal(*command(words, tmp_path, out))
    assert "no such file" in refusal(*command(words, tmp_path / "missing.tflite", out))
    refusal(*command(words, text, out))
    refusal(*command(words, binary, out))
    refusal(*command(words, "nul\0byte", out))
    refusal(*command(words, "x" * 5000, out))
    refusal(*command(words, "", out))
    require_empty(empty)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_an_endless_device_is_not_read() -> None:
    assert "not a regular file" in refusal("inspect", "/dev/zero")


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn"])
def test_a_network_cut_off_anywhere_is_refused(name: str, tmp_path: Path, empty: Path) -> None:
    model, path = build(name), tmp_path / "cut.tflite"
    for percent in PERCENTS:
        path.write_bytes(model[: len(model) * percent // 100])
        refusal("schedule", path, "-o", empty / "out.json")
        refusal("simulate", "vela", path)
    require_empty(empty)


def test_a_compiled_network_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    compiled, path = compile_network(build("tiny_residual")).compiled, tmp_path / "cut_vela.tflite"
    for percent in PERCENTS:
        path.write_bytes(compiled[: len(compiled) * percent // 100])
        refusal("simulate", "vela", path)
        refusal("inspect", path)


def test_networks_with_flipped_bits_take_no_process_along(tmp_path: Path, empty: Path) -> None:
    model, rng, path, out = build("tiny_residual"), random.Random(11), tmp_path / "flipped.tflite", empty / "out.json"
    refused = 0
    for _ in range(12):
        damaged = bytearray(model)
        for _ in range(2):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        words = ("schedule", path, "--effort", "quick", "-o", out)
        if call(*words).status == 0:
            out.unlink()
        else:
            refusal(*words)
            refused += 1
        require_empty(empty)
    assert refused > 0


def test_a_float_network_is_told_to_be_quantised(tmp_path: Path, empty: Path) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(float_network())
    for words in READERS[:2]:
        sentence = refusal(*command(words, path, empty / "out.json"))
        assert "FLOAT32" in sentence
        assert "quantise" in sentence
    require_empty(empty)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--accelerator-config", "ethos-u95-256"), ("ethos-u95-256", "ethos-u55-128")),
        (("--accelerator-config", ""), ("''", "ethos-u55-128")),
        (("--system-config", ""), ("''", "Ethos_U55_High_End_Embedded")),
        (("--memory-mode", ""), ("''", "Shared_Sram")),
        (("--timing-adapter", ""), ("u55_high_end",)),
        (("--system-config", "Ethos_U55_Low_End"), ("Ethos_U55_Low_End", "Ethos_U55_High_End_Embedded")),
        (("--memory-mode", "Sram"), ("Sram", "Shared_Sram")),
        (("--memory-mode", "Dedicated_Sram"), ("Dedicated_Sram", "OffChipFlash", "choose")),
        (("--timing-adapter", "u55"), ("u55", "u55_high_end")),
        (("--timing-adapter", "missing.toml"), ("missing.toml",)),
        (("--config", "missing.ini"), ("missing.ini",)),
        (("--timing-adapter", "off", "--memory-mode", "Shared_Sram"), ("--timing-adapter off", "choose one kind")),
        (("--arena-cache-size", "0"), ("'0'", "from 1 to 1099511627776")),
        (("--arena-cache-size", "-5"), ("-5", "from 1 to")),
        (("--arena-cache-size", "256KB"), ("256KB", "from 1 to")),
        (("--arena-cache-size", "1099511627777"), ("'1099511627777'", "from 1 to")),
        (("--arena-cache-size", "9" * 5000), ("from 1 to",)),
        (("--arena-cache-size", "٣٢٠٠٠"), ("from 1 to",)),
        (("--set", "ext.read_latency=٣"), ("ext.read_latency", "such as 64")),
        (("--deadline", "1e300"), ("1e300", "up to a billion")),
        (("--arena-cache", "5"), ("--arena-cache",)),
    ],
)
def test_names_and_numbers_that_do_not_exist(options: tuple[str, ...], named: tuple[str, ...], empty: Path) -> None:
    sentences = [
        refusal("schedule", "zoo:tiny_conv", "-o", empty / "out.json", *options),
        refusal("simulate", "vela", "zoo:tiny_conv", *options),
    ]
    for sentence in sentences:
        assert all(name in sentence for name in named), sentence
    require_empty(empty)


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ("CONV2D", "CONV_2D"),
        ("SOFTMAX,NOPE", "NOPE"),
        (",", "','"),
        ("softmax", "A-Z"),
        ("ethos-u", "A-Z"),
        (" , ,", "leave the option out"),
    ],
)
def test_operators_that_do_not_exist_cannot_be_ignored(names: str, named: str, empty: Path) -> None:
    for words in (("schedule", "-o", empty / "out.json"), ("frontier",), ("check", "--max-bytes", "9"), ("sweep",)):
        assert named in refusal(words[0], "zoo:tiny_conv", *words[1:], "--ignore-ops", names)
    require_empty(empty)


def test_a_zoo_network_that_does_not_exist_is_answered_with_those_that_do(empty: Path) -> None:
    assert "mobilenet_v1" in refusal("schedule", "zoo:mobilenet_v9", "-o", empty / "out.json")
    assert "mobilenet_v1" in refusal("simulate", "vela", "zoo:")


def test_a_budget_that_cannot_be_met_names_the_smallest_that_can(empty: Path) -> None:
    out = empty / "out.json"
    sentence = refusal("schedule", "zoo:tiny_residual", "--no-cascade", "--arena-cache-size", "27647", "-o", out)
    assert "27648" in sentence
    require_empty(empty)
    assert call("schedule", "zoo:tiny_residual", "--no-cascade", "--arena-cache-size", "27648", "-o", out).status == 0


def edited(plan: Path, path: Path, change: Any) -> Path:
    document = json.loads(plan.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def test_a_schedule_that_was_edited(plan: Path, tmp_path: Path) -> None:
    def address(by: int) -> Any:
        def change(document: Any) -> None:
            document["schedule"]["buffers"][0]["address"] += by

        return change

    path = tmp_path / "edited.json"
    assert "multiple of 16" in refusal("simulate", "schedule", edited(plan, path, address(8)))
    assert "arena" in refusal("simulate", "schedule", edited(plan, path, address(1 << 20)))
    overlap = edited(plan, path, lambda d: [buffer.update(address=0) for buffer in d["schedule"]["buffers"]])
    assert "at address 0" in refusal("simulate", "schedule", overlap)
    assert "no buffer" in refusal("simulate", "schedule", edited(plan, path, lambda d: d["schedule"]["buffers"].pop()))
    assert "ethos-u95-256" in refusal("inspect", edited(plan, path, lambda d: d["schedule"].update(accelerator="ethos-u95-256")))
    model = edited(plan, path, lambda d: d["schedule"]["provenance"].update(model="zoo:resnet8"))
    assert "edited after it was written" in refusal("simulate", "schedule", model)
    assert "schema" in refusal("simulate", "schedule", edited(plan, path, lambda d: d.update(schema=99)))
    assert "schema" in refusal("simulate", "schedule", edited(plan, path, lambda d: d.clear()))


def test_a_schedule_cut_off_anywhere_is_refused(plan: Path, tmp_path: Path) -> None:
    text, path = plan.read_text(), tmp_path / "cut.json"
    for percent in PERCENTS:
        path.write_text(text[: len(text) * percent // 100])
        refusal("simulate", "schedule", path)
        refusal("inspect", path)


def test_a_file_of_another_kind_names_the_command_that_makes_the_right_one(plan: Path, tmp_path: Path) -> None:
    compiled, plain = tmp_path / "net_vela.tflite", tmp_path / "net.tflite"
    plain.write_bytes(build("tiny_conv"))
    compiled.write_bytes(compile_network(plain.read_bytes()).compiled)
    out = tmp_path / "out.json"
    assert "compiled for an Ethos-U already" in refusal("schedule", compiled, "-o", out)
    assert "not a .tflite model" in refusal("schedule", plan, "-o", out)
    assert "compile it with Vela" in refusal("inspect", plain)
    refusal("simulate", "schedule", compiled)
    assert "leave them out" in refusal("simulate", "vela", compiled, "--optimise", "Size", "--accelerator-config", "ethos-u55-64")
    assert "--optimise cannot change it: leave it out" in refusal("simulate", "vela", compiled, "--optimise", "Size")
    assert not out.exists()


def test_a_network_compiled_for_another_npu_is_refused(tmp_path: Path) -> None:
    source, output = tmp_path / "net.tflite", tmp_path / "net_vela.tflite"
    source.write_bytes(build("tiny_conv"))
    vela = [sys.executable, "-m", "ethosu.vela", str(source), "--accelerator-config", "ethos-u85-256", "--output-dir", str(tmp_path)]
    subprocess.run(vela, check=True, capture_output=True)
    assert "ethos-u85-256" in refusal(
        "schedule", tmp_path / "net.tflite", "--accelerator-config", "ethos-u85-256", "-o", tmp_path / "s.json"
    )
    assert call("simulate", "vela", output).status == 0
    assert call("inspect", output).status == 0


def test_outputs_that_cannot_be_written_are_refused_before_the_work(plan: Path, tmp_path: Path) -> None:
    assert "not a directory" in refusal("schedule", "zoo:tiny_conv", "-o", tmp_path / "missing" / "out.json")
    assert "is a directory" in refusal("schedule", "zoo:tiny_conv", "-o", tmp_path)
    assert "directory" in refusal("schedule", "zoo:tiny_conv", "-o", "")
    assert "not a directory" in refusal("simulate", "schedule", plan, "--trace", tmp_path / "missing" / "trace.json")
    before = plan.read_bytes()
    assert "would be overwritten" in refusal("simulate", "schedule", plan, "--trace", plan)
    assert plan.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", "zoo:tiny_conv", "-o", "{}/a.h", "--sizes", "{}/a.h"),
        ("schedule", "zoo:tiny_conv", "-o", "{}/a.json", "--csv", "{}/../empty/a.json"),
        ("frontier", "zoo:tiny_conv", "-o", "{}/a.svg", "--plot", "{}/./a.svg"),
        ("simulate", "vela", "zoo:tiny_conv", "--csv", "{}/a.svg", "--sram-map", "{}/a.svg"),
        ("sweep", "zoo:tiny_conv", "--csv", "{}/a.html", "--report", "{}/a.html"),
        ("check", "zoo:tiny_conv", "--max-bytes", "9", "--sram-map", "{}/a.svg", "--against", "{}/a.svg", "--update"),
    ],
    ids=lambda words: words[0],
)
def test_two_outputs_on_one_file_are_refused_before_the_work(words: tuple[str, ...], empty: Path) -> None:
    sentence = refusal(*(word.replace("{}", str(empty)) for word in words))
    assert "file of its own" in sentence, sentence
    require_empty(empty)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_sentence() -> None:
    assert "no space left" in refusal("schedule", "zoo:tiny_conv", "-o", "/dev/full")


def test_an_export_that_cannot_be_written_as_asked(plan: Path, tmp_path: Path, empty: Path) -> None:
    assert "net_1.c" in refusal("export", plan, "--format", "c", "-o", empty / "net-1.c")
    assert "net.tflite" in refusal("export", plan, "-o", empty / "net.bin")
    assert "leave it out" in refusal("export", plan, "--format", "mlf", "-o", empty / "net.tar", "--model", "zoo:tiny_residual")
    assert "SHA-256" in refusal("export", plan, "-o", empty / "net.tflite", "--model", "zoo:tiny_conv")
    assert "'elf'" in refusal("export", plan, "--format", "elf", "-o", empty / "net.elf")
    require_empty(empty)
    split, schedule = tmp_path / "split.tflite", tmp_path / "split.json"
    split.write_bytes(cpu_split_network())
    assert call("schedule", split, "-o", schedule).status == 0
    refusal("export", schedule, "-o", empty / "net.tflite")
    refusal("export", schedule, "--format", "c", "-o", empty / "net.c")
    require_empty(empty)
    assert call("export", schedule, "-o", empty / "net.tflite", "--model", split).status == 0


def test_verify_needs_the_network_a_file_was_made_from(plan: Path, tmp_path: Path) -> None:
    compiled = tmp_path / "net_vela.tflite"
    compiled.write_bytes(compile_network(build("tiny_conv")).compiled)
    assert "--model" in refusal("verify", compiled)
    assert "SHA-256" in refusal("verify", plan, "--model", "zoo:tiny_conv")
    refusal("verify", compiled, "--model", "zoo:tiny_residual")
    assert "from 1 to 1000" in refusal("verify", plan, "--inferences", "0")


@pytest.mark.parametrize(
    "argv", [(), ("simulate",), ("validate",), ("schedul", "x"), ("schedule", "zoo:tiny_conv"), ("--frobnicate",), ("inspect", "a", "b")]
)
def test_command_lines_that_make_no_sense(argv: tuple[str, ...]) -> None:
    assert "--help`" in refusal(*argv)


def test_the_process_itself_ends_with_the_sentence_and_the_status(tmp_path: Path) -> None:
    for argv, environment in ((["inspect", str(tmp_path / "caf\u00e9.json")], {"LC_ALL": "C"}), (["schedule", "zoo:none", "-o", "x"], {})):
        process = subprocess.run(
            [sys.executable, "-m", "npu_testbed", *argv],
            capture_output=True,
            cwd=Path(__file__).parents[2],
            env=os.environ | environment,
            check=False,
        )
        assert process.returncode == 2
        assert process.stdout == b""
        assert process.stderr.startswith(b"npu-testbed: error: ")
        assert process.stderr.count(b"\n") == 1
