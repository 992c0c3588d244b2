"""The child process of :mod:`validation.litert.judge`: inferences of a model on arrays in a folder.

``order.json`` holds the inputs' names, whether the built-in kernels are wanted, and the number of the inference whose tensors are all kept
(-1: none). ``inputs0.npz`` and so on have one array for each input; ``outputs.json`` and ``outputs0.npz`` are written, and ``tensors.npz``
with an array for each tensor, by its number in the model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cascader.frontends.parent_watch import end_with_parent
from validation.litert.kernels import built_in_interpreter, reference_interpreter


def _content(interpreter: Any, index: int) -> Any:
    """A tensor; None for one of a kernel's own, or one that nothing has written."""
    try:
        return interpreter.get_tensor(index)
    except ValueError:
        return None


def _keep(interpreter: Any, path: Path) -> None:
    """Write all tensors that have content."""
    found = ((str(detail["index"]), _content(interpreter, detail["index"])) for detail in interpreter.get_tensor_details())
    np.savez(path, **{number: array for number, array in found if array is not None})


def main(folder: Path) -> None:
    """Run every inference whose inputs are in ``folder``, in their order: variables keep their content from one to the next."""
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    make, keep = built_in_interpreter if order["built_in"] else reference_interpreter, order["tensors"]
    interpreter = make(folder / "model.tflite", keep_tensors=keep >= 0)
    outputs = interpreter.get_output_details()
    for index in range(len(list(folder.glob("inputs*.npz")))):
        path = folder / f"inputs{index}.npz"
        with np.load(path) as arrays:
            given = {name: arrays[f"arr_{position}"] for position, name in enumerate(order["names"])}
        # An input without an array is an input that nothing reads.
        for detail in (one for one in interpreter.get_input_details() if one["name"] in given):
            # A bool is a byte, and any byte but 0 is true.
            boolean = np.dtype(detail["dtype"]) == np.bool_
            interpreter.set_tensor(detail["index"], given[detail["name"]] != 0 if boolean else given[detail["name"]])
        interpreter.invoke()
        np.savez(folder / path.name.replace("inputs", "outputs"), *[interpreter.get_tensor(detail["index"]) for detail in outputs])
        if index == keep:
            _keep(interpreter, folder / "tensors.npz")
    (folder / "outputs.json").write_text(json.dumps([detail["name"] for detail in outputs]), encoding="utf-8")


if __name__ == "__main__":
    end_with_parent(sys.argv[1])
    main(Path(sys.argv[1]))
