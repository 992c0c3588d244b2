"""Tensors that live outside the arena: same outputs, no bytes of the arena, and the price of the memory where they live."""

from __future__ import annotations

import pytest
from cascades import cuts, expected, outputs
from cpu_networks import two_ends_network
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from made_schedules import make_schedule
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.allocate.moving import allocate
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.homes import home_bytes, homed_forms, in_arena, on_ports, with_homes
from cascader.ethosu.network.network import CpuPart, Home, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Wanted, wanted_home
from cascader.ethosu.schedule.file import from_json, to_json
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import CompilerOptions, compile_network, named_network
from cascader.frontends.vela.lift import lift
from cascader.plan.buffers import buffers
from cascader.plan.depth_first import DepthFirstScheduler, Group, group_table, stripe_jobs
from cascader.tensorir.one_arena import in_one_arena
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.program import RegionRole
from sim import counted_network, replay_network

SYSTEM = profile("u55_high_end").memory_system()
ENDS = ("input=ext", "output=sram")
NAMES = ("tiny_conv", "ds_cnn", "resnet8")


def homed(name: str, *homes: str) -> Network:
    return with_homes(network(name), [wanted_home(text, SYSTEM) for text in homes])


def whole(name: str, *homes: str) -> Schedule:
    return schedule_layer_by_layer(homed(name, *homes), DEFAULT)


def cascaded(form: Network, groups: tuple[Group, ...]) -> Schedule:
    scheduler = DepthFirstScheduler(row_graph(form))
    jobs = group_table(scheduler, groups)
    stores = buffers(scheduler, jobs, groups)
    _, addresses = allocate(stores.extents)
    return make_schedule(form, DEFAULT, scheduler.graph, stripe_jobs(jobs), stores, addresses)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("homes", [("input=ext",), ("output=ext",), ENDS])
def test_a_network_computes_the_same_wherever_its_ends_live(name: str, homes: tuple[str, ...]) -> None:
    assert outputs(lower(whole(name, *homes))) == expected(name)


