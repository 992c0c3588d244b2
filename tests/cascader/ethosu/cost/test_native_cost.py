"""The compiled cost model is the Python one: blocks, loads, flows, estimates, partitions, weight streams, BLOCKDEP, shared cycles."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, pairwise, product
from unittest.mock import patch

import numpy as np
import pytest
from few_examples import few
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import elementwise_operations, windowed_operations
from scheduling import network
from test_mlw import BAD_HEADERS, KINDS, encode, pack

from cascader.ethosu.cost import block_estimator, blockdep, kernel_flow
from cascader.ethosu.cost.block_choice import Ranking
from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.block_option import Options
from cascader.ethosu.cost.blockdep import Dependency
from cascader.ethosu.cost.coupling import Coupling
from cascader.ethosu.cost.estimate_terms import Facts, Terms
from cascader.ethosu.cost.estimates import Estimate, Estimates, KernelEstimates, decoding_bytes
from cascader.ethosu.cost.kernel_estimate import kernel_estimates
from cascader.ethosu.cost.kernel_flow import Flow, Pipeline
from cascader.ethosu.cost.kernel_load import KernelLoad, kernel_load, operation_load
from cascader.ethosu.cost.memory_path import IN_ARENA, Source, Sources, Where
from cascader.ethosu.job.constants import StreamEditor
from cascader.ethosu.network.network import ARENA, CONSTANTS, ethosu_part
from npu_model.accelerator import Accelerator, accelerator, accelerator_names
from npu_model.cost import shram
from npu_model.cost.block_jobs import BlockJob, Read, like_jobs
from npu_model.cost.flat_operation import flat_decoding, flat_operation
from npu_model.cost.flat_work import moved_words, words_of_jobs
from npu_model.cost.shram import BlockQuery, ShramQuery
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from npu_model.native import native
from npu_model.program import DataType, FeatureMap, KernelOperation, OperationKind, PoolKind, Strides
from npu_model.shapes import Shape3D
from npu_model.timing import DEFAULT_TIMING, BlockdepRule, TimingParameters
from npu_model.weight_stream import mlw, mlw_work
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.work import operation_work

WORK, FLOW = native("npu_model"), native("cascader.ethosu")
pytestmark = pytest.mark.skipif(WORK is None or FLOW is None, reason="the compiled cores were not built, or are switched off")

DEVICE = accelerator("ethos-u55-128")
U65 = accelerator("ethos-u65-256")
NETWORKS = ("ds_cnn", "tiny_residual", "tiny_conv")
SIZES = st.integers(1, 20)


@st.composite
def small_operations(draw: st.DrawFn) -> KernelOperation:
    """Operations of every kind with few blocks, in memory as it comes: any strides, tiles and bases."""
    op = draw(st.one_of(windowed_operations(), elementwise_operations()))
    ofm = Shape3D(draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 8, 16, 40])))
    ifm = Shape3D(draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 3, 16, 72])))
    is_binary = op.ifm2 is not None

    def shaped(feature_map: FeatureMap, shape: Shape3D) -> FeatureMap:
        dense = shape.depth * feature_map.dtype.bytes
        strides = draw(st.sampled_from([feature_map.strides, Strides(shape.width * dense, dense, 16)]))
        return replace(feature_map, shape=shape, strides=strides)

    block = Shape3D(draw(st.sampled_from([1, 2, 6])), draw(st.sampled_from([2, 5])), draw(st.sampled_from([8, 16])))
    depth = DataType(draw(st.sampled_from([8, 16])), signed=True)
    changed = replace(op, ofm=shaped(op.ofm, ofm), ifm=replace(shaped(op.ifm, ifm), dtype=depth), block=block)
    if is_binary:
        assert op.ifm2 is not None
        other = Shape3D(*(draw(st.sampled_from([1, side])) for side in (ofm.height, ofm.width, ofm.depth)))
        changed = replace(changed, ifm2=shaped(op.ifm2, other), ifm=shaped(changed.ifm, ofm))
    if op.kind is OperationKind.POOL and op.pool is PoolKind.REDUCE_SUM:
        return replace(changed, part_kernel=False)
    return changed


def runs_at(work: Sequence[int], at: int) -> tuple[tuple[int, ...], int]:
    """The runs at a place, and the place behind them."""
    count = work[at]
    pairs = [(work[at + 1 + 2 * i], work[at + 2 + 2 * i]) for i in range(count)]
    return tuple(beats for times, beats in pairs for _ in range(times)), at + 1 + 2 * count


def reads_at(work: Sequence[int], at: int) -> tuple[Read, ...]:
    reads = []
    count, at = (work[at], at + 1) if at else (0, 0)
    for _ in range(count):
        region, phase = work[at], work[at + 1]
        runs, at = runs_at(work, at + 2)
        reads.append(Read(region, runs, phase))
    return tuple(reads)


Plain = tuple[int, tuple[int, ...], tuple[Read, ...], list[tuple[tuple[Read, ...], tuple[Read, ...], int, bool]]]
"""A job without its box: output cycles, writes, scales, and of each step fetches, weights, MAC cycles, whether it continues."""


def compiled_jobs(op: KernelOperation, device: Accelerator, timing: TimingParameters, work: tuple[DecoderWork, ...]) -> list[Plain]:
    row = flat_operation(op, device, timing, is_known=bool(work), modulus=32 * device.port_bytes_per_cycle)
    assert WORK is not None
    flat = memoryview(WORK.block_work(row, flat_decoding(work))).cast("q")
    places, depths, _, order, table = flat[:5]
    known = {}
    jobs = []
    for place in range(places):
        for depth in range(depths):
            at = flat[table + flat[order + place] * depths + depth]
            if at not in known:
                steps = [flat[at + 4 + 3 * s : at + 7 + 3 * s] for s in range(flat[at + 3])]
                plain = [
                    (reads_at(flat, at if at >= 0 else -1 - at), reads_at(flat, weights), cycles, at < 0) for at, weights, cycles in steps
                ]
                known[at] = flat[at], runs_at(flat, flat[at + 1])[0], reads_at(flat, flat[at + 2]), plain
            jobs.append(known[at])
    return jobs


def plain(job: BlockJob) -> Plain:
    steps = [(step.fetches, step.weights, step.mac_cycles, step.continues) for step in job.steps]
    return job.output_cycles, job.writes, job.scales, steps


TIMINGS = st.builds(
    TimingParameters,
    aligned_bursts=st.booleans(),
    kept_ifm_blocks=st.sampled_from([0, 2, 8]),
    depthwise_delays=st.booleans(),
    decoder_cycles_per_channel=st.sampled_from([0, 4, 7]),
    output_start_cycles=st.sampled_from([0, 5]),
    pool_floor=st.sampled_from([4, 16]),
    pool_passes=st.booleans(),
    weights_at_once=st.sampled_from([1, 300, 4096]),
)


@pytest.mark.law
@settings(max_examples=few(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(op=small_operations(), name=st.sampled_from(accelerator_names()), timing=TIMINGS)
def test_blocks_of_any_operation_have_the_same_work(op: KernelOperation, name: str, timing: TimingParameters) -> None:
    device = accelerator(name)
    try:
        expected = [plain(job) for job in like_jobs(op, device, timing)]
    except (ValueError, KeyError, ZeroDivisionError):
        assume(False)  # an operation that no rule of the device covers
    assert compiled_jobs(op, device, timing, ()) == expected


@cache
def operations(name: str) -> tuple[tuple[KernelOperation, tuple[DecoderWork, ...]], ...]:
    """The operations of a network with what their weight streams ask of the decoder."""
    one = network(name)
    constants, found = StreamEditor(one.constants), []
    for part in one.graph.parts:
        payload = ethosu_part(part)
        if payload is not None:
            streams = tuple(constants.read(where) for where in payload.operation.weights)
            found.append((payload.operation, operation_work(payload.operation, streams, DEVICE) if streams else ()))
    return tuple(found)


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_of_real_layers_have_the_same_work_with_their_streams_and_without(name: str) -> None:
    for op, work in operations(name):
        for known in (work, ()):
            expected = [plain(job) for job in like_jobs(op, DEVICE, work=known)]
            assert compiled_jobs(op, DEVICE, DEFAULT_TIMING, known) == expected


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(op=small_operations(), name=st.sampled_from(accelerator_names()), timing=TIMINGS)
def test_words_that_move_are_added_up_the_same_of_flat_work_and_of_blocks(op: KernelOperation, name: str, timing: TimingParameters) -> None:
    device = accelerator(name)
    try:
        expected = words_of_jobs(like_jobs(op, device, timing))
    except (ValueError, KeyError, ZeroDivisionError):
        assume(False)  # an operation that no rule of the device covers
    assert moved_words(op, device, timing) == expected


@pytest.mark.parametrize("name", NETWORKS)
def test_words_that_layers_move_are_added_up_the_same(name: str) -> None:
    for op, work in operations(name):
        assert moved_words(op, DEVICE, work=work) == words_of_jobs(like_jobs(op, DEVICE, work=work))


@pytest.mark.parametrize("name", NETWORKS)
def test_loads_are_equal_to_the_last_integer(name: str) -> None:
    for op, work in operations(name):
        expected = kernel_load(like_jobs(op, DEVICE, work=work), 4, 16)
        assert bytes(operation_load(op, DEVICE, work, 4, 16).flat) == bytes(expected.flat)


WORDS = st.integers(0, 60)
SOURCE = st.builds(
    Source,
    st.sampled_from([1.0, 1 / 3, 2.7]),
    st.integers(0, 40),
    st.sampled_from([0, 1, 8]),
    st.sampled_from([4, 8]),
    st.sampled_from([0.0, 1.9]),
)
FLOW_TIMINGS = st.builds(
    TimingParameters,
    buffer_slots=st.sampled_from([1, 2]),
    drain_responses=st.integers(0, 2),
    kernel_start_cycles=st.sampled_from([0, 9]),
    weights_ahead=st.booleans(),
)
ACCESS = st.sampled_from([DEVICE.access, U65.access, replace(U65.access, weight_bursts=0), replace(U65.access, ifm_ahead=False)])
SOURCES = st.builds(
    Sources,
    *(SOURCE, SOURCE, st.booleans(), st.one_of(st.just(DEFAULT_TIMING), FLOW_TIMINGS), st.sampled_from([0, 32])),
    access=ACCESS,
    cores=st.integers(1, 2),
    fill=st.sampled_from([0, 2, 5]),
    write_latency=st.integers(0, 90),
    most_writes=st.sampled_from([0, 1, 8]),
)
STEPS = st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS, st.integers(0, 1)), min_size=1, max_size=4)
KINDS_OF_BLOCKS = st.lists(
    st.builds(lambda steps, *head: (*head[:2], len(steps), head[2], *chain.from_iterable(steps)), STEPS, *(WORDS,) * 3),
    min_size=1,
    max_size=3,
)


@st.composite
def loads(draw: st.DrawFn) -> KernelLoad:
    kinds = draw(KINDS_OF_BLOCKS)
    return KernelLoad.of(draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=12)), kinds)


@pytest.mark.law
@settings(max_examples=few(300), deadline=None)
@given(
    st.lists(st.tuples(loads(), SOURCES, st.booleans(), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=3), st.integers(0, 50)
)
def test_kernels_flow_alike_to_the_last_bit(kernels: list[tuple[KernelLoad, Sources, bool, int, int]], latency: int) -> None:
    def flows() -> list[Flow]:
        pipeline = Pipeline(latency)
        return [
            pipeline.run(load, sources, prefetched=prefetched, distance=d, first=min(first, load.places))
            for load, sources, prefetched, d, first in kernels
        ]

    compiled = flows()
    with patch.object(kernel_flow, "_FLOW", None):
        assert flows() == compiled


OTHER_TIMING = TimingParameters(
    buffer_slots=1,
    kernel_start_cycles=9,
    output_start_cycles=5,
    output_scale=Fraction(7, 6),
    shared_cap=False,
    kept_ifm_blocks=0,
    pool_floor=9,
)


@pytest.mark.parametrize("timing", [DEFAULT_TIMING, OTHER_TIMING], ids=["model", "other"])
@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_are_equal_to_the_last_bit(name: str, ports: int, timing: TimingParameters) -> None:
    sources = Sources(Source(1.0, 16, 8, 4, 1.5), Source(2.7, 64, 4, 16, 1.9), shared=ports == 1, timing=timing)
    behind = {"behind": 1 / ports, "constants_behind": ports == 1, "gap": 9}
    wide = [replace(source, word_bytes=16) for source in (sources.maps, sources.constants)]
    ahead = Sources(*wide, shared=ports == 1, timing=timing, access=U65.access, fill=2, **behind)
    blocks = np.array([(h, w, d) for h in (1, 2, 5, 64) for w in (2, 6, 17) for d in (8, 16, 48)], np.int64)
    for op, work in operations(name):
        for decoding in (None, 12_345 if work else None):
            for estimator in (Estimator(op, DEVICE, sources, decoding), Estimator(op, U65, ahead, decoding)):
                compiled = estimator.cycles_of(blocks).tolist()
                with patch.object(block_estimator, "_NATIVE", None):
                    assert estimator.cycles_of(blocks).tolist() == compiled


def stated(estimate: Estimate) -> tuple[Facts, list[object]]:
    """All that an estimate states: its facts and its options with their loads."""
    options = [
        (o.block, o.shram, o.cycles, o.read_penalty, o.lead, o.tail, o.latency, o.sources, o.load.flat.tolist()) for o in estimate.options
    ]
    return estimate.facts, [*options]


ROUGH = replace(OTHER_TIMING, command_cycles_per_word=64)


@pytest.mark.parametrize("chooses", [True, False])
@pytest.mark.parametrize("timing", [DEFAULT_TIMING, ROUGH], ids=["model", "rough"])
@pytest.mark.parametrize(
    ("system", "where"),
    [
        *(("u55_high_end", IN_ARENA), ("off", IN_ARENA), ("u65_high_end", IN_ARENA)),
        ("u65_high_end", Where((CONSTANTS, ARENA), CONSTANTS)),
    ],
    ids=["u55_high_end", "off", "u65_high_end", "maps in two memories"],
)
@pytest.mark.parametrize("name", NETWORKS)
def test_estimates_of_kernels_state_the_same(name: str, system: str, where: Where, timing: TimingParameters, *, chooses: bool) -> None:
    device, memories = U65 if system == "u65_high_end" else DEVICE, profile(system).memory_system()
    terms = Terms.of(device, memories, timing, choose_blocks=chooses, where=where)
    for op, work in operations(name):
        in_home = replace(op, ifm2=None if op.ifm2 is None else replace(op.ifm2, region=CONSTANTS))
        for one in (op, in_home):
            compiled = Estimates(terms).of(one, work, decoding_bytes(work))
            twin = KernelEstimates(kernel_estimates(one, terms, work), terms)
            assert stated(compiled.staged) == stated(twin.staged)
            assert stated(compiled.direct) == stated(twin.direct)


@pytest.mark.parametrize(
    "timing",
    [
        DEFAULT_TIMING,
        replace(ROUGH, drain_responses=3),
        replace(DEFAULT_TIMING, blockdep=BlockdepRule.IGNORED, shram_drains=False),
        replace(DEFAULT_TIMING, blockdep=BlockdepRule.DRAINED),
    ],
    ids=["model", "rough", "ignored", "drained"],
)
@pytest.mark.parametrize("device", ["ethos-u55-32", "ethos-u55-128"])
@pytest.mark.parametrize("name", NETWORKS)
def test_two_kernels_share_the_same_in_all_of_their_blocks(name: str, device: str, timing: TimingParameters) -> None:
    chosen = accelerator(device)
    estimates = Estimates(Terms.of(chosen, profile("u55_high_end").memory_system(), timing))
    kernels = operations(name) if device == "ethos-u55-128" else [(op, ()) for op, _ in operations(name)]
    found = [estimates.of(op, work, decoding_bytes(work)) for op, work in kernels]
    for ((before, _), (after, _)), (first, second) in zip(pairwise(kernels), pairwise(found), strict=True):
        for ones, twos in product((first.staged.options, first.direct.options), (second.staged.options, second.direct.options)):
            compiled, twin, costs = Coupling(before, after, chosen), Coupling(before, after, chosen), [one.cost for one in ones]
            assert compiled.together(ones, twos) == twin.together([*ones], [*twos])
            assert compiled.least(costs, ones, twos) == twin.least(costs, [*ones], [*twos])


@pytest.mark.parametrize("side", range(3))
def test_a_block_without_rows_columns_or_channels_is_refused(side: int) -> None:
    """A quotient by it was found by a changed call under the sanitisers."""
    chosen = accelerator("ethos-u55-128")
    estimates = Estimates(Terms.of(chosen, profile("u55_high_end").memory_system(), DEFAULT_TIMING))
    (before, first), (after, second), *_ = operations(NETWORKS[0])
    ones, twos = (estimates.of(op, work, decoding_bytes(work)).staged.options for op, work in ((before, first), (after, second)))
    changed = array("q", ones.flat)
    changed[ones.begin + side] = 0
    damaged = Options(memoryview(changed), ones.begin, len(ones), ones.sources, ones.latency)
    with pytest.raises(ValueError, match="no kernels in a row"):
        Coupling(before, after, chosen).together(damaged, twos)


@pytest.mark.parametrize("device", accelerator_names())
def test_partitions_are_equal(device: str) -> None:
    sides = array("q", [side for h in (1, 2, 3, 8, 64) for w in (2, 4, 17, 64) for d in (8, 16, 128) for side in (h, w, d)])
    for name in NETWORKS:
        for op, _ in operations(name):
            found = [
                ShramQuery(BlockQuery.of(op), accelerator(device)).fitting(sides, count, distinct=one)
                for count in (3, 99)
                for one in (True, False)
            ]
            with patch.object(shram, "_NATIVE", None):
                assert [
                    ShramQuery(BlockQuery.of(op), accelerator(device)).fitting(sides, count, distinct=one)
                    for count in (3, 99)
                    for one in (True, False)
                ] == found


def test_a_ranking_is_by_estimates_and_holds_what_fits() -> None:
    op, _ = operations("ds_cnn")[0]
    sources = Sources(Source(1.0, 16), Source(1.0, 16), shared=True)
    fastest = Ranking(op, DEVICE, sources).fastest(10_000, partitions=True)
    assert len({shram for _, shram in fastest}) == len(fastest) > 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.just(0), st.integers(-255, 255), st.integers(-2, 2)), min_size=1, max_size=400), st.integers(1, 60))
def test_streams_are_decoded_alike(weights: list[int], zeros: int) -> None:
    stream = encode(np.array([*weights, *[0] * zeros, *weights[:9]]))
    symbols = mlw._decode(stream, None)
    assert mlw.decode(stream).tolist() == symbols.tolist()
    counts = tuple(sorted({1, symbols.size // 3 or 1, symbols.size // 2 or 1, symbols.size})) if symbols.size else ()
    assert mlw_work.decoder_work.__wrapped__(stream, counts) == mlw_work._decoder_work(stream, counts)


def test_a_stream_of_several_codings_asks_the_same_of_the_decoder_for_every_count() -> None:
    stream = encode(KINDS)
    counts = tuple(range(1, len(KINDS) + 1))
    assert mlw_work.decoder_work.__wrapped__(stream, counts) == mlw_work._decoder_work(stream, counts)


@pytest.mark.parametrize("stream", [b"", b"\x00" * 16, encode(KINDS)[:-20], *(pack(bits) for bits, _ in BAD_HEADERS)])
def test_damage_is_told_in_the_same_words(stream: bytes) -> None:
    with pytest.raises(InputError) as expected:
        mlw._decode(stream, None)
    with pytest.raises(InputError) as found:
        mlw.decode(stream)
    assert str(found.value) == str(expected.value)


def test_more_weights_than_are_wanted_are_refused() -> None:
    with pytest.raises(InputError, match="or more weights: 5 are needed"):
        mlw.decode(encode(KINDS), 5)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[KernelOperation, KernelOperation]:
    """Two kernels of which the second reads what the first writes, or some of it."""
    first, second = draw(small_operations()), draw(small_operations())
    ofm = replace(first.ofm, strides=Strides(1 << 12, 64, 1 << 8), region=1)
    ifm = replace(ofm, shape=replace(ofm.shape, height=draw(st.integers(1, ofm.shape.height))))
    return replace(first, ofm=ofm), replace(second, ifm=ifm, ifm2=None)


@pytest.mark.law
@settings(max_examples=few(300), deadline=None)
@given(neighbours(), st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.sampled_from([8, 16])), min_size=2, max_size=2))
def test_blocks_between_a_writer_and_its_reader_are_counted_alike(
    pair: tuple[KernelOperation, KernelOperation], sides: list[tuple[int, int, int]]
) -> None:
    before, block = (Shape3D(*some) for some in sides)
    found = Dependency(*pair).blocks(before, block)
    with patch.object(blockdep, "_NATIVE", None):
        assert Dependency(*pair).blocks(before, block) == found
