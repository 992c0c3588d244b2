"""Findings are true: each saves what a replay with that one thing changed saves, and none is made where there is nothing to gain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import pytest
from asked_for import simulate_vela
from msgspec.structs import replace
from small_programs import IDEAL, conv, copy, max_pool, memories, memory, program

import npu_testbed
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, legalised, named_network
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.program import DmaOperation, DmaWait, KernelOperation, Layout, Program
from npu_model.program.check import check_program
from npu_model.shapes import Shape3D
from npu_testbed.devices.configs import load_timing_adapter
from npu_testbed.findings import Finding, find, findings, what_bounds
from npu_testbed.findings.bricks import bricks
from npu_testbed.findings.edits import with_transfers, without, without_transfer
from npu_testbed.findings.finding import LEAST, MOST, largest, percent
from npu_testbed.findings.memories import faster_memories
from npu_testbed.findings.memories import memories as worthy_memories
from npu_testbed.findings.moves import moves, only_moves
from npu_testbed.findings.waits import next_accelerator, on_accelerator
from npu_testbed.findings.weights import staged, weights
from npu_testbed.proofs.verification import functional_outputs, seeded_inputs
from npu_testbed.replays.layer_names import first_operator
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.findings import nothing_found
from npu_testbed.reports.tables import layers_text
from sim import Unit, counted_network, footprint, quick_cycles
from sim.views.layers import layer_rows
from sim.views.stalls import stall_report
from validation.builder import NetworkBuilder, TensorHandle
from validation.portfolio import build as portfolio

DEFAULT = "ethos-u55-128"
SLOW = load_timing_adapter("u55_high_end")


def simulated(network: CompiledNetwork, system: MemorySystem = SLOW) -> Simulation:
    replay = counted_network(network, system)
    return Simulation("test", "a test", network.arena_size, accelerator(DEFAULT), system, network, replay, ())


def small(*programs: Program, system: MemorySystem = IDEAL) -> Simulation:
    return simulated(CompiledNetwork(programs, 1 << 20, (), ()), system)


@cache
def layers(model: bytes) -> CompiledNetwork:
    return lower(schedule_layer_by_layer(legalised(model, DEFAULT).network(), DEFAULT))


def built(make: Callable[[NetworkBuilder], Sequence[TensorHandle]]) -> bytes:
    net = NetworkBuilder("test")
    return net.finish(make(net))


def plain(net: NetworkBuilder) -> list[TensorHandle]:
    """Two convolutions of the camera's own order of axes."""
    x = net.conv2d(net.input((1, 32, 32, 3), "nhwc"), 16, activation="RELU")
    return [net.conv2d(x, 16)]


def from_nchw(net: NetworkBuilder) -> list[TensorHandle]:
    """The same behind a transposition."""
    x = net.transpose(net.input((1, 3, 32, 32), "nchw"), (0, 2, 3, 1))
    return [net.conv2d(net.conv2d(x, 16, activation="RELU"), 16)]


def kinds(found: Sequence[Finding]) -> set[str]:
    return {one.kind for one in found}


def test_a_network_from_nchw_is_told_to_be_fed_nhwc() -> None:
    simulation = simulated(layers(built(from_nchw)))
    (found,) = moves(simulation)
    assert "pools only transpose the input" in found.text
    assert "feeding NHWC saves" in found.text
    assert found in findings(simulation)


def test_feeding_nhwc_saves_what_is_said() -> None:
    transposed, fed = (simulated(layers(built(make))) for make in (from_nchw, plain))
    (found,) = moves(transposed)
    assert found.cycles == pytest.approx(transposed.replay.cycles - fed.replay.cycles, rel=0.02)


def test_a_network_of_nhwc_has_no_moves() -> None:
    assert not list(moves(simulated(layers(built(plain)))))


def test_a_pool_that_changes_a_value_moves_more_than_data() -> None:
    shape = Shape3D(8, 8, 16)
    pool = max_pool(shape, shape)
    assert only_moves(pool)
    assert not only_moves(replace(pool, activation=replace(pool.activation, minimum=0)))
    assert not only_moves(replace(pool, ofm=replace(pool.ofm, zero_point=1)))
    assert not only_moves(conv(shape, shape))


@pytest.mark.parametrize("name", ["transpose_nchw_at_ends", "conv_transpose_nchw_conv"])
def test_a_transposition_is_blamed_on_where_it_is(name: str) -> None:
    found = " ".join(one.text for one in moves(simulated(layers(portfolio(name)))))
    at_ends = name == "transpose_nchw_at_ends"
    assert ("transpose the input" in found, "transpose the output" in found) == (at_ends, at_ends)
    assert at_ends != ("between layers" in found)


