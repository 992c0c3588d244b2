"""Cases that the fuzzer has found stay mended, and a few fresh cases of every kind pass."""

from __future__ import annotations

import json
import os
from mmap import mmap
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="the fuzzer bounds memory as POSIX does")
from fuzz import KINDS, MEMORY_BYTES, WRONG, Case, case_of, run

CORPUS = sorted((Path(__file__).parents[1] / "fuzz_corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_found_once_is_mended(path: Path) -> None:
    case = Case(**json.loads(path.read_text()))
    outcome = run(Case(case.kind, case.seed, tuple(case.argv), case.name, case.content))
    assert outcome in ("result", "refused"), outcome


@pytest.mark.law
@pytest.mark.parametrize("kind", KINDS)
def test_fresh_cases_of_every_kind_end_with_a_result_or_a_sentence(kind: str) -> None:
    for seed in range(3 if os.environ.get("NPU_TESTBED_ALL") else 1):
        outcome = run(case_of(kind, 10**9 + seed))
        assert outcome in ("result", "refused"), outcome


def test_what_a_run_of_tests_has_taken_is_not_the_memory_of_a_case() -> None:
    with mmap(-1, MEMORY_BYTES):
        assert run(case_of("elf", 10**9)) in ("result", "refused")


def test_a_case_that_fails_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_kind: object, _seed: int) -> str:
        raise AssertionError

    monkeypatch.setattr("damage.outcome", wrong)
    assert run(Case("damaged_text", 1)).startswith(f"status {WRONG}")
    monkeypatch.setattr("fuzz.main", lambda _argv: 70)
    assert run(case_of("toml", 1)).startswith("status 70")
