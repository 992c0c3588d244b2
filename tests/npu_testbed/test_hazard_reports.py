"""Hazards on the command line: an error of verify, a warning of simulate, in words and in the documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.command_stream.payload import parse_payload
from npu_model.command_stream.registers import Cmd0
from npu_model.tflite.model import read_tflite
from validation.zoo import build


def with_parameter(command: Cmd0, value: int) -> bytes:
    """Vela's file of resnet8 in which every such command has another parameter."""
    compiled = compile_network(build("resnet8"), CompilerOptions()).compiled
    model = read_tflite(compiled)
    payload = next(model.tensors[one.inputs[0]].data for one in model.operators if one.custom_code == "ethos-u")
    words = np.array(parse_payload(payload).words, "<u4")
    changed = np.where(words & 0xFFFF == command.value, command.value | value << 16, words).astype("<u4")
    assert (changed != words).any()
    assert compiled.count(words.tobytes()) == 1
    return compiled.replace(words.tobytes(), changed.tobytes())


@pytest.fixture(scope="module")
def unwaiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hazards") / "n_vela.tflite"
    path.write_bytes(with_parameter(Cmd0.DMA_WAIT, 15))
    return path


def test_simulate_warns_of_hazards_and_replays_all_the_same(unwaiting: Path) -> None:
    outcome = call("simulate", "vela", unwaiting, "--no-advice")
    words = " ".join(outcome.output.split())
    assert outcome.status == 0
    assert "hazards, by which the NPU may compute other bytes than in stream order: 1. Operation 2 (CONV_2D) reads bytes" in words
    assert "which operation 0 (DMA) may not yet have written: DMA_WAIT 0 is missing." in words
    document = json.loads(call("simulate", "vela", unwaiting, "--no-advice", "--json").output)
    assert document["hazards"][0]["operations"] == [0, 2]
    assert document["hazards"][0]["shared_bytes"] > 0


def test_the_page_lists_hazards(unwaiting: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    call("simulate", "vela", unwaiting, "--no-advice", "--report", page)
    text = page.read_text(encoding="utf-8")
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert len(data["replay"]["hazards"]) > 1
    assert data["replay"]["hazards"][0].startswith("Operation 2 (CONV_2D) reads bytes")


def test_verify_fails_on_hazards_though_no_byte_differs_in_stream_order(unwaiting: Path) -> None:
    outcome = call("verify", unwaiting, "--model", "zoo:resnet8", "--inferences", 1, "--json")
    document = json.loads(outcome.output)
    assert outcome.status == 1
    assert not document["passed"]
    assert document["hazards"]
    assert not any(row["differing"] for row in document["comparisons"] if row["reference"] == "Vela's legalised stream")
    assert "Error: " in call("verify", unwaiting, "--model", "zoo:resnet8", "--inferences", 1).output


def test_a_blockdep_that_no_device_has_is_refused_by_both(tmp_path: Path) -> None:
    path = tmp_path / "n_vela.tflite"
    path.write_bytes(with_parameter(Cmd0.BLOCKDEP, 7))
    assert "has BLOCKDEP 7 but 0 to 3 exist" in refusal("simulate", "vela", path)
    assert "has BLOCKDEP 7 but 0 to 3 exist" in refusal("verify", path, "--model", "zoo:resnet8")


def test_a_sound_network_has_no_hazard() -> None:
    outcome = call("simulate", "vela", "zoo:resnet8", "--no-advice", "--json")
    assert json.loads(outcome.output)["hazards"] == []
