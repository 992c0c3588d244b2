"""Tensors that transfers carry out of the arena and back: the same outputs, whatever leaves, whenever it comes back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cascades import expected, outputs, smallest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_schedules import make_schedule
from scheduling import DEFAULT, network

from cascader.allocate.moving import allocate
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.homes import on_ports
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Outer, Wanted
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.spill.carried import Carried, CarriedCut, carried, movable, read_once
from cascader.ethosu.spill.choice import Spiller
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.plan.buffers import buffers
from cascader.plan.depth_first import DepthFirstScheduler, Group, group_table, stripe_jobs
from npu_model.accelerator import accelerator
from npu_model.memory.timing_adapter import profile
from npu_model.program import DmaOperation
from sim import counted_network, replay_network
from sim.functional import run
from sim.hazards import network_hazards
from validation.builder import NetworkBuilder

SYSTEM = profile("u55_high_end").memory_system()
DEVICE = accelerator(DEFAULT)
OUTER = Outer("ext", 1)
NAMES = ("tiny_residual", "ds_cnn")


def possible(before: Network) -> list[CarriedCut]:
    graph = before.graph
    return [CarriedCut(name, part.name) for name in sorted(movable(before)) for part in graph.consumers(name)]


def placed(before: Network, chosen: list[CarriedCut], ahead: int = 0) -> tuple[Carried, Network]:
    made = Carried(before, {})
    for cut in chosen:
        made = carried(made, cut, DEVICE, ahead) or made
    return made, Spiller(before, (), OUTER, DEVICE).placed(made)


def scheduled(form: Network, groups: tuple[Group, ...]) -> Schedule:
    scheduler = DepthFirstScheduler(row_graph(form))
    jobs = group_table(scheduler, groups)
    stores = buffers(scheduler, jobs, groups)
    _, addresses = allocate(stores.extents)
    return make_schedule(form, DEFAULT, scheduler.graph, stripe_jobs(jobs), stores, addresses)


def divided(parts: int, borders: list[int], rows: int) -> tuple[Group, ...]:
    ends = [0, *sorted(border for border in borders if border < parts), parts]
    return tuple(Group(first, end - 1, rows) for first, end in pairwise(ends) if first < end)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_whatever_is_carried_in_whatever_stripes_the_network_computes_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    before = network(name)
    chosen = data.draw(st.lists(st.sampled_from(possible(before)), unique=True, max_size=4))
    made, form = placed(before, chosen, data.draw(st.sampled_from((0, 1, 3))))
    count = len(form.graph.parts)
    borders = data.draw(st.lists(st.integers(1, count - 1), unique=True, max_size=3))
    plan = scheduled(form, divided(count, borders, data.draw(st.sampled_from((1, 2, 5)))))
    check_schedule(plan)
    lowered = lower(plan)
    assert outputs(lowered) == expected(name)
    assert not network_hazards(lowered)
    system = on_ports(SYSTEM, form.homes)
    replays = counted_network(lowered, system), replay_network(lowered, system)
    assert len({replay.cycles for replay in replays}) == 1
    moved = [one for one in lowered.programs[0].operations if isinstance(one, DmaOperation) and not one.to_shram and one.source.region]
    assert sum(one.length for one in moved) <= made.moved  # a last row that a stride leaves out stays where it is
    assert bool(moved) == bool(made.cuts)
    assert to_json(from_json(to_json(plan))) == to_json(plan)


def test_a_tensor_leaves_once_and_comes_back_for_each_reader_that_asks() -> None:
    before = network("tiny_residual")
    name, readers = next((name, readers) for name in sorted(movable(before)) if len(readers := before.graph.consumers(name)) == 2)
    size = before.graph.tensor(name).size
    once, twice = ([CarriedCut(name, reader.name) for reader in some] for some in (readers[1:], readers))
    assert placed(before, once)[0].moved == 2 * size
    made, form = placed(before, twice)
    assert made.moved == 3 * size
    assert len(form.graph.parts) == len(before.graph.parts) + 3
    assert [home.tensor for home in form.homes] == [f"{name}/outside"]
    # One cut is not made twice, and the order of cuts changes nothing but their numbers.
    assert placed(before, twice[::-1])[0].moved == made.moved


def test_rows_leave_while_the_next_parts_read_them() -> None:
    before = network("tiny_residual")
    name = next(name for name in sorted(movable(before)) if len(before.graph.consumers(name)) == 2)
    _, form = placed(before, [CarriedCut(name, before.graph.consumers(name)[1].name)])
    scheduler = DepthFirstScheduler(row_graph(form))
    jobs = [form.graph.parts[job.part].name for job in stripe_jobs(group_table(scheduler, (Group(0, len(form.graph.parts) - 1, 1),)))]
    away, reader = f"{name}/outside/away", before.graph.consumers(name)[0].name
    assert jobs.index(reader) < len(jobs) - 1 - jobs[::-1].index(away)


@pytest.mark.parametrize("ahead", [0, 2])
def test_transfers_that_run_ahead_have_rows_more(ahead: int) -> None:
    before = network("ds_cnn")
    cut = possible(before)[0]
    _, form = placed(before, [cut], ahead)
    graph = row_graph(form)
    back = next(number for number, tensor in enumerate(graph.tensors) if tensor.name.endswith("/outside/0"))
    reader = next(part for part in graph.parts if part.name == cut.reader)
    plain = next(part for part in row_graph(before).parts if part.name == cut.reader)
    needs = next(needs for tensor, needs in reader.inputs if tensor == back)
    assert needs.taps == plain.inputs[0][1].taps + ahead


def two_readers(width: int) -> Network:
    net = NetworkBuilder("two")
    image = net.input((1, 9, width, 3), "image")
    return import_network(net.finish([net.conv2d(image, 8), net.conv2d(image, 4, (1, 1))]), DEFAULT)


@pytest.mark.parametrize(("width", "is_transfer"), [(16, True), (7, False)])
def test_an_input_outside_is_brought_once_for_all_readers(width: int, *, is_transfer: bool) -> None:
    """A row of 21 bytes begins at no multiple of 16, so that a kernel copies it."""
    before = two_readers(width)
    (port,) = before.inputs
    once = read_once(Carried(before, {port.tensor: port.tensor}), port.tensor, DEVICE)
    assert once is not None
    form = Spiller(before, (Wanted(port.tensor, "ext", 1),), OUTER, DEVICE).placed(once)
    (reader,) = form.graph.consumers(port.tensor)
    assert isinstance(reader.payload, EthosuPart)
    assert reader.payload.transfer == is_transfer
    made = smallest(form, on_ports(SYSTEM, form.homes))
    check_schedule(made)
    lowered, plain = lower(made), lower(smallest(before, SYSTEM))
    assert not network_hazards(lowered)
    image = np.random.default_rng(3).integers(-128, 128, (1, 9, width, 3)).astype(np.int8)
    one, other = (list(run(program, [image]).values()) for program in (lowered, plain))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert counted_network(lowered, on_ports(SYSTEM, form.homes)).cycles == replay_network(lowered, on_ports(SYSTEM, form.homes)).cycles


def test_an_input_with_one_reader_is_read_where_it_is() -> None:
    before = network("tiny_conv")
    (port,) = before.inputs
    assert read_once(Carried(before, {port.tensor: port.tensor}), port.tensor, DEVICE) is None


def test_a_spilled_network_is_searched_as_any_other() -> None:
    before = network("ds_cnn")
    _, form = placed(before, possible(before))
    found = smallest(form, on_ports(SYSTEM, form.homes))
    check_schedule(found)
    assert outputs(lower(found)) == expected("ds_cnn")


def _is_carried_bytes_free(form: Network) -> bool:
    return all(tensor.row_bytes == 0 for tensor in row_graph(form).tensors if tensor.name.endswith("/outside"))


def test_what_is_outside_takes_no_byte_of_the_arena() -> None:
    before = network("ds_cnn")
    assert _is_carried_bytes_free(placed(before, possible(before))[1])
