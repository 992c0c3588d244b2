"""Channel stripes: the same bytes from slices of channels, the multiply-accumulates that are said, and which blocks are cut."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest
from cascades import require_same_bytes
from few_examples import few_cases
from scheduling import DEFAULT

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.by_peak import CUTS, Candidate, PeakChoice, PeakTerms, State, by_addresses, by_peak
from cascader.ethosu.forms.channel_stripes import Stripes, blocks, in_channel_stripes
from cascader.ethosu.forms.placed import MANY_PARTS, placed_peak
from cascader.ethosu.forms.planned import Peaks, planned_bytes, planned_front, planned_peak, planned_within
from cascader.ethosu.forms.recomputed import WORTHWHILE, _chosen, _placed, recomputed
from cascader.ethosu.network.network import Network
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from validation.builder import NetworkBuilder

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)
DEVICE = accelerator(DEFAULT)


@cache
def bottlenecks(kind: str = "int8") -> Network:
    """Two inverted bottlenecks: one of 3x3 with a stride, whose channels fill no bricks, and a larger one of 5x5."""
    net = NetworkBuilder("bottlenecks", kind)
    x = net.conv2d(net.input((1, 19, 14, 3), "image"), 11, activation="RELU6")
    x = net.conv2d(x, 50, (1, 1), activation="RELU6")
    x = net.conv2d(net.depthwise(x, (3, 3), strides=(2, 2), activation="RELU6"), 12, (1, 1))
    wide = net.conv2d(x, 64, (1, 1), activation="RELU6")
    return import_network(net.finish([net.conv2d(net.depthwise(wide, (5, 5), activation="RELU6"), 9, (1, 1))]), DEFAULT)


@cache
def with_skip(kind: str = "int8", *, first: bool = False) -> Network:
    """An inverted bottleneck and its sum with its input, which is the ``first`` operand or the second one."""
    net = NetworkBuilder("skip", kind)
    skip = net.conv2d(net.input((1, 15, 14, 3), "image"), 24)
    x = net.conv2d(skip, 50, (1, 1), activation="RELU6")
    x = net.conv2d(net.depthwise(x, activation="RELU6"), 24, (1, 1))
    x = net.add(skip, x) if first else net.add(x, skip)
    return import_network(net.finish([net.conv2d(x, 8, (3, 3), strides=(2, 2))]), DEFAULT)


def cut(network: Network, stripes: Stripes) -> Network:
    made = in_channel_stripes(network, {block.expansion.name: stripes for block in blocks(network)}, DEVICE, SOURCES)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("stripes", "kind"), few_cases([Stripes(1, 16), Stripes(2, 32), Stripes(4, 48), Stripes(100, 16)], ["int8", "uint8", "int16"])
)
def test_stripes_compute_the_same_layer_by_layer_and_in_the_smallest_arena(kind: str, stripes: Stripes) -> None:
    require_same_bytes(bottlenecks(kind), cut(bottlenecks(kind), stripes), SYSTEM)


@pytest.mark.parametrize(("stripes", "kind"), few_cases([Stripes(1, 16), Stripes(2, 32), Stripes(4, 48)], ["int8", "uint8", "int16"]))
@pytest.mark.parametrize("first", [False, True])
def test_a_sum_with_a_skip_runs_in_the_stripes_of_its_block(kind: str, stripes: Stripes, first: bool) -> None:  # noqa: FBT001  # a parameter of pytest
    network = with_skip(kind, first=first)
    (block,) = blocks(network)
    assert block.sum is not None
    made = cut(network, stripes)
    assert len(made.graph.parts) == len(network.graph.parts) + block.count(stripes) - 4
    assert made.macs == network.macs + block.macs(stripes)
    assert block.kernels[2].ofm not in {tensor.name for tensor in made.graph.tensors}
    require_same_bytes(network, made, SYSTEM)


def test_a_sum_of_a_tensor_that_others_read_too_stays_whole() -> None:
    net = NetworkBuilder("kept")
    skip = net.conv2d(net.input((1, 15, 14, 3), "image"), 24)
    x = net.conv2d(net.depthwise(net.conv2d(skip, 50, (1, 1), activation="RELU6")), 24, (1, 1))
    network = import_network(net.finish([net.conv2d(net.add(x, skip), 8), net.conv2d(x, 4)]), DEFAULT)
    assert [block.sum for block in blocks(network)] == [None]


def test_stripes_with_their_sum_hold_fewer_bytes_than_the_input_and_the_result() -> None:
    """The projection's result never exists as a whole, and the sum's rows come as those of the skip go."""
    network = with_skip()
    (block,) = blocks(network)
    ends = [network.graph.tensor(name).size for name in block.ends]
    assert planned_bytes(cut(network, Stripes(1, 16))) < sum(ends)


@pytest.mark.parametrize("stripes", CUTS)
def test_parts_and_multiply_accumulates_are_as_many_as_the_blocks_say(stripes: Stripes) -> None:
    network = bottlenecks()
    found, made = list(blocks(network)), cut(network, stripes)
    assert len(found) == 2
    assert len(made.graph.parts) == len(network.graph.parts) + sum(block.count(stripes) - 3 for block in found)
    assert made.macs == network.macs + sum(block.macs(stripes) for block in found)
    assert made.recomputed_macs == made.macs - network.macs > 0


def test_no_stripe_holds_the_expanded_tensor() -> None:
    network = bottlenecks()
    largest = max(network.graph.tensor(block.kernels[0].ofm).size for block in blocks(network))
    made = cut(network, Stripes(1, 16))
    assert max(tensor.size for tensor in made.graph.tensors if "/stripe" in tensor.name) < largest / 3


def test_a_tensor_that_others_read_too_is_not_cut() -> None:
    net = NetworkBuilder("read")
    x = net.conv2d(net.input((1, 12, 12, 3), "image"), 8)
    wide = net.conv2d(x, 48, (1, 1), activation="RELU6")
    narrow = net.conv2d(net.depthwise(wide, activation="RELU6"), 8, (1, 1))
    network = import_network(net.finish([narrow, net.conv2d(wide, 4, (1, 1))]), DEFAULT)
    assert list(blocks(network)) == []
    assert in_channel_stripes(network, {}, DEVICE, SOURCES) is network


def deep() -> Network:
    """Blocks of which each holds more than what tiles could cut."""
    net = NetworkBuilder("deep")
    x = net.conv2d(net.input((1, 20, 20, 3), "image"), 12, strides=(2, 2), activation="RELU6")
    for channels in (72, 96, 96):
        x = net.conv2d(x, channels, (1, 1), activation="RELU6")
        x = net.conv2d(net.depthwise(x, (5, 5), activation="RELU6"), 12, (1, 1))
    return import_network(net.finish([x]), DEFAULT)


def test_blocks_at_the_peak_are_cut_until_the_multiply_accumulates_are_spent() -> None:
    network = deep()

    def path(times: Fraction) -> list[Candidate]:
        terms = PeakTerms(int(network.macs * times), DEVICE, SOURCES, ())
        return list(by_peak(PeakChoice(network, (), terms), lambda size, than: size < than * WORTHWHILE, set()))

    few, many = path(Fraction(13, 10)), path(Fraction(4))
    assert few == many[: len(few)]
    assert len(few) < len(many)
    assert all(one.macs <= network.macs * Fraction(13, 10) for one in few)
    sizes = [planned_bytes(network), *(one.size for one in many)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] * Fraction(3, 4)


def test_a_choice_ends_where_an_earlier_one_went_on() -> None:
    network, seen = deep(), set[State]()
    choice = PeakChoice(network, (), PeakTerms(network.macs * 2, DEVICE, SOURCES, ()))
    assert [len(list(by_peak(choice, lambda size, least: size < least, seen))) > 0 for _ in range(2)] == [True, False]


def test_more_multiply_accumulates_never_hold_more_bytes() -> None:
    network = deep()
    made = {times: recomputed(network, Fraction(times), DEVICE, SOURCES) for times in ("1", "1.2", "1.5", "2", "3")}
    for times, found in made.items():
        assert all(one.macs <= network.macs * Fraction(times) for one in found)
    sizes = [min(map(planned_bytes, [network, *found])) for found in made.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] * Fraction(3, 4)
    require_same_bytes(network, made["2"][0], SYSTEM)


def test_the_peak_names_the_parts_that_hold_it_and_the_front_holds_no_more() -> None:
    network = deep()
    peak = planned_peak(network)
    assert peak.size == planned_bytes(network)
    assert set(peak.parts) & {part.name for block in blocks(network) for part in block.parts}
    assert planned_front(network, len(network.graph.parts)) >= peak.size
    assert planned_front(network, 1) < peak.size
    for about in (1, peak.size // 2, peak.size):
        assert planned_front(network, len(network.graph.parts), (), about) == planned_front(network, len(network.graph.parts))
        assert Peaks(planned_within).of(network, (), about) == peak
    for below in (1, peak.size, peak.size + 1):
        assert planned_bytes(network, (), below) == min(peak.size, below)


def test_of_two_blocks_that_share_a_part_one_is_cut() -> None:
    """In MobileNetV1 the projection of one block is the expansion of the next."""
    net = NetworkBuilder("separable")
    x = net.conv2d(net.conv2d(net.input((1, 24, 24, 3), "image"), 12, strides=(2, 2), activation="RELU6"), 96, (1, 1))
    for depth in (12, 8):
        x = net.conv2d(net.depthwise(x, (5, 5), activation="RELU6"), depth, (1, 1), activation="RELU6")
    network = import_network(net.finish([x]), DEFAULT)
    first, second = blocks(network)
    assert first.names & second.names
    every = {block.expansion.name: CUTS[0] for block in (first, second)}
    assert in_channel_stripes(network, every, DEVICE, SOURCES) is None
    terms = PeakTerms(4 * network.macs, DEVICE, SOURCES, ())
    found = list(by_peak(PeakChoice(network, (), terms), lambda size, least: size < least, set()))
    for form in found:
        require_same_bytes(network, form.network, SYSTEM)
    assert found


def test_a_choice_goes_on_at_the_peak_of_the_addresses() -> None:
    network = deep()
    choice = PeakChoice(network, (), PeakTerms(3 * network.macs, DEVICE, SOURCES, ()))
    planned = next(by_peak(choice, lambda size, least: size < least, set()))
    first, *finer = by_addresses(choice, lambda size, least: size < least)
    assert first.network is planned.network
    assert first.size >= planned.size
    assert finer
    assert [one.size for one in (first, *finer)] == sorted({one.size for one in (first, *finer)}, reverse=True)
    assert all(one.macs <= 3 * network.macs for one in finer)


def test_the_peak_of_addresses_names_a_part_that_runs_there_and_holds_no_less_than_plans() -> None:
    network = cut(deep(), Stripes(2, 16))
    peak = placed_peak(network)
    assert peak.size >= planned_bytes(network)
    assert set(peak.parts) <= {part.name for part in network.graph.parts}
    assert peak.parts


def test_the_first_form_is_the_one_whose_addresses_reach_least() -> None:
    found = recomputed(deep(), Fraction(3), DEVICE, SOURCES)
    sizes = [placed_peak(one).size for one in found if len(one.graph.parts) > MANY_PARTS]
    assert sizes
    assert placed_peak(found[0]).size <= min(sizes)


def test_addresses_decide_if_all_forms_have_many_parts_and_none_was_placed_before() -> None:
    """All plans hold 4,160 bytes, and the form that recomputes least needs 4,560 bytes for its addresses."""
    forms = [cut(deep(), stripes) for stripes in (Stripes(2, 16), Stripes(1, 16))]
    found = [Candidate(planned_bytes(one), one.macs, one) for one in forms]
    assert all(len(one.graph.parts) > MANY_PARTS for one in forms)
    assert min(found, key=lambda one: (one.size, one.macs)).network is forms[0]
    first = _chosen(found, list(_placed(found, [], ())), [], 2 * max(one.size for one in found))[0]
    assert placed_peak(first.network).size == min(placed_peak(one).size for one in forms) < placed_peak(forms[0]).size
