"""Forms of a network share what their layers cost: each has the costs that it has where nobody asked before."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from form_variants import variants
from row_graphs import schedule_groups
from scheduling import DEFAULT, network

from cascader.ethosu.cost import stripe_cost
from cascader.ethosu.cost.estimates import Estimates, shared_estimates
from cascader.ethosu.cost.neighbours import Neighbours
from cascader.ethosu.cost.stripe_cost import StripeCost
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.plan.depth_first import DepthFirstScheduler, Group
from npu_model.accelerator import accelerator
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
STAGED = list(product((False, True), repeat=2))


def costs(form: Network) -> list[object]:
    """Times of jobs in stripes of two rows, what neighbours among them share, and the best blocks of each kernel."""
    graph = row_graph(form)
    cost = StripeCost(form, graph, accelerator(DEFAULT), SYSTEM)
    neighbours = Neighbours(form, graph, cost, accelerator(DEFAULT))
    count = len(graph.parts)
    jobs = schedule_groups(DepthFirstScheduler(graph), [Group(at, min(at + 4, count) - 1, 2) for at in range(0, count, 4)])
    pairs = {(one.part, one.end - one.start, two.part, two.end - two.start): (one, two) for one, two in pairwise(jobs)}.values()
    shared = [neighbours.shared(*pair, before_staged=before, staged=staged) for pair in pairs for before, staged in STAGED]
    kernels = [(form.graph.index(name), kernel.operation) for name, kernel in form.kernels.items() if not kernel.transfer]
    blocks = [cost.blocks(*kernel, 4, staged=staged) for kernel in kernels for staged in (False, True)]
    return [*(cost.times(job.part, job.start, job.end) for job in jobs), *shared, *blocks]


@pytest.mark.parametrize("name", ["ds_cnn", "resnet8", "super_resolution"])
def test_a_form_costs_what_it_costs_where_no_other_form_was_asked_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = [network(name), *variants(network(name), DEFAULT, SYSTEM)[:4]]
    alone = []
    for form in forms:
        shared_estimates.cache_clear()
        alone.append(costs(form))
    shared_estimates.cache_clear()
    assert [costs(form) for form in forms] == alone
    # Of a form that is known nothing is asked again.
    monkeypatch.setattr(Estimates, "of", None)
    monkeypatch.setattr(Neighbours, "_together", None)
    monkeypatch.setattr(stripe_cost, "ranked", None)
    assert costs(forms[0]) == alone[0]


def test_layers_that_differ_in_what_their_stripes_depend_on_have_numbers_of_their_own() -> None:
    shared_estimates.cache_clear()
    form = network("resnet8")
    cost = StripeCost(form, row_graph(form), accelerator(DEFAULT), SYSTEM)
    operations = [part.payload.operation for part in form.graph.parts]
    unlike = {
        (one.kind, one.kernel, one.ifm.shape, one.ofm.shape, one.block, tuple(where.length for where in one.weights)) for one in operations
    }
    assert len({cost.layer(number) for number in range(len(operations))}) >= len(unlike) > 1
