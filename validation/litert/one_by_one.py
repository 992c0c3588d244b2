"""A model whose operators LiteRT executes one by one: by its reference kernels, and by built-in ones where it has no reference kernel.

Operators whose reference kernel is wrong are executed here, by their definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.tflite.model import TfliteOperator
from validation.litert.definitions import defined, is_defined
from validation.litert.operator_process import OperatorProcess

Array = NDArray[Any]


class OneByOne(OperatorProcess):
    """Inferences in a row: what the model keeps in variables goes from one to the next; who makes one closes it.

    ``tensors`` holds the last inference's tensors by their numbers in the model.
    """

    def __init__(self, model: bytes) -> None:
        """InputError if the .tflite file is damaged."""
        super().__init__(model)
        self._kept: dict[int, bytes] = {}
        self.tensors: dict[int, Array] = {}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name; InputError if an operator cannot be executed on its own."""
        model = self._reader.model
        self.tensors = {index: inputs[model.tensors[index].name] for index in model.inputs if model.tensors[index].name in inputs}
        for index, operator in enumerate(model.operators):
            self._execute(index, operator)
        missing = [model.tensors[index].name for index in model.outputs if index not in self.tensors]
        if missing:
            raise InputError(f"Output {missing[0]!r} is made by no operator: it cannot be executed alone.")
        return {model.tensors[index].name: self.tensors[index] for index in model.outputs}

    def _execute(self, index: int, operator: TfliteOperator) -> None:
        tensors = self._reader.model.tensors
        if is_defined(self._reader.model, operator) and operator.inputs[0] in self.tensors:
            self.tensors[operator.outputs[0]] = defined(self._reader.model, operator, self.tensors[operator.inputs[0]])
            return
        operands = [number for number in operator.inputs if number >= 0 and not tensors[number].data]
        name = str(index)
        one = self._operator(name, index, [tensors[number].name for number in operands if not tensors[number].is_variable])
        content = []
        for number, state in zip(operands, one.states, strict=True):
            if state is not None:
                content.append(self._kept.get(state.tensor, state.content))
            elif number in self.tensors:
                content.append(np.ascontiguousarray(self.tensors[number]).tobytes())
            else:
                raise InputError(f"{operator.name} reads {tensors[number].name!r}, which no operator makes: it cannot be executed alone.")
        results = [number for number in operator.outputs if number >= 0]
        found = self._run(name, content, operator.name, [tensors[number].name for number in results])
        self.tensors |= dict(zip(results, found[: len(results)], strict=True))
        states = [state for state in one.states if state is not None]
        self._kept |= {state.tensor: array.tobytes() for state, array in zip(states, found[len(results) :], strict=True)}
