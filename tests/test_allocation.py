from __future__ import annotations

import math
import random
from dataclasses import fields, replace
from itertools import count, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_data import shared_data

from cascader.allocate import Buffer, Fault, Problem, Solution, SolverParams, lower_bound, solve, validate
from cascader.allocate.problem import sections
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite

# The four buffers of the drawing in the problem module.
A, B = Buffer("a", 32, 0, 4), Buffer("b", 16, 0, 2)
C, D = Buffer("c", 16, 3, 10), Buffer("d", 32, 4, 10)
DRAWN = Problem((A, B, C, D))

SWITCHES = [field.name for field in fields(SolverParams) if field.type == "bool"]
COMBINATIONS = [SolverParams(**dict(zip(SWITCHES, chosen, strict=True))) for chosen in product((False, True), repeat=len(SWITCHES))]
BYTES = {"INT8": 1, "UINT8": 1, "BOOL": 1, "INT16": 2, "INT32": 4, "FLOAT32": 4}


@st.composite
def problems(draw: st.DrawFn, most: int) -> Problem:
    buffers = []
    for index in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, 6))
        size, length = draw(st.integers(1, 9)), draw(st.integers(1, 4))
        buffers.append(Buffer(f"b{index}", size, start, start + length, draw(st.sampled_from([1, 1, 2, 4]))))
    return Problem(tuple(buffers))


def fits(buffers: tuple[Buffer, ...], placed: list[int], capacity: int) -> bool:
    """Whether the buffers after the placed ones can be given addresses below ``capacity``: every address is tried."""
    if len(placed) == len(buffers):
        return True
    new = buffers[len(placed)]
    for address in range(0, capacity - new.size + 1, new.alignment):
        free = all(
            new.end <= old.start or old.end <= new.start or address + new.size <= at or at + old.size <= address
            for old, at in zip(buffers, placed, strict=False)
        )
        if free and fits(buffers, [*placed, address], capacity):
            return True
    return False


def optimum(problem: Problem) -> int:
    """The least peak, by trying all addresses under one capacity after the other."""
    return next(capacity for capacity in count() if fits(problem.buffers, [], capacity))


def network_problem(name: str) -> Problem:
    """The variable tensors of a network, its operators run in file order, one operator a step."""
    model = read_tflite((shared_data() / "models" / name).read_bytes())
    first, last = dict.fromkeys(model.inputs, 0), {}
    for step, op in enumerate(model.operators):
        for index in op.inputs + op.outputs:
            if index >= 0 and not model.tensors[index].data:
                first.setdefault(index, step)
                last[index] = step
    last |= dict.fromkeys(model.outputs, len(model.operators) - 1)
    tensors = {index: model.tensors[index] for index in sorted(first)}
    return Problem(
        tuple(
            Buffer(tensor.name, math.prod(tensor.shape) * BYTES[tensor.dtype], first[index], last.get(index, first[index]) + 1)
            for index, tensor in tensors.items()
        )
    )


def cut_problem(pieces: int, seed: int) -> Problem:
    """A rectangle of 64 KiB and 400 steps cut into ``pieces`` buffers: they fit together without a gap."""
    rng = random.Random(seed)
    boxes = [(0, 4096, 0, 400)]
    while len(boxes) < pieces:
        low, high, start, end = boxes.pop(rng.randrange(len(boxes)))
        if rng.random() < 0.5 and high - low > 1:
            cut = rng.randrange(low + 1, high)
            boxes += [(low, cut, start, end), (cut, high, start, end)]
        elif end - start > 1:
            cut = rng.randrange(start + 1, end)
            boxes += [(low, high, start, cut), (low, high, cut, end)]
        else:
            boxes.append((low, high, start, end))
    rng.shuffle(boxes)
    return Problem(tuple(Buffer(str(i), 16 * (high - low), start, end) for i, (low, high, start, end) in enumerate(boxes)))


def test_the_drawn_buffers_reach_their_lower_bound() -> None:
    assert lower_bound(DRAWN) == 48
    assert solve(DRAWN).peak == 48
    assert validate(DRAWN, solve(DRAWN)) is None


def test_buffers_that_never_meet_share_their_bytes() -> None:
    assert solve(Problem((B, D))) == Solution((0, 0), 32)


def test_a_buffer_that_dies_when_another_is_born_makes_room_for_it() -> None:
    assert solve(Problem((A, replace(D, start=A.end)))).peak == 32


def test_no_buffers_need_no_bytes() -> None:
    assert solve(Problem(())) == Solution((), 0)
    assert lower_bound(Problem(())) == 0


def test_the_last_buffer_of_a_stack_is_not_rounded_up() -> None:
    problem = Problem((Buffer("x", 20, 0, 1), Buffer("y", 10, 0, 1)))
    assert solve(problem).peak == lower_bound(problem) == 36


def test_sections_are_the_largest_sets_of_buffers_that_are_live_together() -> None:
    assert sections(DRAWN.buffers) == ((0, 1), (0, 2), (2, 3))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems(most=5))
