"""The child process of :mod:`validation.litert.cpu_kernels`: operators, each a model in a folder, on the arrays in it.

A line on standard input is the name of a model. ``NAME.json`` next to it says which tensors are set, from ``inputs.npz`` as bytes, and
which are written to ``outputs.npz`` afterwards. The answer is a line of JSON on standard output: the error ("" without one), and whether a
built-in kernel ran because a reference kernel does not exist.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from validation.litert.kernels import operator_interpreter


@cache
def _interpreter(model: Path) -> tuple[Any, dict[str, list[int]], dict[int, Any], bool]:
    """A model's interpreter, the tensors to set and get, LiteRT's details of each tensor, and whether its kernel is a built-in one."""
    interpreter, is_built_in = operator_interpreter(model)
    tensors = json.loads(model.with_suffix(".json").read_text(encoding="utf-8"))
    return interpreter, tensors, {detail["index"]: detail for detail in interpreter.get_tensor_details()}, is_built_in


def _run(folder: Path, name: str) -> tuple[str, bool]:
    """Run one operator; return what went wrong, "" if nothing did, and whether its kernel was a built-in one."""
    try:
        interpreter, tensors, details, is_built_in = _interpreter(folder / f"{name}.tflite")
        with np.load(folder / "inputs.npz") as arrays:
            for array, tensor in zip(arrays.files, tensors["set"], strict=True):
                detail = details[tensor]
                dtype = np.dtype(detail["dtype"])
                # Every value but 0 is true in C; Python's bool has one true value.
                values = arrays[array] != 0 if dtype == np.bool_ else arrays[array].view(dtype)
                interpreter.set_tensor(tensor, values.reshape(detail["shape"]))
        interpreter.invoke()
        np.savez(folder / "outputs.npz", *[interpreter.get_tensor(tensor) for tensor in tensors["get"]])
    except (RuntimeError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"says {(lines or [type(error).__name__])[0][:300]!r}", False
    return "", is_built_in


def main(folder: Path) -> None:
    """Answer line by line until standard input ends."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # The interpreter's own messages are no answers.
        for line in sys.stdin:
            answers.write(json.dumps(_run(folder, line.strip())) + "\n")
            answers.flush()
    # The parent holds the other end: it has closed the pipe, or is gone.
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
