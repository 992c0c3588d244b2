"""Proofs of a network's forms: they share the limits, and none takes more than there is."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from cascader.ethosu.search.proofs import FIRST_ROUND, Rounds
from cascader.ethosu.search.proven import Limits, Proof
from cascader.ethosu.search.task import silent

ANSWER = 1000


class Asked:
    """An executor that proves a form as soon as its share has the steps that the form needs (None: never)."""

    def __init__(self, needs: list[int | None]) -> None:
        self.needs, self.rounds = needs, cast("list[tuple[int, int]]", [])

    def submit(self, _call: object, number: int, _budget: None, begin: int, _judge: None, share: Limits) -> Future[tuple[Proof, None]]:
        """The proof of a form, or what its share was enough for."""
        self.rounds.append((number, share.steps))
        need = self.needs[number]
        whole = need is not None and need <= share.steps
        future: Future[tuple[Proof, None]] = Future()
        steps = need if whole and need is not None else share.steps
        future.set_result((Proof(10, 0, steps, begin if whole else min(begin - 1, share.steps), whole), None))
        return future


def rounds(needs: list[int | None], limits: Limits) -> tuple[Asked, Rounds]:
    asked = Asked(needs)
    bound = SimpleNamespace(at=lambda _budget: 1)
    explored = SimpleNamespace(forms=tuple(range(len(needs))), bounds=[bound] * len(needs), useful=lambda budget: budget)
    best = SimpleNamespace(budget=None, task=SimpleNamespace(replay=None))
    made = Rounds(
        cast("Any", explored),
        cast("Any", best),
        cast("Any", SimpleNamespace(cycles=ANSWER)),
        cast("Any", None),
        limits,
        cast("Any", asked),
        silent,
    )
    made.run()
    return asked, made


def test_a_hopeless_form_leaves_the_others_enough() -> None:
    asked, made = rounds([None, 900, 40], Limits(3000, 3000))
    assert asked.rounds[:3] == [(number, 3000 // FIRST_ROUND // 3) for number in range(3)]
    assert made.open() == [0]
    assert not made.proof(ANSWER).complete


def test_the_last_form_gets_what_the_others_spare() -> None:
    """Each has half of the 2,700 steps that are left, but the first takes 500 of them."""
    asked, made = rounds([500, 2000], Limits(3000, 3000))
    assert asked.rounds == [(0, 150), (1, 150), (0, 1350), (1, 2200)]
    assert made.proof(ANSWER).complete


def test_all_forms_proven_prove_the_network() -> None:
    _, made = rounds([700, 900, 40], Limits(3000, 3000))
    assert made.proof(ANSWER).complete
    assert made.proof(ANSWER).least_cycles == ANSWER


@given(st.lists(st.none() | st.integers(1, 5000), min_size=1, max_size=6), st.integers(0, 20_000))
def test_no_more_steps_are_taken_than_there_are(needs: list[int | None], steps: int) -> None:
    asked, made = rounds(needs, Limits(steps, steps))
    proof = made.proof(ANSWER)
    assert proof.steps <= steps
    assert made.left.steps == steps - proof.steps
    shares = [share for number, share in asked.rounds if number == 0]
    assert shares == sorted(set(shares))
    assert proof.complete == (not made.open())
