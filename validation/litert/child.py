"""The child process of :mod:`validation.litert.judge`: inferences of a model on arrays in a folder.

``names.json`` holds the inputs' names, ``inputs0.npz`` and so on one array for each; ``outputs.json`` and ``outputs0.npz`` are written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from cascader.frontends.children import end_with_parent


def main(folder: Path) -> None:
    """Run every inference that ``folder`` holds inputs of, in their order: variables keep their content from one to the next."""
    interpreter = Interpreter(model_path=str(folder / "model.tflite"), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    outputs = interpreter.get_output_details()
    for index in range(len(list(folder.glob("inputs*.npz")))):
        path = folder / f"inputs{index}.npz"
        with np.load(path) as arrays:
            given = {name: arrays[f"arr_{position}"] for position, name in enumerate(names)}
        # An input that no array is given for is one that nothing reads.
        for detail in (one for one in interpreter.get_input_details() if one["name"] in given):
            # A bool is given as bytes, of which any but 0 is true.
            boolean = np.dtype(detail["dtype"]) == np.bool_
            interpreter.set_tensor(detail["index"], given[detail["name"]] != 0 if boolean else given[detail["name"]])
        interpreter.invoke()
        np.savez(folder / path.name.replace("inputs", "outputs"), *[interpreter.get_tensor(detail["index"]) for detail in outputs])
    (folder / "outputs.json").write_text(json.dumps([detail["name"] for detail in outputs]), encoding="utf-8")


if __name__ == "__main__":
    end_with_parent(sys.argv[1])
    main(Path(sys.argv[1]))
