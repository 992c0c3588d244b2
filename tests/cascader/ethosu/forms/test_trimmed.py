"""Trimmed kernels: rows that are written again before anybody reads them are left out, and the network computes the same."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from cascades import outputs

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms import trimmed as module
from cascader.ethosu.forms.trimmed import trimmed
from cascader.ethosu.network.overlaps import byte_numbers
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.program import DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.program.region_numbers import ARENA
from npu_model.shapes import Shape3D
from validation.portfolio import build


def test_border_strips_of_a_pad_no_longer_wait_for_each_other() -> None:
    plain = import_network(build("pair_pad_pool"))
    assert any(part.after for part in row_graph(plain).parts)
    assert not any(part.after for part in row_graph(trimmed(plain)).parts)
    made, before = (lower(schedule_layer_by_layer(net, DEFAULT_ACCELERATOR)) for net in (trimmed(plain), plain))
    assert outputs(made) == outputs(before)


def test_a_network_whose_writers_do_not_overlap_is_not_trimmed() -> None:
    plain = import_network(build("concat_rows"))
    assert trimmed(plain) is plain


@pytest.mark.parametrize(("marked", "kept"), [((), (0, 5)), ((0, 4), (1, 4)), ((1, 2), (0, 5)), ((2, 3, 4), (0, 2)), (range(5), (0, 5))])
def test_the_rows_between_the_first_and_the_last_that_nobody_writes_again_are_kept(marked: Iterable[int], kept: tuple[int, int]) -> None:
    shape = Shape3D(5, 2, 3)
    written = FeatureMap(ARENA, shape, DataType(8, signed=True), Layout.NHWC, Tiles.single(shape, 4), Strides(10, 4, 1))
    marks = np.zeros(64, np.bool_)
    for row in marked:
        marks[byte_numbers(written, (row, row + 1))] = True
    assert module._kept_rows(written, marks) == kept
