"""The processes that LiteRT runs in: whether there can be any, their environment and their time."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from npu_model.errors import InputError

TIMEOUT_SECONDS = 600
"""Bound of all inferences together; the reference kernels take seconds for the largest networks of the test data."""


def litert_installed() -> bool:
    """Whether the extra ``numerics`` is installed."""
    return find_spec("ai_edge_litert") is not None


def require_litert() -> None:
    """InputError if the extra ``numerics`` is not installed."""
    if not litert_installed():
        raise InputError("LiteRT is not installed: pip install 'npu-testbed[numerics]'.")


def child_environment() -> dict[str, str]:
    """Environment of a child process that imports this package."""
    root = str(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