def test_the_solver_reaches_the_optimum_of_brute_force(problem: Problem) -> None:
    solution = solve(problem)
    assert validate(problem, solution) is None
    assert lower_bound(problem) <= solution.peak == optimum(problem)


@pytest.mark.parametrize("params", COMBINATIONS, ids=lambda p: "+".join(name for name in SWITCHES if getattr(p, name)) or "none")
def test_every_combination_of_tricks_gives_a_valid_solution(params: SolverParams) -> None:
    rng = random.Random(7)
    for number in (1, 5, 9, 40):
        starts = [rng.randrange(number) for _ in range(number)]
        problem = Problem(tuple(Buffer(f"b{s}", rng.randrange(1, 200), s, s + 1 + rng.randrange(5)) for s in starts))
        solution = solve(problem, params)
        assert validate(problem, solution) is None
        assert solution.peak >= lower_bound(problem)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems(most=6))
def test_branch_and_bound_alone_is_exact_with_and_without_skipping_alike_buffers(problem: Problem) -> None:
    peaks = set()
    for params in COMBINATIONS:
        if params.exact:
            solution = solve(problem, params)
            assert validate(problem, solution) is None
            peaks.add(solution.peak)
    assert len(peaks) == 1


def test_each_trick_is_worth_having() -> None:
    def total(params: SolverParams) -> int:
        return sum(solve(cut_problem(pieces, seed), params).peak for pieces in (9, 40) for seed in range(6))

    none = SolverParams(**dict.fromkeys(SWITCHES, False))
    orders = replace(none, many_orders=True)
    climb = replace(orders, local_search=True)
    assert total(none) > total(orders) > total(climb) >= total(SolverParams())
    assert total(replace(none, exact=True, skip_same=True)) < total(none)


def test_stretches_that_no_buffer_spans_are_searched_separately() -> None:
    first = cut_problem(40, 3).buffers
    later = tuple(replace(b, start=b.start + 400, end=b.end + 400) for b in cut_problem(40, 5).buffers)
    together = solve(Problem(first + later))
    assert together.peak == max(solve(Problem(first)).peak, solve(Problem(later)).peak)


@pytest.mark.parametrize("pieces", [8, 12, 30])
@pytest.mark.parametrize("seed", range(4))
def test_a_rectangle_cut_in_pieces_is_put_together_again(pieces: int, seed: int) -> None:
    assert solve(cut_problem(pieces, seed)).peak == 65536


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_and_fifty_pieces_come_within_seven_percent(seed: int) -> None:
    problem = cut_problem(150, seed)
    solution = solve(problem)
    assert validate(problem, solution) is None
    assert solution.peak <= 1.07 * 65536


def test_the_tensors_of_every_reference_network_reach_the_lower_bound() -> None:
    names = sorted(path.name for path in (shared_data() / "models").glob("*.tflite"))
    assert len(names) >= 10
    for name in names:
        problem = network_problem(name)
        solution = solve(problem)
        assert validate(problem, solution) is None, name
        assert solution.peak == lower_bound(problem), name


def test_the_same_problem_gives_the_same_addresses() -> None:
    problem = cut_problem(80, 2)
    assert solve(problem) == solve(problem)


def test_a_capacity_that_is_met_changes_nothing() -> None:
    assert solve(replace(DRAWN, capacity=48)) == solve(DRAWN)


def test_a_capacity_that_is_exceeded_names_the_smallest_peak() -> None:
    with pytest.raises(InputError, match=r"reach 48 bytes but the capacity is 47 \(no placement needs less\): allow 48 bytes"):
        solve(replace(DRAWN, capacity=47))


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [(("x", 0, 0, 1), "0 bytes"), (("x", 1, 2, 2), "until before 2"), (("x", 1, 0, 1, 0), "alignment 0")],
)
def test_a_buffer_without_bytes_or_life_is_refused(arguments: tuple[str, int, int, int], pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        Buffer(*arguments)


@pytest.mark.parametrize(
    ("problem", "solution", "fault"),
    [
        (DRAWN, Solution((0, 32, 32, 0), 48), None),
        (DRAWN, Solution((0, 32, 32), 48), Fault("bad count")),
        (DRAWN, Solution((-16, 32, 32, 0), 48), Fault("bad address", ("a",))),
        (DRAWN, Solution((0, 40, 32, 0), 56), Fault("bad alignment", ("b",))),
        (DRAWN, Solution((0, 16, 32, 0), 48), Fault("bad overlap", ("a", "b"))),
        (DRAWN, Solution((0, 32, 32, 16), 48), Fault("bad overlap", ("c", "d"))),
        (DRAWN, Solution((0, 32, 32, 0), 64), Fault("bad peak")),
        (replace(DRAWN, capacity=40), Solution((0, 32, 32, 0), 48), Fault("bad capacity")),
    ],
)
def test_the_validator_names_the_fault(problem: Problem, solution: Solution, fault: Fault | None) -> None:
    assert validate(problem, solution) == fault
