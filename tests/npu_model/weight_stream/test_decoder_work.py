"""The weight decoder's work: bits and turns of a stream, symbol by symbol, and the steps that follow from them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from naive_mlw import naive_decode
from reference_data import shared_data
from small_programs import ARENA, CONSTANTS, IDEAL, conv, program

from npu_model.accelerator import accelerator
from npu_model.compiled.network import read_compiled
from npu_model.cost.block_jobs import BlockJob, block_jobs, program_jobs
from npu_model.cost.cycles import mac_cycles
from npu_model.errors import InputError
from npu_model.program import ByteRange, DmaOperation, Kernel, KernelOperation, OperationKind, Program, Region, RegionRole, Tiles
from npu_model.shapes import Shape3D
from npu_model.timing import TimingParameters
from npu_model.weight_stream.mlw_work import decoder_work
from npu_model.weight_stream.order import WeightFormat, run_ends, symbol_count
from npu_model.weight_stream.weights import encode_weights, weight_shape
from npu_model.weight_stream.work import operation_work, stream_work
from sim import replay
from validation.fvp.references.records import measured_program, measured_work, points

DEVICE = accelerator("ethos-u55-128")
FILES = {"yolo_fastest_192_face": "yolo-fastest_192_face_v4"}
SHAPE, LAYOUT = (16, 1, 1, 32), WeightFormat(16)
SYMBOLS = symbol_count(SHAPE, LAYOUT, DEVICE)


def encoded(weights: np.ndarray) -> bytes:
    return encode_weights(weights, LAYOUT, DEVICE)


@cache
def dense(seed: int = 1) -> np.ndarray:
    """Weights that no code makes shorter."""
    return np.random.default_rng(seed).integers(-127, 128, SHAPE, dtype=np.int16)


def sparse(share: float, seed: int = 1) -> np.ndarray:
    """Weights of which a share is kept and the others are 0."""
    return dense(seed) * (np.random.default_rng(seed + 1).random(SHAPE) < share)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(share=st.floats(0, 1), seed=st.integers(0, 99), counts=st.lists(st.integers(1, SYMBOLS), min_size=1, max_size=9))
def test_turns_are_those_of_a_bit_by_bit_decoder_and_bits_no_fewer(share: float, seed: int, counts: list[int]) -> None:
    stream = encoded(sparse(share, seed))
    twin = naive_decode(stream, SYMBOLS)
    counts = sorted({*counts, SYMBOLS})
    work = decoder_work(stream, tuple(counts))
    assert list(work.turns) == [max(twin.turns[:n]) for n in counts]
    assert work.bits[-1] == 8 * len(stream)
    for bits, n in zip(work.bits[:-1], counts[:-1], strict=True):
        # A chunk is read whole: 12 symbols of at most 9 bits each beyond the one that is asked for, and as many zero runs.
        assert twin.bits[n - 1] <= bits <= twin.bits[n - 1] + 12 * 9 + 12 * 4


def test_dense_8_bit_weights_take_a_turn_for_eight() -> None:
    (turns,) = decoder_work(encoded(dense()), (SYMBOLS,)).turns
    assert turns == SYMBOLS // 8


def test_weights_of_one_bit_take_a_turn_for_eight_too() -> None:
    """A chunk holds twelve of them: half a cycle more each."""
    equal = encoded(np.ones(SHAPE, np.int16))
    assert len(equal) < SYMBOLS // 4
    assert decoder_work(equal, (96, 100, SYMBOLS)).turns == (12, 14, SYMBOLS // 8)
    assert naive_decode(equal, SYMBOLS).turns[95] == 12


def test_the_more_zeros_the_fewer_turns() -> None:
    turns = [decoder_work(encoded(sparse(share)), (SYMBOLS,)).turns[0] for share in (1.0, 0.5, 0.25, 0.05)]
    assert turns == sorted(turns, reverse=True)
    assert turns[-1] * 2 < turns[0]


def test_a_stream_that_is_too_short_is_one_sentence() -> None:
    stream = encoded(dense())
    with pytest.raises(InputError, match=f"holds {SYMBOLS} weights: {SYMBOLS + 1} are needed"):
        decoder_work(stream, (SYMBOLS + 1,))
    with pytest.raises(InputError, match="no end mark"):
        decoder_work(stream[:64], (SYMBOLS,))


def convolution(weights: np.ndarray, *, staged: bool = False) -> Program:
    """A 1x1 convolution of one OFM block and its weights, in constants or copied to the arena first."""
    stream = encoded(weights)
    op = replace(conv(Shape3D(2, 2, 16), Shape3D(2, 2, 16), 32), weights=(ByteRange(CONSTANTS, 0, len(stream)),))
    copy = DmaOperation(ByteRange(CONSTANTS, 0, len(stream)), 0x4000, ARENA, to_shram=False)
    if staged:
        op = replace(op, weights=(ByteRange(ARENA, 0x4000, 0x4000 + len(stream)),))
    base = program(*(copy, op) if staged else (op,))
    return replace(base, regions=(Region(CONSTANTS, RegionRole.CONSTANTS, len(stream), stream), base.regions[1]))


def only_job(one: Program, timing: TimingParameters = TimingParameters()) -> BlockJob:  # noqa: B008  # frozen
    (jobs,) = program_jobs(one, DEVICE, timing).values()
    (job,) = jobs
    return job


def test_a_step_takes_what_the_decoder_takes_where_that_is_more_than_the_macs_take() -> None:
    # One row and column of ublocks: 2 ublocks deep, 4 cycles each; 512 weights take 64 turns, and 512 bytes and some 65 words.
    assert only_job(convolution(dense())).steps[0].mac_cycles == pytest.approx(SYMBOLS // 8, abs=4)
    light = only_job(convolution(sparse(0.05))).steps[0]
    assert 16 <= light.mac_cycles < SYMBOLS // 16


def test_the_switch_makes_the_weights_content_invisible() -> None:
    timing = TimingParameters(decodes_streams=False)
    heavy, light = (only_job(convolution(weights), timing) for weights in (dense(), sparse(0.05)))
    assert heavy.steps[0].mac_cycles == light.steps[0].mac_cycles == SYMBOLS // 8
    assert replay(convolution(dense()), IDEAL).cycles > replay(convolution(sparse(0.05)), IDEAL).cycles


def test_a_copy_of_the_weights_is_known_like_the_constants_themselves() -> None:
    direct, staged = convolution(dense()), convolution(dense(), staged=True)
    assert stream_work(direct, DEVICE)[0] == stream_work(staged, DEVICE)[1]
    # What a later copy overwrites is known no more.
    copy, op, stop = staged.operations
    assert isinstance(copy, DmaOperation)
    spoilt = replace(copy, source=ByteRange(ARENA, 0, 16), destination=copy.destination + 16)
    assert stream_work(replace(staged, operations=(copy, spoilt, op, stop), words=(1,) * 4), DEVICE) == {}


def test_an_operation_that_comes_again_with_other_constants_asks_for_other_work() -> None:
    direct, staged = convolution(dense()), convolution(dense(), staged=True)
    for one in (direct, staged):
        content = one.regions[0].content
        again = replace(one, regions=(replace(one.regions[0], content=bytes(bytearray(content))), one.regions[1]))
        assert stream_work(one, DEVICE) == stream_work(again, DEVICE) != {}
    light = convolution(sparse(0.05))
    (op,), (other,) = direct.kernels, light.kernels
    both = light.regions[0].content.ljust(op.weights[0].end, b"\0")
    mixed = replace(direct, regions=(replace(direct.regions[0], content=both), direct.regions[1]))
    with pytest.raises(InputError):
        stream_work(replace(mixed, regions=(replace(mixed.regions[0], content=bytes(len(both))), mixed.regions[1])), DEVICE)
    shorter = replace(op, weights=other.weights, scales=other.scales)
    known = stream_work(replace(light, operations=(shorter, *light.operations[1:])), DEVICE)
    assert known == stream_work(light, DEVICE) != stream_work(direct, DEVICE)


def test_operations_that_differ_by_addresses_share_their_work_and_those_of_another_format_have_their_own() -> None:
    one = convolution(dense())
    first = one.operations[0]
    assert isinstance(first, KernelOperation)
    moved = first.having(ofm=replace(first.ofm, tiles=Tiles.single(first.ofm.shape, 1 << 16)))
    flat = first.having(block=Shape3D(first.block.height, first.block.width, first.block.depth // 2))
    works = [stream_work(replace(one, operations=(op, *one.operations[1:])), DEVICE)[0] for op in (first, moved, flat)]
    assert works[1] is works[0]
    assert works[2] != works[0]
    stream = one.regions[0].content[first.weights[0].start : first.weights[0].end]
    assert works == [operation_work(op, (stream,), DEVICE) for op in (first, moved, flat)]


def test_weights_without_their_bytes_are_dealt_in_proportion() -> None:
    known = convolution(dense())
    unknown = replace(known, regions=(replace(known.regions[0], content=b""), known.regions[1]))
    (op,) = unknown.kernels
    assert stream_work(unknown, DEVICE) == {}
    assert program_jobs(unknown, DEVICE)[0] == block_jobs(op, DEVICE)
    beats = [sum(read.runs[0] for step in only_job(one).steps for read in step.weights) for one in (known, unknown)]
    assert beats[0] == beats[1]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    ofm=st.integers(1, 40), ifm=st.integers(1, 70), taps=st.sampled_from([(1, 1), (3, 3), (9, 2)]), block=st.sampled_from([8, 16, 32]),
    seed=st.integers(0, 9), depthwise=st.booleans(), part_kernel=st.booleans(),
)  # fmt: skip
def test_the_steps_of_a_block_follow_the_stream_and_miss_no_word_of_it(
    ofm: int, ifm: int, taps: tuple[int, int], block: int, seed: int, *, depthwise: bool, part_kernel: bool
) -> None:
    op = conv(Shape3D(3, 3, ofm), Shape3D(4, 4, block), ofm if depthwise else ifm, Kernel(*taps))
    op = replace(op, kind=OperationKind.DEPTHWISE) if depthwise else replace(op, part_kernel=part_kernel)
    values = np.random.default_rng(seed).integers(-9, 10, weight_shape(op), dtype=np.int16)
    stream = encode_weights(values, WeightFormat.of(op), DEVICE)
    op = replace(op, weights=(ByteRange(CONSTANTS, 16, 16 + len(stream)),))
    work = operation_work(op, (stream,), DEVICE)
    whole = TimingParameters(weights_at_once=1 << 20)
    steps = [step for job in block_jobs(op, DEVICE, whole, work=work) for step in job.steps]
    parts = [step for job in block_jobs(op, DEVICE, work=work) for step in job.steps]
    assert [step.fetches for step in parts if not step.continues] == [step.fetches for step in steps]
    assert sum(read.runs[0] for step in parts for read in step.weights) == len(stream) // 8
    assert sum(step.mac_cycles for step in parts) >= sum(step.mac_cycles for step in steps)
    assert len(steps) == len(run_ends(weight_shape(op), WeightFormat.of(op), DEVICE)) == len(work[0].turns)
    reads = [read for step in steps for read in step.weights]
    assert sum(read.runs[0] for read in reads) == len(stream) // 8
    # Each read goes on where the one before it ended.
    position = 2
    for read in reads:
        assert read.phase == position % 32
        position += read.runs[0]
    for step, turns, before in zip(steps, work[0].turns, (0, *work[0].turns), strict=False):
        assert step.mac_cycles >= turns - before


def test_the_decoder_never_makes_a_step_faster_than_its_macs() -> None:
    op = conv(Shape3D(8, 8, 16), Shape3D(8, 8, 16), 32, Kernel(3, 3))
    assert mac_cycles(op, DEVICE, op.block, 9, 32, decoding=0) == 2304
    assert mac_cycles(op, DEVICE, op.block, 9, 32, decoding=5000) == 5000


def test_the_shipped_work_is_that_of_the_measured_streams() -> None:
    for network, name in sorted({(p.network, p.accelerator) for p in points()}):
        path = shared_data() / "fvp" / "streams" / f"{FILES.get(network, network)}.{name}.vela500.tflite"
        (compiled,) = read_compiled(path.read_bytes()).programs
        work = stream_work(compiled, accelerator(name))
        assert work == measured_work(network, name)
        assert set(work) == {i for i, op in enumerate(compiled.operations) if isinstance(op, KernelOperation) and op.weights}
        assert measured_program(network, name).operations == compiled.operations


def test_channels_whose_weights_are_no_bytes_are_refused() -> None:
    op = convolution(dense()).kernels[0]
    with pytest.raises(InputError, match="channels are a range of 0 bytes"):
        operation_work(replace(op, weights=(ByteRange(CONSTANTS, 16, 16),)), (b"",), DEVICE)


def test_weights_for_an_input_of_32_bits_are_refused() -> None:
    op = convolution(dense()).kernels[0]
    wide = replace(op, ifm=replace(op.ifm, dtype=replace(op.ifm.dtype, bits=32)))
    with pytest.raises(InputError, match="reads elements of 32 bits"):
        operation_work(wide, (encoded(dense()),), DEVICE)
