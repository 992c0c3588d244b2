"""The choice of what leaves the arena: groups that fit and move least, as tried one by one, and plans that fit."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise

import pytest
from asked_for import choose, of_bytes
from few_examples import few_cases
from msgspec.structs import replace
from scheduling import DEFAULT, network

from cascader.ethosu.forms.planned import planned_bytes, planned_limit
from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Outer, wanted_home
from cascader.ethosu.search.request import SIZE
from cascader.ethosu.search.task import Task
from cascader.ethosu.spill import choice
from cascader.ethosu.spill.carried import is_dense, movable
from cascader.ethosu.spill.choice import Spiller
from cascader.ethosu.spill.spills import Spills, left_forms, spilled_forms
from cascader.frontends.tasks import network_task
from cascader.frontends.vela import import_network
from cascader.search.workers import workers
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.shapes import round_up
from sim import quick_cycles
from validation.builder import NetworkBuilder
from validation.portfolio import build

SYSTEM = profile("u55_high_end").memory_system()
DEVICE = accelerator(DEFAULT)
OUTER = Outer("ext", 1)
ENDS = (wanted_home("input=ext", SYSTEM), wanted_home("output=ext", SYSTEM))


def far_skip() -> Network:
    net = NetworkBuilder("far")
    head = x = net.conv2d(net.input((1, 24, 40, 3), "image"), 16)
    for channels in (16, 24, 16, 16):
        x = net.conv2d(x, channels, activation="RELU")
    return import_network(net.finish([net.conv2d(net.add(x, head), 3)]), DEFAULT)


@cache
def known(name: str) -> Network:
    return far_skip() if name == "far_skip" else network(name)


@cache
def spiller(name: str, *, homes: bool = True) -> Spiller:
    return Spiller(known(name), ENDS if homes else (), OUTER, DEVICE)


def fewest_moved(one: Spiller, parts: int, target: int) -> int | None:
    """Every division into groups, one by one."""
    found = []
    for count in range(parts):
        for borders in combinations(range(1, parts), count):
            ends = (0, *borders, parts)
            groups = [one._alone(first, end - 1) for first, end in pairwise(ends)]
            if all(group.bytes <= target for group in groups):
                found.append(sum(one._sizes[tensor] for group in groups for tensor in (*group.come, *group.go)))
    return min(found, default=None)


@pytest.mark.law
@pytest.mark.parametrize(("part", "name"), few_cases([2, 3, 4, 6, 9], ["tiny_conv", "tiny_residual", "far_skip"]))
def test_groups_move_least_of_all_divisions_that_fit(name: str, part: int) -> None:
    one, parts = spiller(name), len(known(name).graph.parts)
    target = planned_bytes(known(name), ENDS) * 2 // part
    groups = one._groups(target)
    moved = None if groups is None else sum(one._sizes[tensor] for group in groups for tensor in (*group.come, *group.go))
    assert moved == fewest_moved(one, parts, target)


@pytest.mark.parametrize("homes", [True, False])
@pytest.mark.parametrize("name", ["tiny_residual", "far_skip"])
def test_plans_fit_a_target_for_which_something_leaves_and_not_without(name: str, homes: bool) -> None:  # noqa: FBT001
    one = spiller(name, homes=homes)
    whole = planned_bytes(known(name), ENDS if homes else ())
    least = one.least(whole)
    assert least <= whole
    for target in {least, (least + whole) // 2, whole - 16}:
        made = one.fitting(target)
        if made is not None:
            assert planned_limit(one.placed(made)) <= target
            assert made.moved > 0
            for cut in made.cuts:
                fewer = one._carried([other for other in made.cuts if other != cut])
                assert fewer is None or one.planned(fewer) > target


def test_nothing_leaves_where_all_of_it_fits() -> None:
    one = spiller("ds_cnn")
    made = one.fitting(planned_bytes(network("ds_cnn"), ENDS))
    assert made is not None
    assert made.moved == 0


def test_targets_lie_between_what_is_possible_and_what_needs_no_spill() -> None:
    spills = Spills(OUTER)
    assert spills.targets(1600, 320) == (1200, 800, 528, 320)
    assert spills.within(1000, smallest=False).targets(1600, 320) == (912, 736)
    assert spills.within(600, smallest=False).targets(1600, 320) == (544, 448, 320)
    assert spills.within(350, smallest=False).targets(1600, 320) == (320,)
    assert spills.within(300, smallest=False).targets(1600, 320) == (320,)
    assert spills.within(None, smallest=True).targets(1600, 320) == (320,)
    assert spills.within(None, smallest=True).targets(320, 320) == ()


def test_a_least_target_that_ends_between_two_alignments_is_not_left_out() -> None:
    assert Spills(OUTER).within(None, smallest=True).targets(1600, 313) == (320,)
    assert Spills(OUTER).within(None, smallest=True).targets(315, 313) == ()


def test_spilled_forms_fit_the_targets_of_a_budget() -> None:
    form = far_skip()
    budget = planned_bytes(form, ENDS) * 3 // 4
    found = spilled_forms([form], ENDS, Spills(OUTER).within(budget, smallest=False), DEVICE)
    assert found
    assert all(planned_limit(one) <= budget for one in found)


def test_forms_of_the_next_target_stand_for_those_of_a_least_one_that_is_not_possible() -> None:
    form = import_network(build("classifier_uint8"), DEFAULT)
    one, whole = Spiller(form, (), OUTER, DEVICE), planned_bytes(form)
    assert one.fitting(round_up(one.least(whole), 16)) is None
    found = spilled_forms([form], (), Spills(OUTER).within(None, smallest=True), DEVICE)
    assert found
    assert min(map(planned_limit, found)) < whole * 3 // 4


@pytest.mark.parametrize("name", ["tiny_residual", "far_skip"])
def test_every_budget_near_the_least_has_the_forms_of_the_smallest_schedule(name: str) -> None:
    form, spills = known(name), Spills(OUTER)
    smallest = spilled_forms([form], ENDS, spills.within(None, smallest=True), DEVICE)
    assert smallest
    least = spiller(name).least(planned_bytes(form, ENDS))
    for budget in (least // 2, least - 16, least, least + 16, least * 3 // 2, 2 * least - 16):
        found = spilled_forms([form], ENDS, spills.within(budget, smallest=False), DEVICE)
        assert all(one in found for one in smallest)


def test_the_bytes_of_the_smallest_schedule_are_met_as_a_budget_and_named_where_they_are_not() -> None:
    """Its rolling plans hold fewer bytes than its groups do alone: nothing left the arena for a budget between the two."""
    device = "ethos-u55-64"
    siamese = import_network(build("siamese_batch"), device)
    task = network_task(of_bytes(siamese, device, SYSTEM, spill="ext"), siamese, lambda _: Provenance(), quick_cycles)
    with workers(1) as executor:
        smallest = choose(task, executor, optimise=SIZE).point
        assert choose(task, executor, smallest.memory).point.memory == smallest.memory
        with pytest.raises(InputError, match=f": {smallest.memory} bytes are the smallest arena reached; allow that much"):
            choose(task, executor, smallest.memory - 16)


def test_a_network_that_is_offered_no_outer_memory_has_the_forms_that_it_had() -> None:
    task = Task(network("tiny_residual"), DEFAULT, SYSTEM, len)  # type: ignore[arg-type]  # nothing is replayed
    assert task.within(1000, smallest=False) is task
    plain = [origin.network for origin in task.variants()]
    assert not any(part.name.endswith(("/away", "/back")) for form in plain for part in form.graph.parts)


@pytest.mark.parametrize("name", ["tiny_residual", "far_skip"])
def test_tensors_are_left_outside_until_plans_fit_and_each_that_came_back_fits_too(name: str) -> None:
    one = spiller(name)
    whole = planned_limit(one.placed(one._start))
    least = one.planned(replace(one._start, outside={**one._start.outside, **{tensor: tensor for tensor in movable(known(name))}}))
    assert one.left(whole) is None
    assert one.left(least - 1) is None
    for target in (least, (least + whole) // 2):
        made = one.left(target)
        assert made is not None
        assert planned_limit(made) <= target
        assert len(made.graph.parts) == len(known(name).graph.parts)
        outside = {home.tensor for home in made.homes} - set(one._start.outside)
        assert outside
        for tensor in outside:
            back = replace(one._start, outside={**one._start.outside, **{other: other for other in outside - {tensor}}})
            assert one.planned(back) > target


def heavy_end() -> Network:
    """Light layers on a large map, and layers with many weights on a small one."""
    net = NetworkBuilder("heavy")
    x = net.conv2d(net.input((1, 32, 32, 3), "image"), 32, (1, 1))
    x = net.conv2d(net.conv2d(x, 32, (1, 1)), 64, strides=(2, 2))
    for channels in (96, 96, 16):
        x = net.conv2d(x, channels)
    return import_network(net.finish([x]), DEFAULT)


def test_a_tensor_whose_stripes_would_read_weights_again_stays_outside() -> None:
    form = heavy_end()
    one = Spiller(form, ENDS, OUTER, DEVICE)
    target = planned_limit(one.placed(one._start)) // 4
    plain, weighed = one.left(target), one.left(target, weighed=True)
    assert plain is not None
    assert weighed is not None
    outside = [{home.tensor for home in made.homes} for made in (plain, weighed)]
    assert planned_limit(weighed) <= target
    stays = {name for name in movable(form) if one._reads_weights_again(name, target)}
    assert stays
    assert not stays <= outside[0]
    assert stays <= outside[1]
    # One of the largest maps lies between light layers, whose kernels have few weights.
    sizes = {name: form.graph.tensor(name).size for name in movable(form)}
    assert {name for name, size in sizes.items() if size == max(sizes.values())} - stays


def test_the_order_in_which_a_set_lists_tensors_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(movable(known("far_skip")))
    found = []
    for listed in (names, names[::-1]):
        monkeypatch.setattr(choice, "movable", lambda *_, listed=tuple(listed): listed)
        one = spiller("far_skip")
        made = one.left(planned_limit(one.placed(one._start)) * 3 // 4)
        assert made is not None
        found.append(made)
    assert len(names) > 1
    assert found[0] == found[1]


def test_forms_that_leave_tensors_outside_are_for_a_budget() -> None:
    form = known("far_skip")
    budget = planned_bytes(form, ENDS) * 3 // 2
    assert left_forms([form], ENDS, Spills(OUTER, budget), DEVICE)
    assert not left_forms([form], ENDS, Spills(OUTER), DEVICE)
    assert not left_forms([form], ENDS, Spills(OUTER, budget, smallest=True), DEVICE)


def test_a_tensor_with_bytes_that_no_kernel_writes_is_not_carried() -> None:
    """A transfer would read what another tensor left between its elements."""
    form = known("tiny_residual")
    name = min(movable(form))
    wider = [replace(tensor, size=tensor.size + 16) if tensor.name == name else tensor for tensor in form.graph.tensors]
    assert is_dense(form, name)
    assert not is_dense(form.with_parts({}, wider), name)
