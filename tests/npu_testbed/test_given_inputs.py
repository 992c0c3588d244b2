"""Inputs that a user gives to `verify`: they are run, counted, and refused in one sentence where they do not fit."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from command_line import call, refusal
from hypothesis import given
from hypothesis import strategies as st
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.file import to_json
from npu_model.errors import InputError
from npu_testbed.proofs.given_inputs import inference_inputs
from npu_testbed.proofs.verification import seeded_inputs
from validation.builder import NetworkBuilder

NETWORK = lower(schedule("tiny_conv"))
(INPUT,) = NETWORK.inputs
RANDOM = seeded_inputs(NETWORK, 1, 7)[0][INPUT.name]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "tiny_conv.json"
    path.write_text(to_json(schedule("tiny_conv")), encoding="ascii")
    return path


def two_inputs(tmp_path: Path) -> Path:
    net = NetworkBuilder("two")
    path = tmp_path / "two.tflite"
    path.write_bytes(net.finish([net.add(net.input((1, 4, 4, 8), "left"), net.input((1, 4, 4, 8), "right"))]))
    return path


def test_given_inputs_are_run_before_the_random_ones_and_counted(plan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", RANDOM)
    np.savez(tmp_path / "two.npz", **{INPUT.name: RANDOM})
    outcome = call(
        "verify", plan, "--model", "zoo:tiny_conv", "--input", tmp_path / "one.npy", "--input", tmp_path / "two.npz", "--inferences", "1"
    )
    assert outcome.status == 0
    assert "tiny_conv.json: 3 inferences, 2 on inputs of yours, the others on random ones, seed 0" in outcome.output
    arrays = inference_inputs(NETWORK, [tmp_path / "one.npy", tmp_path / "two.npz"], 1, 3)
    assert [np.array_equal(one[INPUT.name], RANDOM) for one in arrays[:2]] == [True, True]
    assert np.array_equal(arrays[2][INPUT.name], seeded_inputs(NETWORK, 1, 3)[0][INPUT.name])


def test_rows_in_any_order_are_the_same_array(tmp_path: Path) -> None:
    np.save(tmp_path / "columns.npy", np.asfortranarray(RANDOM))
    (found,) = inference_inputs(NETWORK, [tmp_path / "columns.npy"], 0, 0)
    assert np.array_equal(found[INPUT.name], RANDOM)


def test_a_network_of_two_inputs_takes_both_by_name(tmp_path: Path) -> None:
    model = two_inputs(tmp_path)
    assert call("schedule", model, "--output", tmp_path / "two.json").status == 0
    values = {name: np.full((1, 4, 4, 8), at, np.int8) for at, name in enumerate(("left", "right"))}
    np.savez(tmp_path / "both.npz", **values)
    assert call("verify", tmp_path / "two.json", "--model", model, "--input", tmp_path / "both.npz").status == 0
    np.savez(tmp_path / "left.npz", left=values["left"])
    said = refusal("verify", tmp_path / "two.json", "--model", model, "--input", tmp_path / "left.npz")
    assert "has no array 'right': the network's inputs are 'left', 'right'" in said
    np.save(tmp_path / "left.npy", values["left"])
    said = refusal("verify", tmp_path / "two.json", "--model", model, "--input", tmp_path / "left.npy")
    assert "holds one array, and the network has 2 inputs" in said


@pytest.mark.parametrize("wrong", [RANDOM.astype(np.float32), RANDOM[..., :1], RANDOM.astype(object)])
def test_an_array_of_another_type_or_shape_is_refused(wrong: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "wrong.npy", wrong, allow_pickle=True)
    with pytest.raises(InputError, match=r"which takes int8 of shape|holds a damaged array"):
        inference_inputs(NETWORK, [tmp_path / "wrong.npy"], 1, 0)


def test_an_archive_that_unpacks_to_more_than_its_input_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "bomb.npz", "w", ZIP_DEFLATED) as archive:
        archive.writestr(f"{INPUT.name}.npy", bytes(50_000_000))
    with pytest.raises(InputError, match="has 50,000,000 bytes for"):
        inference_inputs(NETWORK, [tmp_path / "bomb.npz"], 1, 0)


def test_the_proof_in_tensorir_takes_no_inputs(plan: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", RANDOM)
    assert "--tensorir" in refusal("verify", plan, "--tensorir", "--input", tmp_path / "one.npy")


@pytest.mark.parametrize("header", [b"{'descr': (", b'{\'shape\': """', b"{" * 60, b"{'descr': '|i1', 'shape': (1,", b"\\\n 1"])
def test_a_header_that_ends_amid_a_statement_is_refused(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + (64).to_bytes(2, "little") + header.ljust(63) + b"\n" + RANDOM.tobytes())
    with pytest.raises(InputError, match=r"damaged\.npy"):
        inference_inputs(NETWORK, [path], 0, 0)


@given(
    kind=st.sampled_from(("npy", "npz")),
    changes=st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255)), max_size=4),
    end=st.floats(0, 1),
)
def test_a_damaged_file_is_read_or_refused(kind: str, changes: list[tuple[int, int]], end: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"damaged.{kind}"
        np.save(path, RANDOM) if kind == "npy" else np.savez(path, **{INPUT.name: RANDOM})
        whole = bytearray(path.read_bytes())
        for place, value in changes:
            whole[place % len(whole)] = value
        path.write_bytes(bytes(whole[: 1 + int(end * len(whole))]))
        refused = ""
        found: list[dict[str, Any]] = []
        try:
            found = inference_inputs(NETWORK, [path], 0, 0)
        except InputError as error:
            refused = str(error)
    assert str(path) in refused if not found else found[0][INPUT.name].shape == RANDOM.shape
