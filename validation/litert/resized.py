"""Models of other input shapes: LiteRT works out what shape every tensor has then, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from cascader.frontends.children import run_child
from cascader.frontends.folders import own_folder
from npu_model.errors import InputError
from validation.litert.environment import child_environment, require_litert

TIMEOUT_SECONDS = 300
"""Bound of one inference, in which operators of shapes that are not known before say theirs."""

Shape = tuple[int, ...]


def shapes_with_inputs(model: bytes, shapes: Mapping[int, Shape]) -> dict[int, Shape]:
    """The shape of each tensor of the first subgraph, by its number, if the inputs (by the numbers of their tensors) have these.

    InputError if LiteRT is not installed, or refuses.
    """
    require_litert()
    with own_folder() as folder:
        (folder / "model.tflite").write_bytes(model)
        (folder / "shapes.json").write_text(json.dumps([[index, list(shape)] for index, shape in shapes.items()]), encoding="utf-8")
        command = [sys.executable, "-m", "validation.litert.resized_child", str(folder)]
        try:
            process = run_child(command, folder=folder, timeout=TIMEOUT_SECONDS, environment=child_environment())
        except subprocess.TimeoutExpired:
            raise InputError(f"LiteRT did not finish within {TIMEOUT_SECONDS} s on the given shapes: give smaller ones.") from None
        answer = folder / "tensors.json"
        if process.returncode or not answer.is_file():
            lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
            reason = (
                f"says {lines[-1].removeprefix('RuntimeError: ')[:300]!r}"
                if process.returncode > 0 and lines
                else f"crashed with status {process.returncode}"
            )
            wanted = "; ".join("x".join(map(str, shape)) for shape in shapes.values())
            raise InputError(f"LiteRT cannot give the network inputs of {wanted}, it {reason}: give a shape that its operators take.")
        return {int(index): tuple(shape) for index, shape in json.loads(answer.read_text(encoding="utf-8")).items()}
