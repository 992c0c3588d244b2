"""The limits of a proof and its result."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.values import dataclass

MOST_PARTS = 10
"""Most parts of a network's smallest form for its class to be searched whole."""

MOST_DIVIDED = 20
"""Most parts of a form of which the bytes of all divisions are looked at: that takes a moment."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Most steps of a proof, jobs that are put behind others, and most replays: counts, so that no answer depends on a clock."""

    steps: int = 1_000_000
    replays: int = 3_000

    def without(self, proof: Proof) -> Limits:
        """The steps and replays that a proof has left of them."""
        return Limits(self.steps - proof.steps, self.replays - proof.replayed)


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof: the schedules of its class, what it took, and whether it came to its end.

    No schedule of the class takes fewer than ``least_cycles``, which are those of the answer if the proof is complete.
    """

    members: int
    replayed: int
    steps: int
    least_cycles: int
    complete: bool

    @classmethod
    def of(cls, proofs: Sequence[Proof]) -> Proof:
        """Some forms' proofs as one."""
        members, replayed, steps = (sum(getattr(one, name) for one in proofs) for name in ("members", "replayed", "steps"))
        least = min(one.least_cycles for one in proofs)
        return cls(members, replayed, steps, least, all(one.complete for one in proofs))
