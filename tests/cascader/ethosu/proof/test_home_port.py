"""The port of the constants: what passes it counts for no more turns than it takes, in whichever order it comes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.ethosu.proof.home_port import ENDS, NOT_ISSUED, HomePort
from cascader.ethosu.proof.state import PortTraffic
from npu_model.program.region_numbers import CONSTANTS
from npu_testbed.configs import load_timing_adapter
from npu_testbed.memory_options import MemoryOptions

SYSTEM = MemoryOptions().memory_system()
PORT = HomePort.of(SYSTEM, 256, 2)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 3)), max_size=60))
def test_words_pass_no_earlier_than_they_are_said_to(asked: list[tuple[int, int]]) -> None:
    """Transactions one by one, each asked for some periods behind the one before; the odd ones count less."""
    issued, request, counted, raw = NOT_ISSUED, 0, 0, 0
    for words, later in asked:
        request = max(request, issued[0]) + (PORT.period * later if later > 1 else later)
        issued = PORT.issue(issued, request, words)
        counted += words - PORT.spare * (words % PORT.even > 0)
        raw += words
        assert max(PORT.passed(counted), PORT.passed_anyhow(raw)) <= issued[ENDS]


def test_a_period_holds_one_word_more_where_an_odd_transaction_passes() -> None:
    """The gate closes behind 50 words: six transactions of eight words and one more, or 49 words and eight more."""
    assert (PORT.capped, PORT.spare) == (56, 1)
    issued = NOT_ISSUED
    for words in (8, 8, 8, 8, 8, 8, 1, 8):
        issued = PORT.issue(issued, 0, words)
    assert issued[0] < PORT.period
    assert issued[1] == 57


@pytest.mark.parametrize(("even", "capped"), [(1, 57), (2, 56), (3, 57), (8, 56)])
def test_a_port_knows_what_multiples_leave_of_a_period(even: int, capped: int) -> None:
    """A burst of eight words is no multiple of three."""
    port = HomePort.of(SYSTEM, 256, even)
    assert (port.capped, port.capped + port.spare) == (capped, 57)


def test_a_port_without_a_gate_spares_nothing() -> None:
    assert HomePort.of(load_timing_adapter("off"), 256, 2).spare == 0


@pytest.mark.parametrize(("words", "kept"), [((1 << 20) - 1, True), (1 << 20, True), ((1 << 20) + 1, False)])
def test_a_speed_is_kept_as_a_ratio_of_terms_that_the_compiled_step_can_multiply(words: int, kept: bool) -> None:  # noqa: FBT001  # a row of a table
    """Else whole cycles a word, rounded down, stand for it."""
    cycles = 3 * words + 1
    region = SYSTEM.port_of(CONSTANTS)
    slow = replace(SYSTEM.ports[region], cycles_per_word=Fraction(cycles, words))
    system = replace(SYSTEM, ports=tuple(slow if port == region else memory for port, memory in enumerate(SYSTEM.ports)))
    assert HomePort.of(system, 256).flat[5:7] == ((cycles, words) if kept else (3, 1))


def last_turn(traffic: list[tuple[int, int]]) -> int:
    """The last turn of all words, each at the first free turn from that on before which it does not come."""
    turn = 0
    for first, words in sorted(traffic):
        turn = max(turn, first) + words
    return turn


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=8))
def test_all_copies_and_reads_take_as_many_turns_as_one_after_the_other(drawn: list[tuple[bool, int, int]]) -> None:
    """A read comes behind all that was before; a copy behind the copies before, not before some turn."""
    traffic, sent, copied = PortTraffic(), list[tuple[int, int]](), 0
    for is_read, later, words in drawn:
        if is_read:
            sent.append((traffic.turns + later, words))
            traffic = traffic.read(*sent[-1], 0)
        else:
            sent.append((max(copied, later), words))
            copied = sum(sent[-1])
            traffic = traffic.copy(*sent[-1], 0)
        assert traffic.turns == last_turn(sent)
