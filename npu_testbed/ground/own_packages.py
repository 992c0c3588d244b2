"""Check that the imported packages are ours: some have general names, which another distribution may use, too."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from npu_model.errors import InputError

NAMES = ("npu_model", "cascader", "sim", "validation")


def require_own_packages(folder: Path = Path(__file__).parents[2]) -> None:
    """InputError names the first package that is not found in ``folder``, where ours are installed side by side."""
    for name in NAMES:
        spec = find_spec(name)
        origin = None if spec is None or spec.origin is None else Path(spec.origin)
        if origin is None or origin.resolve().parents[1] != folder.resolve():
            place = "not there" if origin is None else f"taken from {str(origin)!r}"
            raise InputError(
                f"Package {name!r} of npu-testbed is {place} and not from {str(folder)!r}, as another distribution or file has its name: "
                "run npu-testbed in a virtual environment of its own, from another folder."
            )
