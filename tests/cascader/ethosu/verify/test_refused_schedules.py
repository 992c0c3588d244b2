"""Wrong schedules are refused with job, row and address, and what the check lets pass computes the network."""

from __future__ import annotations

import re
from typing import Any

import pytest
from cascades import cascade, cuts, expected, outputs, tight
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import schedule_of
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.graph.cascader_graph import CascaderGraph, TensorKind
from cascader.plan.jobs import Buffer, Copy
from npu_model.documents import plain as to_plain
from npu_model.errors import InputError

pytestmark = pytest.mark.law


def test_two_live_buffers_never_share_a_byte() -> None:
    made = schedule("tiny_residual")
    first, second, *others = made.buffers
    assert first.start < second.end
    assert second.start < first.end
    moved = replace(second, address=first.address + 16)
    roomy = max(made.arena_size, moved.address + moved.size + 16)
    with pytest.raises(
        InputError, match="overwrites row 0 of tensor 'image' at address 9232 while reading it: give its output other bytes"
    ):
        check_schedule(replace(made, buffers=(first, moved, *others), arena_size=roomy // 16 * 16))


def test_a_tensor_is_not_overwritten_before_its_last_use() -> None:
    made = schedule("tiny_residual")
    buffers = {buffer.tensors[0]: buffer for buffer in made.buffers}
    stem, depthwise = buffers["stem"], buffers["depthwise"]
    shared = Buffer(("stem", *depthwise.tensors, *stem.tensors[1:]), stem.address, stem.size, 0, 5)
    others = tuple(buffer for buffer in made.buffers if buffer not in (stem, depthwise))
    with pytest.raises(InputError, match=r"Job 1 \(part 'depthwise'\) overwrites row 0 of tensor 'stem'"):
        check_schedule(replace(made, buffers=(shared, *others)))


def refused(made: Schedule) -> str:
    """Why a schedule is refused, "" if it is not; one sentence in either case."""
    try:
        check_schedule(made)
    except InputError as error:
        return str(error)
    return ""


def swapped(made: Schedule, first: int, second: int) -> Schedule:
    jobs = list(made.jobs)
    jobs[first], jobs[second] = jobs[second], jobs[first]
    return replace(made, jobs=tuple(jobs))


def with_rows(made: Schedule, index: int, rows: int) -> Schedule:
    """The schedule with a rolling buffer of so many rows."""
    buffer = made.buffers[index]
    return replace(
        made, buffers=(*made.buffers[:index], replace(buffer, rows=rows, size=buffer.row_bytes * rows), *made.buffers[index + 1 :])
    )


def test_a_row_that_has_rolled_over_is_refused_with_job_row_and_address() -> None:
    made = cascade("tiny_residual", cuts("tiny_residual", [], 1))
    index = next(i for i, buffer in enumerate(made.buffers) if "stem" in buffer.tensors)
    buffer = made.buffers[index]
    assert buffer.rows == 4
    missing = f"needs row 0 of tensor 'stem' at address {buffer.address}, where another row of it lies: "
    assert re.match(rf"Job \d+ \(part 'add', rows 0 to 2\) {missing}", refused(with_rows(made, index, 3)))
    assert f"its rolling buffer at address {buffer.address} holds 1: give it 2" in refused(with_rows(made, index, 1))


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "resnet8"])
def test_a_rolling_buffer_of_one_row_less_is_refused(name: str) -> None:
    made = tight(name)
    rolling = [(index, buffer) for index, buffer in enumerate(made.buffers) if buffer.rows]
    assert rolling
    for index, buffer in rolling:
        assert buffer.rows is not None
        reason = refused(with_rows(made, index, buffer.rows - 1))
        assert repr(buffer.tensors[0]) in reason or any(repr(tensor) in reason for tensor in buffer.tensors)


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual"])
def test_every_job_of_a_tight_cascade_is_needed(name: str) -> None:
    made = tight(name)
    for step in range(len(made.jobs)):
        copies = tuple(replace(copy, step=copy.step - (copy.step > step)) for copy in made.copies)
        buffers = tuple(replace(b, start=b.start - (b.start > step), end=max(b.end - (b.end > step), 1)) for b in made.buffers)
        jobs = made.jobs[:step] + made.jobs[step + 1 :]
        assert "needs row" in refused(replace(made, jobs=jobs, copies=copies, buffers=buffers))


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "resnet8"])
def test_a_job_before_the_one_that_makes_its_rows_is_refused(name: str) -> None:
    made = tight(name)
    graph = made.network.graph
    dependent = [
        step
        for step in range(1, len(made.jobs))
        if set(graph.parts[graph.index(made.jobs[step - 1].part)].outputs) & set(graph.parts[graph.index(made.jobs[step].part)].inputs)
    ]
    assert dependent
    for step in dependent:
        assert refused(swapped(made, step - 1, step))


