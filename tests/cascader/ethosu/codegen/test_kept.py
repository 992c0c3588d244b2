"""Kernels that are kept from schedule to schedule change nothing: lowered anew each schedule gives the same, and replays alike."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen import kept as module
from cascader.ethosu.codegen.kept import KeptKernels
from cascader.ethosu.codegen.lowering import _places, kernels, lower, replayable
from cascader.ethosu.codegen.stripes import stripe
from cascader.ethosu.cost.blockdep import Dependency, block_distance
from cascader.ethosu.schedule.later_copies import with_later_copies
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.cost.block_jobs import PHASES
from npu_model.cost.flat_operation import LARGEST_WORD, flat_operation
from npu_model.memory.timing_adapter import profile
from npu_model.program import KernelOperation, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.timing import DEFAULT_TIMING
from npu_model.weight_stream.work import stream_work
from sim import quick_cycles, replay_network
from sim.fast import compiled

SYSTEM = profile("u55_high_end").memory_system()
NETWORKS = "tiny_residual", "ds_cnn", "cpu"


@cache
def schedules(name: str) -> tuple[Schedule, ...]:
    """Schedules of a network in arenas of several sizes, some with a copy issued later, the first once more in the end."""

    def made() -> Iterator[Schedule]:
        plans = Cascader(network(name), DEFAULT, SYSTEM)
        limits = plans.limits()
        for limit in (limits[0], limits[len(limits) // 2], limits[-1]):
            for candidate in plans.schedules_at(limit)[:2]:
                yield candidate.schedule
                yield from (later for _, later in zip(range(2), (one for _, one in with_later_copies(candidate.schedule)), strict=False))

    found = tuple(made())
    return *found, found[0]


def layers(lowered: CompiledNetwork) -> list[tuple[str, ...]]:
    return [program.names for program in lowered.programs]


def others_are_equal(one: Program, other: Program) -> bool:
    """Whether two Programs have the same words and are the same but for their kernels."""
    pairs = zip(one.operations, other.operations, strict=True)
    alike = (type(a) is type(b) if isinstance(a, KernelOperation) else a == b for a, b in pairs)
    return all(alike) and replace(one, operations=other.operations) == other


def operations(schedule: Schedule) -> list[KernelOperation | None]:
    """The kernels of a schedule's jobs, none of them kept."""
    kept = KeptKernels()
    return [kernel and kept.operation(kernel) for kernel in kernels(schedule, kept)]


@pytest.mark.parametrize("most", [module.MOST, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_schedule_becomes_the_same_operations_with_kernels_that_were_kept(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", most)
    kept = KeptKernels()
    assert len({made.copies for made in schedules(name)}) > 1 or name == "cpu"
    for made in schedules(name):
        found, whole = replayable(made, kept), lower(made)
        assert all(others_are_equal(*programs) for programs in zip(found.programs, whole.programs, strict=True))
        assert layers(found) == layers(whole)
        assert [one and kept.operation(one) for one in kernels(made, kept)] == operations(made)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_kernel_that_was_kept_is_the_stripe_on_the_places_of_its_tensors(name: str) -> None:
    kept, forms, jobs = KeptKernels(), set[object](), 0
    for made in schedules(name):
        parts, places = made.network.kernels, _places(made)
        for job, kernel in zip(made.jobs, kernels(made, kept), strict=True):
            if kernel is not None:
                part = parts[job.part]
                assert kept.operation(kernel) == stripe(part, *(job.rows or (0, part.axis.extent(part.operation.ofm.shape))), places)
                forms.add(kernel.template)
                jobs += 1
    assert len(forms) < jobs


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_replayable_takes_the_cycles_of_the_schedule(name: str, is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    kept = KeptKernels()
    if not is_compiled:
        monkeypatch.setattr(compiled, "_CORE", None)
    for most in (compiled._MOST_KNOWN, 3):
        monkeypatch.setattr(compiled, "_MOST_KNOWN", most)
        for made in schedules(name)[:4]:
            assert quick_cycles(replayable(made, kept), SYSTEM) == replay_network(lower(made), SYSTEM).cycles


def test_a_kernel_at_another_address_is_another_kernel() -> None:
    kept = KeptKernels()
    made = schedules("tiny_residual")[0]
    moved = replace(made, buffers=tuple(replace(one, address=one.address + ALIGNMENT) for one in made.buffers))
    first, second = ([one and kept.operation(one) for one in kernels(schedule, kept)] for schedule in (made, moved))
    assert first != second == operations(moved)


def kernels_of(program: Program) -> list[KernelOperation]:
    return [op for op in program.operations if isinstance(op, KernelOperation)]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_kernel_that_replays_like_another_one_asks_for_the_same_work(name: str) -> None:
    kept, device, moved = KeptKernels(), accelerator(DEFAULT), 0
    for made in schedules(name):
        for found, whole in zip(replayable(made, kept).programs, lower(made).programs, strict=True):
            for op, real in zip(kernels_of(found), kernels_of(whole), strict=True):
                rows = [
                    flat_operation(one, device, DEFAULT_TIMING, is_known=False, modulus=PHASES * LARGEST_WORD)
                    for one in (op, found.origin(op), real)
                ]
                assert rows[0] == rows[1] == rows[2]
                assert (op.blockdep, op.shram) == (real.blockdep, real.shram)
                moved += op != real
    assert moved


@pytest.mark.parametrize("name", NETWORKS)
def test_the_decoder_has_the_same_work_for_kernels_that_were_kept(name: str) -> None:
    kept, device, known = KeptKernels(), accelerator(DEFAULT), 0
    for made in schedules(name):
        for found, whole in zip(replayable(made, kept).programs, lower(made).programs, strict=True):
            assert stream_work(found, device) == stream_work(whole, device)
            known += len(stream_work(found, device))
    assert known


def test_a_program_that_goes_somewhere_knows_no_other_kernels() -> None:
    for program in lower(schedules("tiny_residual")[0]).programs:
        assert not program.moved
        assert all(program.origin(op) is op for op in kernels_of(program))


def test_an_operation_that_took_the_place_of_another_one_was_made_of_nothing() -> None:
    (program,) = replayable(schedules("tiny_residual")[0]).programs
    others = [op.having(part_kernel=not op.part_kernel) for op in kernels_of(program)]
    changed = replace(program, moved={id(other): program.moved[id(op)] for op, other in zip(kernels_of(program), others, strict=True)})
    assert all(changed.origin(other) is other for other in others)


@pytest.mark.parametrize("name", NETWORKS)
def test_two_kernels_of_a_known_pair_are_coupled_as_the_pair_was(name: str) -> None:
    """Schedules of several arenas have the same kernels at other addresses, some of which meet there alone."""
    kept, device, found, again = KeptKernels(), accelerator(DEFAULT), dict[object, tuple[int, int]](), 0
    for made in schedules(name):
        shift = replace(made, buffers=tuple(replace(one, address=one.address + ALIGNMENT) for one in made.buffers))
        for one in (made, shift):
            for before, after in pairwise(kernels(one, kept)):
                if before is not None and after is not None:
                    pair, pairs = kept.pair(before, after), (kept.operation(before), kept.operation(after))
                    coupled = block_distance(*pairs, device), Dependency(*pairs).limit
                    again += pair in found
                    assert found.setdefault(pair, coupled) == coupled
    assert again or name == "cpu"
