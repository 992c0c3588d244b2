"""Recurrent layers by gate and step: the rows are the layer's, and the gates are those of the network's mathematics."""

from __future__ import annotations

import json
import re

import pytest
from asked_for import simulate_vela
from command_line import call

import npu_testbed
from npu_testbed.replays.recurrent import GATES, STATES, recurrent_layers, with_gates
from npu_testbed.replays.simulation import Simulation
from sim.views.layers import layer_rows


def of_vela(name: str) -> Simulation:
    return simulate_vela(f"portfolio:{name}")


def ours(name: str) -> Simulation:
    return npu_testbed.schedule(f"portfolio:{name}", no_advice=True, effort="quick", jobs=1).simulation


@pytest.mark.parametrize(
    ("make", "name", "steps"), [(of_vela, "lstm_short", [8]), (of_vela, "lstm_at_ends", [3, 8]), (ours, "lstm_short", [8])]
)
def test_gates_and_steps_sum_to_their_layer_whoever_schedules_it(make: object, name: str, steps: list[int]) -> None:
    assert callable(make)
    replay = make(name).replay
    rows, found = layer_rows(replay), recurrent_layers(replay)
    assert [len(one.steps) for one in found] == steps
    for one in found:
        whole = next(row for row in rows if row.layer == one.layer)
        for field in ("cycles", "axi0_read_bytes", "axi0_write_bytes", "axi1_read_bytes", "kernels", "transfers"):
            assert sum(getattr(row, field) for row in one.gates) == getattr(whole, field)
        assert sum(one.steps) == whole.cycles
        assert [row.layer.removeprefix(f"{one.layer}: ") for row in one.gates] == [*GATES, STATES]
        # A gate is two products and their sum, at every step.
        assert all(row.kernels >= 3 * len(one.steps) for row in one.gates[:-1])
    assert sum(row.cycles for row in with_gates(rows, found)) == replay.cycles


def test_of_the_four_gates_only_the_cell_gate_is_clipped_by_no_pool() -> None:
    (one,) = recurrent_layers(of_vela("lstm_short").replay)
    assert [row.kernels for row in one.gates[:-1]] == [32, 32, 24, 32]


def test_a_layer_with_curves_and_products_that_is_no_lstm_stays_whole() -> None:
    assert not recurrent_layers(of_vela("transformer").replay)
    assert not recurrent_layers(of_vela("gru_unrolled").replay)


def test_the_table_and_the_document_have_the_gates() -> None:
    told = call("simulate", "vela", "portfolio:lstm_short", "--no-advice", "--min-percent", 0).output
    assert "lstm_1: forget gate" in told
    assert re.search(r"lstm_1 takes 8 steps of [\d,]+ to [\d,]+ cycles", " ".join(told.split()))
    document = json.loads(call("simulate", "vela", "portfolio:lstm_short", "--no-advice", "--json").output)
    (one,) = document["recurrent"]
    assert (one["layer"], len(one["steps"]), len(one["gates"])) == ("lstm_1", 8, 5)
