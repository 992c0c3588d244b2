"""CPU operators of a compiled network, executed one by one by LiteRT's reference kernels in one process of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from npu_model.compiled.cpu_operators import OperatorFinder, are_placed
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from sim.functional import OnCpu, runs_here
from validation.litert.environment import litert_installed
from validation.litert.operator_process import OperatorProcess

Array = NDArray[Any]


def require_kernels(network: CompiledNetwork) -> None:
    """InputError if the network has CPU operators that only LiteRT can execute, and LiteRT is not installed."""
    left = [step for step in network.steps if isinstance(step, CpuOperator) and not runs_here(step)]
    if left and not litert_installed():
        named = ", ".join(f"{step.code} ({', '.join(binding.name for binding in step.outputs)})" for step in left)
        raise InputError(
            f"The network runs {len(left)} operators on the CPU that only LiteRT's kernels can execute, {named}: "
            "pip install 'npu-testbed[numerics]'."
        )


class CpuKernels(OperatorProcess):
    """Executes the CPU operators of compilations of one model."""

    def executor(self, network: CompiledNetwork) -> OnCpu:
        """The function that executes the CPU operators of ``network``, for :func:`sim.functional.run`: one inference after the other.

        It keeps states of these operators that the compiler has not placed in the arena; a new executor begins from scratch. InputError if
        the model lacks one of them, LiteRT is not installed, or it refuses, crashes or does not finish.
        """
        finder = OperatorFinder(self._reader.model)
        steps = ((index, step) for index, step in enumerate(network.steps) if isinstance(step, CpuOperator))
        found = {index: finder.find(step) for index, step in steps if not runs_here(step)}

        kept: dict[int, bytes] = {}

        def execute(index: int, step: CpuOperator, arrays: tuple[Array, ...]) -> Sequence[Array]:
            return self._execute(found[index], step, [array.tobytes() for array in arrays], kept)

        return execute

    def _execute(self, index: int, step: CpuOperator, arrays: Sequence[bytes], kept: dict[int, bytes]) -> list[Array]:
        """Outputs of an operator, and then its states in the arena; other states are in ``kept``, by their tensors in the model."""
        name = f"{index}-{len(step.inputs)}"
        one = self._operator(name, index, [binding.name for binding in step.inputs])
        placed = are_placed(step, [state is not None for state in one.states])
        given = iter(arrays)
        content = [next(given) if state is None or placed else kept.get(state.tensor, state.content) for state in one.states]
        found = self._run(name, content, step.code, [binding.name for binding in step.outputs])
        results, states = found[: len(one.results)], found[len(one.results) :]
        if placed:
            return results + states
        kept |= {state.tensor: array.tobytes() for state, array in zip(filter(None, one.states), states, strict=True)}
        return results
