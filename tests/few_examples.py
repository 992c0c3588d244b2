"""The number of examples of a property whose examples take long: a third in `tox` alone, all where every network is tried."""

from __future__ import annotations

import os


def few(count: int) -> int:
    """A third of ``count``, at least ten; with NPU_TESTBED_ALL all of them (`tox -e laws`, for tests that are marked as a law)."""
    return count if os.environ.get("NPU_TESTBED_ALL") else min(count, max(10, -(-count // 3)))
