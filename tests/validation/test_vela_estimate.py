"""Vela's own estimate: what is reproduced of it, on which operators, and that a change would be seen."""

from __future__ import annotations

import doctest
import importlib
import json
import os
from fractions import Fraction
from itertools import cycle, product

import pytest
from cpu_networks import cpu_split_network
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from reference_data import shared_data

from cascader.frontends.vela.compiler import compile_network
from cascader.frontends.vela.compiler_options import CompilerOptions
from cascader.frontends.vela.result import VelaResult
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import Kernel, Layout
from npu_model.shapes import Shape3D
from validation.vela.estimate import EstimateComparison, compare, deviations, passed, render, tally, to_json
from validation.vela.estimate.compare import compare_recorded
from validation.vela.estimate.cycles import estimate_cycles
from validation.vela.estimate.database import Recorded, read_database
from validation.vela.estimate.estimate import with_transfers
from validation.vela.estimate.memories import VelaMemory, copy_cycles, read_memories, shipped_memories
from validation.vela.estimate.operation import Engine, EstimatedOperation, VelaOperand, Weights
from validation.vela.estimate.traffic import estimate_traffic
from validation.zoo import build

U55 = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256")
OPTIMISE = ("Size", "Performance")
DEFAULTS = ("Ethos_U55_High_End_Embedded", "Shared_Sram")
MEMORIES = shipped_memories(*DEFAULTS)
SRAM, FLASH = MEMORIES.find("Sram"), MEMORIES.find("OffChipFlash")
BLOCK = Shape3D(4, 4, 16)
EXPECTED_COLUMNS = {
    *("mac_cycles", "ao_cycles", "cmd_cycles", "npu_cycles", "op_cycles", "mac_count"),
    *("Sram_ac", "SramFeatureMap_ac", "SramFeatureMap_read", "SramFeatureMap_write"),
    *("SramWeights_ac", "SramWeights_read", "SramWeights_write", "SramScales_read"),
    *("OffChipFlash_ac", "OffChipFlashWeights_ac", "OffChipFlashWeights_read", "OffChipFlashScales_ac"),
    *("cycles_total", "cycles_npu", "cycles_sram_access", "cycles_off_chip_flash_access"),
}


def unequal(comparison: EstimateComparison) -> list[tuple[object, ...]]:
    return [(row.operator, row.column, row.vela, row.ours) for row in comparison.rows if not row.is_equal]


@pytest.fixture(scope="module")
def compilation() -> VelaResult:
    return compile_network(build("ds_cnn"))


@pytest.fixture(scope="module")
def recorded(compilation: VelaResult) -> tuple[Recorded, ...]:
    return read_database(compilation, MEMORIES)


@pytest.mark.parametrize(
    ("network", "device", "optimise"),
    [
        *product(("ds_cnn", "resnet8"), U55, OPTIMISE),
        ("unet", "ethos-u55-32", "Size"),
        ("unet", "ethos-u55-256", "Performance"),
    ],
)
def test_every_value_of_velas_estimate_is_reproduced(network: str, device: str, optimise: str) -> None:
    comparison = compare(build(network), device, optimise)
    assert unequal(comparison) == []
    assert passed([comparison])


def test_weights_that_are_buffered_in_slices_are_reproduced_with_every_column() -> None:
    network = build("mobilenet_v1")
    operations = [entry.operation for entry in read_database(compile_network(network, CompilerOptions("ethos-u55-256")), MEMORIES)]
    buffered = [op.weights for op in operations if op is not None and op.weights is not None and op.weights.staging is not None]
    assert any(len(weights.depth_slices) > 1 and weights.pre_buffered for weights in buffered)
    assert any(not weights.pre_buffered for weights in buffered)
    comparison = compare(network, "ethos-u55-256")
    assert unequal(comparison) == []
    assert {row.column for row in comparison.rows} >= EXPECTED_COLUMNS


