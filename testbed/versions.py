"""The versions of the tools that took part in a result."""

from __future__ import annotations

from testbed import VERSION

Tools = tuple[tuple[str, str], ...]
"""Names and versions."""


def tool_versions(others: Tools) -> Tools:
    """Versions of the tools that took part; ours is the one that runs now."""
    return tuple(sorted((dict(others) | {"npu-testbed": VERSION}).items()))
