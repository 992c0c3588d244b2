"""The footprint against a twin that keeps a life for every byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from small_programs import ARENA, CONSTANTS, INT8, conv, copy, program

from npu_model.program import Binding, ByteRange, DmaOperation, Program, Region, RegionRole
from npu_model.shapes import Shape3D
from sim import footprint

pytestmark = pytest.mark.law

BLOCK = Shape3D(4, 4, 16)
SIZE = 64


def binding(name: str, start: int, length: int) -> Binding:
    return Binding(name, ARENA, start, (length,), INT8)


@st.composite
def ranges(draw: DrawFn) -> tuple[int, int]:
    start = draw(st.integers(0, SIZE - 1))
    return start, draw(st.integers(start + 1, SIZE))


@st.composite
def programs(draw: DrawFn) -> Program:
    """Transfers inside the arena and from constants, with bindings anywhere."""
    operations = []
    for start, end in draw(st.lists(ranges(), max_size=6)):
        source = ByteRange(draw(st.sampled_from([CONSTANTS, ARENA])), start, end)
        operations.append(DmaOperation(source, draw(st.integers(0, SIZE)), ARENA, draw(st.sampled_from([False, False, True]))))
    inputs = tuple(binding(f"i{start}", start, end - start) for start, end in draw(st.lists(ranges(), max_size=2)))
    outputs = tuple(binding(f"o{start}", start, end - start) for start, end in draw(st.lists(ranges(), max_size=2)))
    return replace(program(*operations), inputs=inputs, outputs=outputs)


def steps_of(network: list[Program], inputs: list[Binding], outputs: list[Binding]) -> list[tuple[set[int], set[int], bool]]:
    """Bytes read and written at each step, and whether it is an operation."""

    def covered(bindings: list[Binding]) -> set[int]:
        return {byte for b in bindings for byte in range(b.address, b.address + b.size)}

    steps = [(set(), covered(inputs), False)]
    for one in network:
        steps.append((set(), covered([b for b in one.inputs if b not in inputs]), False))
        for op in one.operations:
            accessed = (op.reads(), op.writes()) if isinstance(op, DmaOperation) else ((), ())
            reads, writes = ({byte for r in side if r.region == ARENA for byte in range(r.start, r.end)} for side in accessed)
            steps.append((reads, writes, True))
        steps.append((covered([b for b in one.outputs if b not in outputs]), set(), False))
    return [*steps, (covered(outputs), set(), False)]


def naive_live(steps: list[tuple[set[int], set[int], bool]]) -> list[int]:
    """Live bytes per step: a byte lives from a write (or the start) to its last use before it is written anew."""
    live = [0] * len(steps)
    for byte in {b for reads, writes, _ in steps for b in reads | writes}:
        uses = [(i, byte in reads, byte in writes) for i, (reads, writes, _) in enumerate(steps) if byte in reads or byte in writes]
        first = 0 if uses[0][1] else uses[0][0]
        lives = [[first, uses[0][0]]]
        for step, read, _ in uses[1:]:
            if read:
                lives[-1][1] = step
            else:
                lives.append([step, step])
        for begin, end in lives:
            for step in range(begin, end + 1):
                live[step] += 1
    return live


@settings(max_examples=300, deadline=None)
@given(st.lists(programs(), min_size=1, max_size=3), st.booleans())
def test_live_bytes_are_those_of_a_life_kept_for_every_byte(network: list[Program], shared: bool) -> None:  # noqa: FBT001  # drawn by position
    inputs = list(network[0].inputs) if shared else []
    outputs = list(network[-1].outputs) if shared else []
    steps = steps_of(network, inputs, outputs)
    live = naive_live(steps)
    found = footprint(network, inputs, outputs)
    assert found.live == tuple(count for count, (_, _, is_operation) in zip(live, steps, strict=True) if is_operation)
    assert found.live_peak == max(live)
    assert found.peak == max((byte + 1 for reads, writes, _ in steps for byte in reads | writes), default=0)
    assert found.live_peak <= found.peak


def test_the_peak_is_the_end_of_the_highest_byte_and_gaps_are_not_live() -> None:
    low, high = conv(BLOCK, BLOCK, ifm_base=0, ofm_base=4096), conv(BLOCK, BLOCK, ifm_base=4096, ofm_base=512)
    found = footprint([program(low, high)], [], [])
    assert found.peak == 4096 + 256
    # Nobody reads the second OFM, yet it must be somewhere while it is written.
    assert found.live == (512, 512, 0)


def test_an_operation_in_place_needs_its_tensor_once() -> None:
    found = footprint([program(conv(BLOCK, BLOCK, ifm_base=0, ofm_base=0))], [], [])
    assert (found.peak, found.live_peak) == (256, 256)


def test_constants_and_shram_take_no_arena() -> None:
    assert footprint([program(copy(256, to_shram=True))], [], []).peak == 0


def test_fast_scratch_is_the_arena() -> None:
    into_scratch = DmaOperation(ByteRange(CONSTANTS, 0, 64), 128, 2)
    one = program(into_scratch)
    aliased = replace(one, regions=(*one.regions, Region(2, RegionRole.FAST_SCRATCH, 1 << 10)))
    assert footprint([aliased], [], []).peak == 128 + 64


def test_a_tensor_lives_from_program_to_program_until_its_last_use() -> None:
    first, second = program(conv(BLOCK, BLOCK, ofm_base=4096)), program(conv(BLOCK, BLOCK, ofm_base=8192))
    third = program(conv(BLOCK, BLOCK, ifm_base=4096, ofm_base=512))
    found = footprint([first, second, third], [binding("in", 0, 256)], [binding("out", 512, 256)])
    # The input lives until the second, the first's result until the third; what the second writes nobody reads.
    assert found.live == (512, 512, 768, 256, 512, 256)


def test_no_programs_touch_nothing() -> None:
    assert footprint([], [], []).peak == 0