@pytest.mark.parametrize(("system_config", "memory_mode"), [(DEFAULTS[0], "Sram_Only"), ("Ethos_U55_Deep_Embedded", "Shared_Sram")])
def test_other_memories_are_reproduced(system_config: str, memory_mode: str) -> None:
    comparison = compare(build("ds_cnn"), system_config=system_config, memory_mode=memory_mode)
    assert unequal(comparison) == []
    assert any(row.column == "SramScales_ac" for row in comparison.rows) == (memory_mode == "Sram_Only")


def test_nothing_is_hidden_under_an_operator_on_the_cpu() -> None:
    result = compile_network(cpu_split_network())
    recorded = read_database(result, MEMORIES)
    assert [entry.operator for entry in recorded] == ["Conv2D", "Passthrough", "Conv2D"]
    assert all(row.is_equal for row in compare_recorded(recorded, accelerator("ethos-u55-128")))
    # Left out, the first convolution would hide the transfer of the second one's weights.
    joined = compare_recorded((recorded[0], recorded[2]), accelerator("ethos-u55-128"))
    assert [row.column for row in joined if not row.is_equal] == ["op_cycles", "npu_cycles"]


def unit_cases() -> dict[str, bytes]:
    pytest.importorskip("ai_edge_litert", reason="LiteRT's schema, which writes the operators, is not installed")
    from unit_networks import Tensor, unit_network  # noqa: PLC0415  # it needs the package that may be missing

    shape = (1, 6, 7, 20)
    axes = Tensor((4,), "int32", data=[0, 2, 1, 3])
    window = {"padding": 0, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    weights = Tensor((16, 3, 3, 8), "int8", 0.003, 0, [[[[(o * 7 + i) % 255 - 127 for i in range(8)]] * 3] * 3 for o in range(16)])
    steps = {"strideH": 2, "strideW": 2}
    sixteen = Tensor(shape, "int16", 1 / 4096)
    matrices = [Tensor((1, 1, 8, 16)), Tensor((1, 1, 16, 24))]
    return {
        "Transpose": unit_network("TRANSPOSE", [Tensor(shape), axes], Tensor((1, 7, 6, 20)), "TransposeOptions"),
        "Tanh": unit_network("TANH", [sixteen], Tensor(shape, "int16", 2**-15)),
        "LeakyRelu": unit_network("LEAKY_RELU", [sixteen], Tensor(shape, "int16", 1 / 4096), "LeakyReluOptions", alpha=0.3),
        "LUT": unit_network("LOGISTIC", [Tensor(shape)], Tensor(shape, "int8", 2**-8, -128)),
        "Maximum": unit_network("MAXIMUM", [Tensor(shape), Tensor((1, 1, 1, 1), data=[[[[3]]]])], Tensor(shape), "MaximumMinimumOptions"),
        "MaxPool": unit_network("MAX_POOL_2D", [Tensor((2, 12, 12, 20))], Tensor((2, 6, 6, 20)), "Pool2DOptions", **window),
        "ReduceSum": unit_network(
            "SOFTMAX", [Tensor((1, 5, 20), "int16", 0.001)], Tensor((1, 5, 20), "int16", 2**-15), "SoftmaxOptions", beta=1.0
        ),
        "Conv2D": unit_network(
            "TRANSPOSE_CONV",
            [Tensor((4,), "int32", data=[1, 12, 12, 16]), weights, Tensor((1, 6, 6, 8), "int8", 0.02, -5)],
            Tensor((1, 12, 12, 16), zero_point=3),
            "TransposeConvOptions",
            **steps,
        ),
        "MatMul": unit_network("BATCH_MATMUL", matrices, Tensor((1, 1, 8, 24)), "BatchMatMulOptions", adjX=False, adjY=False),
    }


def test_operators_that_the_networks_lack_are_reproduced() -> None:
    cases = unit_cases()
    del cases["MatMul"]
    for (operator, network), device in zip(cases.items(), cycle(U55), strict=False):
        comparison = compare(network, device)
        assert unequal(comparison) == [], operator
        assert operator in {row.operator for row in comparison.rows}


def test_a_matrix_product_of_two_inputs_is_named_as_not_reproduced() -> None:
    comparison = compare(unit_cases()["MatMul"], name="product")
    missing = {row.operator for row in comparison.rows if row.ours is None}
    assert missing == {"MatMul", "network"}
    assert not passed([comparison])
    assert all(row.is_equal for row in comparison.rows if row.operator not in missing)
    assert "MatMul" in render([comparison])[-1].text()


def test_a_changed_output_rate_is_seen_in_the_cycles_of_the_output_unit(recorded: tuple[Recorded, ...]) -> None:
    device = accelerator("ethos-u55-128")
    drifted = replace(device, output=replace(device.output, relu=device.output.relu + Fraction(1, 16)))
    rows = compare_recorded(recorded, drifted)
    changed = {row.column for row in rows if not row.holds}
    assert "ao_cycles" in changed
    assert "mac_count" not in changed
    assert not any(column.endswith(("_read", "_write")) for column in changed)


def test_a_byte_is_a_deviation_and_a_cycle_is_none(recorded: tuple[Recorded, ...]) -> None:
    rows = compare_recorded(recorded, accelerator("ethos-u55-128"))
    off = EstimateComparison("ds_cnn", "ethos-u55-128", "Performance", "5.2.0", tuple(replace(row, vela=row.vela + 1) for row in rows))
    assert {row.column for _, row in deviations([off])} == {row.column for row in rows if not row.is_cycles}
    assert not passed([off])
    assert not passed([])
    cycles = replace(off, rows=tuple(row for row in off.rows if row.is_cycles))
    assert passed([cycles])
    assert all(entry.equal == 0 and entry.within_one == entry.held == entry.total for entry in tally(cycles.rows, lambda row: row.column))


def test_the_report_counts_values_and_is_json(recorded: tuple[Recorded, ...]) -> None:
    rows = compare_recorded(recorded, accelerator("ethos-u55-128"))
    comparison = EstimateComparison("ds_cnn", "ethos-u55-128", "Performance", "5.2.0", rows)
    tables = render([comparison])
    assert len(tables) == 2
    assert "Every value holds" in tables[0].text()
    counts = {row[0]: row[1:] for row in tables[0].rows}
    assert counts["ao_cycles"] == (str(len(recorded)),) * 3
    report = json.loads(json.dumps(to_json([comparison])))
    assert report["passed"]
    assert report["deviations"] == []
    assert sum(entry["total"] for entry in report["columns"]) == len(rows)


@pytest.mark.parametrize("lost", ["perf", "perf_debug", "perf_debug_main", "queue"])
def test_a_database_without_a_table_is_no_agreement(compilation: VelaResult, lost: str) -> None:
    text = compilation.database.replace(f'<table name="{lost}">', f'<table name="{lost}_renamed">')
    with pytest.raises(InputError, match=r"debug database is not that of version 5\.2"):
        read_database(replace(compilation, database=text), MEMORIES)


def test_a_renamed_column_is_no_agreement(compilation: VelaResult) -> None:
    text = compilation.database.replace('"ofm_depth_slices"', '"depth_slices"')
    with pytest.raises(InputError, match="'ofm_depth_slices'"):
        read_database(replace(compilation, database=text), MEMORIES)


def test_an_unknown_operator_is_counted_as_missing(compilation: VelaResult) -> None:
    text = compilation.database.replace('"AvgPool"', '"NewPool"')
    rows = compare_recorded(read_database(replace(compilation, database=text), MEMORIES), accelerator("ethos-u55-128"))
    assert {row.operator for row in rows if row.ours is None} == {"NewPool"}


def test_the_copy_of_whole_weights_takes_the_cycles_that_the_scheduler_noted(recorded: tuple[Recorded, ...]) -> None:
    whole = [entry.operation.weights for entry in recorded if entry.operation is not None and entry.operation.weights is not None]
    staged = [weights for weights in whole if weights.staging is not None and len(weights.depth_slices) == 1]
    assert staged
    for weights in staged:
        assert weights.staging is not None
        size = weights.encoded_bytes + weights.scale_bytes
        assert weights.first_transfer_bytes == size
        assert weights.full_transfer_cycles == copy_cycles(weights.home, weights.staging, size)


def operation(engine: Engine, operator: str, *, bits: int = 8) -> EstimatedOperation:
    feature_map = VelaOperand(Shape3D(8, 8, 32), bits, Layout.NHCWB16, SRAM)
    return EstimatedOperation(operator, engine, feature_map, None, feature_map, BLOCK, BLOCK, feature_map.shape, Kernel())


def test_vela_takes_a_pool_of_8_bits_for_four_times_as_long_but_on_32_macs() -> None:
    cycles = {name: estimate_cycles(operation(Engine.POOL, "AvgPool"), accelerator(name)).mac for name in ("ethos-u55-32", "ethos-u55-64")}
    ofm_blocks, ublocks = 8, {"ethos-u55-32": 4 * 4 * 4, "ethos-u55-64": 4 * 4 * 2}
    ao = {"ethos-u55-32": 2 * 256, "ethos-u55-64": 256}
    assert cycles == {
        name: 4 * factor * ublocks[name] * ofm_blocks + ao[name] for name, factor in (("ethos-u55-32", 1), ("ethos-u55-64", 4))
    }


def test_an_8_bit_scalar_is_a_register_and_a_wider_one_is_read_once() -> None:
    for bits, expected in ((8, 0), (32, 4 * 16)):
        whole = operation(Engine.ELEMENTWISE, "Mul", bits=bits)
        scalar = VelaOperand(Shape3D(1, 1, 1), bits, Layout.NHCWB16, FLASH)
        traffic = estimate_traffic(replace(whole, ifm2=scalar))
        assert sum(size for (memory, _), size in traffic.read.items() if memory == FLASH) == expected


def test_cycles_of_more_than_2_to_the_24_bytes_round_as_32_bit_floats_do() -> None:
    memory = VelaMemory("Sram", Fraction(1), 0, 0, 32)
    assert [memory.cycles((1 << 24) + extra) - (1 << 24) for extra in range(4)] == [0, 0, 2, 4]


@given(npu=st.integers(0, 10**6), slack=st.integers(0, 10**6), more=st.integers(0, 10**6), size=st.integers(16, 10**6))
def test_more_time_to_hide_a_transfer_in_never_costs_cycles(npu: int, slack: int, more: int, size: int) -> None:
    full = copy_cycles(FLASH, SRAM, size)
    weights = Weights(size, (32,), FLASH, SRAM, size, pre_buffered=True, full_transfer_cycles=full)
    op = replace(operation(Engine.CONVOLUTION, "Conv2D"), weights=weights)
    assert npu <= with_transfers(op, npu, npu, slack + more) <= with_transfers(op, npu, npu, slack) <= npu + full


def test_a_memory_that_the_configuration_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="names the memory 'Dram'"):
        MEMORIES.find("Dram")