@cache
def flash_bound() -> Simulation:
    """Convolutions of few weights, which are read from flash again for every block."""
    return simulated(layers(built(partial(narrow, 16))))


def test_weights_that_are_waited_for_are_told_to_be_copied_ahead() -> None:
    found, *_ = [one for one in weights(flash_bound()) if one.share >= LEAST]
    assert re.search(r"waits for its weights [\d.]+% of its time: copying the [\d,]+ bytes into SRAM", found.text)
    assert found.cycles > 0


def test_a_copy_needs_its_bytes_beside_the_arena_and_says_what_is_beyond_a_budget() -> None:
    simulation = flash_bound()
    planned = simulation.planned_bytes
    found = next(one for one in findings(simulation) if one.kind == "weights")
    copied = int(re.search(r"copying (?:the|all) ([\d,]+) bytes", found.text)[1].replace(",", ""))  # type: ignore[index]  # it says so
    assert found.needs == planned + copied
    assert found.text.endswith(f"; it needs {found.needs:,} bytes of SRAM in all.")

    def weights_within(budget: int) -> Finding:
        return next(one for one in findings(simulation, budget=budget) if one.kind == "weights")

    within, beyond = weights_within(found.needs), weights_within(planned + 16)
    assert within.text == found.text
    assert beyond.text.endswith(f" bytes of SRAM in all, {copied - 16:,} more than the budget.")
    # The arena of the Program that was replayed ends there.
    (step,) = simulation.network.programs
    index = next(i for i, op in enumerate(step.operations) if isinstance(op, KernelOperation) and i > 2)
    edited = staged(step, [index], 1, step.name(index))
    assert edited is not None
    (copy_ahead,) = [op for op in edited.operations if isinstance(op, DmaOperation) and op not in step.operations]
    sizes = [next(region.size for region in one.regions if region.index == 1) for one in (step, edited)]
    assert sizes == [planned, planned + copy_ahead.length]


def test_what_needs_no_more_sram_than_was_planned_says_nothing_of_it() -> None:
    for one in findings(simulated(layers(built(from_nchw)))):
        assert one.needs >= simulated(layers(built(from_nchw))).planned_bytes
        assert ("it needs" in one.text) == (one.kind == "weights")


def test_layers_that_gain_by_the_same_copy_are_one_finding_of_one_replay() -> None:
    simulation = simulate_vela("zoo:ds_cnn", optimise="Size")
    joined, *others = sorted(weights(simulation), key=lambda one: -one.cycles)
    names = r"(?:pointwise_\d, ){2}pointwise_\d and pointwise_\d"
    assert re.match(
        rf"{names} wait for their weights 49% to 52% of their time: copying all [\d,]+ bytes into SRAM of their own", joined.text
    )
    assert [one.changed for one in others if "copied" in one.changed] == []
    program = simulation.network.programs[0]
    for name, ahead in re.findall(r"(pointwise_\d): weights copied (\d) kernel", joined.changed):
        kernels = [
            i for i, op in enumerate(program.operations) if isinstance(op, KernelOperation) and op.weights and program.name(i) == name
        ]
        edited = staged(program, kernels, int(ahead), name)
        assert edited is not None
        program = edited
    check_program(program, accelerator(DEFAULT))
    cycles = quick_cycles(replace(simulation.network, steps=(program,)), simulation.system)
    assert joined.cycles == simulation.replay.cycles - cycles > 0


def test_an_ideal_memory_has_weights_that_nobody_copies() -> None:
    simulation = flash_bound()
    off = simulated(simulation.network, load_timing_adapter("off"))
    assert not [one for one in weights(off) if one.share >= LEAST]


def test_a_copy_that_brings_more_than_is_read_is_better_left_out() -> None:
    block = Shape3D(4, 4, 16)
    kernel = conv(block, block, 64, weights=1024)
    there = tuple(replace(span, region=1, start=0x40000, end=0x40000 + span.length) for span in kernel.weights)
    late = small(program(copy(16384), DmaWait(0), replace(kernel, weights=there)), system=memories(memory(), memory(500)))
    (found,) = weights(late)
    assert "through AXI1 as the kernel runs, without a copy, saves" in found.text
    assert found.cycles == late.replay.cycles - small(program(DmaWait(0), kernel), system=late.system).replay.cycles


