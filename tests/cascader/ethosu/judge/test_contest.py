"""A contest says of each change what its whole replay says: the score of a better one, and why a worse one is given up."""

from __future__ import annotations

from functools import cache
from itertools import islice, takewhile

import pytest
from asked_for import system_said
from scheduling import DEFAULT, network

from cascader.draft.draft import Draft
from cascader.draft.replayed_moves import changed_copies, in_block
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.contest import ProgramRun
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.judge.replay import Replayer, flat_replay
from cascader.ethosu.judge.tables import HAS_CORE
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.ethosu.search.form import Form, FormRank
from cascader.ethosu.search.replayed_changes import block_changes
from sim import quick_cycles
from sim.fast.compiled import SURE

SYSTEM = system_said()
REPLAY = Replayer(quick_cycles, SYSTEM)
NETWORKS = "ds_cnn", "cpu"
pytestmark = pytest.mark.skipif(not HAS_CORE or flat_replay(REPLAY, DEFAULT) is None, reason="the cores were not built")


@cache
def form(name: str) -> Form:
    return Form(FormRank(0, 1), network(name), DEFAULT, SYSTEM, DEFAULT_OPTIONS, Provenance())


@cache
def changes(name: str) -> tuple[Draft, list[Draft]]:
    """A draft in much room, and changes of its copies and blocks."""
    plans = form(name).cascader
    draft = plans.drafts_at(plans.limits()[-1])[0]
    blocks = (in_block(draft, steps, block) for steps, block in block_changes(form(name), draft))
    return draft, [*islice((one for _, one in changed_copies(draft)), 20), *islice(blocks, 0, 80, 4)]


def judge_of(name: str) -> Judge:
    return Judge(form(name).network, DEFAULT, REPLAY)


def operations(run: ProgramRun) -> list[tuple[object, ...]]:
    """Each operation's integers, and of a kernel its work, which is one object wherever it is equal."""
    works = iter(run.issued.works)
    rows = [tuple(run.issued.rows[at : at + 7]) for at in range(0, len(run.issued.rows), 7)]
    return [(row, id(next(works)) if row[0] == 0 else None) for row in rows]


def same_at_end(one: ProgramRun, two: ProgramRun) -> int:
    """The number of operations at the end of two Programs that are the same in both."""
    pairs = zip(reversed(operations(one)), reversed(operations(two)), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def is_given_up(known: ProgramRun, whole: ProgramRun) -> bool:
    """Whether a whole replay beside a known one ends no sooner for so many operations in a row, and by so much, as to be given up."""
    before, after = (len(one.issued.rows) // 7 for one in (known, whole))
    ends = {index: end for index, end in zip(known.times[::3], known.times[2::3], strict=True) if end}
    same, lag, streak = same_at_end(known, whole), 0, 0
    for index, end in zip(whole.times[::3], whole.times[2::3], strict=True):
        beside = ends.get(before - after + index, 0)
        if end and beside and index >= after - same:
            lag += end - beside
            streak = 0 if end < beside else streak + 1
            if streak >= SURE and lag >= 0:
                return True
    return False


@pytest.mark.parametrize("name", NETWORKS)
def test_a_replay_beside_a_known_one_is_the_whole_replay(name: str) -> None:
    draft, others = changes(name)
    judge, flat = judge_of(name), flat_replay(REPLAY, DEFAULT)
    assert flat is not None
    first = judge.run(draft, known=True)
    taken = set[bool]()
    for other in others:
        for known, whole in zip(first.programs, judge.run(other).programs, strict=True):
            cycles, times = flat.timed(whole.issued.rows, whole.issued.works, known.known)
            taken.add(cycles >= 0)
            assert cycles < 0 or (cycles, times) == (whole.cycles, whole.times)
    assert True in taken


def test_a_known_replay_is_of_one_machine() -> None:
    draft, _ = changes("ds_cnn")
    (known,) = judge_of("ds_cnn").run(draft, known=True).programs
    other = flat_replay(Replayer(quick_cycles, system_said("u65_off")), DEFAULT)
    assert other is not None
    with pytest.raises(ValueError, match="the same timing, memories and ports"):
        other.timed(known.issued.rows, known.issued.works, known.known)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_change_is_given_up_only_if_its_whole_replay_ends_no_sooner(name: str) -> None:
    draft, others = changes(name)
    judge, verdicts = judge_of(name), set[bool]()
    first = judge.run(draft)
    for other in others:
        (found,) = judge.contest(draft, draft.cycles).scores([other])
        whole = judge.run(other)
        given_up = any(map(is_given_up, first.programs, whole.programs))
        assert found == (first.score if given_up else min(first.score, whole.score))
        verdicts.add(given_up)
    assert verdicts == {False, name != "cpu"}  # the Programs of "cpu" are short


@pytest.mark.parametrize("name", NETWORKS)
def test_the_best_of_a_contest_takes_its_cycles(name: str) -> None:
    draft, others = changes(name)
    contest, judge = judge_of(name).contest(draft, draft.cycles), judge_of(name)
    best = draft
    for other, score in zip(others, contest.scores(others), strict=True):
        better = score < judge.run(best).score
        best = other if better else best
        assert score == judge.run(best).score
    assert contest.best.score == judge.run(best).score


def test_two_replays_of_one_draft_are_the_same_to_the_last_operation() -> None:
    draft, _ = changes("cpu")
    judge = judge_of("cpu")
    for before, after in zip(judge.run(draft).programs, judge.run(draft).programs, strict=True):
        assert same_at_end(before, after) == len(after.issued.rows) // 7
        assert max(before.times[2::3]) <= before.cycles
