"""Kernels that are kept from schedule to schedule change nothing: lowered anew each schedule gives the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from scheduling import DEFAULT, network

from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen import kept as module
from cascader.ethosu.codegen.kept import KeptKernels
from cascader.ethosu.codegen.lowering import lower, operations
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


@pytest.mark.parametrize("most", [module.MOST, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_schedule_becomes_the_same_programs_with_kernels_that_were_kept(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", most)
    kept = KeptKernels()
    assert len({made.copies for made in schedules(name)}) > 1 or name == "cpu"
    for made in schedules(name):
        found, whole = lower(made, checked=False, kept=kept), lower(made)
        assert found == whole
        assert layers(found) == layers(whole)
        assert operations(made, kept) == operations(made)


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_that_come_again_are_replayed_like_new_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptKernels()
    for most in (compiled._MOST_KNOWN, 3):
        monkeypatch.setattr(compiled, "_MOST_KNOWN", most)
        for made in schedules(name)[:4]:
            assert quick_cycles(lower(made, checked=False, kept=kept), SYSTEM) == replay_network(lower(made), SYSTEM).cycles


def test_a_kernel_at_another_address_is_another_kernel() -> None:
    kept = KeptKernels()
    made = schedules("tiny_residual")[0]
    moved = replace(made, buffers=tuple(replace(one, address=one.address + ALIGNMENT) for one in made.buffers))
    first, second = (lower(one, checked=False, kept=kept) for one in (made, moved))
    assert first != second == lower(moved, checked=False)


def kernels(program: Program) -> list[KernelOperation]:
    return [op for op in program.operations if isinstance(op, KernelOperation)]


@pytest.mark.parametrize("name", NETWORKS)
def test_what_a_kernel_was_made_of_asks_for_the_same_work(name: str) -> None:
    kept, device, moved = KeptKernels(), accelerator(DEFAULT), 0
    for made in schedules(name):
        for program in lower(made, checked=False, kept=kept).programs:
            for op in kernels(program):
                rows = [
                    flat_operation(one, device, DEFAULT_TIMING, is_known=False, modulus=PHASES * LARGEST_WORD)
                    for one in (op, program.origin(op))
                ]
                assert rows[0] == rows[1]
                moved += op is not program.origin(op)
    assert moved


@pytest.mark.parametrize("name", NETWORKS)
def test_the_decoder_has_the_same_work_for_kernels_that_were_kept(name: str) -> None:
    kept, device, known = KeptKernels(), accelerator(DEFAULT), 0
    for made in schedules(name):
        for found, whole in zip(lower(made, checked=False, kept=kept).programs, lower(made).programs, strict=True):
            assert stream_work(found, device) == stream_work(whole, device)
            known += len(stream_work(found, device))
    assert known


def test_a_program_that_was_checked_knows_no_other_kernels() -> None:
    for program in lower(schedules("tiny_residual")[0], kept=KeptKernels()).programs:
        assert not program.moved
        assert all(program.origin(op) is op for op in kernels(program))


def test_an_operation_that_took_the_place_of_another_one_was_made_of_nothing() -> None:
    (program,) = lower(schedules("tiny_residual")[0], checked=False, kept=KeptKernels()).programs
    others = [op.having(part_kernel=not op.part_kernel) for op in kernels(program)]
    changed = replace(program, moved={id(other): program.moved[id(op)] for op, other in zip(kernels(program), others, strict=True)})
    assert all(changed.origin(other) is other for other in others)


@pytest.mark.parametrize("name", NETWORKS)
def test_two_kernels_of_a_known_pair_are_coupled_as_the_pair_was(name: str) -> None:
    """Schedules of several arenas have the same kernels at other addresses, some of which meet there alone."""
    kept, device, found, again = KeptKernels(), accelerator(DEFAULT), dict[object, tuple[int, int]](), 0
    for made in schedules(name):
        shift = replace(made, buffers=tuple(replace(one, address=one.address + ALIGNMENT) for one in made.buffers))
        for one in (made, shift):
            kernels = operations(one, kept)
            for before, after in pairwise(kernels):
                if before is not None and after is not None:
                    pair = kept.pair(before, after)
                    assert pair is not None
                    coupled = block_distance(before, after, device), Dependency(before, after).limit
                    again += pair in found
                    assert found.setdefault(pair, coupled) == coupled
    assert again or name == "cpu"


def test_nothing_is_known_of_kernels_that_were_made_elsewhere() -> None:
    one, two, *_ = (kernel for kernel in operations(schedules("tiny_residual")[0]) if kernel is not None)
    assert KeptKernels().pair(one, two) is None
