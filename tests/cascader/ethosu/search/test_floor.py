"""The floor of a budget: below it a budget is refused before anything is searched, and no schedule is ever below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asked_for import schedule
from command_line import call, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from cascader.ethosu.network.homes import with_homes
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search import choice
from cascader.ethosu.search.byte_bound import least_floor
from cascader.ethosu.search.floor import Floor, interface_floor, require_room
from cascader.frontends.vela import import_network
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from validation.builder import NetworkBuilder
from validation.portfolio import build

NAMES = ("mnist", "cpu_heads", "cpu_words", "flatten_fc", "concat_rows", "lstm_states")


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins to search fails."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the search has begun")

    monkeypatch.setattr(choice, "search", fail)


def known(name: str) -> bool:
    try:
        build(name)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("name", [name for name in NAMES if known(name)])
def test_no_schedule_is_below_the_floor_and_the_floor_names_what_is_there(name: str) -> None:
    network = import_network(build(name))
    floor = interface_floor(network)
    smallest = schedule(f"portfolio:{name}", optimise="Size", effort="quick", processes=1)
    assert floor.bytes <= least_floor(DepthFirstScheduler(row_graph(network))).bytes <= smallest.arena_size
    assert floor.bytes <= schedule_layer_by_layer(network, "ethos-u55-128").arena_size
    sizes = [port.size for port in (*network.inputs, *network.outputs)]
    assert floor.bytes >= max(sizes)
    assert floor.tensors
    schedule(f"portfolio:{name}", budget=smallest.arena_size, effort="quick", processes=1)


@pytest.mark.usefixtures("no_search")
def test_a_budget_below_the_input_is_refused_before_the_search_with_its_name(tmp_path: Path) -> None:
    said = refusal("schedule", "portfolio:mnist", "--arena-cache-size", 783, "-o", tmp_path / "s.json")
    assert "783 is below 784 bytes, which every schedule needs at once for the inputs ('digit')" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_search")
def test_a_budget_below_what_the_cpu_holds_is_refused_with_the_operator(tmp_path: Path) -> None:
    floor = interface_floor(import_network(build("cpu_last")))
    said = refusal("compile", "portfolio:cpu_last", "--arena-cache-size", floor.bytes - 1, "--output-dir", tmp_path / "out")
    assert f"is below {floor.bytes} bytes" in said
    assert "operands and results of DEPTH_TO_SPACE on the CPU" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_search")
def test_a_budget_below_a_layer_that_is_not_cut_is_refused_with_the_layer(tmp_path: Path) -> None:
    """The vector behind a flattened image is read whole, however the layers before it are cut."""
    net = NetworkBuilder("large")
    wide = net.conv2d(net.input((1, 8, 8, 4), "image"), 64, activation="RELU")
    source = tmp_path / "net.tflite"
    source.write_bytes(net.finish([net.fully_connected(net.flatten(wide), 10, name="logits")]))
    said = refusal("schedule", source, "--arena-cache-size", 2048, "-o", tmp_path / "s.json")
    assert "is below 4096 bytes, which every schedule needs at once for the operands and results of layer 'logits'" in said


def test_what_lies_outside_the_arena_does_not_count() -> None:
    network = import_network(build("mnist"))
    tensor = network.inputs[0].tensor
    assert interface_floor(network).tensors == ("digit",)
    assert interface_floor(network, frozenset({tensor})).bytes == network.outputs[0].size
    system = profile("u55_high_end").memory_system()
    assert interface_floor(with_homes(network, [wanted_home("input=ext", system)])).bytes == network.outputs[0].size


def test_a_budget_below_an_input_is_met_where_the_input_lives_outside_the_arena(tmp_path: Path) -> None:
    net = NetworkBuilder("homed")
    source = tmp_path / "net.tflite"
    source.write_bytes(net.finish([net.conv2d(net.input((1, 32, 32, 8), "image"), 4, strides=(2, 2))]))
    words = ("schedule", source, "--arena-cache-size", 4096, "-o", tmp_path / "s.json", "--effort", "quick")
    assert "4096 is below 8192 bytes, which every schedule needs at once for the inputs ('image')" in refusal(*words)
    assert call(*words, "--home", "input=ext").status == 0


@settings(max_examples=50)
@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_exactly_the_budgets_below_a_floor_are_refused(budget: int, needed: int) -> None:
    floor = Floor(needed, "inputs", ("image",))
    if budget >= needed:
        require_room(budget, floor)
    else:
        with pytest.raises(InputError, match=f"is below {needed} bytes"):
            require_room(budget, floor)
    require_room(None, floor)


@pytest.mark.usefixtures("other_ways_are_tried")
@pytest.mark.parametrize(("rows", "named"), [(32, ("input=ext",)), (48, ("input=ext",)), (64, ("input=ext",))])
def test_a_refusal_names_the_homes_that_would_do_with_their_bytes(rows: int, named: tuple[str, ...], tmp_path: Path) -> None:
    net = NetworkBuilder("wide_input")
    x = net.conv2d(net.input((1, rows, rows, 8), "image"), 8, strides=(4, 4))
    (tmp_path / "net.tflite").write_bytes(net.finish([net.conv2d(x, 4, strides=(2, 2))]))
    words = ("schedule", tmp_path / "net.tflite", "-o", tmp_path / "made.json", "--arena-cache-size", 4 * rows * rows)
    said = refusal(*words)
    for option in named:
        size = re.search(rf"arena reached; allow that much. With other options it fits: --home {option} \(([\d,]+) bytes, ", said)
        assert size is not None
        assert int(size[1].replace(",", "")) <= 4 * rows * rows
    assert call(*words, "--home", "input=ext").status == 0
