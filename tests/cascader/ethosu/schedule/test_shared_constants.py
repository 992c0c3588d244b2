"""Shared constants: kernels with the same weights, as the steps of an unrolled recurrent network have, read one copy."""

from __future__ import annotations

from functools import cache

import pytest
from asked_for import choose, load_task
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import staged_bytes, staged_content
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.plan.jobs import Copy
from cascader.search.workers import workers
from npu_model.errors import InputError
from npu_model.program import DmaOperation, KernelOperation
from npu_model.shapes import round_up
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs

ARENA = 1


@cache
def recurrent() -> Schedule:
    return schedule_layer_by_layer(load_task("portfolio:lstm_short").network, "ethos-u55-128")


def sharing(network: Network) -> list[list[str]]:
    """Names of the parts that have the same constants, where more than one has."""
    groups: dict[tuple[bytes, ...], list[str]] = {}
    for part in network.graph.parts:
        payload = ethosu_part(part)
        if payload is not None and staged_bytes(payload.operation):
            groups.setdefault(staged_content(payload.operation, network.constants), []).append(part.name)
    return [names for names in groups.values() if len(names) > 1]


def with_copy(plan: Schedule, names: list[str]) -> Schedule:
    """The schedule with the constants of some parts copied once, behind all else, before the first job."""
    payload = ethosu_part(next(part for part in plan.network.graph.parts if part.name == names[0]))
    assert payload is not None
    copy = Copy(names[0], 0, plan.arena_size, tuple(names[1:]))
    return replace(plan, copies=(copy,), arena_size=round_up(plan.arena_size + staged_bytes(payload.operation), 16))


def test_steps_of_a_recurrent_network_read_one_copy_and_compute_the_same() -> None:
    names = max(sharing(recurrent().network), key=len)
    shared = with_copy(recurrent(), names)
    check_schedule(shared)
    assert from_json(to_json(shared)) == shared
    (program,) = lower(shared).programs
    copies = [op for op in program.operations if isinstance(op, DmaOperation) and not op.to_shram]
    readers = [op for op in program.operations if isinstance(op, KernelOperation) and op.weights and op.weights[0].region == ARENA]
    assert (len(copies), len(readers)) == (1, len(names))
    inputs = seeded_inputs(lower(recurrent()), 1, 1)
    expected, found = (functional_outputs(lower(plan), inputs) for plan in (recurrent(), shared))
    assert all((found[0][name] == array).all() for name, array in expected[0].items())


def test_a_copy_is_shared_by_parts_with_the_same_constants_alone() -> None:
    one, two = (names[0] for names in sharing(recurrent().network)[:2])
    with pytest.raises(InputError, match="whose constants are others: leave it out"):
        check_schedule(with_copy(recurrent(), [one, two]))
    with pytest.raises(InputError, match="which is not a kernel: leave it out"):
        check_schedule(with_copy(recurrent(), [one, "nothing"]))


def test_the_search_copies_shared_constants_once_where_the_arena_has_room_for_them() -> None:
    task = load_task("portfolio:lstm_short")
    with workers(1) as executor:
        plan = choose(task, executor).point.schedule
    assert any(copy.sharing for copy in plan.copies)
