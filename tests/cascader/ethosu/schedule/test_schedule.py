"""Schedules: storage, the file that holds them, and what its reader refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import DEFAULT, network, schedule

from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.network.network import EthosuPart
from cascader.ethosu.network.overwriting import overwritable_operands
from cascader.ethosu.schedule.file import digest, from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.errors import InputError
from npu_model.program import ElementwiseKind
from npu_testbed.devices.configs import load_memory_system

pytestmark = pytest.mark.law

INPUT, OUTPUT, INTERMEDIATE, VARIABLE, CONSTANT = (
    TensorKind.INPUT,
    TensorKind.OUTPUT,
    TensorKind.INTERMEDIATE,
    TensorKind.VARIABLE,
    TensorKind.CONSTANT,
)


def tensor(name: str, kind: TensorKind, size: int = 32) -> Tensor:
    return Tensor(name, kind, size, (size,), 1)


def residual() -> CascaderGraph:
    """in -> a -> b -> (a + b) -> out, with a constant and a state."""
    tensors = (
        tensor("in", INPUT),
        *(tensor(n, INTERMEDIATE) for n in "ab"),
        tensor("out", OUTPUT),
        tensor("k", CONSTANT),
        tensor("s", VARIABLE),
    )
    parts = (Part("first", ("in", "k"), ("a",)), Part("second", ("a", "s"), ("b",)), Part("add", ("a", "b"), ("out",)))
    return CascaderGraph(parts, tensors)


@pytest.mark.parametrize(
    ("parts", "tensors", "sentence"),
    [
        ((Part("p", ("x",), ("y",)), Part("p", ("x",), ("y",))), "xy", "Part 'p' appears twice"),
        ((Part("p", ("x",), ("q",)),), "xy", "uses tensor 'q', which is not in the graph"),
        ((Part("p", ("y",), ("y",)),), "xy", "reads tensor 'y' before any part has written it"),
        ((), "xy", "No part writes the output tensor 'y'"),
    ],
)
def test_a_graph_that_cannot_run_is_refused(parts: tuple[Part, ...], tensors: str, sentence: str) -> None:
    kinds = {"x": INPUT, "y": OUTPUT}
    with pytest.raises(InputError, match=sentence):
        CascaderGraph(parts, tuple(tensor(name, kinds[name]) for name in tensors))


def test_a_tensor_of_no_bytes_is_refused() -> None:
    with pytest.raises(InputError, match="has 0 bytes"):
        CascaderGraph((), (tensor("x", INPUT, 0),))


def test_only_elementwise_kernels_write_in_place() -> None:
    kinds = {part.name: overwritable_operands(part) for part in network("tiny_residual").graph.parts}
    assert kinds == {"stem": (), "depthwise": (), "conv": (), "add": ("stem", "conv"), "pool": ()}


def test_an_operand_that_is_read_in_two_ways_is_not_overwritten() -> None:
    part = network("tiny_residual").graph.parts[3]
    payload = part.payload
    assert isinstance(payload, EthosuPart)
    ifm = payload.operation.ifm
    same = replace(payload, ifm2=payload.ifm, operation=replace(payload.operation, ifm2=ifm))
    assert overwritable_operands(replace(part, payload=same)) == (payload.ifm,)
    shifted = replace(ifm, tiles=replace(ifm.tiles, bases=(16, 0, 0, 0)))
    crossed = replace(same, operation=replace(same.operation, ifm2=shifted))
    assert overwritable_operands(replace(part, payload=crossed)) == ()
    wide = replace(payload.operation.ofm, strides=replace(payload.operation.ofm.strides, y=4096))
    assert overwritable_operands(replace(part, payload=replace(payload, operation=replace(payload.operation, ofm=wide)))) == ()


def test_storage_in_place_never_raises_the_peak_and_serves_a_residual_sum() -> None:
    shared, apart = (schedule_layer_by_layer(network("tiny_residual"), DEFAULT, in_place=choice) for choice in (True, False))
    assert shared.arena_size <= apart.arena_size
    assert [len(buffer.tensors) for buffer in apart.buffers] == [1] * 6
    assert ("stem", "add") in [buffer.tensors for buffer in shared.buffers]
    payload = network("tiny_residual").graph.parts[3].payload
    assert isinstance(payload, EthosuPart)
    assert payload.operation.elementwise is ElementwiseKind.ADD


NAIVE = {
    "mobilenet_v1_1.0_224_nofc_u8": 1204224,
    "mobilenet_v2_1.0_224_i8": 1505280,
    "ds_cnn_kws_i8": 16000,
    "resnet8_i8": 49152,
    "edsr_f32b5_96x96_i8": 1179648,
    "squeezenet1.1_384_i8": 2912384,
    "hps_vgg_240x320_i8": 614400,
}
"""Layer-by-layer peaks of models.csv, for networks whose channels are multiples of 16 where the peak is."""


@pytest.mark.parametrize("name", NAIVE)
def test_the_layer_by_layer_peak_of_a_real_network_is_its_largest_neighbouring_tensors(name: str) -> None:
    assert schedule(name).arena_size == NAIVE[name]


def test_a_budget_that_cannot_be_met_names_the_smallest_that_can() -> None:
    peak = schedule("resnet8").arena_size
    assert schedule_layer_by_layer(network("resnet8"), DEFAULT, arena_cache_size=peak).arena_size == peak
    with pytest.raises(InputError, match=f"needs {peak} bytes, 1 more than the arena cache size of {peak - 1}: allow {peak}"):
        schedule_layer_by_layer(network("resnet8"), DEFAULT, arena_cache_size=peak - 1)


def test_an_unknown_accelerator_is_refused() -> None:
    with pytest.raises(InputError, match="Accelerator 'ethos-u99' is unknown"):
        schedule_layer_by_layer(network("tiny_conv"), "ethos-u99")


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "resnet8", "ds_cnn", "unet", "cpu"])
def test_a_schedule_survives_its_file(name: str) -> None:
    provenance = Provenance("net.tflite", "0" * 64, (("vela", "5.2.0"),), load_memory_system("Ethos_U55_Deep_Embedded"))
    made = replace(schedule(name), provenance=provenance)
    text = to_json(made)
    assert from_json(text) == made
    assert to_json(from_json(text)) == text


def test_the_file_is_the_same_bytes_whatever_the_hash_seed() -> None:
    code = (
        "import hashlib, sys; sys.path[:0] = ['.', 'tests']; from scheduling import schedule;"
        "from cascader.ethosu.schedule.file import to_json;"
        "print(hashlib.sha256(to_json(schedule('tiny_residual')).encode()).hexdigest())"
    )
    root = Path(__file__).parents[4]
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_a_file_of_the_previous_schema_is_read() -> None:
    text = to_json(schedule("tiny_residual")).replace('"recomputed_macs"', '"macs_again"').replace('"schema": 6', '"schema": 5')
    # The digest is that which the previous version wrote.
    before = text.replace(digest(schedule("tiny_residual")), "0fd9c9948df2a32e0c22f1af381a6d2c10457b7095899f59e7fe20bd5bfb5c07")
    assert from_json(before) == schedule("tiny_residual")
    with pytest.raises(InputError, match="was edited after it was written"):
        from_json(text)


def document(name: str = "tiny_residual") -> dict[str, Any]:
    return json.loads(to_json(schedule(name)))  # type: ignore[no-any-return]  # what to_json writes is an object


def edit(path: str, value: object) -> str:
    """The file with one value replaced; ``path`` is its keys, joined by slashes."""
    edited = document()
    *parents, last = path.split("/")
    place: Any = edited
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(edited)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("schema", 1, "has schema 1: this version reads 5 and 6"),
        ("schema", True, "has schema True"),
        ("extra", 1, "other keys than schema, digest and schedule"),
        ("schedule", [], r"has \[\] at its top where an object \(Schedule\) is needed"),
        ("schedule/accelerator", "ethos-u55-512", "Accelerator 'ethos-u55-512' is unknown"),
        ("schedule/arena_size", 8, "beyond the arena of|multiple of 16"),
        ("schedule/arena_size", 1 << 40, "multiple of 16 from 0 to 4294967296"),
        ("schedule/arena_size", 10**400, "an integer between"),
        ("schedule/arena_size", 1.5, "1.5 at arena_size where an integer"),
        ("schedule/arena_size", True, "True at arena_size where an integer"),
        ("schedule/buffers/1/address", 8, "is at address 8: a multiple of 16 from 0 is needed"),
        ("schedule/buffers/1/address", -16, "is at address -16: a multiple of 16 from 0 is needed"),
        ("schedule/buffers/0/address", 1 << 20, "beyond the arena"),
        ("schedule/buffers/0/size", 0, "takes bytes"),
        ("schedule/buffers/0/end", 99, "lives from step 0 to 99: 0 to 5 exist"),
        ("schedule/buffers/0/tensors", [], "holds 0 tensors"),
        ("schedule/buffers/0/tensors", ["nothing"], "holds tensor 'nothing', which is not a tensor of the arena"),
        ("schedule/buffers/0/tensors", ["image", "image"], "Tensor 'image' is in two buffers"),
        ("schedule/buffers", [], "Tensor 'image' has no buffer"),
        ("schedule/jobs/0/part", "nothing", "Part 'nothing' is not in the graph"),
        ("schedule/jobs", [], "Part 'stem' has no job: give it one"),
        ("schedule/jobs/0/block", None, "has block None: NPU parts have one"),
        ("schedule/jobs/0/block/height", 33, "1x1x1 to 32x64x128 is possible"),
        ("schedule/jobs/0/block/height", "2", "'2' at jobs.0..block.height where an integer"),
        ("schedule/network/constants", "!", "at network.constants where base64 text is needed"),
        ("schedule/network/constants", "AAAA", "the constants are 3 bytes in region 0"),
        ("schedule/network/segments", [], "put every part into one segment"),
        ("schedule/network/segments/0/parts", ["stem"], "does not run in one piece|put every part into one segment"),
        ("schedule/network/inputs/0/offset", 1, "it must lie inside"),
        ("schedule/network/inputs/0/tensor", "nothing", "Tensor 'nothing' is not in the graph"),
        ("schedule/network/inputs/0/quantisation/scale", "1", "a number is needed"),
        ("schedule/network/graph/tensors/0/kind", "GUEST", "one of input, output"),
        ("schedule/network/graph/tensors/0/name", "x" * 200_000, "a text of up to 131072 characters"),
        ("schedule/network/graph/tensors/0/size", 16, "uses bytes 0 to|it must lie inside"),
        ("schedule/network/graph/parts/0/payload", {"type": "gpu"}, "payload.type where one of npu, cpu is needed"),
        ("schedule/network/graph/parts/0/payload/ifm", "stem", "reads or writes other tensors than its kernel"),
        ("schedule/network/graph/parts/0/payload/operation/weights/0/end", 1 << 30, "the constants are"),
        ("schedule/network/graph/parts/0/payload/operation/ifm/region", 7, "uses region 7"),
        ("schedule/network/graph/parts/0/payload/operation/rounding", "UP", "one of DOUBLE, TRUNCATE, NATURAL"),
        (
            "schedule/network/graph/parts/0/payload/operation/activation/maximum",
            5,
            "was edited after it was written: run `npu-testbed schedule`",
        ),
        ("digest", "0", "was edited after it was written"),
    ],
)
def test_an_edited_file_is_refused_with_what_is_wrong(path: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        from_json(edit(path, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"schema": 1', "[" * 100_000, "NaN", '{"schema": NaN}', "1" * 5000, "\x00"])
def test_text_that_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        from_json(text)


def leaves(plain: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    return [path, *(leaf for key, value in items for leaf in leaves(value, (*path, key)))]


PATHS = st.deferred(lambda: st.sampled_from(leaves(document())[1:]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([-1, 0, 1, 15, 16, 1 << 31]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.just([]),
    st.just({}),
)


def read(text: str) -> Schedule | None:
    try:
        return from_json(text)
    except InputError:
        return None


@settings(max_examples=few(300), deadline=None)
@given(st.lists(st.tuples(PATHS, VALUES), min_size=1, max_size=3), st.booleans())
def test_a_file_with_any_values_changed_is_refused_or_equal(changes: list[tuple[tuple[str | int, ...], object]], delete: bool) -> None:  # noqa: FBT001  # hypothesis passes by position
    edited = document()
    for path, value in changes:
        place: Any = edited
        try:
            for key in path[:-1]:
                place = place[key]
            if delete:
                del place[path[-1]]
            else:
                place[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the place
    result = read(json.dumps(edited))
    assert result is None or result == schedule("tiny_residual")


@settings(max_examples=few(60), deadline=None)
@given(st.integers(0, 10**9))
def test_a_file_cut_off_anywhere_is_refused(position: int) -> None:
    text = to_json(schedule("tiny_residual"))
    assert read(text[: position % (len(text) - 1)]) is None


def test_the_file_is_ascii_whatever_the_names() -> None:
    made = schedule("tiny_residual")
    named = replace(made, provenance=Provenance("größe \N{GRINNING FACE}.tflite"))
    text = to_json(named)
    assert text.isascii()
    assert from_json(text) == named


def test_schedules_of_one_network_have_the_digests_that_each_has_alone() -> None:
    """A network's values are worked out once for all of its schedules, and are no other schedule's."""
    plan = schedule("tiny_residual")
    other = replace(plan, arena_size=plan.arena_size + 16)
    copy = from_json(to_json(plan))
    assert digest(plan) == digest(plan) == digest(copy) == json.loads(to_json(plan))["digest"]
    assert digest(other) not in (digest(plan), digest(replace(plan, network=replace(plan.network, constants=b"\0"))))
    assert from_json(to_json(other)) == other
