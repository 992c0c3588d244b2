"""The child process of :mod:`validation.litert.resized`: a model in a folder is given inputs of other shapes.

``shapes.json`` holds pairs of a tensor's number and its shape; ``tensors.json`` is written, the shape of every tensor by its number.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from cascader.frontends.parent_watch import end_with_parent


def main(folder: Path) -> None:
    """Resize, run once on zeros, and write down the shapes; where the run fails, those that are known before it."""
    interpreter = Interpreter(
        model_path=str(folder / "model.tflite"),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    for index, shape in json.loads((folder / "shapes.json").read_text(encoding="utf-8")):
        interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    with suppress(RuntimeError, ValueError):
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
    shapes = {detail["index"]: [int(extent) for extent in detail["shape"]] for detail in interpreter.get_tensor_details()}
    (folder / "tensors.json").write_text(json.dumps(shapes), encoding="utf-8")


if __name__ == "__main__":
    end_with_parent(sys.argv[1])
    main(Path(sys.argv[1]))
