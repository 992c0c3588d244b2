"""The engine on Programs whose cycles follow by hand.

The block of all these tests: 4x4x16 of a 1x1 convolution over 16 channels on 128 MACs. Its IFM has 256 bytes = 32 beats; the MAC array
takes 4 cycles for each of 8 ublocks in the plane and 2 in depth = 64; the output unit half a cycle per element = 128; the OFM has 32 beats.
"""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace
from small_programs import IDEAL, IDEAL_MEMORY, NO_CLAMP, conv, copy, memories, memory, program

from npu_model.program import Control, ControlKind, DmaWait, KernelWait, Program, Shram
from npu_model.shapes import Shape3D, ceil_div
from npu_model.timing import TimingParameters
from sim import Busy, Cause, Event, Unit, Wait, operation_beats
from sim import replay as any_replay

replay = partial(any_replay, timing=TimingParameters(command_cycles_per_word=1, drain_responses=0))
"""The engine with a command word a cycle, so that an operation's place in the stream shows in its cycles."""

BLOCK = Shape3D(4, 4, 16)
LOAD, MAC, OUTPUT, STORE = 32, 64, 128, 32
ONE_BLOCK = LOAD + MAC + OUTPUT + STORE


class Events:
    """A listener that keeps everything."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_start(self, program: Program) -> None:  # noqa: ARG002  # the listener's interface
        self.events.clear()

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def busy(self, unit: Unit, operation: int) -> list[tuple[int, int]]:
        return [(e.start, e.end) for e in self.events if isinstance(e, Busy) and (e.unit, e.operation) == (unit, operation)]

    def waits(self, unit: Unit, operation: int, cause: Cause) -> list[tuple[int, int]]:
        return [(e.start, e.end) for e in self.events if isinstance(e, Wait) and (e.unit, e.operation, e.cause) == (unit, operation, cause)]


def blocks(count: int) -> Shape3D:
    """An OFM of so many blocks, one above the other."""
    return Shape3D(4 * count, 4, 16)


def start(*operations: object) -> int:
    """Cycle at which the first operation is issued: all words (two to a beat) are fetched at once, and it has one of them."""
    return ceil_div(len(operations) + 1, 2) + 1


def test_a_single_block_is_fetched_accumulated_scaled_and_stored_one_after_the_other() -> None:
    kernel = conv(BLOCK, BLOCK)
    assert replay(program(kernel), IDEAL).cycles == start(kernel) + ONE_BLOCK


def test_each_unit_is_busy_for_its_own_stage() -> None:
    run = replay(program(conv(BLOCK, BLOCK)), IDEAL)
    stages = {Unit.IFM: LOAD, Unit.MAC: MAC, Unit.AO: OUTPUT, Unit.OFM: STORE}
    assert run.busy == {Unit.CC: 2, **stages}


def test_read_and_write_latency_are_each_paid_once_by_a_single_block() -> None:
    kernel = conv(BLOCK, BLOCK)
    slow = memories(memory(latency=32))
    assert replay(program(kernel), slow).cycles == start(kernel) + ONE_BLOCK + 2 * 32


def test_weights_that_arrive_after_the_ifm_hold_the_mac_array() -> None:
    kernel = conv(BLOCK, BLOCK, weights=1024)
    run = replay(program(kernel), IDEAL)
    assert run.cycles == start(kernel) + 1024 // 8 + MAC + OUTPUT + STORE
    assert run.waits[Unit.MAC, Cause.WEIGHTS] == 1024 // 8 - LOAD


@pytest.mark.parametrize("count", [2, 3, 7])
def test_double_buffers_overlap_the_blocks_so_that_the_slowest_unit_sets_the_pace(count: int) -> None:
    kernel = conv(blocks(count), BLOCK)
    run = replay(program(kernel), IDEAL)
    assert run.cycles == start(kernel) + LOAD + MAC + count * OUTPUT + STORE
    assert run.busy[Unit.AO] == count * OUTPUT


def test_two_slots_let_the_mac_array_run_two_blocks_ahead_of_the_output_unit() -> None:
    events = Events()
    kernel = conv(blocks(4), BLOCK)
    replay(program(kernel), IDEAL, [events])
    first = start(kernel) + LOAD
    assert [begin - first for begin, _ in events.busy(Unit.MAC, 0)] == [0, MAC, MAC + OUTPUT, MAC + 2 * OUTPUT]


def test_two_slots_let_the_output_unit_run_two_blocks_ahead_of_write_back() -> None:
    events = Events()
    kernel = conv(blocks(4), BLOCK)
    # A block is stored in 4 bursts of 8 beats, each of which waits for the response of the one before; nobody waits for the last one's.
    stored, response = 4 * (200 + 8), 200
    replay(program(kernel), memories(replace(memory(latency=200, outstanding=1), read_latency=0, max_reads=0)), [events])
    first = start(kernel) + LOAD + MAC
    begins = [begin - first for begin, _ in events.busy(Unit.AO, 0)]
    assert begins == [0, OUTPUT, OUTPUT + stored - response, OUTPUT + 2 * stored - response]


@pytest.mark.parametrize("blockdep", [0, 1, 2, 3])
def test_the_first_block_waits_until_all_but_blockdep_blocks_of_the_previous_kernel_are_stored(blockdep: int) -> None:
    events = Events()
    kernels = conv(blocks(4), BLOCK), conv(BLOCK, BLOCK, blockdep=blockdep)
    replay(program(*kernels), IDEAL, [events])
    stored = start(*kernels) + LOAD + MAC + (4 - blockdep) * OUTPUT + STORE
    assert [end for _, end in events.waits(Unit.IFM, 1, Cause.BLOCKDEP)] == [stored]


def test_blockdep_0_runs_two_kernels_one_after_the_other_and_3_overlaps_them() -> None:
    kernels = conv(BLOCK, BLOCK), conv(BLOCK, BLOCK, blockdep=0)
    apart = replay(program(*kernels), IDEAL).cycles
    together = replay(program(kernels[0], replace(kernels[1], blockdep=3)), IDEAL).cycles
    assert apart == start(*kernels) + 2 * ONE_BLOCK
    assert together == start(*kernels) + ONE_BLOCK + OUTPUT


def test_weights_are_fetched_while_blockdep_holds_the_ifm_back() -> None:
    kernels = conv(BLOCK, BLOCK), conv(BLOCK, BLOCK, weights=1024, blockdep=0)
    assert replay(program(*kernels), IDEAL).cycles == start(*kernels) + 2 * ONE_BLOCK


def test_a_changed_shram_partition_drains_the_previous_kernel() -> None:
    kernels = conv(BLOCK, BLOCK), replace(conv(BLOCK, BLOCK), shram=Shram(12, 14))
    run = replay(program(*kernels), IDEAL)
    assert run.cycles == start(*kernels) + 2 * ONE_BLOCK
    assert run.waits[Unit.IFM, Cause.SHRAM] == ONE_BLOCK - LOAD


def test_at_most_two_kernels_are_outstanding() -> None:
    run = replay(program(*[conv(BLOCK, BLOCK)] * 5), IDEAL)
    issued, finished = zip(*((one.issued, one.finished) for one in run.operations), strict=True)
    assert issued[2:] == finished[:-2]
    assert issued[1] == issued[0] + 1


def test_at_most_one_transfer_is_outstanding() -> None:
    run = replay(program(*[copy(1024)] * 4), IDEAL)
    issued, finished = zip(*((one.issued, one.finished) for one in run.operations), strict=True)
    assert issued[1:] == finished[:-1]


def test_a_transfer_streams_its_source_to_its_destination_in_chunks_of_32_beats() -> None:
    # The last chunk of 32 beats is written when it has been read.
    assert replay(program(copy(2048)), IDEAL).cycles == start(copy(0)) + 2048 // 8 + 32


def test_a_transfer_to_shram_is_only_read() -> None:
    run = replay(program(copy(2048, to_shram=True)), IDEAL)
    assert run.cycles == start(copy(0)) + 2048 // 8
    assert run.beats.axi0_write == 0


def test_kernels_and_transfers_run_side_by_side_without_a_wait() -> None:
    operations = copy(1024), conv(BLOCK, BLOCK)
    transfer, kernel = replay(program(*operations), IDEAL).operations
    assert kernel.issued < transfer.finished
    assert kernel.finished == kernel.issued + ONE_BLOCK


def test_dma_wait_holds_the_kernel_until_the_transfer_is_done() -> None:
    run = replay(program(copy(4096), DmaWait(0), conv(BLOCK, BLOCK)), IDEAL)
    transfer, kernel = run.operations
    assert kernel.issued == transfer.finished + 1
    assert run.waits[Unit.CC, Cause.DMA_WAIT] == transfer.finished - transfer.issued - 1
    assert kernel.waits[Unit.CC, Cause.DMA_WAIT] == run.waits[Unit.CC, Cause.DMA_WAIT]


@pytest.mark.parametrize(("outstanding", "awaited"), [(0, 1), (1, 0)])
def test_kernel_wait_k_holds_the_transfer_until_k_kernels_remain(outstanding: int, awaited: int) -> None:
    run = replay(program(conv(BLOCK, BLOCK), conv(BLOCK, BLOCK), KernelWait(outstanding), copy(64)), IDEAL)
    *kernels, transfer = run.operations
    assert transfer.issued == kernels[awaited].finished + 1


def test_the_command_processor_takes_a_cycle_for_every_word() -> None:
    run = replay(program(*[Control(ControlKind.IRQ)] * 9, words=100), IDEAL)
    assert run.busy[Unit.CC] == 1000
    assert run.beats.axi1_read == 500


def test_an_odd_command_word_costs_a_whole_beat() -> None:
    assert replay(program(words=7), IDEAL).beats.axi1_read == 4


def test_the_command_processor_waits_for_words_from_a_slow_memory() -> None:
    slow = memories(IDEAL_MEMORY, memory(latency=64, outstanding=2))
    run = replay(program(words=160), slow)
    # Each fetch of 16 words waits for the one before: a latency and 8 beats.
    assert run.cycles == 10 * (64 + 8) + 16


def test_a_program_of_nothing_but_stop_ends_when_it_is_parsed() -> None:
    run = replay(program(), IDEAL)
    assert (run.cycles, run.operations) == (2, ())


def test_a_program_without_operations_takes_no_cycle() -> None:
    empty = replace(program(), operations=(), words=())
    assert replay(empty, IDEAL).cycles == 0


def test_the_replay_is_over_when_the_last_block_is_stored_and_the_last_transfer_written() -> None:
    for operations in [(copy(8192), conv(BLOCK, BLOCK)), (conv(blocks(40), BLOCK), copy(16))]:
        run = replay(program(*operations), IDEAL)
        assert run.cycles == max(one.finished for one in run.operations)


def test_counts_per_operation_sum_to_those_of_the_program() -> None:
    operations = copy(4096), DmaWait(0), conv(blocks(3), BLOCK, weights=64), KernelWait(0), copy(64), Control(ControlKind.IRQ)
    run = replay(program(*operations), memories(memory(latency=16, outstanding=2), memory(latency=40, outstanding=2)))
    for unit, cycles in run.busy.items():
        assert cycles == sum(one.busy.get(unit, 0) for one in run.operations)
    for key, cycles in run.waits.items():
        assert cycles == sum(one.waits.get(key, 0) for one in run.operations)


def test_beats_of_the_ports_are_those_of_the_operations_and_of_the_command_fetch() -> None:
    operations = copy(4096), conv(blocks(5), BLOCK, weights=640), conv(Shape3D(9, 7, 40), BLOCK)
    run = replay(program(*operations, words=33), memories(memory(latency=16, outstanding=2)))
    counted = [operation_beats(op, run.accelerator, run.system) for op in operations]
    assert run.beats.axi0_read == sum(beats.axi0_read for beats in counted)
    assert run.beats.axi0_write == sum(beats.axi0_write for beats in counted)
    assert run.beats.axi1_read == sum(beats.axi1_read for beats in counted) + ceil_div(33 * 4, 2)


def test_a_clamp_costs_the_relu_rate_where_that_is_larger() -> None:
    # On 128 MACs both rates are half a cycle; on 32 MACs the operation's own two cycles rule.
    relu = replace(conv(BLOCK, BLOCK), activation=replace(NO_CLAMP, minimum=0))
    for accelerator in ("ethos-u55-128", "ethos-u55-32"):
        plain, clamped = (replay(program(op, accelerator=accelerator), IDEAL).cycles for op in (conv(BLOCK, BLOCK), relu))
        assert plain == clamped


def test_the_same_program_gives_the_same_replay() -> None:
    operations = copy(4096), conv(blocks(9), BLOCK, weights=640), conv(Shape3D(9, 7, 40), BLOCK, weights=4096)
    system = memories(memory(latency=16, outstanding=2), memory(latency=40, outstanding=2))
    assert replay(program(*operations), system) == replay(program(*operations), system)
