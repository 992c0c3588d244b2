"""Verdict on a compilation: its promise, both sides' figures, and the side whose schedule was written."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from npu_model.printable import printable
from npu_testbed.compilation.peer import PeerFigures
from validation.layout import filled, grid

_REASON = 600
"""Characters of a reason that are shown."""


class Verdict(Struct, frozen=True):
    """Outcome of the check: the promise in words, the figures of both (None: there are none), and why Vela's own file was written.

    ``reason`` is "" if ours was written; ``without_vela`` says why Vela has no figures, and is "" if it has.
    """

    promise: str
    ours: PeerFigures | None
    vela: PeerFigures | None
    reason: str = ""
    without_vela: str = ""

    @property
    def written(self) -> Literal["ours", "vela"]:
        """The side whose schedule was written: "ours" or "vela"."""
        return "vela" if self.reason else "ours"


def _ratio(ours: int, vela: int) -> str:
    return f"{ours / vela:.3f}" if vela else ""


def verdict_text(verdict: Verdict) -> str:
    """The promise, the figures of both side by side, and whose schedule was written."""
    lines = [filled(f"Promise: {verdict.promise}.")]
    ours, vela = verdict.ours, verdict.vela
    if ours is not None and vela is not None:
        pairs = (("SRAM bytes", ours.memory, vela.memory), ("NPU cycles", ours.cycles, vela.cycles))
        rows = [(what, f"{own:,}", f"{theirs:,}", _ratio(own, theirs)) for what, own, theirs in pairs]
        lines += ["", grid(("replayed", "ours", "Vela", "ours / Vela"), rows, (True, False, False, False)), ""]
    if verdict.without_vela:
        lines.append(filled(f"Nothing of Vela's to compare with: {printable(verdict.without_vela, _REASON)}"))
    lines.append(filled(f"Written: Vela's own schedule. {printable(verdict.reason, _REASON)}" if verdict.reason else "Written: ours."))
    return "\n".join(lines)
