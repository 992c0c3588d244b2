"""Interpreters of LiteRT: on its reference kernels or, where these lack an operator, on its plain built-in ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

LACKING = "Didn't find op for builtin opcode"
"""Beginning of LiteRT's message for an operator that a resolver does not have."""


def reference_interpreter(model: Path, *, keep_tensors: bool = False) -> Any:
    """An interpreter on the reference kernels, ready for inputs; RuntimeError or ValueError if they lack an operator."""
    return _ready(model, OpResolverType.BUILTIN_REF, keep_tensors=keep_tensors)


def built_in_interpreter(model: Path, *, keep_tensors: bool = False) -> Any:
    """The same on the built-in kernels without any delegate; the same errors if these lack one, too."""
    return _ready(model, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, keep_tensors=keep_tensors)


def _ready(model: Path, kernels: OpResolverType, *, keep_tensors: bool) -> Any:
    interpreter = Interpreter(model_path=str(model), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=keep_tensors)
    interpreter.allocate_tensors()
    return interpreter


def operator_interpreter(model: Path) -> tuple[Any, bool]:
    """An interpreter for a model of one operator, and whether its kernel is built in because a reference kernel does not exist."""
    try:
        return reference_interpreter(model), False
    except (RuntimeError, ValueError) as error:
        if LACKING not in str(error):
            raise
    return built_in_interpreter(model), True
