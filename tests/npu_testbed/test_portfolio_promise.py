"""The promise of `compile` on networks as people have them: a sample, all of the portfolio with NPU_TESTBED_ALL."""

from __future__ import annotations

import os
from functools import cache

import pytest
from asked_for import compile_model
from few_examples import few_cases

from npu_model.compiled.network import read_compiled
from npu_model.errors import InputError
from npu_testbed.compilation.compiler import Compilation
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from npu_testbed.replays.memory_use import sram_bytes
from sim import quick_cycles
from validation.portfolio import NETWORKS

pytestmark = pytest.mark.law

SAMPLE = ("mnist", "squeeze_excite", "cpu_gather", "reshaped_in_the_middle", "residual_int16")
CHOSEN = [one.name for one in NETWORKS] if os.environ.get("NPU_TESTBED_ALL") else SAMPLE


@cache
def compiled(name: str, optimise: str) -> Compilation:
    return compile_model(f"portfolio:{name}", optimise=optimise)


@pytest.mark.parametrize(("name", "optimise"), few_cases(CHOSEN, ["Size", "Performance"]))
def test_no_file_is_larger_or_slower_than_velas_for_the_same_command_line(name: str, optimise: str) -> None:
    try:
        found = compiled(name, optimise)
    except InputError as error:
        pytest.skip(f"neither schedule can be written: {error}")
    vela = found.verdict.vela
    if vela is None:
        assert found.verdict.without_vela
        return
    written = read_compiled(next(iter(found.files.values())))
    assert sram_bytes(written) <= vela.memory
    assert quick_cycles(written, load_timing_adapter(DEFAULT_TIMING_ADAPTER)) <= vela.cycles
    assert found.verdict.written == "ours" or found.verdict.reason


@pytest.mark.parametrize("name", SAMPLE)
def test_with_size_ours_is_smaller_or_faster_than_velas_on_the_sample(name: str) -> None:
    verdict = compiled(name, "Size").verdict
    assert verdict.written == "ours"
    assert verdict.ours is not None
    assert verdict.vela is not None
    assert (verdict.ours.memory, verdict.ours.cycles) != (verdict.vela.memory, verdict.vela.cycles)
