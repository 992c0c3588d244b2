"""TOSA networks, as ExecuTorch's Arm backend hands them to Vela: scheduled, written for ExecuTorch, and its files verified.

``two_inputs_executorch`` in ``golden`` are two convolutions of one input from whose result another input is taken: what ExecuTorch 1.5.1
made of a PyTorch module, and the file that it packed with Vela 5.1's stream.
"""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from asked_for import compile_model, schedule, simulate_vela
from command_line import call, refusal
from delegates import pte, stream

from npu_model.compiled.executorch import read_executorch
from npu_model.errors import InputError
from npu_model.tflite.identifiers import is_tosa
from npu_testbed.commands import in_place_of_vela
from npu_testbed.compilation.compile_options import Target
from npu_testbed.proofs.file_verification import verify
from npu_testbed.replays.scheduling import write_schedule

GOLDEN = Path(__file__).parents[1] / "golden"
TOSA, PTE = GOLDEN / "two_inputs_executorch.tosa", GOLDEN / "two_inputs_executorch.pte"

EXECUTORCH = (
    *("--accelerator-config=ethos-u55-128", "--config=Arm/vela.ini", "--output-format=raw", "--debug-force-regor"),
    *("--system-config=Ethos_U55_High_End_Embedded", "--memory-mode=Shared_Sram", "--verbose-operators", "--verbose-cycle-estimate"),
)
"""ExecuTorch 1.5.1's options of Vela for an Ethos-U55, before the folder and the network."""


@pytest.fixture(scope="module")
def raw() -> dict[str, np.ndarray]:
    files = compile_model(str(TOSA), Target(output_format="raw")).files
    with np.load(io.BytesIO(files["two_inputs_executorch_vela.npz"])) as arrays:
        return dict(arrays)


def test_a_tosa_network_is_scheduled_in_fewer_bytes_than_vela_takes_and_computes_what_its_stream_does(tmp_path: Path) -> None:
    plan = schedule(str(TOSA), "ethos-u55-128")
    assert plan.arena_size < simulate_vela(str(TOSA)).planned_bytes
    write_schedule(plan, tmp_path / "s.json")
    verification = verify(tmp_path / "s.json", str(TOSA))
    assert verification.passed
    assert [(row.differing, row.size) for row in verification.comparisons] == [(0, 2 * 8 * 12 * 10)]
    assert "read no TOSA" in verification.remark


def test_the_raw_file_has_the_arrays_that_vela_writes(raw: dict[str, np.ndarray], tmp_path: Path) -> None:
    command = [str(TOSA), "--output-format", "raw", "--accelerator-config", "ethos-u55-128", "--output-dir", "."]
    subprocess.run([sys.executable, "-m", "ethosu.vela", *command], cwd=tmp_path, check=True, capture_output=True)
    with np.load(tmp_path / "two_inputs_executorch_vela.npz") as theirs:
        assert set(theirs) - set(raw) == {"input_quantization", "output_quantization", "variable_quantization"}  # pickled ones
        for name, ours in raw.items():
            same = theirs[name]
            if not name.startswith("variable"):
                assert (ours.dtype.kind, ours.shape) == (same.dtype.kind, same.shape), name
            if name.endswith(("_shape", "_elem_size", "_region")) and not name.startswith(("scratch", "variable")):
                assert ours.tolist() == same.tolist(), name
    assert raw["scratch_size"] == raw["scratch_shape"][0]


def test_what_executorch_packs_of_the_raw_file_is_the_program_and_computes_the_network(raw: dict[str, np.ndarray], tmp_path: Path) -> None:
    (tmp_path / "ours.pte").write_bytes(pte(stream(raw)))
    (program,) = read_executorch((tmp_path / "ours.pte").read_bytes()).programs
    assert [one.shape for one in program.inputs] == [(1, 4, 12, 10), (1, 8, 12, 10)]
    assert verify(tmp_path / "ours.pte", str(TOSA)).passed


def test_a_pte_is_verified_beside_the_tosa_network_that_it_was_made_from(tmp_path: Path) -> None:
    assert verify(PTE, str(TOSA)).passed
    data = bytearray(PTE.read_bytes())
    weights = data.index(b"weight_data\0")
    data[weights + 32] ^= 64  # in the first bias
    (tmp_path / "other.pte").write_bytes(data)
    outcome = call("verify", tmp_path / "other.pte", "--model", TOSA)
    assert outcome.status == 1, outcome


def test_a_pte_is_verified_beside_its_own_network_alone() -> None:
    assert "give it with --model" in refusal("verify", PTE)
    assert "is not a TOSA network" in refusal("verify", PTE, "--model", "zoo:tiny_conv")


def test_a_pte_of_two_delegates_is_not_verified_as_one(raw: dict[str, np.ndarray], tmp_path: Path) -> None:
    (tmp_path / "two.pte").write_bytes(pte(stream(raw), stream(raw)))
    assert "has 2 delegates" in refusal("verify", tmp_path / "two.pte", "--model", TOSA)


def test_python_calls_main_where_it_calls_velas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.tosa").write_bytes(TOSA.read_bytes())
    in_place_of_vela.main([*EXECUTORCH, f"--output-dir={tmp_path / 'output'}", str(tmp_path / "out.tosa")])
    assert {"out_vela.npz", "out_summary_Ethos_U55_High_End_Embedded.csv"} <= {path.name for path in (tmp_path / "output").iterdir()}
    assert "out_vela.npz: " in capsys.readouterr().out
    with pytest.raises(InputError, match=r"ended with status 1"):
        in_place_of_vela.main([*EXECUTORCH, f"--output-dir={tmp_path / 'none'}", str(tmp_path / "missing.tosa")])
    assert "cannot be read" in capsys.readouterr().err


def test_a_network_with_operators_on_the_cpu_has_no_raw_file(tmp_path: Path) -> None:
    words = ("--output-format", "raw", "--disable-cascading", "--output-dir", tmp_path / "none")
    assert "has SPACE_TO_DEPTH: write tflite" in refusal("compile", "portfolio:cpu_first", *words)
    assert not (tmp_path / "none").exists()


def test_a_tosa_network_is_told_by_its_identifier_and_refused_if_it_is_cut(tmp_path: Path) -> None:
    assert is_tosa(TOSA.read_bytes())
    assert not is_tosa(PTE.read_bytes())
    (tmp_path / "cut.tosa").write_bytes(TOSA.read_bytes()[:3000])
    assert "Vela cannot compile the network" in refusal("schedule", tmp_path / "cut.tosa", "-o", tmp_path / "s.json")
