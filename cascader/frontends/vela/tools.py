"""Vela's name and version, as a schedule says which tools took part."""

from __future__ import annotations

LEGALISER = "ethos-u-vela"
REMARK = "ethos-u-vela remark"


def vela_tools(version: str, core: str, note: str) -> tuple[tuple[str, str], ...]:
    """Vela as the legaliser of a schedule, and, where ``note`` says why it is not Vela's default core, that too.

    >>> vela_tools("5.2.0", "C++", "")
    (('ethos-u-vela', '5.2.0'),)
    """
    return ((LEGALISER, f"{version} ({core} core)"), (REMARK, note)) if note else ((LEGALISER, version),)
