"""The lower bound of cycles: no schedule that is searched undercuts it, and where one unit has all the work it is near."""

from __future__ import annotations

from functools import cache

import pytest

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.rewrites import variants
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.bound import least_cycles
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Task
from cascader.ethosu.search.wish import EVERYTHING
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import DepthFirstScheduler
from cascader.search.candidates import DraftOptions
from cascader.search.workers import workers
from npu_model.memory.system import MemorySystem
from sim import quick_cycles
from testbed.configs import load_timing_adapter
from testbed.memory_options import MemoryOptions
from testbed.models import load_model
from testbed.replaying import QuickReplay

SYSTEM = MemoryOptions().memory_system()
FAST = load_timing_adapter("off")
KINDS = (
    "zoo:ds_cnn",
    "zoo:resnet8",
    "portfolio:residual_int16",
    "portfolio:lstm_short",
    "portfolio:uint8_hard_swish",
    "portfolio:inception",
)
"""Convolutions of every kind, sums, tables, 16 bits, recurrence."""


@cache
def network(name: str, device: str) -> Network:
    return import_network(load_model(name).data, device)


def bound(form: Network, device: str, system: MemorySystem) -> int:
    return least_cycles(form, DepthFirstScheduler(row_graph(form)), device, system)


@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-128", "ethos-u55-256"])
@pytest.mark.parametrize("name", KINDS)
def test_no_form_takes_fewer_cycles_layer_by_layer_than_its_bound(name: str, device: str) -> None:
    for system in (SYSTEM, FAST):
        for form in variants(network(name, device), device, system, CascadeOptions()):
            replayed = quick_cycles(lower(schedule_layer_by_layer(form, device)), system)
            assert 0 < bound(form, device, system) <= replayed


@pytest.mark.parametrize("name", ["zoo:tiny_conv", "zoo:tiny_residual", "zoo:resnet8"])
@pytest.mark.parametrize("system", [SYSTEM, FAST], ids=["timed", "untimed"])
def test_no_candidate_of_a_search_takes_fewer_cycles_than_the_bound(name: str, system: MemorySystem) -> None:
    options = CascadeOptions(rungs=4, drafts=DraftOptions(moves=20))
    task = Task(network(name, "ethos-u55-128"), "ethos-u55-128", system, QuickReplay(system), options=options)
    with workers(1) as executor:
        found = search(explore(task, executor), EVERYTHING, executor)
    cycles = [quick_cycles(lower(candidate.schedule), system) for candidate in found.candidates]
    assert 0 < found.explored.least_cycles <= min(cycles)


def test_a_network_that_keeps_the_macs_busy_takes_little_more_than_its_bound() -> None:
    """Measured: 1.03 times."""
    whole = network("portfolio:mnist", "ethos-u55-32")
    replayed = quick_cycles(lower(schedule_layer_by_layer(whole, "ethos-u55-32")), FAST)
    assert replayed < 1.05 * bound(whole, "ethos-u55-32", FAST)
