"""A draft is one value: equal by its bytes, small when it is sent, and the same schedule whatever form it is in."""

from __future__ import annotations

import pickle
from functools import cache

import pytest
from cascades import cuts
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from schedule_drafts import draft_of
from scheduling import DEFAULT, network

from cascader.draft.draft import BUFFER, COPY, GROUP, JOB, OUTSIDE, PLACE, Draft, lines, table
from cascader.draft.replayed_moves import alike, block_of, copy_count, in_block
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.network.homes import on_ports, with_homes
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.schedule.drafts import require_draft_of, schedule_of
from cascader.ethosu.verify.check import check_schedule
from npu_model.documents import plain, typed
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile

SYSTEM = profile("u55_high_end").memory_system()
NAMES = ("tiny_residual", "ds_cnn", "resnet8", "cpu")


@cache
def plans(name: str) -> Cascader:
    return Cascader(network(name), DEFAULT, SYSTEM)


@cache
def drafts(name: str) -> tuple[Draft, ...]:
    limits = plans(name).limits()
    return tuple(draft for limit in (limits[0], limits[len(limits) // 2], limits[-1]) for draft in plans(name).drafts_at(limit))


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_of_a_draft_is_valid_and_has_its_jobs_places_and_copies(name: str) -> None:
    assert drafts(name)
    for draft in drafts(name):
        schedule = plans(name).schedule(draft)
        check_schedule(schedule)
        assert draft_of(schedule).runs == draft.runs
        assert schedule.arena_size == draft.memory
        assert schedule_of(draft_of(schedule), schedule.network, DEFAULT, schedule.provenance) == schedule


def test_tensors_outside_the_arena_have_the_addresses_of_their_homes() -> None:
    form = with_homes(network("ds_cnn"), [wanted_home(text, SYSTEM) for text in ("input=ext", "output=sram")])
    homed = Cascader(form, DEFAULT, on_ports(SYSTEM, form.homes))
    draft = homed.drafts_at(homed.limits()[-1])[0]
    check_schedule(homed.schedule(draft))
    assert draft_of(homed.schedule(draft)).runs == draft.runs
    names, places = [tensor.name for tensor in form.placed_tensors], lines(draft.places, PLACE)
    outside = {name for name, place in zip(names, places.tolist(), strict=True) if place[BUFFER] == OUTSIDE}
    assert outside == {home.tensor for home in form.homes}


@pytest.mark.parametrize("name", NAMES)
def test_a_draft_comes_back_from_a_process_and_from_a_file_as_it_was(name: str) -> None:
    for draft in drafts(name):
        sent = pickle.dumps(draft)
        assert pickle.loads(sent) == draft  # dumped above
        assert typed(Draft, plain(draft)) == draft
        integers = sum(map(len, (draft.groups, draft.jobs, draft.places, draft.copies)))
        assert len(sent) < integers + 200
    assert len(set(drafts(name))) == len({pickle.dumps(draft) for draft in drafts(name)})


@settings(max_examples=30)
@given(st.data())
def test_a_job_in_another_block_changes_nothing_else(data: st.DataObject) -> None:
    draft = data.draw(st.sampled_from(drafts("ds_cnn")))
    steps = data.draw(st.sampled_from(alike(draft)))
    changed = in_block(draft, steps, (2, 4, 8))
    for step in range(len(lines(draft.jobs, JOB))):
        assert block_of(changed, step) == ((2, 4, 8) if step in steps else block_of(draft, step))
    assert lines(changed.jobs, JOB)[:, :3].tolist() == lines(draft.jobs, JOB)[:, :3].tolist()
    assert replace(changed, jobs=draft.jobs) == draft


@pytest.mark.parametrize("name", NAMES)
def test_jobs_that_are_alike_are_of_one_part_one_height_and_one_block(name: str) -> None:
    for draft in drafts(name):
        jobs = lines(draft.jobs, JOB).tolist()
        kinds = [{(part, end - start, *block) for part, start, end, *block in map(jobs.__getitem__, steps)} for steps in alike(draft)]
        assert all(len(kind) == 1 for kind in kinds)
        assert len(set.union(*kinds)) == len(kinds)
        assert sorted(step for steps in alike(draft) for step in steps) == list(range(len(jobs)))


def test_a_copy_counts_once_however_many_parts_read_it() -> None:
    draft = next(draft for draft in drafts("resnet8") if copy_count(draft) > 1)
    copies = lines(draft.copies, COPY).tolist()
    shared = [line for copy in copies for line in (copy, [*copy[:3], copy[3] + 1])]
    assert copy_count(replace(draft, copies=table(shared, COPY))) == copy_count(draft)
    named = plans("resnet8").schedule(replace(draft, copies=table(shared, COPY)))
    assert all(len(copy.readers) == 2 for copy in named.copies)


WRONG = (
    lambda draft: replace(draft, jobs=draft.jobs[:-1]),
    lambda draft: replace(draft, places=draft.places[: -8 * PLACE]),
    lambda draft: replace(draft, jobs=table([(99, -1, -1, 0, 0, 0)], JOB)),
    lambda draft: replace(draft, copies=table([(0, 0, 0, -1)], COPY)),
)


@pytest.mark.parametrize("change", WRONG)
def test_a_draft_of_other_parts_or_tensors_is_refused(change: object) -> None:
    draft = drafts("tiny_residual")[0]
    require_draft_of(draft, network("tiny_residual"))
    with pytest.raises(InputError, match="remove the file"):
        require_draft_of(change(draft), network("tiny_residual"))  # type: ignore[operator]


def test_groups_are_those_that_a_draft_was_made_of() -> None:
    groups = cuts("tiny_residual", [2], 4)
    trials = plans("tiny_residual").copy_sets
    made = trials.trial(groups, [], trials.room(groups))
    assert made is not None
    assert made.part_groups == groups
    assert len(lines(made.groups, GROUP)) == 2
