"""The proofs of a schedule in words and as JSON: lower bounds of cycles and bytes, and a class that was searched exhaustively."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Choice, Proof


def proof_text(proof: Proof, cycles: int) -> str:
    """A sentence on the class that was, or would have been, searched exhaustively, for a schedule with ``cycles``.

    >>> from cascader.ethosu.search.task import Proof
    >>> proof_text(Proof(members=376, replayed=136, tried=376, least_cycles=25900, complete=True), 25900)
    'Gap 0: none of the 376 schedules of the class that is searched whole fits and takes fewer cycles; 136 were replayed.'
    >>> proof_text(Proof(members=376, replayed=200, tried=300, least_cycles=45000, complete=False), 45900)
    'Gap at most 2.0%: none of the 376 schedules of the class takes fewer than 45,000; 300 were tried, the others are too many.'
    """
    if proof.complete:
        return (
            f"Gap 0: none of the {proof.members:,} schedules of the class that is searched whole fits and takes fewer cycles; "
            f"{proof.replayed:,} were replayed."
        )
    gap = f"{cycles / max(proof.least_cycles, 1) - 1:.1%}"
    return (
        f"Gap at most {gap}: none of the {proof.members:,} schedules of the class takes fewer than {proof.least_cycles:,}; "
        f"{proof.tried:,} were tried, the others are too many."
    )


def bounds_text(choice: Choice, cycles: int) -> list[str]:
    """The sentences on a choice with ``cycles``; none for a network layer by layer, which needs no search."""
    said = []
    if choice.proof is not None:
        said.append(proof_text(choice.proof, cycles))
    if choice.least_cycles is not None:
        if choice.proof is None:
            gap = f"{cycles / max(choice.least_cycles, 1) - 1:.1%}"
            least = f"Of the schedules that the search can make, none takes fewer than {choice.least_cycles:,}"
            said.append(f"{least}: this one takes at most {gap} more.")
        else:
            said.append(f"Outside of the class the schedules that the search can make take {choice.least_cycles:,} cycles at least.")
    if choice.least_bytes is not None:
        said.append(f"None that it can make fits into fewer than {choice.least_bytes:,} bytes.")
    return said
