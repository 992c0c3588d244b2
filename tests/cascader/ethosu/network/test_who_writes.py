"""Tensors that several parts write: every job reads what the network means, whatever the order of the jobs."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import ethosu_part, tensor_reads, tensor_writes
from cascader.ethosu.network.overlaps import byte_numbers
from cascader.ethosu.network.overwriting import overwriting_parts
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import Part, TensorKind
from npu_model.errors import InputError
from validation.portfolio import build


@cache
def padded() -> Schedule:
    """Four kernels fill the border of a tensor, whose strips overlap at the corners."""
    return schedule_layer_by_layer(import_network(build("pair_pad_pool")), "ethos-u55-128")


def exchanged(made: Schedule, first: str, second: str) -> Schedule:
    names = [job.part for job in made.jobs]
    jobs = list(made.jobs)
    a, b = names.index(first), names.index(second)
    jobs[a], jobs[b] = jobs[b], jobs[a]
    return replace(made, jobs=tuple(jobs))


def test_strips_that_overlap_at_a_corner_are_written_in_the_order_of_the_network() -> None:
    check_schedule(padded())
    pairs = [(first, second) for first, second, _ in overwriting_parts(padded().network)]
    assert pairs
    for first, second in pairs:
        with pytest.raises(InputError, match=r"'max_pool_1' reads bytes of tensor .* where the network means other ones"):
            check_schedule(exchanged(padded(), first, second))


def touched(part: Part, tensor: str, *, written: bool) -> set[int]:
    """The bytes of a tensor that a part reads or writes, one by one."""
    payload = ethosu_part(part)
    if payload is None:
        return set()
    uses = tensor_writes(payload) if written else tensor_reads(payload)
    return {int(byte) for name, fm in uses if name == tensor for byte in byte_numbers(fm)}


@pytest.mark.parametrize("name", ["pair_pad_pool", "lstm_short"])
def test_a_pair_are_two_parts_of_which_the_later_one_writes_bytes_that_the_earlier_one_uses(name: str) -> None:
    network = import_network(build(name))
    expected = set()
    for tensor in network.graph.tensors:
        uses = [(touched(part, tensor.name, written=False), touched(part, tensor.name, written=True)) for part in network.graph.parts]
        names = [part.name for part in network.graph.parts]
        for later, (_, writes) in enumerate(uses):
            for earlier in range(later + 1):
                meets = writes & uses[earlier][0] or (earlier < later and writes & uses[earlier][1])
                expected |= {(names[earlier], names[later], tensor.name)} if meets else set()
            if tensor.kind is TensorKind.VARIABLE:
                expected |= {(names[earlier], names[later], tensor.name) for earlier in range(later) if uses[earlier][1] & uses[later][0]}
    assert expected
    assert set(overwriting_parts(network)) == expected


def test_strips_that_do_not_meet_are_written_in_any_order() -> None:
    pairs = {frozenset(pair[:2]) for pair in overwriting_parts(padded().network)}
    apart = [("pad#1", "pad#2"), ("pad#3", "pad#4")]
    assert not pairs.intersection(map(frozenset, apart))
    for first, second in apart:
        check_schedule(exchanged(padded(), first, second))
