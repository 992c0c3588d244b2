"""A process that executes operators of a model one by one, each as a model of its own."""

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
from npu_model.compiled.cpu_operators import OperatorModel, operator_model
from npu_model.errors import InputError
from npu_model.tflite.record_reader import RecordReader
from validation.litert.environment import TIMEOUT_SECONDS, child_environment, require_litert

Array = NDArray[Any]


class OperatorProcess:
    """The process for the operators of a model, started when it is first needed; who makes one closes it.

    ``built_in`` are the codes of the operators that were executed by built-in kernels, as LiteRT has no reference kernel of them. An
    operator becomes a model of its own when it is first executed and is kept for later executions.
    """

    def __init__(self, model: bytes) -> None:
        """InputError if the .tflite file ``model`` is damaged."""
        self._reader = RecordReader(model)
        self.built_in: list[str] = []
        self._models: dict[str, OperatorModel] = {}
        self._child: subprocess.Popen[str] | None = None
        self._folder = OwnFolder()

    def close(self) -> None:
        """Stop the process and delete its files."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
        self._folder.remove()

    def _operator(self, name: str, index: int, operands: Sequence[str]) -> OperatorModel:
        """Operator ``index`` as a model, which :meth:`_run` knows by a name; a network has the ``operands`` by name."""
        if name not in self._models:
            one = self._models[name] = operator_model(self._reader, index, operands)
            states = [tensor for tensor, state in zip(one.operands, one.states, strict=True) if state is not None]
            (self._path / f"{name}.tflite").write_bytes(one.data)
            (self._path / f"{name}.json").write_text(json.dumps({"set": one.operands, "get": [*one.results, *states]}), encoding="utf-8")
        return self._models[name]

    def _run(self, name: str, content: Sequence[bytes], code: str, outputs: Sequence[str]) -> list[Array]:
        """Outputs of a kept model, and then its states, from the bytes of its operands; ``code`` and ``outputs`` are for an InputError."""
        np.savez(self._path / "inputs.npz", *[np.frombuffer(array, np.uint8) for array in content])
        self._ask(name, code, outputs)
        with np.load(self._path / "outputs.npz") as answer:
            return [answer[name] for name in answer.files]

    @property
    def _path(self) -> Path:
        return self._folder.path

    def _ask(self, name: str, code: str, outputs: Sequence[str]) -> None:
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
        reason, built_in = json.loads(answer) if answer else (f"ended with status {child.wait()} (bound: {TIMEOUT_SECONDS} s)", False)
        if reason:
            named = ", ".join(map(repr, outputs))
            raise InputError(f"LiteRT cannot run {code} (output {named}) on the CPU, it {reason}: check the model.")
        if built_in and code not in self.built_in:
            self.built_in.append(code)

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
