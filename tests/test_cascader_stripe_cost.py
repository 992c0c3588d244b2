"""The cascader's cost of stripes beside the simulator: the errors of timelines and of sums, and rates worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from scheduling import DEFAULT, network

from cascader.ethosu.cascaded import make_schedule
from cascader.ethosu.lowering import lower
from cascader.ethosu.network import CONSTANTS, CpuPart
from cascader.ethosu.rows import row_graph
from cascader.ethosu.stripe_cost import StripeCost, cycles_per_word
from cascader.overlap import allocate
from cascader.prefetch import prefetch
from cascader.pull import Group, PullScheduler, StripeJob, schedule_groups
from cascader.room import Room
from cascader.row_graph import RowGraph
from cascader.schedule import Copy
from cascader.storage import storages
from npu_model.accelerator import accelerator
from npu_model.memory import Memory, Pulse
from npu_model.program import DmaOperation
from sim import replay_network
from sim.replay import OperationReplay
from testbed.configs import load_timing_adapter
from testbed.memory_options import DEFAULT_TIMING_ADAPTER

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


def simulated(name: str, jobs: tuple[StripeJob, ...], copies: tuple[Copy, ...] = ()) -> tuple[OperationReplay, ...]:
    graph = rows_and_cost(name)[0]
    stores = storages(graph, jobs)
    peak, addresses = allocate([store.extent for store in stores], moves=0)
    places = {tensor: address for store, address in zip(stores, addresses, strict=True) for tensor in store.tensors}
    rolling = {tensor: store.rows for store in stores for tensor in store.tensors}
    copies = tuple(Copy(copy.part, copy.step, copy.address + peak) for copy in copies)
    schedule = make_schedule(network(name), DEFAULT, graph, jobs, places, rolling, copies)
    (replay,) = replay_network(lower(schedule), SYSTEM).replays
    return replay.operations


@cache
def errors(name: str, length: int, rows: int) -> tuple[float, float]:
    """Relative errors of the sum of all stripes' costs and of their timeline, constants read from home."""
    graph, cost = rows_and_cost(name)
    jobs = schedule_groups(PullScheduler(graph), groups_of(name, length, rows))
    simulator = simulated(name, jobs)[-1].finished
    total = sum(cost.direct_cycles(job.part, job.start, job.end) for job in jobs)
    times = [cost.times(job.part, job.start, job.end) for job in jobs]
    return total / simulator - 1, prefetch(times, [], Room([], [], len(jobs), 16)).cycles / simulator - 1


CASES = [
    pytest.param(name, length, rows, id=f"{name}, {text}")
    for name in ("super_resolution", "ds_cnn", "resnet8")
    for length, rows, text in ((1, 1 << 20, "layer by layer"), (4, 4, "four parts"), (6, 8, "six parts"))
    if (name, length) != ("super_resolution", 6)
]


@pytest.mark.parametrize(("name", "length", "rows"), CASES)
def test_the_timeline_is_at_most_a_fourteenth_above_the_simulator_and_not_below(name: str, length: int, rows: int) -> None:
    """Measured: 0.8 and 0.9 % (super_resolution), 6.6, 6.2 and 5.3 % (ds_cnn), 0.7, 0.2 and 0.5 % (resnet8).

    The small kernels of ds_cnn begin before the one before has stored its last blocks, which a timeline does not see. A
    share of that taken off every kernel would put resnet8 below the simulator.
    """
    assert 0 <= errors(name, length, rows)[1] <= 0.07


@pytest.mark.parametrize(("name", "length", "rows"), CASES)
def test_the_sum_of_stripes_is_too_high_by_up_to_a_quarter_as_it_does_not_see_weights_fetched_ahead(
    name: str, length: int, rows: int
) -> None:
    """The simulator fetches weights while the kernel before still runs, and so does the timeline, by tail and lead.

    Measured: 1.2 and 3.9 % (super_resolution), 12.3, 22.7 and 23.3 % (ds_cnn), 11.9, 20.0 and 11.0 % (resnet8).
    """
    total, timeline = errors(name, length, rows)
    assert timeline < total <= 0.25


def test_a_copy_with_the_memory_to_itself_takes_the_simulator_the_cycles_that_the_cost_says_within_one_period() -> None:
    """The first part's constants, before the first job: whatever else reads the home memory would slow the copy down.

    A period is that of the home memory's pulse gate: the copy's end waits for the next one to open. Measured: 1387 and 1230.
    """
    graph, cost = rows_and_cost("super_resolution")
    jobs = schedule_groups(PullScheduler(graph), groups_of("super_resolution", 1, 1 << 20))
    operations = simulated("super_resolution", jobs, (Copy(graph.parts[0].name, 0, 0),))
    (copy,) = (o for o in operations if isinstance(o.op, DmaOperation))
    gate = SYSTEM.ports[SYSTEM.port_of(CONSTANTS)].pulse
    assert gate is not None
    assert 0 <= copy.finished - copy.issued - cost.transfer_cycles(0) <= gate.on + gate.off


def test_the_cost_of_a_stripe_grows_with_its_rows_but_by_less_than_a_stripe_more() -> None:
    graph, cost = rows_and_cost("super_resolution")
    for index, part in enumerate(graph.parts):
        if not part.atomic and part.align == 1:
            cycles = [cost.compute_cycles(index, 0, rows) for rows in (4, 8, 16)]
            assert cycles[0] < cycles[1] < cycles[2]
            assert cycles[2] < 2 * cycles[1] < 4 * cycles[0]


def test_a_cpu_operator_costs_the_npu_nothing() -> None:
    graph, cost = rows_and_cost("cpu")
    (index,) = (i for i, part in enumerate(network("cpu").graph.parts) if isinstance(part.payload, CpuPart))
    assert graph.parts[index].atomic
    assert (cost.compute_cycles(index, 0, 1), cost.direct_cycles(index, 0, 1), cost.constant_bytes(index)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (Memory("a word per cycle", 0, 0), 1),
        (Memory("half a word per cycle", 0, 0, cycles_per_word=Fraction(2)), 2),
        (Memory("one burst of 8 words at a time, 64 cycles after its address", 64, 0, max_reads=1), (64 + 8) / 8),
        (Memory("32 bursts at a time hide the latency", 64, 0, max_reads=32), 1),
        (Memory("50 words per 500 cycles: the seventh burst crosses the cap", 0, 0, pulse=Pulse(400, 100, 50)), 500 / 56),
    ],
    ids=lambda value: value.name if isinstance(value, Memory) else None,
)
def test_a_long_stream_goes_at_the_pace_of_its_slowest_bound(memory: Memory, expected: float) -> None:
    assert cycles_per_word(memory) == pytest.approx(expected)
