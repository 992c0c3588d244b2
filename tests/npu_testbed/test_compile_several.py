"""One command compiles several networks: each as a command of its own would, and one that fails stops no other."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import call

import npu_testbed
from npu_model.errors import InputError
from npu_testbed.documents import json_schema
from validation.zoo import build


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("tiny_conv", "tiny_residual"):
        (folder / f"{name}.tflite").write_bytes(build(name))
    (folder / "broken.tflite").write_bytes(build("tiny_conv")[:200])
    (folder / "tiny_conv_vela.tflite").write_bytes(b"compiled already")
    (folder / "README.md").write_text("no model")
    return folder


def test_a_folder_is_compiled_but_for_what_fails_with_status_2(models: Path, tmp_path: Path) -> None:
    done = call("compile", models, "--output-dir", tmp_path / "all", "--json")
    assert done.status == 2
    document = json.loads(done.output)
    jsonschema.Draft202012Validator(json_schema("compile MODEL MODEL")).validate(document)
    (failure,) = document["failures"]
    assert failure["network"] == str(models / "broken.tflite")
    assert done.errors.count("npu-testbed: error: The compilation of") == 1
    for name in ("tiny_conv", "tiny_residual"):
        assert call("compile", models / f"{name}.tflite", "--output-dir", tmp_path / "one").status == 0
    written = {path.name: path.read_bytes() for path in (tmp_path / "all").iterdir()}
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert len(document["compilations"]) == 2


def test_python_is_given_the_compilation_of_each_network(tmp_path: Path) -> None:
    made = npu_testbed.compile(["zoo:tiny_conv", "zoo:tiny_residual"], output_dir=tmp_path)
    alone = npu_testbed.compile("zoo:tiny_residual", output_dir=tmp_path / "alone")
    assert (made.status, made.headline) == (0, "2 of 2 networks were compiled.")
    assert made.compilations[1].cycles == alone.cycles


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("{empty}/../tiny_conv.tflite", "{models}/tiny_conv.tflite"), "would both be written to tiny_conv_vela.tflite"),
        (("{empty}",), "holds no .tflite or .tosa file to compile"),
        (("zoo:tiny_conv", "zoo:tiny_residual", "--fewest-bytes", "--fewest-cycles"), "each gives the other up"),
        (("zoo:tiny_conv", "zoo:tiny_residual", "--sizes", "sizes.h"), "--sizes was given with several networks"),
    ],
)
def test_networks_that_cannot_be_compiled_together_are_refused_before_any_is(
    words: tuple[str, ...], said: str, models: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "tiny_conv.tflite").write_bytes(build("tiny_conv"))
    named = [word.format(models=models, empty=tmp_path / "empty") for word in words]
    done = call("compile", *named, "--output-dir", tmp_path / "out")
    assert done.status == 2
    assert said in done.errors
    assert not (tmp_path / "out").exists()


def test_models_is_the_name_of_the_argument(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="given no models"):
        npu_testbed.compile(output_dir=tmp_path)  # type: ignore[call-arg]  # it is refused