def test_every_way_to_read_weights_computes_the_same() -> None:
    """A copy ahead is a program that the NPU accepts, and its outputs are those of the schedule."""
    model = built(lambda net: [net.conv2d(net.conv2d(net.input((1, 8, 8, 8), "x"), 16), 8)])
    network = layers(model)
    (step,) = network.programs
    kernels = [index for index, op in enumerate(step.operations) if isinstance(op, KernelOperation)]
    edited = staged(step, kernels[1:], 1, "second")
    assert edited is not None
    check_program(edited, accelerator(DEFAULT))
    arena = max(region.size for region in edited.regions if region.index == 1)
    changed = replace(network, steps=(edited,), arena_size=arena)
    inputs = seeded_inputs(network, 2, 0)
    for ours, theirs in zip(functional_outputs(changed, inputs), functional_outputs(network, inputs), strict=True):
        assert {name: array.tolist() for name, array in ours.items()} == {name: array.tolist() for name, array in theirs.items()}


def test_waits_ask_the_same_of_the_other_transfers() -> None:
    a, b, c = copy(64), copy(128), copy(256)
    shape = Shape3D(4, 4, 16)
    kernel = conv(shape, shape)
    base = program(a, kernel, b, DmaWait(1), kernel, DmaWait(0), kernel)
    more = with_transfers(base, [c], 1, 4, "")
    assert [op for op in more.operations if isinstance(op, (DmaOperation, DmaWait))] == [a, c, b, DmaWait(2), DmaWait(1), DmaWait(0)]
    assert without_transfer(more, 1).operations[:4] == (a, kernel, b, DmaWait(1))
    assert len(without(base, {0, 3}).words) == len(base.words) - 2


@pytest.mark.parametrize("between", [1, 14, 15, 16, 40])
def test_a_copy_ahead_of_many_transfers_waits_for_as_many_as_a_command_can_say(between: int) -> None:
    shape = Shape3D(4, 4, 16)
    kernel = conv(shape, shape)
    base = program(kernel, *[copy(64)] * between, kernel, DmaWait(15), kernel)
    more = with_transfers(base, [copy(256)], 1, 1 + between, "")
    assert [op.outstanding for op in more.operations if isinstance(op, DmaWait)] == [min(between, 15), 15]
    kept = [op for op in more.operations if isinstance(op, (KernelOperation, DmaOperation))]
    assert kept == [kernel, copy(256), *[copy(64)] * between, kernel, kernel]


@pytest.mark.parametrize("error", [InputError("Operation 3 is wrong: mend it."), ZeroDivisionError(), IndexError("of a list")])
def test_advice_that_fails_is_left_out_with_a_note(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_simulation: Simulation) -> Iterator[Finding]:
        yield Finding("fails", "", "", 1 << 40, 0, 0, 1.0)
        raise error

    simulation = flash_bound()
    kept = findings(simulation)
    monkeypatch.setattr(find, "KINDS", (fails, *find.KINDS))
    assert findings(simulation) == kept
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith("npu-testbed: note: advice on fails is left out: ")
    assert ("Operation 3" if isinstance(error, InputError) else type(error).__name__) in note


def test_a_slow_flash_is_worth_a_faster_one_and_an_ideal_one_is_not() -> None:
    simulation = flash_bound()
    assert any(one.text.startswith("Twice the bandwidth") for one in worthy_memories(simulation) if "AXI1" in one.text)
    assert not list(worthy_memories(simulated(simulation.network, load_timing_adapter("off"))))


