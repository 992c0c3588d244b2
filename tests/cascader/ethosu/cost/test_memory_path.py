"""Sources of a kernel's data, worked out by hand: transfers, long streams, and which memory and port a unit reads from."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from small_programs import copy, memories, program

from cascader.ethosu.cost.estimate_terms import Terms
from cascader.ethosu.cost.memory_path import Source, Sources, sustained
from npu_model.accelerator import accelerator
from npu_model.memory.system import AXI0, Memory, Pulse
from npu_model.timing import DMA_CHUNK_BEATS
from npu_testbed.devices.configs import load_memory_system, load_timing_adapter
from npu_testbed.devices.memory_options import DEFAULT_TIMING_ADAPTER
from sim.fast.quick import quick_replay

SYSTEM = load_timing_adapter(DEFAULT_TIMING_ADAPTER)
U65 = load_memory_system("Ethos_U65_High_End", "Shared_Sram")
GATE = Pulse(400, 100, 50)
"""50 words in 500 cycles, which the seventh transaction of 8 words crosses, so that 56 pass."""


@pytest.mark.parametrize(
    ("source", "words", "transactions", "expected"),
    [
        (Source(1.0, 32), 40, 10, 40),
        (Source(2.0, 32), 40, 10, 80),
        (Source(1.0, 32, reads=1, burst=4), 40, 10, 10 * (32 + 4)),
        (Source(1.0, 32, reads=4, burst=4), 40, 10, 10 * (32 + 4) / 4),
        (Source(1.0, 32, reads=16, burst=4), 40, 10, 40),
        (Source(1.0, 32, reads=4, burst=4), 10, 10, 10 * (32 + 1) / 4),
        (Source(1.0, 32, reads=4), 0, 0, 0),
    ],
    ids=[
        "any number of transactions hide their latency",
        "each word takes two cycles",
        "one transaction after the other",
        "four at a time",
        "sixteen at a time hide the latency",
        "short transactions wait as long as full ones",
        "nothing to read",
    ],
)
def test_a_transfer_takes_its_words_or_the_transactions_that_wait_for_each_other(
    source: Source, words: int, transactions: int, expected: float
) -> None:
    assert source.cycles(words, transactions) == expected


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (Memory("a word per cycle", 0, 0), 1),
        (Memory("half a word per cycle", 0, 0, cycles_per_word=Fraction(2)), 2),
        (Memory("one burst of 8 words at a time, 64 cycles after its address", 64, 0, max_reads=1), (64 + 8) / 8),
        (Memory("32 bursts at a time hide the latency", 64, 0, max_reads=32), 1),
        (Memory("50 words per 500 cycles: the seventh burst crosses the cap", 0, 0, pulse=GATE), 500 / 56),
        (Memory("a gate without a cap", 0, 0, pulse=Pulse(400, 100, 0)), 1),
    ],
    ids=lambda value: value.name if isinstance(value, Memory) else None,
)
def test_a_long_stream_goes_at_the_pace_of_its_slowest_bound(memory: Memory, expected: float) -> None:
    assert Source.of(memory).rate == pytest.approx(expected)


def test_only_the_gate_binds_in_the_long_run() -> None:
    assert sustained(Memory("gated", 64, 0, 1, pulse=GATE)) == 500 / 56
    assert sustained(Memory("gated by bursts of two words", 0, 0, burst_bytes=16, pulse=GATE)) == 500 / 50
    assert sustained(Memory("slow, but ungated", 64, 0, 1, cycles_per_word=Fraction(7))) == 0


@given(st.integers(0, 100), st.integers(0, 20), st.integers(0, 8), st.integers(0, 60), st.sampled_from([1.0, 1.5, 4.0]))
def test_more_to_read_or_a_slower_memory_never_takes_less(words: int, transactions: int, reads: int, latency: int, word: float) -> None:
    source = Source(word, latency, reads)
    cycles = source.cycles(words, transactions)
    assert cycles >= words * word
    assert cycles <= source.cycles(words + 1, transactions + 1)
    assert cycles <= replace(source, latency=latency + 1).cycles(words, transactions)
    assert cycles <= replace(source, word=word + 1).cycles(words, transactions)
    assert not reads or cycles >= replace(source, reads=reads + 1).cycles(words, transactions)


def test_staged_constants_share_the_arenas_port_with_feature_maps_that_go_in_halves_of_a_burst() -> None:
    """The default system: 32 cycles, 8 transactions of 64 bytes, 4000 words in 4000 cycles."""
    staged = Sources.staged(SYSTEM)
    assert staged == Sources(Source(1.0, 32, 8, 4, 1.0), Source(1.0, 32, 8, 8, 1.0), shared=True)
    assert staged.maps.pace == 1


def test_constants_at_home_have_a_port_of_their_own() -> None:
    """The default system: 64 cycles, 2 transactions of 64 bytes, 50 words in 400 cycles."""
    direct = Sources.direct(SYSTEM)
    assert direct == Sources(Sources.staged(SYSTEM).maps, Source(1.0, 64, 2, 8, 400 / 56), shared=False)
    assert direct.constants.rate == 400 / 56


def test_constants_at_home_behind_the_arenas_port_share_it() -> None:
    system = replace(memories(SYSTEM.ports[AXI0]), region_ports=(AXI0,) * 8)
    assert Sources.direct(system) == Sources.staged(system)


@pytest.mark.parametrize(("word", "pulse", "pace"), [(2, None, 2), (1, GATE, 500 / 56), (10, GATE, 10)])
def test_feature_maps_move_at_the_pace_of_data_path_or_gate(word: int, pulse: Pulse | None, pace: float) -> None:
    arena = Memory("arena", 32, 32, 1, cycles_per_word=Fraction(word), pulse=pulse)
    assert Sources.staged(memories(arena)).maps.pace == pytest.approx(pace)


@pytest.mark.parametrize("size", [16, 512, 528, 1344, 16384, 49152])
@pytest.mark.parametrize("name", ["ethos-u65-256", "ethos-u65-512"])
def test_a_copy_on_a_u65_is_expected_to_take_its_replay_and_half_of_the_words_that_a_kernel_requests_ahead(name: str, size: int) -> None:
    """To one chunk of the DMA, as the last chunk may be a part of one."""
    terms = Terms.of(accelerator(name), U65)
    (moved,) = quick_replay(program(copy(size), accelerator=name), U65).times.values()
    taken = moved.finished - moved.issued
    assert 0 <= terms.copy_cycles(size, 1) - terms.timing.lookahead // 2 - taken <= DMA_CHUNK_BEATS


def test_feature_maps_of_a_u65_have_a_third_of_a_memory_that_they_share_with_a_copy_as_their_transactions_are_half_as_long() -> None:
    assert Sources.direct(U65, device=accelerator("ethos-u65-256")).map_share == pytest.approx(1 / 3)
    assert Sources.direct(SYSTEM).map_share == 1 / 2
