"""Energy is a ratio of two schedules by the user's table: it follows the figures, and no unit of theirs."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from asked_for import simulate_vela
from command_line import call, refusal
from msgspec.structs import replace
from quick_comparisons import compare_quickly

from npu_testbed.energy import EnergyTable, energy, energy_json, energy_ratio, load_energy_table
from npu_testbed.energy.table import parse_energy_table
from sim import NetworkReplay

ZERO, ONE = Fraction(0), Fraction(1)
NOTHING = EnergyTable("test", ZERO, ZERO, ZERO, {"sram": (ZERO, ZERO), "ext": (ZERO, ZERO)})


@cache
def resnet8(optimise: str) -> NetworkReplay:
    return simulate_vela("zoo:resnet8", optimise=optimise).replay


def ratio(table: EnergyTable) -> float:
    return energy_ratio(energy(resnet8("Performance"), table), energy(resnet8("Size"), table))


def test_a_table_of_one_figure_gives_the_ratio_of_what_it_is_of() -> None:
    fast, small = resnet8("Performance"), resnet8("Size")
    assert ratio(replace(NOTHING, active=ONE, idle=ONE)) == fast.cycles / small.cycles
    assert ratio(replace(NOTHING, mac=ONE)) == 1
    read = {"sram": (ONE, ZERO), "ext": (ZERO, ZERO)}
    assert ratio(replace(NOTHING, memories=read)) == fast.beats.axi0_read / small.beats.axi0_read
    written = {"sram": (ZERO, ONE), "ext": (ZERO, ZERO)}
    assert ratio(replace(NOTHING, memories=written)) == fast.beats.axi0_write / small.beats.axi0_write
    flash = {"sram": (ZERO, ZERO), "ext": (ONE, ZERO)}
    assert ratio(replace(NOTHING, memories=flash)) == fast.beats.axi1_read / small.beats.axi1_read


def test_active_and_other_cycles_are_all_cycles() -> None:
    replay = resnet8("Size")
    (one,) = replay.replays
    assert energy(replay, replace(NOTHING, active=ONE)).whole == one.pmu()["MAC_ACTIVE"]
    assert energy(replay, replace(NOTHING, idle=ONE)).whole == replay.cycles - one.pmu()["MAC_ACTIVE"]


def test_the_unit_of_a_table_changes_no_ratio() -> None:
    table = load_energy_table("illustrative")
    joules = EnergyTable(
        "j", table.mac / 1000, table.active / 1000, table.idle / 1000, {k: (r / 1000, w / 1000) for k, (r, w) in table.memories.items()}
    )
    assert ratio(table) == ratio(joules) != 1


def test_nothing_but_ratios_and_shares_is_said() -> None:
    outcome = call("diff", "zoo:resnet8", "--optimise", "Size,Performance", "--energy", "illustrative")
    assert outcome.status == 0, outcome
    said = outcome.output.partition("energy by illustrative")[2]
    assert f"{ratio(load_energy_table('illustrative')):.3f}" in said
    assert "of no device" in said
    assert "pJ" not in said
    table = load_energy_table("illustrative")
    found = energy_json("t", energy(resnet8("Size"), table), energy(resnet8("Performance"), table))
    assert found.energy_ratio == ratio(table)
    assert sum(part.share_before for part in found.parts) == pytest.approx(1)
    assert sum(part.share_after for part in found.parts) == pytest.approx(1)


def test_compare_weighs_each_of_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_quickly(monkeypatch)
    table = tmp_path / "cycles.toml"
    table.write_text("mac = 0\n[cycle]\nactive = 1\nidle = 1\n[memory.sram]\nread = 0\nwrite = 0\n[memory.ext]\nread = 0\nwrite = 0\n")
    outcome = call("compare", "zoo:tiny_conv", "--no-advice", "--json", "--energy", table)
    assert outcome.status == 0, outcome
    (network,) = json.loads(outcome.output)["networks"]
    assert network["energy"]["table"] == "cycles"
    assert network["energy"]["ratios"] == [answer["cycles_ratio"] for answer in network["answers"]]


GOOD = "mac = 1\n[cycle]\nactive = 1\nidle = 1\n[memory.sram]\nread = 1\nwrite = 1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mac = ", "is not TOML"),
        ("mac = 1", "The energy table has ['mac'] at its top where the key 'cycle' is needed: write key = value lines"),
        (GOOD + "[memory.ext]\nread = 1\n", "has ['read'] at memory.ext where the key 'write' is needed"),
        (GOOD.replace("mac = 1", "mac = -1"), "has -1 at mac where a number from 0 to 1000000000 is needed"),
        (GOOD.replace("mac = 1", "mac = nan"), "has nan at mac where a number from 0 to 1000000000 is needed"),
        (GOOD.replace("mac = 1", "mac = true"), "has True at mac where a number from 0 to 1000000000 is needed"),
        (GOOD.replace("[memory.sram]\nread = 1\nwrite = 1", "[memory]"), "has no [memory.NAME]"),
        (GOOD, "The energy table table has no [memory.ext] but sram: add it"),
        (GOOD.replace("1", "0") + "[memory.ext]\nread = 0\nwrite = 0\n", "nothing takes energy"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    table = tmp_path / "table.toml"
    table.write_text(text)
    assert said in refusal("diff", "zoo:tiny_conv", "--optimise", "Size,Performance", "--energy", table)


def test_decimals_of_a_table_are_taken_as_they_are_written() -> None:
    assert parse_energy_table("t", GOOD.replace("mac = 1", "mac = 0.1")).mac == Fraction(1, 10)


def test_energies_of_several_networks_are_asked_one_by_one() -> None:
    assert "--energy was given with 2 models" in refusal("compare", "zoo:tiny_conv", "zoo:ds_cnn", "--energy", "illustrative")
