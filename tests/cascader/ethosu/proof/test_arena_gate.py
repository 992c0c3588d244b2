"""The gate of the arena: transfers pass no sooner than word by word through a gate that counts them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA
from cascader.ethosu.proof.arena_gate import OPEN, UNPHASED, ArenaGate
from npu_model.memory.system import Pulse
from npu_model.timing import TimingParameters
from npu_testbed.memory_options import MemoryOptions

SYSTEM = MemoryOptions().memory_system()
GATE = ArenaGate(period=100, capped=90, each=2, cycles=1, ahead=8)
TRANSFERS = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=1, max_size=6)


def ended(transfers: list[tuple[int, int]], phase: int) -> list[tuple[int, int]]:
    """Begins and ends of transfers of so many words, each so many cycles after the one before, where cycle 0 is in a period's ``phase``.

    Two words pass in a cycle at most, and no more in a period than the gate lets pass.
    """
    cycle, passed, found = 0, dict[int, int](), []
    for wait, words in transfers:
        cycle += wait
        begin = cycle
        for _ in range(words):
            while passed.get((cycle + phase) // GATE.period, 0) + GATE.each > GATE.capped:
                cycle += 1
            period = (cycle + phase) // GATE.period
            passed[period] = passed.get(period, 0) + GATE.each
            cycle += 1
        found.append((begin, cycle))
    return found


@given(TRANSFERS, st.integers(0, 99))
def test_transfers_pass_no_sooner_than_through_the_gate(transfers: list[tuple[int, int]], phase: int) -> None:
    """Where it is known when the gate opens, and where it is not."""
    known, unknown = OPEN, UNPHASED
    for (begin, end), (_, words) in zip(ended(transfers, 0), transfers, strict=True):
        least, known = GATE.passed(known, begin, words, 0)
        assert least <= end
    for (begin, end), (_, words) in zip(ended(transfers, phase), transfers, strict=True):
        least, unknown = GATE.passed(unknown, begin, words, 0)
        assert least <= end
    assert unknown.behind == 2 * sum(words for _, words in transfers)


def test_what_is_left_passes_no_sooner_than_all_of_it() -> None:
    """Measured: 500 words that begin at cycle 30 take 1,150 cycles: 45 words in each period, 35 in the first."""
    (_, (_, end)) = ended([(0, 1), (30, 500)], 0)
    _, gated = GATE.passed(OPEN, 0, 1, 0)
    assert 0.9 * end < GATE.later(gated, 30, 1000) <= end


def test_a_gate_that_lets_more_pass_than_the_data_path_is_of_no_account() -> None:
    """The arena's lets 4,000 words pass in 4,000 cycles, reads and writes together: each copied word is two of them."""
    together, apart = (ArenaGate.of(SYSTEM, TimingParameters(shared_cap=shared)) for shared in (True, False))
    assert (together.period, together.each) == (4000, 2)
    assert (apart.period, apart.each) == (0, 1)
    assert apart.passed(OPEN, 7, 5000, 0) == (7, OPEN)


@pytest.mark.parametrize(("cycles_per_word", "most"), [(1, 400), (2, 200), (4, 100)])
@pytest.mark.parametrize("more", [False, True])
def test_a_gate_is_of_account_up_to_what_the_data_path_moves_in_a_period(cycles_per_word: int, most: int, more: bool) -> None:  # noqa: FBT001  # a case
    """In 200 cycles the path moves 200 words each way: 400 passages of copied words. A burst of 8 words crosses the cap whole."""
    arena = SYSTEM.ports[SYSTEM.port_of(ARENA)]
    pulse = Pulse(150, 50, most - 7 + more)
    gated = replace(arena, cycles_per_word=Fraction(cycles_per_word), burst_bytes=64, pulse=pulse)
    ports = tuple(gated if port is arena else port for port in SYSTEM.ports)
    found = ArenaGate.of(replace(SYSTEM, ports=ports), TimingParameters(shared_cap=True))
    assert (found.period, found.capped, found.cycles) == (0 if more else 200, most + more, cycles_per_word)
