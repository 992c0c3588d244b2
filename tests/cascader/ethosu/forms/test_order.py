"""Another order of parts: what depends on what stays, the bytes stay, and fewer of them are live at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations

import pytest
from cascades import outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import DEFAULT, network

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms import variants
from cascader.ethosu.forms.ordered import ordered
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from cascader.graph.memory_order import live_peak, thrifty_order
from npu_testbed.configs import load_timing_adapter
from npu_testbed.memory_options import DEFAULT_TIMING_ADAPTER
from validation.zoo import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)


@cache
def branches() -> Network:
    """Three branches of one image, each of them wide in the middle, two joined by a sum and all by a concatenation."""
    net = NetworkBuilder("branches")
    x = net.conv2d(net.input((1, 12, 12, 8), "image"), 16, activation="RELU6", name="stem")
    narrow = []
    for name in ("a", "b", "c"):
        wide = net.conv2d(x, 48, (1, 1), activation="RELU6", name=f"wide_{name}")
        narrow.append(net.conv2d(wide, 16, activation="RELU6", name=f"narrow_{name}"))
    joined = net.concat([net.conv2d(net.add(narrow[0], narrow[1], name="sum"), 16, activation="RELU6", name="behind"), narrow[2]])
    return import_network(net.finish([net.conv2d(joined, 8, name="last")]), DEFAULT)


def in_order(net: Network, names: tuple[str, ...]) -> Network:
    parts = tuple(net.graph.parts[net.graph.index(name)] for name in names)
    segments = tuple(replace(segment, parts=tuple(sorted(segment.parts, key=names.index))) for segment in net.segments)
    return replace(net, graph=CascaderGraph(parts, net.graph.tensors), segments=segments)


def needed(graph: CascaderGraph, name: str) -> set[str]:
    """The earlier parts that wrote what this one reads, or read or wrote what it writes."""
    own = graph.index(name)
    before = {index for read in graph.parts[own].inputs for index in graph.writers(read)}
    before |= {index for written in graph.parts[own].outputs for index in (*graph.writers(written), *graph.readers(written))}
    return {graph.parts[index].name for index in before if index < own}


@st.composite
def any_orders(draw: st.DrawFn, net: Network) -> tuple[str, ...]:
    """An order that keeps what depends on what."""
    waiting, done = [part.name for part in net.graph.parts], list[str]()
    while waiting:
        ready = [name for name in waiting if needed(net.graph, name) <= set(done)]
        chosen = draw(st.sampled_from(ready))
        waiting.remove(chosen)
        done.append(chosen)
    return tuple(done)


@settings(max_examples=40)
@given(any_orders(branches()))
def test_whatever_the_order_was_a_thriftier_one_computes_the_same_bytes(names: tuple[str, ...]) -> None:
    given_order = in_order(branches(), names)
    found = ordered(given_order)
    before, after = (live_peak(net.graph, [part.name for part in net.graph.parts]) for net in (given_order, found))
    assert after < before or found is given_order
    schedule = schedule_layer_by_layer(found, DEFAULT)
    check_schedule(schedule)
    assert outputs(lower(schedule)) == outputs(lower(schedule_layer_by_layer(branches(), DEFAULT)))


def test_the_wide_maps_of_two_branches_do_not_wait_for_each_other() -> None:
    names = [part.name for part in branches().graph.parts]
    wide_first = tuple(sorted(names, key=lambda name: (not name.startswith(("stem", "wide")), names.index(name))))
    worse = in_order(branches(), wide_first)
    assert live_peak(ordered(worse).graph, [p.name for p in ordered(worse).graph.parts]) < live_peak(worse.graph, wide_first)

    def orders(options: CascadeOptions) -> set[tuple[str, ...]]:
        forms = variants(worse, DEFAULT, SYSTEM, options)
        return {tuple(dict.fromkeys(part.name.split("/")[0] for part in form.graph.parts)) for form in forms}

    assert orders(CascadeOptions(order=False)) == {wide_first}
    assert orders(CascadeOptions()) == {wide_first, tuple(part.name for part in ordered(worse).graph.parts)}


def test_a_chain_keeps_its_order() -> None:
    assert ordered(network("tiny_conv")) is network("tiny_conv")


graphs = st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 4), max_size=3)), min_size=1, max_size=5)


@settings(max_examples=100)
@given(graphs)
def test_the_peak_of_an_order_is_what_is_held_byte_by_byte_and_no_order_beats_the_best_of_all(
    facts: list[tuple[int, set[int]]],
) -> None:
    """Part i makes tensor i of so many bytes and reads some earlier ones; tensors that nobody reads are outputs."""
    reads = [sorted(one for one in some if one < number) for number, (_, some) in enumerate(facts)]
    read = {one for some in reads for one in some}
    kinds = [TensorKind.INTERMEDIATE if number in read else TensorKind.OUTPUT for number in range(len(facts))]
    tensors = tuple(Tensor(f"t{n}", kinds[n], size, (size,), 1) for n, (size, _) in enumerate(facts))
    parts = tuple(Part(f"p{n}", tuple(f"t{one}" for one in some), (f"t{n}",)) for n, some in enumerate(reads))
    graph = CascaderGraph(parts, tensors)

    def held(order: tuple[int, ...]) -> int:
        most = 0
        for step in range(len(order)):
            made, later = order[: step + 1], order[step:]
            most = max(most, sum(facts[n][0] for n in made if n not in read or n == order[step] or any(n in reads[one] for one in later)))
        return most

    valid = [o for o in permutations(range(len(facts))) if all(o.index(one) < o.index(n) for n, some in enumerate(reads) for one in some)]
    for order in valid:
        assert live_peak(graph, [f"p{n}" for n in order]) == held(order)
    found = thrifty_order(
        graph, {f"p{n}": {f"p{one}" for one in some} for n, some in enumerate(reads)}, [[f"p{n}" for n in range(len(facts))]]
    )
    assert tuple(int(name[1:]) for name in found) in valid