def test_memories_of_an_own_configuration_are_read_with_their_bursts() -> None:
    text = """
[System_Config.Ethos_U55_Own]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
Sram_burst_length=64
Sram_read_latency=10
Sram_write_latency=11
OffChipFlash_clock_scale=0.125
OffChipFlash_burst_length=256
OffChipFlash_read_latency=70
OffChipFlash_write_latency=0
[Memory_Mode.Mine]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""
    memories = read_memories(text, "Ethos_U55_Own", "Mine")
    assert memories.staging == VelaMemory("Sram", Fraction(4), 10, 11, 64)
    assert memories.constants == VelaMemory("OffChipFlash", Fraction(1), 70, 0, 256)


@pytest.mark.parametrize("name", ["cycles", "memories", "operation", "transfers"])
def test_the_examples_of_the_docstrings_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"validation.vela.estimate.{name}"))
    assert result.attempted
    assert not result.failed


@pytest.mark.skipif("NPU_TESTBED_ALL" not in os.environ, reason="takes about 2 minutes: set NPU_TESTBED_ALL to run it")
@pytest.mark.parametrize("optimise", OPTIMISE)
@pytest.mark.parametrize("device", U55)
def test_every_reference_network_is_reproduced(device: str, optimise: str) -> None:
    networks = sorted((shared_data() / "models").glob("*.tflite"))
    assert len(networks) == 14
    for path in networks:
        assert unequal(compare(path.read_bytes(), device, optimise, name=path.stem)) == [], path.stem
