"""The cascader's cost of stripes beside the simulator: the errors of timelines and of sums, copies, rows and CPU operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest
from made_schedules import make_schedule
from prefetching import prefetch
from row_graphs import schedule_groups
from scheduling import DEFAULT, network

from cascader.allocate.moving import allocate
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.blockdep import Dependency
from cascader.ethosu.cost.estimates import shared_estimates
from cascader.ethosu.cost.neighbours import Neighbours
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.network.homes import on_ports, with_homes
from cascader.ethosu.network.network import CONSTANTS, CpuPart
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from cascader.graph.row_graph import RowGraph
from cascader.plan.buffers import Buffers, storages
from cascader.plan.depth_first import DepthFirstScheduler, Group, StripeJob, first_read
from cascader.plan.jobs import Copy
from cascader.prefetch.free_space import Room
from npu_model.accelerator import accelerator
from npu_model.program import DmaOperation
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim import quick_cycles, replay_network
from sim.replay import OperationReplay
from validation.builder import NetworkBuilder

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)


@cache
def rows_and_cost(name: str) -> tuple[RowGraph, StripeCost]:
    """With the blocks that the network came with, so that only the cycles are compared."""
    graph = row_graph(network(name))
    return graph, StripeCost(network(name), graph, accelerator(DEFAULT), SYSTEM, choose_blocks=False)


def groups_of(name: str, length: int, rows: int) -> tuple[Group, ...]:
    """Groups of ``length`` parts, with stripes of ``rows`` rows."""
    count = len(rows_and_cost(name)[0].parts)
    return tuple(Group(first, min(first + length, count) - 1, rows) for first in range(0, count, length))


def simulated(name: str, groups: Sequence[Group], copies: tuple[Copy, ...] = ()) -> tuple[OperationReplay, ...]:
    graph = rows_and_cost(name)[0]
    jobs = schedule_groups(DepthFirstScheduler(graph), groups)
    stores = storages(DepthFirstScheduler(graph), jobs, groups)
    peak, addresses = allocate([store.extent for store in stores], moves=0)
    copies = tuple(Copy(copy.part, copy.step, copy.address + peak) for copy in copies)
    schedule = make_schedule(network(name), DEFAULT, graph, jobs, Buffers.of(stores, len(jobs)), addresses, copies)
    (replay,) = replay_network(lower(schedule), SYSTEM).replays
    return replay.operations


@cache
def errors(name: str, length: int, rows: int) -> tuple[float, float, float]:
    """Relative errors of the sum of all stripes' costs, of their timeline, and of that with neighbours overlapped; constants at home."""
    graph, cost = rows_and_cost(name)
    jobs = schedule_groups(DepthFirstScheduler(graph), groups_of(name, length, rows))
    neighbours = Neighbours(network(name), graph, cost, accelerator(DEFAULT))

    def shared(step: int, before: bool, now: bool) -> int:  # noqa: FBT001  # as every Shared
        return neighbours.shared(jobs[step - 1], jobs[step], before_staged=before, staged=now)

    simulator = simulated(name, groups_of(name, length, rows))[-1].finished
    total = sum(cost.times(job.part, job.start, job.end).direct for job in jobs)
    times, room = [cost.times(job.part, job.start, job.end) for job in jobs], Room([], [], len(jobs), 16)
    timelines = prefetch(times, [], room).cycles, prefetch(times, [], room, shared).cycles
    return total / simulator - 1, timelines[0] / simulator - 1, timelines[1] / simulator - 1


CASES = [
    pytest.param(name, length, rows, id=f"{name}, {text}")
    for name in ("super_resolution", "ds_cnn", "resnet8")
    for length, rows, text in ((1, 1 << 20, "layer by layer"), (4, 4, "four parts"), (6, 8, "six parts"))
    if (name, length) != ("super_resolution", 6)
]


@pytest.mark.parametrize(("name", "length", "rows"), CASES)
def test_the_timeline_is_within_four_per_cent_of_the_simulator(name: str, length: int, rows: int) -> None:
    """Measured: -0.7 and -0.7 % (super_resolution), 3.7, -0.8 and 2.7 % (ds_cnn), -1.0, -1.7 and -1.6 % (resnet8)."""
    assert -0.02 <= errors(name, length, rows)[1] <= 0.04


