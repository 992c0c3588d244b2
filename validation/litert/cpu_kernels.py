"""CPU operators of a compiled network, executed one by one by LiteRT's reference kernels in one process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.frontends.folders import OwnFolder
from npu_model.compiled.cpu_operators import OperatorFinder, OperatorModel, are_placed, operator_model
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.tflite.record_reader import RecordReader
from sim.functional import OnCpu, is_copy
from validation.litert.judge import TIMEOUT_SECONDS, child_environment, litert_installed, require_litert

Array = NDArray[Any]


def require_kernels(network: CompiledNetwork) -> None:
    """InputError if the network has CPU operators that only LiteRT can execute, and LiteRT is not installed."""
    left = [step for step in network.steps if isinstance(step, CpuOperator) and not is_copy(step)]
    if left and not litert_installed():
        named = ", ".join(f"{step.code} ({', '.join(binding.name for binding in step.outputs)})" for step in left)
        raise InputError(
            f"The network runs {len(left)} operators on the CPU that only LiteRT's kernels can execute, {named}: "
            "pip install 'npu-testbed[numerics]'."
        )


class CpuKernels:
    """Executes the CPU operators of compilations of one ``model``; who makes one closes it, which stops the process.

    An operator becomes a model of its own when it is first executed and is kept for later executions.
    """

    def __init__(self, model: bytes) -> None:
        """InputError if the .tflite file ``model`` is damaged."""
        self._reader = RecordReader(model)
        self._operators: dict[str, OperatorModel] = {}
        self._child: subprocess.Popen[str] | None = None
        self._folder = OwnFolder()

    def close(self) -> None:
        """Stop the process and delete its files."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
        self._folder.remove()

    def executor(self, network: CompiledNetwork) -> OnCpu:
        """The function that executes the CPU operators of ``network``, for :func:`sim.functional.run`: one inference after the other.

        It keeps states of these operators that the compiler has not placed in the arena; a new executor begins anew.
        InputError if the model lacks one of them, LiteRT is not installed, or it refuses, crashes or does not finish.
        """
        finder = OperatorFinder(self._reader.model)
        steps = ((index, step) for index, step in enumerate(network.steps) if isinstance(step, CpuOperator))
        found = {index: finder.find(step) for index, step in steps if not is_copy(step)}

        kept: dict[int, bytes] = {}

        def execute(index: int, step: CpuOperator, arrays: tuple[Array, ...]) -> Sequence[Array]:
            return self._execute(found[index], step, [array.tobytes() for array in arrays], kept)

        return execute

    def _execute(self, index: int, step: CpuOperator, arrays: Sequence[bytes], kept: dict[int, bytes]) -> list[Array]:
        """Outputs of an operator, and then its states in the arena; other states are in ``kept``, by their tensors in the model."""
        name = f"{index}-{len(step.inputs)}"
        one = self._operator(name, index, step)
        placed = are_placed(step, [state is not None for state in one.states])
        given = iter(arrays)
        content = [next(given) if state is None or placed else kept.get(state.tensor, state.content) for state in one.states]
        np.savez(self._path / "inputs.npz", *[np.frombuffer(array, np.uint8) for array in content])
        self._ask(name, step)
        with np.load(self._path / "outputs.npz") as answer:
            found = [answer[name] for name in answer.files]
        results, states = found[: len(one.results)], found[len(one.results) :]
        if placed:
            return results + states
        kept |= {state.tensor: array.tobytes() for state, array in zip(filter(None, one.states), states, strict=True)}
        return results

    def _operator(self, name: str, index: int, step: CpuOperator) -> OperatorModel:
        """The operator as a model, in the folder under that name too."""
        if name not in self._operators:
            one = self._operators[name] = operator_model(self._reader, index, [binding.name for binding in step.inputs])
            states = [tensor for tensor, state in zip(one.operands, one.states, strict=True) if state is not None]
            (self._path / f"{name}.tflite").write_bytes(one.data)
            (self._path / f"{name}.json").write_text(json.dumps({"set": one.operands, "get": [*one.results, *states]}), encoding="utf-8")
        return self._operators[name]

    @property
    def _path(self) -> Path:
        return self._folder.path

    def _ask(self, name: str, step: CpuOperator) -> None:
        """Let the child execute an operator on the arrays in the folder."""
        child = self._started()
        timer = Timer(TIMEOUT_SECONDS, child.kill)
        timer.start()
        answer = ""
        try:
            if child.stdin is not None and child.stdout is not None:
                child.stdin.write(f"{name}\n")
                child.stdin.flush()
                answer = child.stdout.readline()
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        reason = json.loads(answer) if answer else f"ended with status {child.wait()} (bound: {TIMEOUT_SECONDS} s)"
        if reason:
            outputs = ", ".join(repr(binding.name) for binding in step.outputs)
            raise InputError(f"LiteRT cannot run {step.code} (output {outputs}) on the CPU, it {reason}: check the model.")

    def _started(self) -> subprocess.Popen[str]:
        """The child; started if it is not yet."""
        if self._child is None:
            require_litert()
            self._child = subprocess.Popen(  # noqa: S603  # the one argument is a folder that we made, and no shell reads it
                [sys.executable, "-m", "validation.litert.cpu_kernels_child", str(self._path)],
                env=child_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._child
