"""LiteRT as the judge of numerics, run in a process of its own.

Its reference kernels compute them. If the reference kernels lack an operator, operators are executed one by one, and a built-in kernel runs
that operator. If that is impossible, built-in kernels run the whole model. They are not a reference, because they round differently.

The interpreter is native code: a damaged model can crash it, which here ends as one InputError.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.frontends.children import nothing, run_child
from cascader.frontends.folders import own_folder
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from validation.litert.definitions import is_defined
from validation.litert.environment import TIMEOUT_SECONDS, child_environment, litert_installed, require_litert
from validation.litert.one_by_one import OneByOne

__all__ = ["Arrays", "Judgement", "judge", "litert_installed", "reference_outputs", "reference_tensors", "require_litert"]

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by the name of the input or output."""

LACKING = "Didn't find op"
"""Part of the reason for an operator that the reference kernels lack."""


class Judgement(Struct, frozen=True, eq=False):
    """Outputs by name of each inference; ``built_in`` names the operators that ran on built-in kernels.

    ``defined`` are those that were held to their definition instead, as LiteRT's reference kernel of them is wrong.

    ``is_reference`` is False if the whole model was executed by built-in kernels.
    """

    outputs: list[dict[str, NDArray[Any]]]
    built_in: tuple[str, ...] = ()
    is_reference: bool = True
    defined: tuple[str, ...] = ()


def _run_child(folder: Path, meanwhile: Callable[[], object]) -> None:
    command = [sys.executable, "-m", "validation.litert.child", str(folder)]
    try:
        process = run_child(command, folder=folder, timeout=TIMEOUT_SECONDS, environment=child_environment(), meanwhile=meanwhile)
    except subprocess.TimeoutExpired:
        raise InputError(f"LiteRT did not finish within {TIMEOUT_SECONDS} s: compare fewer inputs.") from None
    if process.returncode != 0:
        lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
        said = [line for line in lines if LACKING in line] or lines
        reason = f"says {said[-1][:300]!r}" if process.returncode > 0 and lines else f"crashed with status {process.returncode}"
        raise InputError(f"LiteRT cannot run the model, it {reason}: check the model.")


def _whole(
    model: bytes, inputs: Sequence[Arrays], meanwhile: Callable[[], object], *, built_in: bool, tensors: int = -1
) -> tuple[list[dict[str, NDArray[Any]]], dict[int, NDArray[Any]]]:
    """Outputs of all inferences of the whole model at once, and all tensors of one of them by their numbers."""
    names = list(inputs[0]) if inputs else []
    with own_folder() as folder:
        (folder / "model.tflite").write_bytes(model)
        (folder / "order.json").write_text(json.dumps({"names": names, "built_in": built_in, "tensors": tensors}), encoding="utf-8")
        for index, arrays in enumerate(inputs):
            np.savez(folder / f"inputs{index}.npz", *[arrays[name] for name in names])
        _run_child(folder, meanwhile)
        outputs = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))
        results = []
        for index in range(len(inputs)):
            with np.load(folder / f"outputs{index}.npz") as arrays:
                results.append({name: arrays[f"arr_{position}"] for position, name in enumerate(outputs)})
        if tensors < 0:
            return results, {}
        with np.load(folder / "tensors.npz") as kept:
            return results, {int(number): kept[number] for number in kept.files}


def judge(model: bytes, inputs: Sequence[Arrays], meanwhile: Callable[[], object] = nothing) -> Judgement:
    """Outputs of one inference for each of ``inputs``, in a row, and the kernels that made them.

    The inputs hold an array of the model's type and shape for every input that is read. ``meanwhile`` is called once LiteRT's process runs.
    InputError if LiteRT is not installed, or refuses, crashes or does not finish.
    """
    require_litert()
    held = _held_to_definition(model)
    try:
        if not held:
            return Judgement(_whole(model, inputs, meanwhile, built_in=False)[0])
    except InputError as error:
        if LACKING not in str(error):
            raise
    try:
        with closing(OneByOne(model)) as operators:
            outputs = [operators.run(arrays) for arrays in inputs]
            return Judgement(outputs, tuple(operators.built_in), defined=held)
    except InputError:
        # Control flow, dynamic shapes and resources cannot be executed one by one.
        return Judgement(_whole(model, inputs, nothing, built_in=True)[0], is_reference=False)


def _held_to_definition(model: bytes) -> tuple[str, ...]:
    """The kinds of operators of a model that are held to their definition, as LiteRT's reference kernel of them is wrong."""
    read = read_tflite(model)
    return tuple(dict.fromkeys(one.code for one in read.operators if is_defined(read, one)))


def reference_outputs(model: bytes, inputs: Sequence[Arrays], meanwhile: Callable[[], object] = nothing) -> list[dict[str, NDArray[Any]]]:
    """The outputs of :func:`judge` by name; InputError if the model cannot be run on reference kernels."""
    found = judge(model, inputs, meanwhile)
    if not found.is_reference:
        raise InputError("LiteRT cannot run the model on its reference kernels: compare it with Vela's legalised stream alone.")
    return found.outputs


def reference_tensors(model: bytes, inputs: Sequence[Arrays]) -> dict[int, NDArray[Any]]:
    """All tensors of the last of the inferences, by their numbers in the model; InputError as of :func:`judge`."""
    try:
        if not _held_to_definition(model):
            return _whole(model, inputs, nothing, built_in=False, tensors=len(inputs) - 1)[1]
    except InputError as error:
        if LACKING not in str(error):
            raise
    with closing(OneByOne(model)) as operators:
        for arrays in inputs:
            operators.run(arrays)
        return operators.tensors