@pytest.mark.parametrize(("name", "length", "rows"), CASES)
def test_the_timeline_is_too_low_by_up_to_a_twentieth_with_what_neighbours_share(name: str, length: int, rows: int) -> None:
    """Nearly all of the difference to the bare timeline is what kernels are thought to share that read weights from home.

    Measured: -0.7 and -0.9 % (super_resolution), -1.0, -3.7 and -1.9 % (ds_cnn), -1.5, -4.0 and -2.4 % (resnet8).
    """
    _, timeline, overlapped = errors(name, length, rows)
    assert -0.05 <= overlapped <= timeline


@pytest.mark.parametrize(("name", "length", "rows"), CASES)
def test_the_sum_of_stripes_is_too_high_by_up_to_17_per_cent_as_it_does_not_see_weights_fetched_ahead(
    name: str, length: int, rows: int
) -> None:
    """The simulator fetches weights while the kernel before still runs, and so does the timeline, by tail and lead.

    Measured: -0.3 and 2.1 % (super_resolution), 8.0, 12.9 and 17.4 % (ds_cnn), 10.0, 17.4 and 8.6 % (resnet8).
    """
    total, timeline, _ = errors(name, length, rows)
    assert timeline < total <= 0.175


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "resnet8", "super_resolution"])
def test_what_a_whole_draft_is_expected_to_take_is_within_three_per_cent_of_its_replay(name: str) -> None:
    """With its copies, its own blocks and what neighbours share, at every third memory limit of a frontier.

    Measured: -1.8 to -1.3 % (tiny_residual), -2.1 to -0.7 % (ds_cnn), -3.0 to -1.4 % (resnet8), 0.0 to 1.0 % (super_resolution).
    """
    cascader = Cascader(network(name), DEFAULT, SYSTEM)
    found = [best for limit in cascader.limits()[::3] for best in cascader.drafts_at(limit)[:1]]
    assert any(one.copies for one in found)
    errors = [one.cycles / quick_cycles(lower(cascader.schedule(one)), SYSTEM) - 1 for one in found]
    assert min(errors) >= -0.031
    assert max(errors) <= 0.015


def test_a_copy_with_the_memory_to_itself_takes_the_simulator_the_cycles_that_the_cost_says_within_one_period() -> None:
    """The first part's constants, before the first job: whatever else reads the home memory would slow the copy down.

    A period is that of the home memory's pulse gate: the copy's end waits for the next one to open. Measured: 1387 and 1230.
    """
    graph, cost = rows_and_cost("super_resolution")
    operations = simulated("super_resolution", groups_of("super_resolution", 1, 1 << 20), (Copy(graph.parts[0].name, 0, 0),))
    (copy,) = (o for o in operations if isinstance(o.op, DmaOperation))
    gate = SYSTEM.ports[SYSTEM.port_of(CONSTANTS)].pulse
    assert gate is not None
    assert 0 <= copy.finished - copy.issued - cost.transfer_cycles(0) <= gate.on + gate.off


def test_the_cost_of_a_stripe_grows_with_its_rows_but_by_less_than_a_stripe_more() -> None:
    graph, cost = rows_and_cost("super_resolution")
    for index, part in enumerate(graph.parts):
        if not part.atomic and part.align == 1:
            cycles = [times.staged - times.staged_lead for times in (cost.times(index, 0, rows) for rows in (4, 8, 16))]
            assert cycles[0] < cycles[1] < cycles[2]
            assert cycles[2] < 2 * cycles[1] < 4 * cycles[0]


