"""The examples run, or say in one sentence what they miss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from asked_for import simulate_vela

from examples import ended
from examples.from_keras import BLOCKS
from npu_model.compiled.network import CpuOperator
from npu_model.native import SWITCH, slow_sentence
from sim.views.layers import layer_rows

ROOT = Path(__file__).parents[2]

WITHOUT = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"tvm", "ai_edge_litert", "scipy", "tensorflow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        ("examples.stripe_plans",),
        ("examples.tiled_convolution", "--side", "64", "--ways", "1"),
        ("examples.own_replay", "zoo:tiny_conv"),
        ("examples.streamed_camera", "zoo:tiny_residual"),
        ("examples.searched_ring", "--side", "32"),
    ],
)
def test_examples_that_need_no_extra_run_without_one(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") > 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("examples.generic_device",), "pip install 'npu-testbed[tensorir]')."),
        (("examples.from_keras", "kws.tflite"), "pip install tensorflow."),
        (("examples.stripe_plans", "zoo:none"), "no network 'none'"),
        (("examples.own_replay", "zoo:tiny_conv", "16"), "16"),
        (("examples.tiled_convolution", "--accelerator-config", "ethos-u99"), "ethos-u99"),
        (("examples.tiled_convolution", "--plot", "picture.png"), "does not end in .svg"),
    ],
)
def test_an_example_that_cannot_run_says_why_in_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_example_that_will_be_slow_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert (ended(lambda: None, searches=False), capsys.readouterr().err) == (0, "")
    assert (ended(lambda: None), capsys.readouterr().err) == (0, f"note: {slow_sentence()}\n")


def test_the_keyword_spotter_from_keras_runs_on_the_npu_as_a_whole() -> None:
    found = simulate_vela(str(ROOT / "examples" / "keyword_spotter.tflite"))
    layers = [row.layer for row in layer_rows(found.replay)]
    assert [step for step in found.network.steps if isinstance(step, CpuOperator)] == []
    assert all(any(f"/depthwise_{number}_" in layer for layer in layers) for number in range(1, BLOCKS + 1))


def test_the_notebook_shows_the_output_of_every_cell() -> None:
    """`tox -e measured` holds them to what the cells print."""
    notebook = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert all(cell["outputs"] for cell in code[1:])
    assert not any(output["output_type"] == "error" for cell in code for output in cell["outputs"])


def test_the_page_on_python_shows_its_example_and_what_that_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    code = page.partition("import npu_testbed\n\n")[2].partition("\n```")[0]
    body = (ROOT / "examples" / "one_import.py").read_text(encoding="utf-8").partition("    made = ")[2].partition("\n\n\nif ")[0]
    assert code.partition("made = ")[2].replace('plot("', 'plot(folder / "') == body.replace("\n    ", "\n")
    done = run("examples.one_import", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert page.partition("<!-- measured: one import -->\n```text\n")[2].partition("```")[0] == done.stdout
    assert (tmp_path / "ds_cnn.svg").is_file()
