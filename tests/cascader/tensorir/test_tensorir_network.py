"""Schedules of real networks in TensorIR: outputs, memory and work are what the schedule says, and a wrong schedule shows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from asked_for import schedule
from command_line import call
from cpu_networks import cpu_split_network, float_network
from msgspec.structs import replace
from reference_data import shared_data
from tensorir_proofs import compiled, smallest

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.tensorir.schedule_run import compile_schedule
from cascader.tensorir.schedule_tir import schedule_module
from npu_model.errors import InputError
from npu_model.program import KernelOperation, OperationKind
from npu_testbed.models.sources import load_model
from npu_testbed.proofs.tensorir_proof import litert_judges, prove_schedule
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from npu_testbed.replays.scheduling import write_schedule
from validation.zoo import build, zoo_names

EVERYTHING = os.environ.get("NPU_TESTBED_ALL") == "1"
TINY = ("tiny_conv", "tiny_residual")
LARGE = pytest.mark.skipif(not EVERYTHING, reason="takes minutes; NPU_TESTBED_ALL=1 runs it")
REAL = ("mobilenet_v1_1.0_224_nofc_u8", "mobilenet_v2_1.0_224_i8", "resnet8_i8", "vww_mnv1_0.25_96_i8")


@pytest.mark.parametrize("name", TINY)
def test_a_cascaded_network_is_proven_in_tensorir(name: str) -> None:
    plan = smallest(name)
    proof = prove_schedule(plan, litert_judges(build(name)))
    assert proof.passed
    assert len(proof.comparisons) in (2, 4)
    assert proof.arena == plan.arena_size
    assert proof.allocated == {f"buffer_{index}": buffer.size for index, buffer in enumerate(plan.buffers)}


def frontier_points(source: str) -> list[Schedule]:
    """The smallest schedule and one half-way to the layer-by-layer one."""
    small, large = schedule(source, optimise="Size"), schedule(source, cascade=False)
    return [small, schedule(source, budget=(small.arena_size + large.arena_size) // 2)]


@LARGE
@pytest.mark.parametrize("name", [name for name in zoo_names() if name not in TINY])
def test_every_zoo_network_is_proven_at_two_frontier_points(name: str) -> None:
    assert all(prove_schedule(plan, litert_judges(build(name))).passed for plan in frontier_points(f"zoo:{name}"))


@LARGE
@pytest.mark.parametrize("name", REAL)
def test_every_real_network_is_proven_at_two_frontier_points(name: str) -> None:
    path = str(shared_data() / "models" / f"{name}.tflite")
    assert all(prove_schedule(plan, litert_judges(load_model(path).data)).passed for plan in frontier_points(path))


def test_layer_by_layer_no_buffer_shares_bytes_with_a_live_one_so_whole_buffers_fit_the_arena() -> None:
    compiled_schedule = compile_schedule(schedule("zoo:tiny_residual", cascade=False))
    assert compiled_schedule.measured.live == compiled_schedule.source.arena_size


def clipped(op: KernelOperation) -> int:
    """Multiply-accumulates on padding, tap by tap."""
    taps = 0
    for y, x, ky, kx in np.ndindex(op.ofm.shape.height, op.ofm.shape.width, op.kernel.height, op.kernel.width):
        row = y * op.kernel.stride_y + ky * op.kernel.dilation_y - op.padding.top
        column = x * op.kernel.stride_x + kx * op.kernel.dilation_x - op.padding.left
        taps += not (0 <= row < op.ifm.shape.height and 0 <= column < op.ifm.shape.width)
    return taps * op.ofm.shape.depth * (op.ifm.shape.depth if op.kind is OperationKind.CONV_2D else 1)


@pytest.mark.parametrize("name", TINY)
def test_planned_work_is_that_of_the_program_less_the_taps_that_padding_clips(name: str) -> None:
    kernels = [op for program in lower(smallest(name)).programs for op in program.operations if isinstance(op, KernelOperation)]
    windowed = [op for op in kernels if op.kind is not OperationKind.ELEMENTWISE]
    on_padding = sum(clipped(op) for op in windowed)
    assert on_padding
    assert sum(schedule_module(smallest(name)).macs.values()) == sum(op.macs for op in kernels) - on_padding


def differing(plan: Schedule, right: Schedule) -> tuple[int, int, int]:
    """Bytes of the outputs of ``plan`` in an arena that are not those of ``right``, damaged bytes beside it, stale weights."""
    network = lower(right)
    (inputs,) = seeded_inputs(network, 1, 7)
    (expected,) = functional_outputs(network, [inputs])
    run = compile_schedule(plan).run_in_arena(inputs, seed=7)
    return sum(int((run.outputs[name] != expected[name]).sum()) for name in expected), run.damaged, run.stale


def rolling(plan: Schedule) -> int:
    return next(index for index, buffer in enumerate(plan.buffers) if buffer.rows is not None)


def with_buffer(plan: Schedule, index: int, **fields: int) -> Schedule:
    buffers = list(plan.buffers)
    buffers[index] = replace(buffers[index], **fields)
    return replace(plan, buffers=tuple(buffers))


def test_a_rolling_buffer_with_one_row_less_gives_another_output() -> None:
    plan = smallest("tiny_conv")
    buffer = plan.buffers[rolling(plan)]
    assert buffer.rows
    wrong = with_buffer(plan, rolling(plan), rows=buffer.rows - 1, size=buffer.size - buffer.row_bytes)
    assert differing(wrong, plan)[0]
    assert differing(plan, plan) == (0, 0, 0)


def test_a_buffer_moved_onto_a_live_one_gives_another_output() -> None:
    plan = smallest("tiny_conv")
    index = rolling(plan)
    other = next(
        i for i, b in enumerate(plan.buffers) if i != index and b.start < plan.buffers[index].end and plan.buffers[index].start < b.end
    )
    assert differing(with_buffer(plan, index, address=plan.buffers[other].address), plan)[0]


def test_an_arena_that_is_claimed_too_small_is_seen_by_its_guards() -> None:
    plan = smallest("tiny_conv")
    assert differing(replace(plan, arena_size=plan.arena_size - 16), plan)[1]


def test_jobs_in_another_order_give_another_output() -> None:
    plan = smallest("tiny_conv")
    assert differing(replace(plan, jobs=(*plan.jobs[1:], plan.jobs[0])), plan)[0]


def test_staged_weights_that_a_tensor_overwrites_are_counted_as_stale() -> None:
    plan = schedule("zoo:tiny_residual", budget=16000, processes=1)
    assert plan.copies
    copy = plan.copies[0]
    users = [step for step, job in enumerate(plan.jobs) if job.part == copy.part and step >= copy.step]
    written = next(plan.buffers[i] for i, b in enumerate(plan.buffers) if b.start <= users[0] and b.end > users[0])
    moved = replace(plan, copies=(replace(copy, address=written.address), *plan.copies[1:]))
    assert differing(plan, plan) == (0, 0, 0)
    assert differing(moved, plan) != (0, 0, 0)


def test_two_runs_in_differently_noisy_arenas_give_the_same_bytes() -> None:
    made = compiled("tiny_residual")
    (inputs,) = seeded_inputs(lower(smallest("tiny_residual")), 1, 3)
    first, second = (made.run_in_arena(inputs, seed) for seed in (1, 2))
    assert all((first.outputs[name] == second.outputs[name]).all() for name in first.outputs)
    assert first.macs == second.macs == made.source.macs


def test_an_input_of_another_type_is_refused() -> None:
    made = compiled("tiny_residual")
    with pytest.raises(InputError, match="is given as float64"):
        made.run_in_arena({port.name: np.zeros(port.shape) for port in made.source.inputs})


def test_an_operator_on_the_cpu_that_is_no_copy_is_refused_by_name(tmp_path: Path) -> None:
    model = tmp_path / "cpu.tflite"
    model.write_bytes(cpu_split_network())
    with pytest.raises(InputError, match="on the CPU, which is not expressed in TensorIR"):
        compile_schedule(schedule(str(model), cascade=False))
    assert float_network() != cpu_split_network()


def test_verify_prints_the_proof_and_exits_with_0(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_schedule(smallest("tiny_conv"), path)
    outcome = call("verify", path, "--tensorir", "--inferences", "1")
    assert outcome.status == 0
    kernels, jobs = len(smallest("tiny_conv").network.graph.parts), len(smallest("tiny_conv").jobs)
    assert f"{kernels} kernels in {jobs} jobs, proven" in outcome.output
    assert "proven" in outcome.output
    assert "NOT PROVEN" not in outcome.output


def test_a_compiled_network_is_refused_in_one_sentence(tmp_path: Path) -> None:
    plan, network = tmp_path / "plan.json", tmp_path / "net.tflite"
    write_schedule(smallest("tiny_conv"), plan)
    assert call("export", plan, "-o", network).status == 0
    outcome = call("verify", network, "--tensorir", "--model", "zoo:tiny_conv")
    assert outcome.status == 2
    assert "needs a schedule file" in outcome.errors
