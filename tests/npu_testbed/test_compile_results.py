"""Compilations that a folder keeps: the same files and words, without a run of Vela."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call

from npu_testbed.commands import compilation
from validation.zoo import build


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(build("tiny_conv"))
    return path


def test_a_kept_compilation_writes_the_same_files_and_words(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compile", model, "--output-dir", tmp_path / "out", "--results", tmp_path / "kept")
    more = "--enable-debug-db", "--sizes", tmp_path / "sizes.h", "--deadline", "1"
    first, document = call(*words, *more), call(*words, "--json")
    assert (first.status, document.status) == (0, 0)
    before = written(tmp_path / "out")
    (tmp_path / "sizes.h").unlink()
    for path in (tmp_path / "out").iterdir():
        path.unlink()

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compilation.Compile, "_made", never)
    assert call(*words, *more) == first
    assert call(*words, "--json") == document
    assert written(tmp_path / "out") == before
    assert "kTensorArenaSize" in (tmp_path / "sizes.h").read_text()


@pytest.mark.parametrize("more", [("--optimise", "Size"), ("--accelerator-config", "ethos-u55-64"), ("--verbose-performance",)], ids=str)
def test_another_command_line_is_compiled(more: tuple[str, ...], model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--output-dir", tmp_path / "out")
    kept = ("--results", tmp_path / "kept")
    call(*words, *kept)
    assert call(*words, *kept, *more) == call(*words, *more)
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_another_model_of_the_same_name_is_compiled(model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--output-dir", tmp_path / "out", "--results", tmp_path / "kept")
    call(*words)
    model.write_bytes(build("tiny_residual"))
    assert call(*words) == call(*words[:-2])


def test_a_damaged_result_is_compiled_again(model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--output-dir", tmp_path / "out", "--results", tmp_path / "kept")
    first = call(*words)
    (file,) = (tmp_path / "kept").iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert call(*words) == first


def test_a_kept_compilation_overwrites_no_model(model: Path, tmp_path: Path) -> None:
    words = ("compile", model, "--output-dir", tmp_path / "out", "--results", tmp_path / "kept")
    call(*words)
    compiled = tmp_path / "out" / "net_vela.tflite"
    compiled.unlink()
    compiled.symlink_to(model)
    assert call(*words).status == 2
    assert model.read_bytes() == build("tiny_conv")
