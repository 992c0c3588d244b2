"""Every constant of the search is worth something: at its neutral value the result of some network gets worse.

``benchmarks/bench_constants.py`` prints the same for all of them, over more networks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pytest
from form_variants import variants
from scheduling import DEFAULT

from cascader.draft import drafter, placement
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import Tiling, segment
from cascader.ethosu.forms.layouts import dense_layouts
from cascader.ethosu.forms.tiles import tiled
from cascader.frontends.vela import import_network
from npu_model.accelerator import accelerator
from npu_model.timing import DEFAULT_TIMING
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from validation.portfolio import build

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)


def least_bytes(name: str) -> int:
    """The smallest arena that is found for any form of a portfolio network."""
    forms = variants(import_network(build(name), DEFAULT), DEFAULT, SYSTEM)
    return min(Cascader(form, DEFAULT, SYSTEM).smallest().memory for form in forms)


def without_packing() -> AbstractContextManager[object]:
    """No groups or addresses are looked for that pack closer."""
    return patch.object(drafter, "_LOOSE", 1 << 20)


@pytest.mark.parametrize(
    ("module", "constant", "neutral", "name", "share"),
    [
        pytest.param(drafter, "_NEAR_SMALLEST", Fraction(1), "conv_resize_bilinear_half_conv", 1.2, id="limits above the least"),
        pytest.param(drafter, "_SMALLEST_TRIES", 1, "conv_resize_bilinear_half_conv", 1.2, id="several limits"),
        pytest.param(placement, "_SEARCHES", 0, "conv_mean_keep_conv", 1.3, id="addresses that are searched for"),
    ],
)
def test_the_smallest_arena_is_larger_without_it(module: Any, constant: str, neutral: object, name: str, share: float) -> None:
    """Measured: 27,296 for 21,568 bytes, twice, and 13,824 for 9,984, if no groups are looked for that pack closer."""
    with without_packing():
        own = least_bytes(name)
        with patch.object(module, constant, neutral):
            assert least_bytes(name) >= own * share


def tiled_smallest() -> int:
    """The smallest arena of a network whose first parts are cut into five tiles: their chain of rows leaves gaps."""
    network, device = import_network(build("siamese_batch"), DEFAULT), accelerator(DEFAULT)
    cut = segment(network, 0, 4)
    made = None if cut is None else tiled(network, cut, Tiling(5), device, Sources.staged(SYSTEM, DEFAULT_TIMING))
    assert made is not None
    return Cascader(dense_layouts(made, 64), DEFAULT, SYSTEM).smallest().memory


def test_the_smallest_arena_is_larger_if_no_groups_are_looked_for_that_pack_closer() -> None:
    """Measured: 14,928 for 12,816 bytes."""
    own = tiled_smallest()
    with without_packing():
        assert tiled_smallest() >= own * 1.15


def test_the_closest_groups_of_a_large_graph_are_searched_for_addresses_with_many_moves() -> None:
    """Measured: 12,480 for 9,984 bytes, where nothing else is searched for and every graph counts as large."""
    never = patch.object(placement, "_SEARCHES", 0), patch.object(drafter, "packed_closer", lambda start, *_: start)
    with never[0], never[1], patch.object(drafter, "_PARTS", 1):
        own = least_bytes("conv_mean_keep_conv")
        with patch.object(drafter, "_CLOSEST", 0):
            assert least_bytes("conv_mean_keep_conv") >= own * 1.2
