"""Vela's name and version, in the form in which a schedule records its tools."""

from __future__ import annotations

LEGALISER = "ethos-u-vela"
REMARK = "ethos-u-vela remark"


def vela_tools(version: str, core: str, note: str) -> tuple[tuple[str, str], ...]:
    """Vela as the legaliser in a schedule's list of tools; ``note`` adds why it was not Vela's default core.

    >>> vela_tools("5.2.0", "C++", "")
    (('ethos-u-vela', '5.2.0'),)
    """
    return ((LEGALISER, f"{version} ({core} core)"), (REMARK, note)) if note else ((LEGALISER, version),)
