"""Deployed forms are the programs of the compiled network: driver payloads in C sources and in raw files."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import call, refusal
from deployed_forms import EON, OWN, RUHMI, SOURCES, compiled_network, source_of
from reference_data import shared_data

from npu_model.compiled.c_array import named_arrays
from npu_model.compiled.containers import read_container, unpacked
from npu_model.compiled.deployed import deployed_payloads, is_deployed, read_deployed
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.export import export_raw
from npu_model.export.tflite_file import payload_of

NAME = "tiny_residual"
RAW = "raw"


def form(kind: str) -> bytes:
    network = compiled_network(NAME)
    return export_raw(network) if kind == RAW else source_of(kind, network)


def places(network: CompiledNetwork) -> list[tuple[int, int, int]]:
    return [(one.region, one.address, one.size) for one in (*network.inputs, *network.outputs)]


@pytest.mark.parametrize("kind", [*SOURCES, RAW])
def test_a_deployed_form_is_the_program_that_it_was_made_from(kind: str) -> None:
    found, expected = read_deployed(form(kind)), compiled_network(NAME)
    assert [one.operations for one in found.programs] == [one.operations for one in expected.programs]
    assert found.programs[0].region(0).content == expected.programs[0].region(0).content
    assert places(found) == places(expected)
    assert found.arena_size == expected.arena_size
    assert list(deployed_payloads(form(kind))) == [payload_of(one) for one in expected.programs]


@pytest.mark.parametrize(
    "change",
    [
        (r"tensor_data(\d)", r"g_array_\1"),
        (r"const __attribute__\(\(aligned\(16\)\)\) uint8_t", "alignas(16) static const unsigned char"),
        (r"const __attribute__\(\(aligned\(16\)\)\) uint8_t (\w+)\[(\d+)\]", r"inline constexpr std::array<std::uint8_t, \2> \1"),
        (r"(tensor_data\d\[\d+\]) =", r"\1"),
        (r"(const .*?) (uint8_t \w+)\[\d+\]", r'const \2[] __attribute__((aligned(16), section(".nor")))'),
        (r"(?<= )uint8_t", "BYTE"),
        (r", ", ",\r\n\t/* { } = */ "),
        (r"\b(\d+),", r"\1u, // next {\n"),
        (r"(const .* tensor_data2)", r"const uint8_t labels[] = { 1, 2, 3 };\nconst int32_t shape[4] = { 1, 16, 16, 8 };\n\1"),
        (r"(?s)(const .*?;\n)(const .*?;\n)", r"\2const char name[] = { 97 };\n\1"),
    ],
    ids=["names", "alignas", "std::array", "no =", "attribute behind", "BYTE", "CRLF", "comments", "arrays between", "order"],
)
def test_a_form_is_read_however_it_is_written(change: tuple[str, str]) -> None:
    pattern, other = (one.encode("ascii") for one in change)
    data, changes = re.subn(pattern, other, form(EON))
    assert changes
    found, expected = read_deployed(unpacked(data)), compiled_network(NAME)
    assert [one.operations for one in found.programs] == [one.operations for one in expected.programs]
    assert found.programs[0].region(0).content == expected.programs[0].region(0).content


@pytest.mark.parametrize("kind", [*SOURCES, RAW])
def test_a_deployed_form_takes_the_cycles_and_bytes_of_the_compiled_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("n.npz" if kind == RAW else "n.c")
    path.write_bytes(form(kind))
    found, expected = (json.loads(call("simulate", "vela", one, "--json").output) for one in (path, f"zoo:{NAME}"))
    assert found["summary"] == expected["summary"]
    assert "MISSED" in call("check", path, "--max-cycles", found["summary"]["cycles"] - 1).output
    assert call("inspect", path).output.startswith("npu-program")


def test_our_own_source_keeps_names_shapes_and_scales() -> None:
    found, expected = read_deployed(form(OWN)), compiled_network(NAME)
    assert [(one.name, one.shape, one.dtype) for one in found.inputs] == [(one.name, one.shape, one.dtype) for one in expected.inputs]
    assert [one.quantisation for one in found.outputs] == [one.quantisation for one in expected.outputs]


def test_a_form_is_verified_with_its_model_and_without_it(tmp_path: Path) -> None:
    for kind in (EON, RAW):
        path = tmp_path / f"n.{kind}"
        path.write_bytes(form(kind))
        order = call("verify", path)
        assert order.status == 0
        assert "every order that the NPU may take gives the same bytes" in order.output
        values = json.loads(call("verify", path, "--model", f"zoo:{NAME}", "--json").output)
        assert values["passed"]
        assert values["comparisons"]
        assert "give the model that it was made from" in refusal("verify", path, "--model", "zoo:ds_cnn")


def test_a_wait_that_is_left_out_of_a_deployed_stream_is_found(tmp_path: Path) -> None:
    data = (shared_data() / "reports" / "eon_cifar.cpp").read_bytes()
    (before,) = deployed_payloads(data)
    words = [int.from_bytes(before[at : at + 4], "little") for at in range(0, len(before), 4)]
    waits = [at for at, word in enumerate(words) if word & 0x3FF == 0x011 and not word & 0xC000]
    assert waits
    for at in waits:
        words[at] |= 0xF << 16
    text = ", ".join(str(byte) for word in words for byte in word.to_bytes(4, "little"))
    damaged = re.sub(rb"(tensor_data1\[4160\] = \{)[^}]*\}", lambda found: found[1] + text.encode() + b"}", data)
    path = tmp_path / "n.cpp"
    path.write_bytes(damaged)
    outcome = call("verify", path)
    assert outcome.status == 1
    assert "another order of its operations gives other bytes" in outcome.output


@pytest.mark.parametrize(("file", "cycles", "arena"), [("eon_cifar.cpp", 128_112, 82_304), ("ruhmi_lucid.c", 5_847, 624)])
def test_sources_as_people_have_them_are_read(file: str, cycles: int, arena: int) -> None:
    path = shared_data() / "reports" / file
    document = json.loads(call("simulate", "vela", path, "--json").output)
    assert (document["summary"]["cycles"], document["summary"]["planned_bytes"]) == (cycles, arena)
    assert f"arena[{arena}]" in path.read_text()
    assert call("verify", path).status == 0


def test_a_renesas_source_is_the_compiled_file_that_it_was_made_of() -> None:
    folder = shared_data() / "reports"
    (found,) = read_deployed((folder / "ruhmi_lucid.c").read_bytes()).programs
    (expected,) = read_compiled((folder / "lucid_128_vela.tflite").read_bytes()).programs
    assert found.operations == expected.operations


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (re.sub(rb"(model_data\[\d+\] = \{)[^}]*", rb"\1 1, 2, 3", source_of(RUHMI, compiled_network(NAME))), "bytes of constants"),
        (b"const uint8_t a[4] = { 67, 79, 80, 49 };", "at least 8 is needed"),
        (b"const uint8_t a[8] = { 67, 79, 80, 49, 9, 0, 0, 0 };", "Driver action 9"),
        (b"const uint8_t a[8] = { 67, 79, 80, 49, 300, 0, 0, 0 };", "holds 300"),
        (b"PK\3\4cmd_data.npy", "cannot be read"),
    ],
)
def test_a_damaged_form_is_refused_in_one_sentence(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "n.c"
    path.write_bytes(data)
    assert says in refusal("inspect", path)


@pytest.mark.parametrize("kind", [*SOURCES, RAW])
def test_forms_with_wrong_bytes_are_read_or_refused(kind: str) -> None:
    whole = form(kind)
    for seed in range(40):
        rng = random.Random(f"{kind} {seed}")
        data = bytearray(whole)
        for _ in range(rng.choice((1, 3))):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((1, 1, 9))] = rng.choice((b"", b"7", b"}", b"{", b"0x", b"\xff", b"255", b",,", b'"'))
        with suppress(InputError):
            network = read_container(unpacked(bytes(data)))
            assert network is None or network.programs


def test_other_files_are_no_deployed_forms() -> None:
    assert not is_deployed(b"int main(void) { return 0; }\n")
    assert not is_deployed(b"\0" * 64)
    assert list(named_arrays(b"const int8_t a[2] = { -1, 2 };\nuint32_t b[] = { 0x01020304 };")) == [
        ("a", b"\xff\2"),
        ("b", bytes((4, 3, 2, 1))),
    ]
