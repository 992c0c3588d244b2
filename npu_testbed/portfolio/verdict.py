"""Finding: the comparison of one portfolio network with Vela as plain values, and where Vela is ahead."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from npu_testbed.comparisons.answer import SLOWEST
from npu_testbed.documents.portfolio import BytesAndCycles, Ours, VelaFigures


class Check(str, Enum):
    """The verdict of the functional run of our smallest schedule against LiteRT's reference kernels."""

    EXACT = "exact"
    EXCEPTION = "differs, as named"
    DIFFERS = "differs"
    FAILED = "not verified"
    NOT_ASKED = "not asked"


class Examined(Struct, frozen=True):
    """One network on one accelerator. ``failure`` is the reason why there is no comparison, "" if there is one."""

    network: str
    group: str
    accelerator: str
    memory_system: str
    vela: VelaFigures | None = None
    ours: Ours | None = None
    check: Check = Check.NOT_ASKED
    remark: str = ""
    failure: str = ""
    no_peer: str = ""
    """The reason why neither of Vela's cores makes a valid stream, "" if one does.

    With a reason, ``ours`` has only the smallest schedule.
    """

    @property
    def misses(self) -> tuple[str, ...]:
        """A phrase for each miss: in bytes, or over 1 % of the cycles in Vela's bytes."""
        if self.vela is None or self.ours is None:
            return ()
        least, size, performance = self.ours.smallest.memory, self.vela.size, self.vela.performance
        found = (
            f"needs {least:,} bytes, Vela Size {size.memory:,}" if least > size.memory else "",
            f"needs {least:,} bytes, Vela Performance {performance.memory:,}" if least > performance.memory else "",
            _slower("Size", size, self.ours.in_size_bytes),
            _slower("Performance", performance, self.ours.in_performance_bytes),
        )
        return tuple(miss for miss in found if miss)

    @property
    def passed(self) -> bool:
        """Whether Vela is ahead nowhere, or has no schedule, and the outputs equal LiteRT's or differ as the portfolio names."""
        # Without a peer, only the outputs speak for our schedule.
        unasked = {Check.NOT_ASKED} if not self.no_peer else set()
        return not self.failure and not self.misses and self.check in {Check.EXACT, Check.EXCEPTION} | unasked


def _slower(strategy: str, peer: BytesAndCycles, own: BytesAndCycles | None) -> str:
    """A phrase if ours is slower in the bytes of a strategy of Vela's; "" if not, or if ours does not fit, which is a miss in bytes."""
    if own is None or own.cycles <= SLOWEST * peer.cycles:
        return ""
    return f"takes {own.cycles / peer.cycles:.3f} of Vela {strategy}'s cycles in its {peer.memory:,} bytes"


class Report(Struct, frozen=True):
    """The findings of a run, in the order of the portfolio, accelerator by accelerator."""

    findings: tuple[Examined, ...]

    @property
    def passed(self) -> bool:
        """Whether there are findings and every one passes."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    @property
    def missed(self) -> tuple[str, ...]:
        """The networks that miss a bar or fail, by name."""
        return tuple(f"{finding.network} on {finding.accelerator}" for finding in self.findings if not finding.passed)
