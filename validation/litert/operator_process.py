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
from npu_model.compiled.cpu_operators import OperatorModel
from npu_model.errors import InputError
from validation.litert.environment import TIMEOUT_SECONDS, child_environment, require_litert

Array = NDArray[Any]


class OperatorProcess:
    """The process, started when it is first needed; who makes one closes it.

    ``built_in`` are the codes of the operators that were executed by built-in kernels, as LiteRT has no reference kernel of them.
    """

    def __init__(self) -> None:
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

    def knows(self, name: str) -> OperatorModel | None:
        """The model that was kept under a name."""
        return self._models.get(name)

    def keep(self, name: str, one: OperatorModel) -> None:
        """Keep a model under a name, for :meth:`execute`."""
        self._models[name] = one
        states = [tensor for tensor, state in zip(one.operands, one.states, strict=True) if state is not None]
        (self._path / f"{name}.tflite").write_bytes(one.data)
        (self._path / f"{name}.json").write_text(json.dumps({"set": one.operands, "get": [*one.results, *states]}), encoding="utf-8")

    def execute(self, name: str, content: Sequence[bytes], code: str, outputs: Sequence[str]) -> list[Array]:
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
