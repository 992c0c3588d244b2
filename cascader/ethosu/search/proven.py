"""The limits of a proof and its result."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

MOST_PARTS = 10
"""Most parts of a network's smallest form for its class to be searched whole."""

MOST_DIVIDED = 20
"""Most parts of a form of which the bytes of all divisions are looked at: that takes a moment."""


class Limits(Struct, frozen=True):
    """Most steps of a proof, jobs that are put behind others, and most replays: counts, so that no answer depends on a clock."""

    steps: int = 8_000_000
    replays: int = 60_000

    def without(self, proof: Proof) -> Limits:
        """The steps and replays that a proof has left of them."""
        return Limits(self.steps - proof.steps, self.replays - proof.replayed)

    def shared(self, count: int) -> Limits:
        """The share of each of ``count`` proofs."""
        return Limits(self.steps // count, self.replays // count)

    def exceeds(self, other: Limits) -> bool:
        """Whether a proof within them may get further than within ``other``."""
        return self != other and self.steps >= other.steps and self.replays >= other.replays


DEFAULT_LIMITS = Limits()


class Proof(Struct, frozen=True):
    """The result of a proof: the schedules of its class, what it took, and whether it came to its end.

    No schedule of the class takes fewer than ``least_cycles``, which are those of the answer if the proof is complete.
    """

    members: int
    replayed: int
    steps: int
    least_cycles: int
    complete: bool

    def after(self, before: Proof) -> Proof:
        """The proof of a form after one with smaller limits: what both have taken, and the better of two bounds."""
        least = max(self.least_cycles, before.least_cycles)
        return Proof(self.members, before.replayed + self.replayed, before.steps + self.steps, least, self.complete)

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> Proof:
        """Some forms' proofs as one."""
        members, replayed, steps = (sum(getattr(one, name) for one in proofs) for name in ("members", "replayed", "steps"))
        least = min(one.least_cycles for one in proofs)
        return cls(members, replayed, steps, least, all(one.complete for one in proofs))
