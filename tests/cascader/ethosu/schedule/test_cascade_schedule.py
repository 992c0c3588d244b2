"""Cascaded schedules: they compute what the network computes, in just the arena that was planned."""

from __future__ import annotations

import pytest
from cascades import cascade, cuts, expected, graph_of, outputs, tight
from few_examples import few
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import ARENA
from cascader.ethosu.schedule.file import from_json, to_json
from npu_model.command_stream import decode_words
from npu_model.command_stream.encode import encode_operations
from npu_model.program import DmaOperation, DmaWait, KernelOperation, Operation
from sim.footprint import footprint

pytestmark = pytest.mark.law


def assert_computes_the_network(made: Schedule, name: str) -> None:
    lowered = lower(made)
    assert outputs(lowered) == expected(name)
    peak = footprint(lowered.programs, lowered.inputs, lowered.outputs).peak
    # The last tensor may end inside the 16 bytes that the arena's size is rounded up to.
    assert made.arena_size - 16 < peak <= made.arena_size


ZOO = [(name, rows) for name in ("tiny_conv", "tiny_residual", "resnet8", "ds_cnn") for rows in (1, 2)]
REAL = [("resnet8_i8", 1), ("vww_mnv1_0.25_96_i8", 1), ("vww_mnv1_0.25_96_i8", 2), ("ds_cnn_kws_i8", 1), ("squeezenet1.1_384_i8", 4)]


@pytest.mark.parametrize(("name", "stripe_rows"), ZOO + REAL)
def test_a_network_cascaded_as_one_group_computes_the_same_bytes_in_the_planned_arena(name: str, stripe_rows: int) -> None:
    assert_computes_the_network(cascade(name, cuts(name, [], stripe_rows)), name)


@pytest.mark.parametrize("name", ["tiny_residual", "resnet8", "resnet8_i8", "vww_mnv1_0.25_96_i8"])
def test_groups_with_staged_weights_compute_the_same_bytes_in_the_planned_arena(name: str) -> None:
    parts = len(graph_of(name).parts)
    made = cascade(name, cuts(name, [parts // 3, parts // 2], 3), staged=range(0, parts, 2), ahead=3)
    assert made.copies
    assert_computes_the_network(made, name)


@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-256"])
def test_a_cascade_computes_the_same_bytes_on_other_accelerators(device: str) -> None:
    made = cascade("ds_cnn", cuts("ds_cnn", [12], 2), staged=range(20), accelerator=device)
    assert_computes_the_network(made, "ds_cnn")


@settings(max_examples=few(25), deadline=None)
@given(st.data())
def test_any_grouping_of_a_small_network_computes_the_same_bytes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["tiny_conv", "tiny_residual"]))
    parts = len(graph_of(name).parts)
    borders = data.draw(st.lists(st.integers(1, parts - 1), max_size=2))
    staged = data.draw(st.lists(st.integers(0, parts - 1), unique=True))
    made = cascade(name, cuts(name, borders, data.draw(st.integers(1, 40))), staged=staged, ahead=data.draw(st.integers(0, 12)))
    assert_computes_the_network(made, name)
    assert from_json(to_json(made)) == made


def test_cascading_takes_less_than_a_third_of_the_memory_of_the_layers() -> None:
    assert cascade("tiny_residual", cuts("tiny_residual", [], 1)).arena_size * 3 < schedule("tiny_residual").arena_size


def test_a_cascaded_schedule_survives_its_file() -> None:
    made = tight("resnet8")
    assert any(job.rows for job in made.jobs)
    assert any(buffer.rows for buffer in made.buffers)
    assert made.copies
    text = to_json(made)
    assert from_json(text) == made
    assert to_json(from_json(text)) == text


@pytest.mark.parametrize("name", ["tiny_residual", "resnet8"])
def test_the_stream_of_a_cascade_decodes_to_itself(name: str) -> None:
    for program in lower(tight(name)).programs:
        words, counts = encode_operations(program.operations)
        assert decode_words(words) == (program.operations, program.words)
        assert program.words == counts


def test_the_stripes_of_a_part_carry_its_layers_name() -> None:
    made = tight("tiny_residual")
    program = lower(made).programs[0]
    names = [name for name, op in zip(program.names, program.operations, strict=True) if isinstance(op, KernelOperation)]
    assert len(set(names)) == len(schedule("tiny_residual").jobs)
    assert len(names) == len(made.jobs)


def test_an_output_may_grow_into_its_dying_input() -> None:
    made = cascade("tiny_conv", cuts("tiny_conv", [], 1))
    buffers = {name: buffer for buffer in made.buffers for name in buffer.tensors}
    network = made.network
    source, result = buffers[network.inputs[0].tensor], buffers[network.outputs[0].tensor]
    assert source.start < result.end
    assert result.start < source.end
    assert source.address < result.address + result.size
    assert result.address < source.address + source.size
    assert made.arena_size < source.size + result.size


# Staged weights.


def operations(made: Schedule) -> tuple[Operation, ...]:
    return lower(made).programs[0].operations


def test_staged_weights_are_read_from_the_arena_and_others_from_the_constants() -> None:
    made = cascade("tiny_residual", cuts("tiny_residual", [], 2), staged=[0, 2])
    staged = {copy.part for copy in made.copies}
    kernels = lower(made).programs[0].kernels
    for job, kernel in zip(made.jobs, kernels, strict=True):
        assert all((span.region == ARENA) == (job.part in staged) for span in kernel.weights + kernel.scales)
    assert len(staged) == 2


def test_a_kernel_waits_for_a_transfer_only_if_it_needs_it_and_it_may_still_run() -> None:
    made = cascade("resnet8", cuts("resnet8", [], 2), staged=range(8), ahead=4)
    found = operations(made)
    waited = 0
    for index, operation in enumerate(found):
        if isinstance(operation, DmaWait):
            *_, newest = (op for op in found[:index] if isinstance(op, DmaOperation))
            user = found[index + 1]
            assert newest.to_shram or (isinstance(user, KernelOperation) and touches(user, newest))
            waited += not newest.to_shram
    transfers = [op for op in found if isinstance(op, DmaOperation) and not op.to_shram]
    # One transfer at a time: those behind which another one has begun are over.
    assert 0 < waited < len(transfers)
    assert kernels_beside_a_transfer(found) > len(transfers)


def kernels_beside_a_transfer(found: tuple[Operation, ...]) -> int:
    """Kernels that are issued while a transfer may be under way."""
    under_way = beside = 0
    for operation in found:
        if isinstance(operation, (DmaOperation, DmaWait)):
            under_way = isinstance(operation, DmaOperation)
        beside += isinstance(operation, KernelOperation) and under_way
    return beside


def touches(kernel: KernelOperation, transfer: DmaOperation) -> bool:
    return any(a.overlaps(b) for a in kernel.reads() + kernel.writes() for b in transfer.writes())
