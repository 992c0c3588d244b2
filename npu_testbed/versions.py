"""The versions of the tools that took part in a result."""

from __future__ import annotations

from npu_testbed import VERSION

Tools = tuple[tuple[str, str], ...]
"""Names and versions."""


LEGALISER = "ethos-u-vela"
_REMARK = "ethos-u-vela remark"


def vela_tools(version: str, core: str, note: str) -> Tools:
    """Vela as the legaliser of a schedule, and, where ``note`` says why it is not Vela's default core, that too.

    >>> vela_tools("5.2.0", "C++", "")
    (('ethos-u-vela', '5.2.0'),)
    """
    return ((LEGALISER, f"{version} ({core} core)"), (_REMARK, note)) if note else ((LEGALISER, version),)


def legaliser_remark(tools: Tools) -> str:
    """Why a schedule was not legalised by Vela's default core, "" if it was."""
    return dict(tools).get(_REMARK, "")


def tool_versions(others: Tools) -> Tools:
    """Versions of the tools that took part; ours is the one that runs now."""
    return tuple(sorted((dict(others) | {"npu-testbed": VERSION}).items()))
