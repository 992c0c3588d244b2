"""Names cut for a table: as short as it asks, and never two layers under one name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from npu_testbed.replays.layer_names import all_shortened
from validation.layout import grid
from validation.short_names import short_names, told_apart

NAMES = [f"model/batch_normalization_{number}/FusedBatchNormV3;model/conv2d_{number}/Conv2D" for number in (2, 4, 6)]


def test_layers_that_end_alike_are_told_apart_in_every_table() -> None:
    assert len(set(all_shortened(NAMES))) == 3
    table = grid(("layer", "cycles"), [(name, "1") for name in all_shortened(NAMES)], (True, False), 30)
    assert len({line.split()[0] for line in table.splitlines()[2:]}) == 3


@given(st.lists(st.text("ab_/1", min_size=1, max_size=60), min_size=1, max_size=4), st.integers(12, 40))
def test_a_short_name_is_as_short_as_was_asked(names: list[str], size: int) -> None:
    assert all(len(name) <= size for name in short_names(names, size))


@given(st.integers(0, 10**4), st.integers(0, 10**4), st.integers(0, 60), st.integers(0, 60), st.integers(16, 40))
def test_names_that_differ_in_a_number_are_told_apart_wherever_it_stands(one: int, other: int, before: int, behind: int, size: int) -> None:
    names = [f"{'m' * before}/{number}/{'n' * behind}" for number in (one, other)]
    assert len(set(short_names(names, size))) == len(set(names))


@given(st.lists(st.lists(st.sampled_from(["net", "conv_1", "conv_2", "Relu", ""]), min_size=1, max_size=4).map("/".join), max_size=6))
def test_what_is_told_apart_is_a_part_of_the_name_and_of_no_other_name(names: list[str]) -> None:
    told = told_apart(names)
    assert len(set(told)) == len(set(names))
    assert all(short in name for short, name in zip(told, names, strict=True))


def test_what_every_layer_begins_and_ends_with_is_left_out() -> None:
    blocks = [f"MobilenetV2/expanded_conv_{n}/{kind}/Relu6" for n in (1, 2) for kind in ("expand", "depthwise", "project")]
    assert all_shortened(blocks)[1:4] == ["expanded_conv_1/depthwise", "expanded_conv_1/project", "expanded_conv_2/expand"]
    assert all_shortened([name.replace(";", "/") for name in NAMES]) == [f"batch_normalization_{n}" for n in (2, 4, 6)]