def test_a_cpu_operator_costs_the_npu_nothing() -> None:
    graph, cost = rows_and_cost("cpu")
    (index,) = (i for i, part in enumerate(network("cpu").graph.parts) if isinstance(part.payload, CpuPart))
    assert graph.parts[index].atomic
    assert not any(cost.times(index, 0, 1).line)
    assert cost.constant_bytes(index) == 0


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_what_a_job_takes_and_neighbours_share_does_not_depend_on_what_was_asked_before(name: str) -> None:
    """Stripes at the borders read fewer rows than those of as many rows between."""
    graph = row_graph(network(name))
    jobs = schedule_groups(DepthFirstScheduler(graph), groups_of(name, 4, 2))

    def asked(steps: list[int]) -> dict[int, tuple[object, int]]:
        shared_estimates.cache_clear()
        cost = StripeCost(network(name), graph, accelerator(DEFAULT), SYSTEM)
        neighbours = Neighbours(network(name), graph, cost, accelerator(DEFAULT))
        pairs = {step: (jobs[step - 1], jobs[step]) for step in steps}
        return {
            step: (cost.times(two.part, two.start, two.end), neighbours.shared(one, two, before_staged=False, staged=False))
            for step, (one, two) in pairs.items()
        }

    steps = list(range(1, min(len(jobs), 60)))
    assert asked(steps) == asked(steps[::-1])


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8"])
def test_kernels_that_read_nothing_of_each_other_depend_on_each_other_in_no_stripe(name: str) -> None:
    graph = row_graph(network(name))
    neighbours = Neighbours(network(name), graph, StripeCost(network(name), graph, accelerator(DEFAULT), SYSTEM), accelerator(DEFAULT))
    jobs = [StripeJob(number, 0, height) for number, part in enumerate(graph.parts) for height in {1, part.rows}]
    apart = [(one, two) for one, two in product(jobs, jobs) if first_read(graph, one.part, two) is None]
    kernels = [tuple(neighbours._operation(job, whole=False) for job in pair) for pair in apart]
    found = [Dependency(one, two) for one, two in kernels if one and two]
    assert found
    assert {(one.limit, *one.pair) for one in found} == {(Dependency.none().limit,)}


def test_a_cpu_operator_is_coupled_with_no_kernel() -> None:
    graph, cost = rows_and_cost("cpu")
    pairs = Neighbours(network("cpu"), graph, cost, accelerator(DEFAULT))
    (index,) = (i for i, part in enumerate(network("cpu").graph.parts) if isinstance(part.payload, CpuPart))
    jobs = [StripeJob(number, 0, graph.parts[number].rows) for number in (index - 1, index, index + 1)]
    assert pairs._coupling(jobs[0], jobs[1], reads=True) is None
    assert pairs._coupling(jobs[1], jobs[2], reads=True) is None


def test_a_stripe_whose_maps_are_in_the_memory_of_the_constants_keeps_that_busy_though_these_are_copied() -> None:
    form = with_homes(network("tiny_conv"), [wanted_home("input=ext", SYSTEM)])
    system = on_ports(SYSTEM, form.homes)
    (reader,) = form.graph.consumers(form.inputs[0].tensor)
    graph = row_graph(form)
    cost = StripeCost(form, graph, accelerator(DEFAULT), system)
    for number, part in enumerate(form.graph.parts):
        times = cost.times(number, 0, graph.parts[number].rows)
        assert (times.staged_home > 0) == (part is reader)
        assert times.staged_contended >= max(times.staged, 2 * times.staged_home)
    alone, inside = StripeCost(network("tiny_conv"), graph, accelerator(DEFAULT), SYSTEM), form.graph.index(reader.name)
    assert alone.times(inside, 0, graph.parts[inside].rows).staged_home == 0


@pytest.mark.parametrize("device", ["ethos-u65-256", "ethos-u65-512"])
def test_cores_that_take_their_own_channels_read_a_pools_input_together(device: str) -> None:
    """Two cores share a pool's channels. As if each read all of them, the estimate was up to 1.6 times the replay."""
    net = NetworkBuilder("pool")
    form = import_network(net.finish([net.max_pool(net.input((1, 112, 112, 64), "image"), (3, 3), strides=(2, 2))]), device)
    system = load_memory_system("Ethos_U65_High_End", "Sram_Only")
    graph = row_graph(form)
    estimate = StripeCost(form, graph, accelerator(device), system).times(0, 0, graph.parts[0].rows).direct
    replayed = quick_cycles(lower(schedule_layer_by_layer(form, device)), system)
    assert estimate == pytest.approx(replayed, rel=0.05)
