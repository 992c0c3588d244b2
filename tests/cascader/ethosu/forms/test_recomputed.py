"""Tiles and skips made again: fewer bytes, more multiply-accumulates, all of which are counted, and the same bytes."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import pytest
from cascades import require_same_bytes
from few_examples import few_cases
from scheduling import DEFAULT
from window_layers import LAYERS, Layers

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import ColumnSpan, Tiling, segment
from cascader.ethosu.forms.layouts import dense_layouts, denser_layouts
from cascader.ethosu.forms.passes import PassTerms, with_recomputed
from cascader.ethosu.forms.planned import planned_bytes
from cascader.ethosu.forms.recomputed import WORTHWHILE, recomputed
from cascader.ethosu.forms.recomputed_skips import recomputed_skips
from cascader.ethosu.forms.streamed_pools import with_streamed_pools
from cascader.ethosu.forms.tile_widths import TileWidths
from cascader.ethosu.forms.tiles import tiled
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.options import CascadeOptions
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio import build

pytestmark = pytest.mark.law

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
SOURCES = Sources.staged(SYSTEM, DEFAULT_TIMING)
DEVICE = accelerator(DEFAULT)


def several(net: NetworkBuilder, x: TensorHandle) -> list[TensorHandle]:
    """An output in the middle that is read on, and one of another width."""
    first = net.conv2d(x, 16, activation="RELU")
    return [first, net.conv2d(net.conv2d(first, 16, strides=(2, 2), activation="RELU"), 8)]


NETWORKS: dict[str, Layers] = {**LAYERS, "several": several}
TYPES = ("int8", "uint8", "int16")


@cache
def plain(name: str, kind: str = "int8") -> Network:
    net = NetworkBuilder("tiles", kind)
    return import_network(net.finish(NETWORKS[name](net, net.input((1, 22, 45, 3), "image"))), DEFAULT)


def test_an_average_with_padding_is_not_cut_as_inside_it_would_divide_by_one() -> None:
    net = NetworkBuilder("padded")
    x = net.conv2d(net.input((1, 22, 45, 3), "image"), 8)
    network = import_network(net.finish([net.conv2d(net.average_pool(x, (3, 3), strides=(1, 1), padding="SAME"), 8)]), DEFAULT)
    assert [segment(network, 0, last) is None for last in range(3)] == [False, True, True]


@pytest.mark.parametrize(("name", "kind", "count"), few_cases(list(NETWORKS), TYPES, [2, 3, 5]))
def test_tiles_compute_the_same_layer_by_layer_and_as_a_cascade(name: str, kind: str, count: int) -> None:
    network = plain(name, kind)
    cut = segment(network, 0, len(network.graph.parts) - 1)
    assert cut is not None
    made = tiled(network, cut, Tiling(count), DEVICE, SOURCES)
    assert made is not None
    assert len(made.kernels) == count * len(network.kernels)
    require_same_bytes(network, made, SYSTEM)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_segment_may_begin_and_end_anywhere(name: str) -> None:
    network = plain(name)
    last = len(network.graph.parts) - 1
    for first, end in ((0, last - 1), (1, last), (1, last - 1)):
        cut = segment(network, first, end)
        made = None if cut is None else tiled(network, cut, Tiling(2), DEVICE, SOURCES)
        assert made is not None
        require_same_bytes(network, made, SYSTEM)


def test_the_result_of_tiles_may_be_dense() -> None:
    net = NetworkBuilder("eleven")
    x = net.conv2d(net.conv2d(net.input((1, 22, 45, 3), "image"), 24, activation="RELU"), 11, (1, 1))
    x = net.conv2d(net.conv2d(x, 66, activation="RELU6"), 11, (1, 1))
    network = import_network(net.finish([net.conv2d(x, 8)]), DEFAULT)
    cut = segment(network, 0, 1)
    made = None if cut is None else tiled(network, cut, Tiling(2), DEVICE, SOURCES)
    assert cut is not None
    assert made is not None
    (result,) = cut.results
    pixels = network.graph.tensor(result).size // 16
    assert dense_layouts(made, 64).graph.tensor(result).size == pixels * 16
    assert denser_layouts(made).graph.tensor(result).size == pixels * 11
    require_same_bytes(network, denser_layouts(made), SYSTEM)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_tiles_do_again_is_what_was_said_before(name: str) -> None:
    network = plain(name)
    cut = segment(network, 0, len(network.graph.parts) - 1)
    assert cut is not None
    for count in (2, 4):
        made = tiled(network, cut, Tiling(count), DEVICE, SOURCES)
        assert made is not None
        assert made.macs == cut.macs(network, Tiling(count))
        assert made.recomputed_macs == made.macs - network.macs > 0


def stem_widths() -> tuple[Network, ColumnSpan, TileWidths]:
    """The first layers of a network, whose results 24 columns have, and the widths of their tiles."""
    network = stem(2)
    cut = segment(network, 0, 2)
    assert cut is not None
    two = tiled(network, cut, Tiling(2), DEVICE, SOURCES)
    assert two is not None
    (result,) = cut.results
    return network, cut, TileWidths(network, cut, planned_bytes(two), network.graph.tensor(result).size, 0)


def widths_of(cut: ColumnSpan, tiling: Tiling) -> list[int]:
    width = cut.grids[cut.results[0]].width
    borders = [tiling.border(width, at) for at in range(tiling.count + 1)]
    assert (borders[0], borders[-1]) == (0, width)
    return [high - low for low, high in pairwise(borders)]


def test_the_first_and_the_last_tile_have_more_columns_and_the_largest_one_has_fewer_bytes() -> None:
    """A tile at an end recomputes columns on one side alone."""
    network, cut, widths = stem_widths()
    even, uneven = Tiling(3), widths.best(3, there=Fraction(1))
    first, inner, last = widths_of(cut, uneven)
    assert min(first, last) > inner
    assert (widths.size(uneven, there=Fraction(1)) or 0) < (widths.size(even, there=Fraction(1)) or 0)
    assert (cut.macs(network, uneven) or 0) <= (cut.macs(network, even) or 0)
    made = tiled(network, cut, uneven, DEVICE, SOURCES)
    assert made is not None
    require_same_bytes(network, made, SYSTEM)


def test_the_first_tile_is_widest_if_no_result_is_there_at_its_peak() -> None:
    network, cut, widths = stem_widths()
    uneven = widths.best(3, there=Fraction(0))
    first, *others = widths_of(cut, uneven)
    assert first > max(others)
    made = tiled(network, cut, uneven, DEVICE, SOURCES)
    assert made is not None
    require_same_bytes(network, made, SYSTEM)


def test_two_tiles_are_equal_if_the_results_are_there() -> None:
    _, cut, widths = stem_widths()
    assert widths_of(cut, widths.best(2, there=Fraction(1))) == [12, 12]


def stem(blocks: int) -> Network:
    """Layers of large maps, and blocks behind them whose tensors are all of one size."""
    net = NetworkBuilder("stem")
    x = net.conv2d(net.input((1, 40, 96, 3), "image"), 16, strides=(2, 2), activation="RELU")
    x = net.conv2d(net.conv2d(x, 24, activation="RELU"), 8, (5, 5), strides=(2, 2), activation="RELU")
    for _ in range(blocks):
        x = net.add(x, net.conv2d(net.depthwise(x, (5, 5), activation="RELU"), 8))
    return import_network(net.finish([net.conv2d(x, 4)]), DEFAULT)


@pytest.mark.parametrize("blocks", [1, 3])
def test_no_segment_from_the_first_part_on_holds_fewer_bytes_than_the_form_that_is_chosen(blocks: int) -> None:
    network, most = stem(blocks), Fraction(3, 2)
    wanted = (wanted_home("input=ext", SYSTEM),)
    sizes = [planned_bytes(network, wanted)]
    for last in range(1, len(network.graph.parts)):
        cut = segment(network, 0, last)
        assert cut is not None
        for count in range(2, 7):
            made = tiled(network, cut, Tiling(count), DEVICE, SOURCES)
            if made is not None and made.macs <= network.macs * most:
                sizes.append(planned_bytes(made, wanted))
    chosen = recomputed(network, most, DEVICE, SOURCES, wanted)
    assert planned_bytes(chosen[0], wanted) <= min(sizes) / WORTHWHILE
    assert min(sizes) < sizes[0] * WORTHWHILE
    require_same_bytes(network, chosen[0], SYSTEM)


def far_skip(blocks: int, *, pooled: bool = False) -> Network:
    net = NetworkBuilder("far")
    head = x = net.conv2d(net.input((1, 24, 40, 3), "image"), 16)
    for _ in range(blocks):
        x = net.conv2d(x, 16, activation="RELU")
    x = net.conv2d(net.add(x, head), 3)
    return import_network(net.finish([net.average_pool(x, (24, 40)) if pooled else x]), DEFAULT)


def test_a_far_skip_is_made_again_and_holds_fewer_bytes() -> None:
    network = far_skip(6)
    (made,) = recomputed_skips(network)
    assert made.recomputed_macs == made.macs - network.macs == next(iter(network.kernels.values())).operation.macs
    assert planned_bytes(made) < planned_bytes(network)
    require_same_bytes(network, made, SYSTEM)


def test_a_near_skip_is_kept() -> None:
    assert list(recomputed_skips(far_skip(2))) == []


@pytest.mark.parametrize("most", [Fraction(1), Fraction(102, 100), Fraction(11, 10), Fraction(3, 2)])
def test_forms_do_no_more_again_than_they_may_and_hold_less(most: Fraction) -> None:
    network = far_skip(6)
    found = recomputed(network, most, DEVICE, SOURCES)
    assert len(found) <= 3
    assert all(made.macs <= most * network.macs and planned_bytes(made) < planned_bytes(network) for made in found)
    assert bool(found) == (most > Fraction(102, 100))


def test_a_skip_that_is_made_again_is_cut_into_tiles_too() -> None:
    network = far_skip(6)
    best = min(recomputed(network, Fraction(3, 2), DEVICE, SOURCES), key=planned_bytes)
    assert planned_bytes(best) < planned_bytes(next(recomputed_skips(network)))
    require_same_bytes(network, best, SYSTEM)


@pytest.mark.parametrize("more", [0, 1])
def test_no_form_is_made_that_holds_more_bytes_than_others(more: int) -> None:
    network, most = far_skip(6), Fraction(3, 2)
    every = recomputed(network, most, DEVICE, SOURCES)
    found = recomputed(network, most, DEVICE, SOURCES, below=min(map(planned_bytes, every)) + more)
    assert found == (every if more else [])


@pytest.mark.parametrize("blocks", [2, 6])
def test_whole_pools_are_only_left_out_where_streamed_ones_hold_as_few_bytes(blocks: int) -> None:
    network = far_skip(blocks, pooled=True)
    terms = PassTerms(DEVICE, SOURCES, Sources.direct(SYSTEM, DEFAULT_TIMING), CascadeOptions(recompute=Fraction(3, 2)))
    bases = with_streamed_pools(network, DEVICE, SOURCES), network
    assert bases[0] is not network
    sizes = [planned_bytes(one[0]) for base in bases if (one := recomputed(base, Fraction(3, 2), DEVICE, SOURCES))]
    found = with_recomputed(network, terms)
    least = min(map(planned_bytes, bases))
    assert [planned_bytes(one) for one in found[:1]] == ([min(sizes)] if sizes and min(sizes) < least else [])


def test_what_a_pool_scales_is_made_again_from_the_small_map_before_it() -> None:
    """An enlarged map is pooled whole and scaled by that: alone no streamed pool holds fewer bytes, with the map made again a fifth."""
    network = import_network(build("scaled_by_its_pool"), DEFAULT)
    streamed = with_streamed_pools(network, DEVICE, SOURCES)
    assert planned_bytes(streamed) >= planned_bytes(network)
    (made,) = recomputed(streamed, Fraction(11, 10), DEVICE, SOURCES)
    assert planned_bytes(made) < planned_bytes(network) / 5
    assert [name.removesuffix("/again") for name in made.kernels if name.endswith("/again")] == ["resize_1", "conv2d_5"]
    require_same_bytes(network, made, SYSTEM)


def test_several_skips_are_made_again_in_one_form() -> None:
    net = NetworkBuilder("two")
    first = x = net.conv2d(net.input((1, 24, 40, 3), "image"), 16)
    second = x = net.conv2d(x, 16, (1, 1))
    for at in range(12):
        x = net.conv2d(net.add(x, second) if at == 6 else x, 16, activation="RELU")
    network = import_network(net.finish([net.conv2d(net.add(x, first), 3)]), DEFAULT)
    both = [made for one in recomputed_skips(network) for made in recomputed_skips(one) if planned_bytes(made) < planned_bytes(one)]
    (chosen, *_) = recomputed(network, Fraction(3, 2), DEVICE, SOURCES)
    assert (
        planned_bytes(chosen) <= min(map(planned_bytes, both)) < min(map(planned_bytes, recomputed_skips(network))) < planned_bytes(network)
    )
    require_same_bytes(network, both[0], SYSTEM)