def test_a_copy_that_is_overwritten_before_its_last_use_is_refused() -> None:
    made = tight("tiny_residual")
    copy = made.copies[0]
    source = next(buffer for buffer in made.buffers if made.network.inputs[0].tensor in buffer.tensors)
    assert "where the weights of 'stem' lie" in refused(replace(made, copies=(replace(copy, address=source.address), *made.copies[1:])))
    later = replace(made.copies[1], address=copy.address)
    reason = refused(replace(made, copies=(copy, later, *made.copies[2:])))
    assert (
        f"needs the weights of 'stem' at address {copy.address}, where the weights of {later.part!r} lie: keep the copy's bytes" in reason
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"step": 10**6}, "is at step 1000000: 0 to"),
        ({"step": -1}, "is at step -1"),
        ({"address": 8}, "multiples of 16 inside the arena of"),
        ({"address": -16}, "takes bytes -16 to"),
        ({"address": 1 << 40}, "inside the arena of"),
        ({"part": "nothing"}, "A copy is of part 'nothing', which has no weights: remove it"),
        ({"part": "add"}, "A copy is of part 'add', which has no weights: remove it"),
    ],
)
def test_a_copy_that_cannot_be_is_refused(change: dict[str, object], sentence: str) -> None:
    made = tight("tiny_residual")
    copy = replace(made.copies[0], **change)  # type: ignore[arg-type]  # one field of the right type each
    assert sentence in refused(replace(made, copies=(copy, *made.copies[1:])))


def test_a_copy_out_of_order_is_refused() -> None:
    made = tight("tiny_residual")
    assert "order them" in refused(replace(made, copies=made.copies[::-1]))


@pytest.mark.parametrize(
    ("rows", "sentence"), [((3, 3), "makes rows 3 to 3"), ((-1, 2), "makes rows -1 to 2"), ((0, 99), "can be chosen from")]
)
def test_rows_that_a_part_does_not_have_are_refused(rows: tuple[int, int], sentence: str) -> None:
    made = tight("tiny_residual")
    assert sentence in refused(replace(made, jobs=(replace(made.jobs[0], rows=rows), *made.jobs[1:])))


def test_a_rolling_buffer_for_the_networks_input_is_refused() -> None:
    made = tight("tiny_residual")
    index = next(i for i, b in enumerate(made.buffers) if made.network.inputs[0].tensor in b.tensors)
    rolled = replace(made.buffers[index], rows=4)
    assert "give it a whole buffer" in refused(replace(made, buffers=(*made.buffers[:index], rolled, *made.buffers[index + 1 :])))


def test_a_life_that_ends_before_the_last_use_is_refused() -> None:
    made = tight("tiny_residual")
    shorter = replace(made.buffers[0], end=made.buffers[0].end - 1)
    assert "let it live longer" in refused(replace(made, buffers=(shorter, *made.buffers[1:])))


def test_a_copy_after_the_parts_last_job_is_refused() -> None:
    made = tight("tiny_residual")
    last = replace(made.copies[0], step=len(made.jobs) - 1)
    assert "comes after the part's last job: remove it" in refused(replace(made, copies=(*made.copies, last)))


def test_a_second_copy_of_a_part_serves_the_jobs_behind_it() -> None:
    made = cascade("tiny_residual", cuts("tiny_residual", [], 2), staged=[0])
    (copy,) = made.copies
    steps = [step for step, job in enumerate(made.jobs) if job.part == copy.part]
    size, end = 1024, made.arena_size
    again = replace(made, copies=(copy, replace(copy, step=steps[3], address=end)), arena_size=end + size)
    assert refused(again) == ""
    assert outputs(lower(again)) == expected("tiny_residual")
    starts = [lower(again).programs[0].kernels[step].weights[0].start for step in steps]
    assert [start >= end for start in starts] == [False] * 3 + [True] * (len(steps) - 3)


