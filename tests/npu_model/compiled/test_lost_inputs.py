"""Inputs that a run writes over are named, with the outputs that lie over them; the others are there after a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import call
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from npu_model.command_stream import encode_operations
from npu_model.compiled.lost_inputs import lost_inputs
from npu_model.compiled.network import CompiledNetwork
from npu_model.export import export_c
from npu_model.memory.timing_adapter import profile
from npu_model.program.region_numbers import ARENA
from npu_model.programmer_registers import register_offsets
from sim.device import BufferBus, Device


def arena_after_a_run(network: CompiledNetwork, fill: bytes) -> bytearray:
    """The arena after a run on the NPU's registers that begins with the bytes ``fill``."""
    (program,) = network.programs
    arena, at = bytearray(fill), register_offsets()
    stream = np.array(encode_operations(program.operations)[0], "<u4").tobytes()
    bus = BufferBus({0x10000: stream, 0x1000000: program.region(0).content, 0x8000000: arena})
    npu = Device(program.accelerator, profile("u55_high_end").memory_system(), bus)
    limits = {f"AXI_LIMIT{i}": 0x0F1F0000 for i in range(4)} | {"QCONFIG": 2, "REGIONCFG": 3}
    bases = {"BASEP0": 0x1000000, "BASEP2": 0x8000000, "BASEP4": 0x8000000}
    for name, value in (limits | bases | {"QBASE0": 0x10000, "QSIZE": len(stream), "CMD": 0xD}).items():
        npu.write(at[name], value)
    npu.wait()
    return arena


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "ds_cnn"])
def test_an_input_is_there_after_a_run_unless_it_is_named(name: str) -> None:
    network = lower(schedule(name))
    fill = np.random.default_rng(1).integers(0, 256, network.arena_size, np.uint8).tobytes()
    after, lost = arena_after_a_run(network, fill), {one.number for one in lost_inputs(network)}
    for number, one in enumerate(network.inputs):
        assert one.region == ARENA
        span = slice(one.byte_range.start, one.byte_range.end)
        assert (after[span] != fill[span]) == (number in lost)


def test_an_output_over_an_input_is_named_in_the_export_and_in_the_header(tmp_path: Path) -> None:
    call("schedule", "zoo:tiny_residual", "--no-advice", "--jobs", "1", "-o", tmp_path / "a.json")
    outcome = call("export", tmp_path / "a.json", "--format", "c", "-o", tmp_path / "a.c")
    assert "Input 'image' is gone after a run: 'pool' lies over it." in outcome.output
    assert "Input 0 is gone after a run, as output 0 lies over it" in (tmp_path / "a.h").read_text()


def test_a_header_of_a_network_that_keeps_its_inputs_says_nothing() -> None:
    network = lower(schedule("tiny_conv"))
    lost = {one.number for one in lost_inputs(network)}
    assert ("is gone after a run" in export_c(network, "n")["n.h"]) == bool(lost)
