"""The core driver's checks: what Vela and we write passes, each single fault is found by the name of its check."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from command_line import refusal
from reference_data import shared_data
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from npu_model.compiled.driver_checks import file_checks, payload_checks, stream_offset
from npu_model.export.tflite_file import export_tflite, payload_of


def payload() -> bytes:
    return payload_of(lower(schedule("tiny_residual")).programs[0])


def changed(data: bytes, word: int, value: int) -> bytes:
    return data[: 4 * word] + struct.pack("<I", value) + data[4 * word + 4 :]


def test_the_published_files_pass() -> None:
    files = sorted((shared_data() / "fvp").rglob("*.tflite"))
    assert len(files) > 20
    assert [path.name for path in files if list(file_checks(path.read_bytes()))] == []


def test_what_is_exported_passes_and_its_stream_begins_at_byte_32() -> None:
    assert list(file_checks(export_tflite(lower(schedule("ds_cnn"))))) == []
    assert list(payload_checks(payload())) == []
    assert stream_offset(payload()) == 32


@pytest.mark.parametrize(
    ("word", "value", "check"),
    [
        (2, 0x1817, "optimiser configuration"),
        (2, 0x1807 | 1 << 27, "optimiser configuration"),
        (3, 0x2006_0000, "architecture version"),
        (3, 0x1016_0000, "architecture version"),
    ],
)
def test_a_payload_for_another_npu_is_found(word: int, value: int, check: str) -> None:
    assert [found.name for found in payload_checks(changed(payload(), word, value))] == [check]


def test_an_older_minor_version_and_another_patch_are_taken() -> None:
    assert list(payload_checks(changed(payload(), 3, 0x1004_0000))) == []


def test_a_stream_or_constants_at_an_odd_place_are_found() -> None:
    assert [check.name for check in payload_checks(payload(), address=4)] == ["command stream alignment"]
    data = payload()
    unpadded = data[:16] + data[28:]
    assert stream_offset(unpadded) == 20
    assert [check.name for check in payload_checks(unpadded)] == ["command stream alignment"]


def test_verify_names_the_check(tmp_path: Path) -> None:
    exported = export_tflite(lower(schedule("tiny_residual")))
    place = exported.index(b"COP1")
    path = tmp_path / "other_vela.tflite"
    path.write_bytes(exported[: place + 12] + struct.pack("<I", 0x2006_0000) + exported[place + 16 :])
    sentence = refusal("verify", path, "--model", "zoo:tiny_residual")
    assert "fails the core driver's check of the architecture version: the payload is for 2.0, the NPU has 1.0" in sentence
