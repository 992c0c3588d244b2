"""Node data: the cycles of layers by the tensors that they write."""

from __future__ import annotations

import json

import pytest
from small_programs import IDEAL
from test_sim_views import MIXED, NAMED, network

from npu_model.program import Program
from sim import replay_network
from sim.views.layers import layer_rows
from sim.views.node_data import node_data_json


@pytest.mark.parametrize("programs", [(NAMED,), (NAMED, NAMED)])
def test_names_have_the_cycles_of_their_layers_in_all_programs(programs: tuple[Program, ...]) -> None:
    replayed = replay_network(network(*programs), IDEAL)
    document = json.loads(node_data_json(replayed))
    found = {name: result["value"] for name, result in document["results"].items()}
    assert found == {name: sum(row.cycles for row in layer_rows(replayed) if row.layer == name) for name in "abc"}
    assert sum(found.values()) == replayed.cycles
    assert [stop["stop"] for stop in document["gradient"]] == [0, 1]


def test_layers_without_names_are_left_out() -> None:
    assert json.loads(node_data_json(replay_network(network(MIXED), IDEAL)))["results"] == {}
