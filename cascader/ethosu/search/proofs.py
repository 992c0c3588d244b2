"""The proof of a small network: proofs of its forms, which share the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass as mutable
from dataclasses import field

from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.search.best import Best
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.proven import MOST_PARTS, Limits, Proof
from cascader.ethosu.search.replayed import Replayed
from cascader.ethosu.search.search import Explored, answers
from cascader.ethosu.search.task import Replay, Show

Prover = Callable[[Form, int | None, int, Replay, Limits], tuple[Proof, tuple[Draft, int] | None]]
"""A proof of a form in a budget (bytes; None: any number), beginning with the cycles of a schedule that is known and judged by a replay,
within limits; with the fastest schedule of the form's class if it takes fewer cycles. It is sent to other processes."""

FIRST_ROUND = 10
"""Part of the limits that all forms have together in their first round: one form's proof may be hopeless and the others' short."""


def has_proof(explored: Explored) -> bool:
    """Whether a network has a form that is small enough for a proof; none has one of which tensors live outside the arena.

    The least times of jobs are those of feature maps in the arena.
    """
    if any(form.network.homes for form in explored.forms):
        return False
    return min(len(form.network.graph.parts) for form in explored.forms) <= MOST_PARTS


@mutable(slots=True)
class Rounds:
    """Proofs of all forms on their way, with the ``fastest`` draft so far.

    All forms of the first round begin with the same cycles, so that no answer depends on how many of them run at once.
    """

    explored: Explored
    best: Best
    fastest: Replayed
    prover: Prover
    left: Limits
    executor: Executor
    show: Show
    proofs: dict[int, Proof] = field(default_factory=dict)
    """The proofs so far, by the numbers of their forms."""

    def run(self) -> None:
        """Give each form a small share, and then those that stay open what is left, one after the other: the last gets what others spare.

        A proof begins anew with each share. Those of least gap come first.
        """
        numbers = self.open()
        first = self.left.shared(FIRST_ROUND * len(numbers)) if len(numbers) > 1 else self.left
        self._round(numbers, first)
        numbers = sorted(self.open(), key=lambda number: (-self.proofs[number].least_cycles, number))
        for place, number in enumerate(numbers):
            share = self.left.shared(len(numbers) - place)
            if number in self.open() and share.exceeds(first):
                self._round([number], share)

    def open(self) -> list[int]:
        """The numbers of the forms of which a schedule may take fewer cycles than the fastest so far."""
        proofs = (self.proofs.get(number) for number in range(len(self.explored.forms)))
        return [number for number, proof in enumerate(proofs) if proof is None or not self._done(proof)]

    def _done(self, proof: Proof) -> bool:
        return proof.complete or proof.least_cycles >= self.fastest.cycles

    def _round(self, numbers: Sequence[int], share: Limits) -> None:
        forms, budget = self.explored.forms, self.explored.useful(self.best.budget)
        judge, begin = self.best.task.replay, self.fastest.cycles
        asked = [self.executor.submit(self.prover, forms[number], budget, begin, judge, share) for number in numbers]
        for number, (proof, found) in zip(numbers, answers(asked, "Searching everything: {} of {} forms", self.show), strict=True):
            # What any arena of these bytes asks for is known before.
            least = max(proof.least_cycles, min(self.explored.bounds[number].at(budget), begin))
            before = self.proofs.get(number)
            self.left = self.left.without(proof)
            self.proofs[number] = replace(proof, least_cycles=least) if before is None else replace(proof, least_cycles=least).after(before)
            if found is not None and found[1] < self.fastest.cycles:
                self.fastest = Replayed(forms[number], *found)
                self.best.take(self.fastest)

    def proof(self, cycles: int) -> Proof:
        """The proofs of all forms as one; ``cycles`` are those of the answer."""
        whole = Proof.of(list(self.proofs.values()))
        # A form that was proven early was compared with more cycles than the answer takes.
        if all(self._done(proof) for proof in self.proofs.values()):
            return replace(whole, complete=True, least_cycles=cycles)
        return replace(whole, least_cycles=min(whole.least_cycles, cycles))