def test_half_the_latency_saves_what_a_replay_with_it_saves() -> None:
    first, second = SLOW.ports
    late, halved = (
        replace(SLOW, ports=(first, replace(second, read_latency=reads, write_latency=second.write_latency // (500 // reads))))
        for reads in (500, 250)
    )
    network = flash_bound().network
    (found,) = [one for one in worthy_memories(simulated(network, late)) if one.text.startswith("Half the latency") and "AXI1" in one.text]
    assert found.cycles == quick_cycles(network, late) - quick_cycles(network, halved) > 0


def narrow(channels: int, net: NetworkBuilder) -> list[TensorHandle]:
    x = net.input((1, 40, 40, 8), "x")
    for _ in range(3):
        x = net.conv2d(x, channels)
    return [net.conv2d(x, 8)]


def test_a_17th_channel_costs_a_brick_and_a_16th_does_not() -> None:
    wide, kept = (simulated(layers(built(partial(narrow, channels)))) for channels in (17, 16))
    (found,) = bricks(wide)
    assert found.text.startswith("17 channels take 2 bricks of 16: with 16 the peak of live bytes falls by ")
    assert wide.replay.footprint.live_peak - found.bytes == kept.replay.footprint.live_peak
    assert not list(bricks(kept))


@pytest.mark.parametrize("optimise", ["Performance", "Size"])
def test_bricks_of_velas_own_schedules_are_counted_too(optimise: str) -> None:
    compiled = read_compiled(compile_network(portfolio("channels_17"), CompilerOptions(DEFAULT, optimise=optimise)).compiled)
    (found,) = bricks(simulated(compiled))
    assert 0 < found.bytes < footprint(compiled.programs, compiled.inputs, compiled.outputs).live_peak


def test_a_schedule_of_ours_has_the_finding_unless_its_layout_pads_nothing() -> None:
    fastest = npu_testbed.schedule("portfolio:channels_17", jobs=1)
    assert any(
        one.text.startswith("17 channels take 2 bricks of 16: with 16 the peak of live bytes falls") for one in fastest.findings or ()
    )
    smallest = npu_testbed.schedule("portfolio:channels_17", optimise="Size", no_advice=True, jobs=1)
    maps = [fm for program in smallest.simulation.network.programs for op in program.kernels for fm in (op.ifm, op.ofm)]
    assert {fm.layout for fm in maps} == {Layout.NHWC}
    assert not list(bricks(smallest.simulation))


def test_the_largest_come_first_and_few_are_named() -> None:
    many = [Finding("a", str(index), "", index, 0, 0, index / 100) for index in range(20)]
    chosen = largest(many)
    assert [one.cycles for one in chosen] == [19, 18, 17, 16, 15]
    assert len(chosen) == MOST
    assert not largest([Finding("a", "", "", 1, 0, 0, LEAST / 2)])


def test_findings_do_not_change_what_they_are_about() -> None:
    network = named_network(compile_network(built(from_nchw), CompilerOptions(DEFAULT)))
    simulation = simulated(network)
    assert findings(simulation) == findings(simulated(network))
    assert simulation.network == network


def test_without_a_finding_the_waits_of_the_macs_are_said_and_what_the_next_configuration_gives() -> None:
    simulation = simulate_vela("zoo:ds_cnn")
    assert not findings(simulation)
    (row,) = (row for row in stall_report(simulation.replay) if row.unit is Unit.MAC)
    larger = quick_cycles(on_accelerator(simulation.network, accelerator("ethos-u55-256")), simulation.system, simulation.timing)
    best = max(faster_memories(simulation), key=lambda one: one.share)
    said = nothing_found(simulation)
    assert f"The MAC array works in {percent(row.busy / simulation.replay.cycles)} of the cycles and waits for input in " in said
    assert (
        f"On the ethos-u55-256 the same operations take {larger:,} cycles, {percent(1 - larger / simulation.replay.cycles)} fewer." in said
    )
    assert f"{best.changed} saves most: {percent(best.share)} of the cycles." in said
    # Compiled for that configuration the network takes about what its operations take there.
    compiled = simulate_vela("zoo:ds_cnn", accelerator_config="ethos-u55-256").replay.cycles
    assert abs(larger / compiled - 1) < 0.05


@pytest.mark.parametrize(
    ("device", "larger"),
    [("ethos-u55-32", "ethos-u55-64"), ("ethos-u55-128", "ethos-u55-256"), ("ethos-u55-256", None), ("ethos-u65-256", None)],
)
def test_the_next_configuration_has_more_macs_and_as_many_cores(device: str, larger: str | None) -> None:
    found = next_accelerator(accelerator(device))
    assert (None if found is None else found.name) == larger
    if larger is None:
        assert f"is larger than the {device}" in what_bounds(simulate_vela("zoo:tiny_conv", accelerator_config=device))


@pytest.mark.parametrize("model", ["zoo:ds_cnn", "portfolio:mnist", "portfolio:far_concat"])
def test_a_next_configuration_that_needs_longer_weight_streams_is_no_reason_to_lose_the_answer(model: str) -> None:
    simulation = simulate_vela(model, accelerator_config="ethos-u55-32")
    larger = accelerator("ethos-u55-64")
    with pytest.raises(InputError, match="weights"):
        quick_cycles(on_accelerator(simulation.network, larger), simulation.system, simulation.timing)
    assert "The ethos-u55-64 needs other weight streams: schedule the network for it." in what_bounds(simulation)


def test_layers_that_are_small_are_summed_by_what_bounds_them_and_by_operator() -> None:
    replay = simulate_vela("zoo:ds_cnn").replay
    rows = layer_rows(replay)
    assert "\noperator" not in layers_text(replay, 1.0)
    whole = layers_text(replay, 50.0)
    for key in ("binding", "operator"):
        sums: Counter[str] = Counter()
        for row in rows:
            sums[row.binding if key == "binding" else first_operator(row.operator)] += row.cycles
        for name, cycles in sums.items():
            (line,) = (line for line in whole.splitlines() if line.startswith(name) and f" {cycles:,} " in line and "below" not in line)
            assert f"{100 * cycles / replay.cycles:.1f}" in line