def test_a_variable_has_no_rolling_buffer() -> None:
    made = tight("tiny_residual")
    graph = made.network.graph
    tensors = tuple(replace(t, kind=TensorKind.VARIABLE) if t.name == "stem" else t for t in graph.tensors)
    network = replace(made.network, graph=CascaderGraph(graph.parts, tensors))
    assert refused(schedule_layer_by_layer(network, made.accelerator)) == ""
    assert (
        refused(replace(made, network=network))
        == "Tensor 'stem' is there from the start with 9216 bytes but its buffer has 1536: enlarge it."
    )


NUMBERS = st.one_of(st.integers(-40, 40), st.sampled_from([-(1 << 40), 1 << 20, 1 << 31, 1 << 40]))


@settings(max_examples=few(400), deadline=None)
@given(st.data())
def test_any_numbers_in_a_cascade_are_refused_in_one_sentence_or_lowered(data: st.DataObject) -> None:
    plain = to_plain(tight("tiny_residual"))
    for _ in range(data.draw(st.integers(1, 3))):
        place, key = data.draw(st.sampled_from(numbers(plain)))
        place[key] += data.draw(NUMBERS)
    try:
        lower(checked(schedule_of(plain)))
    except InputError as error:
        reason = str(error)
        assert "\n" not in reason
        assert reason.endswith(".")


def checked(made: Schedule) -> Schedule:
    check_schedule(made)
    return made


def numbers(plain: Any) -> list[tuple[Any, Any]]:
    """Where every integer of the file stands: its object or list, and its key."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    found: list[tuple[Any, Any]] = []
    for key, value in items:
        found += [(plain, key)] if isinstance(value, int) and not isinstance(value, bool) else numbers(value)
    return found


@settings(max_examples=few(150), deadline=None)
@given(st.data())
def test_whatever_the_check_lets_pass_computes_the_network(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["tiny_conv", "tiny_residual"]))
    made = mutated(tight(name), data)
    if not refused(made):
        assert outputs(lower(made)) == expected(name)


def mutated(made: Schedule, data: st.DataObject) -> Schedule:
    """One small change: an address, the height of a rolling buffer, the order of jobs, their rows, a copy."""
    kind = data.draw(st.sampled_from(["address", "rows", "swap", "drop", "copy address", "copy step", "no copy", "job rows"]))
    if kind in ("address", "rows"):
        index = data.draw(st.integers(0, len(made.buffers) - 1))
        buffer = made.buffers[index]
        if kind == "address":
            changed = replace(buffer, address=buffer.address + 16 * data.draw(st.integers(-40, 40)))
        else:
            rows = max(1, (buffer.rows or 8) + data.draw(st.integers(-2, 2)))
            changed = replace(buffer, rows=rows, size=buffer.row_bytes * rows)
        return replace(made, buffers=(*made.buffers[:index], changed, *made.buffers[index + 1 :]), arena_size=made.arena_size + 1024)
    if kind.endswith("copy") or kind.startswith("copy"):
        index = data.draw(st.integers(0, len(made.copies) - 1))
        copies = list(made.copies)
        if kind == "no copy":
            del copies[index]
        else:
            copy = copies[index]
            shift = data.draw(st.integers(-20, 20))
            copies[index] = (
                Copy(copy.part, copy.step + shift, copy.address)
                if kind == "copy step"
                else replace(copy, address=copy.address + 16 * shift)
            )
        return replace(made, copies=tuple(sorted(copies, key=lambda copy: copy.step)))
    step = data.draw(st.integers(0, len(made.jobs) - 2))
    if kind == "swap":
        return swapped(made, step, data.draw(st.integers(step + 1, min(step + 4, len(made.jobs) - 1))))
    if kind == "drop":
        return replace(made, jobs=(*made.jobs[:step], made.jobs[step + 1], *made.jobs[step + 1 :]))
    first, last = made.jobs[step].rows or (0, 1)
    rows_of = (max(0, first + data.draw(st.integers(-2, 2))), last + data.draw(st.integers(-2, 2)))
    return replace(made, jobs=(*made.jobs[:step], replace(made.jobs[step], rows=rows_of), *made.jobs[step + 1 :]))
