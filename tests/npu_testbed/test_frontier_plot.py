"""The picture of a frontier tells apart what its points pay with: MACs that are done again, and tensors outside the arena."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

import npu_testbed
from cascader.ethosu.network.network import Home
from npu_testbed.html.pages import frontier_data
from npu_testbed.searches.frontiers import Frontier
from npu_testbed.views.frontier_plot import AGAIN, KINDS, OURS, frontier_svg, kind_of


@cache
def plain() -> Frontier:
    return npu_testbed.frontier("zoo:tiny_conv", rungs=2, jobs=1).frontier


def changed(found: Frontier, again: int, homes: tuple[Home, ...]) -> Frontier:
    """The frontier whose first point does so many MACs again and has such homes."""
    point = found.points[0]
    network = replace(point.schedule.network, recomputed_macs=again, homes=homes)
    return replace(found, points=(replace(point, schedule=replace(point.schedule, network=network)), *found.points[1:]))


@pytest.mark.parametrize(("again", "outside", "fill"), [(0, "", OURS), (8, "", AGAIN), (0, "input", "white"), (8, "input", "white")])
def test_a_point_is_drawn_by_what_it_pays_with(again: int, outside: str, fill: str) -> None:
    found = changed(plain(), again, (Home(outside, 3, "ext", 1),) if outside else ())
    point, picture = found.points[0], frontier_svg(found)
    dot = next(line for line in picture.split("<circle")[1:] if f"{point.memory:,} bytes" in line)
    assert f'fill="{fill}"' in dot
    assert f'stroke="{AGAIN if again else OURS}"' in dot
    assert ("outside the arena: input" in dot) == bool(outside)
    assert (f">{KINDS[kind_of(point)]}<" in picture) == bool(again or outside)
    assert frontier_data(found, (), "")["points"][0]["homes"] == ([outside] if outside else [])


def test_a_legend_of_kinds_is_there_only_if_a_point_needs_it() -> None:
    assert not any(name in frontier_svg(plain()) for name in KINDS)
