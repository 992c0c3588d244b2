"""``python -m npu_testbed`` and the ``npu-testbed`` entry point."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def _refuse(sentence: str) -> int:
    print(f"npu-testbed: error: {sentence}", file=sys.stderr)  # noqa: T201  # standard error is where errors go
    return 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; exit with status 2 if the packages found are not ours."""
    # A module is imported only once its name is known to be ours.
    try:
        from npu_testbed.ground.own_packages import require_own_packages  # noqa: PLC0415
    except ImportError as error:
        return _refuse(f"{error}: another distribution has the name of a package of ours; use a virtual environment of its own.")
    try:
        require_own_packages()
    except ValueError as error:
        return _refuse(str(error))
    from npu_model.collector import collect_rarely, spare_the_last_look  # noqa: PLC0415

    collect_rarely()
    spare_the_last_look()
    from npu_testbed.commands.cli import main as run  # noqa: PLC0415

    return run(argv)


__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
