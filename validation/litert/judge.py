"""LiteRT's reference kernels as the judge of numerics, run in a process of their own.

The interpreter is native code: a damaged model can crash it, which here ends as one InputError.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.frontends.children import nothing, run_child
from cascader.frontends.folders import own_folder
from npu_model.errors import InputError

TIMEOUT_SECONDS = 600
"""Bound of all inferences together; the reference kernels take seconds for the largest networks of the test data."""

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by the name of the input or output."""


def litert_installed() -> bool:
    """Whether the extra ``numerics`` is installed."""
    return find_spec("ai_edge_litert") is not None


def require_litert() -> None:
    """InputError if the extra ``numerics`` is not installed."""
    if not litert_installed():
        raise InputError("LiteRT is not installed: pip install 'npu-testbed[numerics]'.")


def child_environment() -> dict[str, str]:
    """Environment of a child process that imports this package."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def _run_child(folder: Path, meanwhile: Callable[[], object]) -> None:
    command = [sys.executable, "-m", "validation.litert.child", str(folder)]
    try:
        process = run_child(command, folder=folder, timeout=TIMEOUT_SECONDS, environment=child_environment(), meanwhile=meanwhile)
    except subprocess.TimeoutExpired:
        raise InputError(f"LiteRT did not finish within {TIMEOUT_SECONDS} s: compare fewer inputs.") from None
    if process.returncode != 0:
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        reason = f"says {lines[-1][:300]!r}" if process.returncode > 0 and lines else f"crashed with status {process.returncode}"
        raise InputError(f"LiteRT cannot run the model, it {reason}: check the model.")


def reference_outputs(model: bytes, inputs: Sequence[Arrays], meanwhile: Callable[[], object] = nothing) -> list[dict[str, NDArray[Any]]]:
    """Outputs by name of one inference for each of ``inputs``, in a row.

    These hold an array of the model's type and shape for every input that is read. ``meanwhile`` is called once LiteRT's process runs.
    InputError if LiteRT is not installed, or refuses, crashes or does not finish.
    """
    require_litert()
    names = list(inputs[0]) if inputs else []
    with own_folder() as folder:
        (folder / "model.tflite").write_bytes(model)
        (folder / "names.json").write_text(json.dumps(names), encoding="utf-8")
        for index, arrays in enumerate(inputs):
            np.savez(folder / f"inputs{index}.npz", *[arrays[name] for name in names])
        _run_child(folder, meanwhile)
        outputs = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))
        results = []
        for index in range(len(inputs)):
            with np.load(folder / f"outputs{index}.npz") as arrays:
                results.append({name: arrays[f"arr_{position}"] for position, name in enumerate(outputs)})
    return results
