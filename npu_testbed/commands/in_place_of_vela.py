"""A ``main`` with the interface of Vela's, for Python programs that call Vela as a module, as ExecuTorch's Arm backend does.

>>> main(["--version"])  # doctest: +ELLIPSIS
npu-testbed ...
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.errors import InputError
from npu_testbed.commands.cli import main as run


def main(arguments: Sequence[str]) -> None:
    """Run ``npu-testbed compile`` with Vela's arguments in this process. If it fails, print the reason and raise InputError."""
    status = run(["compile", *arguments])
    if status != 0:
        raise InputError(f"`npu-testbed compile {' '.join(arguments)}` ended with status {status}: see what it printed.")
