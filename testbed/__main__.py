"""``python -m testbed`` and the ``npu-testbed`` entry point."""

from __future__ import annotations

import sys

from testbed.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
