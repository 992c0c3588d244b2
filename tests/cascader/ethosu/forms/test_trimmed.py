"""Trimmed kernels: rows that are written again before anybody reads them are left out, and the network computes the same."""

from __future__ import annotations

from cascades import outputs

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms.trimmed import trimmed
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import import_network
from npu_model.accelerator import DEFAULT_ACCELERATOR
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
