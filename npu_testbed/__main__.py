"""``python -m npu_testbed`` and the ``npu-testbed`` entry point."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence


def _refuse(sentence: str) -> int:
    print(f"npu-testbed: error: {sentence}", file=sys.stderr)  # noqa: T201  # standard error is where errors go
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; status 2 if what would run is not ours."""
    # Importing and searching make few cycles of objects, and looking for some after every 700 objects takes a twentieth of a command.
    gc.set_threshold(1_000_000, 50, 50)
    # At its end Python looks through all objects for cycles, for nothing: a tenth of a command.
    atexit.register(gc.freeze)
    # Nothing of ours is imported before it is known to be ours.
    try:
        from npu_testbed.own_packages import require_own_packages  # noqa: PLC0415
    except ImportError as error:
        return _refuse(f"{error}: another distribution has the name of a package of ours; use a virtual environment of its own.")
    try:
        require_own_packages()
    except ValueError as error:
        return _refuse(str(error))
    from npu_testbed.cli import main as run  # noqa: PLC0415

    return run(argv)


__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
