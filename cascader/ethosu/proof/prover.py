"""The prover that a search of most effort is handed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cascader.draft.draft import Draft
from cascader.ethosu.search.effort import THOROUGH
from cascader.ethosu.search.form import Form
from cascader.ethosu.search.proofs import Prover
from cascader.ethosu.search.proven import Limits, Proof
from cascader.ethosu.search.task import Replay
from npu_model.front import later

if TYPE_CHECKING:
    from cascader.ethosu.proof import proof
else:
    proof = later("cascader.ethosu.proof.proof")  # most networks are too large for a proof, and its import takes a while


def prove_form(form: Form, budget: int | None, cycles: int, judge: Replay, limits: Limits) -> tuple[Proof, tuple[Draft, int] | None]:
    """The proof of a form, and the fastest schedule of its class with its cycles if these are fewer than ``cycles``."""
    made = proof.prove(form.cascader, form.system, budget, cycles, judge, limits)
    return made.proof, made.found


def prover_of(effort: str) -> Prover | None:
    """The prover for an effort: of the most alone."""
    return prove_form if effort == THOROUGH else None
