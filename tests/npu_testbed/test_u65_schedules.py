"""Schedules for the Ethos-U65: every memory mode, both sizes, and the file of a board with Linux."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import call, refusal

import npu_testbed
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.search.request import Run
from cascader.verbs import chosen
from npu_model.compiled.network import read_compiled
from npu_testbed.asked.ask import OnMemory
from npu_testbed.asked.request import requested
from npu_testbed.devices.chips import load_chip
from npu_testbed.models.legalise import load_task
from sim import quick_cycles, replay_network

SIZES = "ethos-u65-256", "ethos-u65-512"


@pytest.mark.parametrize("mode", ["Dedicated_Sram", "Shared_Sram", "Sram_Only"])
@pytest.mark.parametrize("name", SIZES)
def test_an_answer_is_exact_has_no_hazard_and_takes_the_same_cycles_in_both_replays(name: str, mode: str, tmp_path: Path) -> None:
    memories = {"system_config": "Ethos_U65_High_End", "memory_mode": mode}
    made = npu_testbed.schedule("zoo:tiny_conv", accelerator_config=name, **memories, effort="quick", no_advice=True, jobs=1)
    plan = made.schedule
    system, timing = plan.provenance.memory_system, plan.provenance.timing
    assert system is not None
    lowered = lower(plan)
    cycles = replay_network(lowered, system, timing=timing).cycles
    assert cycles == quick_cycles(lowered, system, timing) == made.cycles
    made.save(tmp_path / "made.json")
    verified = npu_testbed.verify(tmp_path / "made.json", model="zoo:tiny_conv")
    assert verified.passed
    assert sum(row.size for row in verified.comparisons) > 0
    assert not any(row.differing for row in verified.comparisons)
    assert not verified.verification.hazards


@pytest.mark.parametrize("mode", ["Dedicated_Sram", "Sram_Only"])
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("model", ["zoo:tiny_conv", "zoo:resnet8", "zoo:ds_cnn"])
def test_the_estimate_of_an_answer_is_within_four_per_cent_of_its_replay(model: str, name: str, mode: str) -> None:
    budget = 192 << 10 if mode == "Dedicated_Sram" else None
    memory = OnMemory[Any](system_config="Ethos_U65_High_End", memory_mode=mode)
    request = requested(model, name, memory, budget=budget, effort="quick")
    point = chosen(load_task(request), request, Run(1)).point
    assert point.estimate == pytest.approx(point.cycles, rel=0.04)


def test_inputs_and_outputs_in_a_boards_dram_share_no_line_of_the_cpus_cache(tmp_path: Path) -> None:
    line = 4096
    options = {"accelerator_config": "ethos-u65-256", "system_config": "Ethos_U65_High_End", "memory_mode": "Dedicated_Sram"}
    made = npu_testbed.compile("zoo:tiny_conv", output_dir=tmp_path, cpu_tensor_alignment=line, effort="quick", jobs=1, **options)
    assert made.to_dict()["promise"]["written"] == "ours"
    (path,) = tmp_path.glob("*_vela.tflite")
    network = read_compiled(path.read_bytes())
    ends = [*network.inputs, *network.outputs]
    assert {one.region for one in ends} == {1}
    assert not any(one.byte_range.start % line for one in ends)
    assert network.arena_size % line == 0
    starts = sorted(one.byte_range.start // line for one in ends)
    lasts = sorted((one.byte_range.end - 1) // line for one in ends)
    assert all(last < start for last, start in zip(lasts, starts[1:], strict=False))


@pytest.mark.parametrize(("chip", "adapter"), [("corstone-300-u65", "u65_high_end"), ("corstone-310-u65", "u65_off")])
def test_a_corstone_with_a_u65_is_its_timing_adapter(chip: str, adapter: str) -> None:
    assert load_chip(chip).timing_adapter == adapter
    by_name = npu_testbed.simulate_vela("zoo:tiny_conv", chip=chip, accelerator_config="ethos-u65-512")
    spelled = npu_testbed.simulate_vela("zoo:tiny_conv", accelerator_config="ethos-u65-512", timing_adapter=adapter)
    assert by_name.to_dict() == spelled.to_dict()


@pytest.mark.parametrize("name", ["cpu_first", "cpu_last", "cpu_gather", "cpu_words", "cpu_beside", "cpu_passed_by"])
def test_an_operator_on_the_cpu_is_refused_by_the_memory_mode_and_not_by_a_home_that_was_not_given(name: str, tmp_path: Path) -> None:
    words = ("schedule", f"portfolio:{name}", "--accelerator-config", "ethos-u65-256", "--system-config", "Ethos_U65_High_End")
    quick = ("--effort", "quick", "--no-advice", "-o", tmp_path / "s.json")
    said = refusal(*words, "--memory-mode", "Dedicated_Sram", *quick)
    assert said.startswith("The network runs ")
    assert said.endswith("choose a memory mode with one memory for both, such as Shared_Sram.")
    assert call(*words, "--memory-mode", "Shared_Sram", *quick).status == 0
