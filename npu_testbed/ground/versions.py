"""The versions of the tools that took part in a result."""

from __future__ import annotations

from cascader.frontends.vela.installed import REMARK
from npu_model.version import VERSION

Tools = tuple[tuple[str, str], ...]
"""Names and versions."""


def legaliser_remark(tools: Tools) -> str:
    """Why a schedule was not legalised by Vela's default core, "" if it was."""
    return dict(tools).get(REMARK, "")


def tool_versions(others: Tools) -> Tools:
    """Versions of the tools that took part; ours is the one that runs now."""
    return tuple(sorted((dict(others) | {"npu-testbed": VERSION}).items()))