@pytest.mark.law
@settings(max_examples=few(15), deadline=None)
@given(data=st.data())
def test_stripes_read_and_write_homes_as_they_do_the_arena(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    names = [tensor.name for tensor in row_graph(network(name)).tensors]
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    form = homed(name, *(f"{one}={data.draw(st.sampled_from(('sram', 'ext')))}" for one in chosen))
    borders = data.draw(st.lists(st.integers(1, len(form.graph.parts) - 1), unique=True, max_size=3))
    plan = cascaded(form, cuts(name, borders, data.draw(st.sampled_from((1, 2, 5)))))
    check_schedule(plan)
    lowered = lower(plan)
    assert outputs(lowered) == expected(name)
    assert {home.tensor for home in form.homes} == set(chosen)
    system = on_ports(SYSTEM, form.homes)
    replays = counted_network(lowered, system), replay_network(lowered, system)
    assert len({replay.cycles for replay in replays}) == 1
    # Moved behind the arena the same jobs are a schedule, too, which computes the same.
    together = in_one_arena(plan)
    check_schedule(together)
    assert outputs(lower(together)) == expected(name)


def test_a_tensor_outside_the_arena_takes_none_of_its_bytes() -> None:
    plain, off = (cascaded(form, cuts("tiny_conv", (), 1)) for form in (network("tiny_conv"), homed("tiny_conv", "input=ext")))
    (home,) = off.network.homes
    size = off.network.graph.tensor(home.tensor).size
    lowered = lower(off)
    assert off.arena_size < plain.arena_size
    assert counted_network(lowered, on_ports(SYSTEM, off.network.homes)).footprint.peak == off.arena_size
    assert home_bytes(off.network) == size
    regions = {region.index: (region.role, region.size) for region in lowered.programs[0].regions}
    assert regions[3] == (RegionRole.HOME, size)
    assert lowered.inputs[0].region == 3


def test_regions_are_numbered_in_the_order_in_which_a_runtime_hands_them_on() -> None:
    regions = {home.tensor: home.region for home in homed("tiny_conv", "output=sram", "input=ext").homes}
    form = network("tiny_conv")
    assert regions == {form.inputs[0].tensor: 3, form.outputs[0].tensor: 4}
    # What no runtime hands on comes behind.
    inner = next(tensor.name for tensor in network("resnet8").graph.tensors if tensor.kind.value == "intermediate")
    assert [home.region for home in homed("resnet8", f"{inner}=ext").homes] == [5]


def test_an_input_behind_the_slower_port_costs_more_cycles() -> None:
    plans = [whole("resnet8", f"input={memory}") for memory in ("sram", "ext")]
    fast, slow = (counted_network(lower(plan), on_ports(SYSTEM, plan.network.homes)) for plan in plans)
    plain = counted_network(lower(whole("resnet8")), SYSTEM)
    # The same memory takes the same time, but for commands: the region of the input is another one, so that other words set regions.
    words = [sum(replay.replays[0].program.words) for replay in (fast, plain)]
    assert words[0] != words[1]
    assert abs(fast.cycles - plain.cycles) <= plain.cycles // 1000
    assert max(fast.cycles, plain.cycles) < slow.cycles
    assert fast.beats.axi0_read == plain.beats.axi0_read > slow.beats.axi0_read


def test_a_schedule_file_keeps_homes() -> None:
    plan = whole("tiny_conv", *ENDS)
    text = to_json(plan)
    assert from_json(text) == plan
    with pytest.raises(InputError, match="edited"):
        from_json(text.replace('"memory": "ext"', '"memory": "xet"'))


def test_moving_tensors_back_into_the_arena_restores_the_network() -> None:
    form = network("resnet8")
    assert in_arena(homed("resnet8", *ENDS)) == form
    assert in_arena(form) is form
    assert with_homes(form, ()) is form


def test_a_form_without_a_named_tensor_is_left_out() -> None:
    form = network("resnet8")
    inner = next(tensor.name for tensor in form.graph.tensors if tensor.kind.value == "intermediate")
    assert list(homed_forms([form, network("tiny_conv")], [Wanted(inner, "ext", 1)])) == [homed("resnet8", f"{inner}=ext")]


@pytest.mark.parametrize(
    ("homes", "says"),
    [
        (("input",), "is not a home: write WHAT=MEMORY"),
        (("input=flash",), "choose sram .axi0. or ext .axi1."),
        (("nothing=ext",), "which the network does not have: write input, output, or one of"),
        (("input=ext", "input=sram"), "in ext and in sram: give it one home"),
    ],
)
def test_a_home_that_is_wrong_is_refused_in_a_sentence(homes: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        homed("tiny_conv", *homes)


def test_two_tensors_that_would_be_one_base_pointer_of_two_operators_are_refused() -> None:
    form = lift(named_network(compile_network(two_ends_network(), CompilerOptions(DEFAULT, legalise=True))))
    both = [Wanted("input", "ext", 1), Wanted("output", "ext", 1)]
    assert [home.region for one in both for home in with_homes(form, [one]).homes] == [3, 4, 4]
    with pytest.raises(InputError, match=r"Tensors 'first' and 'add_1' would both be base pointer 4, of different NPU operators"):
        with_homes(form, both)


def test_an_output_in_flash_and_a_tensor_of_the_cpu_are_refused() -> None:
    with pytest.raises(InputError, match="which OffChipFlash does not take: choose a memory that it can write"):
        with_homes(network("tiny_conv"), [Wanted("output", "OffChipFlash", 1, writable=False)])
    form = network("cpu")
    on_cpu = next(part.payload for part in form.graph.parts if isinstance(part.payload, CpuPart))
    with pytest.raises(InputError, match="on the CPU, which works in the arena"):
        with_homes(form, [Wanted(on_cpu.inputs[0].tensor, "ext", 1)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"region": 2}, "lives in region 2 behind port 1: regions 3 to 7"),
        ({"port": 5}, "lives in region 3 behind port 5"),
        ({"address": 8}, "lives at byte 8 of its region"),
        ({"region": 4}, "uses region 3 for tensor"),
    ],
)
def test_the_check_of_a_schedule_refuses_homes_that_cannot_be(change: dict[str, int], says: str) -> None:
    plan = whole("tiny_conv", "input=ext")
    (home,) = plan.network.homes
    with pytest.raises(InputError, match=says):
        check_schedule(replace(plan, network=replace(plan.network, homes=(replace(home, **change),))))


def test_the_check_refuses_homes_over_each_other_and_behind_two_ports() -> None:
    plan = whole("tiny_conv", *ENDS)
    one, two = plan.network.homes
    for second, says in ((Home(two.tensor, 3, "ext", 1), "lie over each other"), (Home(two.tensor, 3, "sram", 0), "behind both ports")):
        with pytest.raises(InputError, match=says):
            check_schedule(replace(plan, network=replace(plan.network, homes=(one, second))))
    with pytest.raises(InputError, match="by another port"):
        check_schedule(replace(plan, provenance=replace(plan.provenance, memory_system=SYSTEM)))
