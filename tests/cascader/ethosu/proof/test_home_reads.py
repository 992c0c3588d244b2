"""Reads at home: the compiled form gives what the Python form gives, and a decoder loses what the gate holds up between its steps."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.ethosu.proof.home_port import NOT_ISSUED, HomePort
from cascader.ethosu.proof.home_reads import Before, HomeReads
from cascader.ethosu.proof.least_flow import START, LeastFlow
from cascader.ethosu.proof.least_step import with_least
from cascader.ethosu.proof.least_work import Block, LeastWork
from npu_model.native import native
from npu_model.timing import TimingParameters

NATIVE = native("cascader.ethosu")
CYCLES = st.integers(0, 1000)
WORDS = st.lists(st.integers(1, 8), max_size=12).map(tuple)
STEPS = st.lists(st.tuples(CYCLES, st.just(0), CYCLES, st.booleans()), min_size=1, max_size=3).map(tuple)
GATED = HomePort((1, 1), 400, 57, 64, 96, fetches=True, fetch=72, flat=(50, 320, 400, 2, 64, 1, 1, 320))
FLAT = st.tuples(
    st.integers(1, 60), st.integers(1, 300), st.just(0) | st.integers(300, 400), st.integers(0, 8), CYCLES, *[st.integers(1, 9)] * 2, CYCLES
)


def port(flat: tuple[int, ...]) -> HomePort:
    return HomePort((1, 1), flat[2], 57, flat[4], 96, fetches=True, fetch=72, flat=flat)


@st.composite
def flows(draw: st.DrawFn, timing: TimingParameters) -> list[LeastFlow]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = st.lists(
            STEPS.flatmap(lambda steps: st.tuples(st.just(steps), CYCLES, CYCLES, st.tuples(*[st.tuples(WORDS, WORDS)] * len(steps))))
        )
        blocks = tuple(Block(*block) for block in draw(kinds.filter(len)))
        found.append(LeastFlow(LeastWork(blocks, 0, draw(CYCLES)), timing))
    return found


@pytest.mark.skipif(NATIVE is None, reason="no compiled core")
@given(st.data(), st.integers(1, 4), st.booleans(), FLAT)
def test_the_compiled_reads_are_the_python_ones(data: st.DataObject, slots: int, posted: bool, flat: tuple[int, ...]) -> None:  # noqa: FBT001  # drawn
    some = data.draw(flows(TimingParameters(buffer_slots=slots, posted_writes=posted)))
    held = data.draw(st.lists(st.tuples(st.integers(0, 4), CYCLES), min_size=len(some), max_size=len(some)))
    found, home = HomeReads(some, held, port(flat)), port(flat)
    times = with_least(data.draw(st.lists(CYCLES, min_size=len(some) * len(START), max_size=len(some) * len(START))))
    begin, issued = data.draw(st.integers(0, 50)), NOT_ISSUED
    for words in data.draw(WORDS):
        issued = home.issue(issued, 0, words)
    before = Before(*(begin + time for time in data.draw(st.tuples(*[CYCLES] * 5))), data.draw(CYCLES), begin, issued)
    assert found.behind(before, times) == found.python_behind(before, times)


def one_kernel(*reads: tuple[int, ...]) -> HomeReads:
    """A kernel of one block whose steps read so many words in transactions; each takes 300 cycles of MACs."""
    steps = ((0, 0, 300, False),) * len(reads)
    block = Block(steps, 0, 0, tuple((words, ()) for words in reads))
    return HomeReads([LeastFlow(LeastWork((block,), 0, 0), TimingParameters())], [(1 << 40, 0)], GATED)


def ended(kernel: HomeReads) -> int:
    return kernel.behind(Before(*START, 0, 0, NOT_ISSUED), with_least(START))[0][-1]


def test_a_step_waits_for_the_gate_that_closed_behind_the_step_before() -> None:
    """56 words are there after 288 cycles (four pairs of transactions, latency 64), eight more in the next period."""
    assert ended(one_kernel((8,) * 7)) == 4 * 72 + 300
    assert ended(one_kernel((8,) * 14)) == 400 + 4 * 72 + 300
    assert ended(one_kernel((8,) * 7, (8,) * 7)) == 400 + 4 * 72 + 300


def test_what_a_decoder_leaves_of_a_period_is_lost() -> None:
    """The third step is asked for when the MACs of the first have ended, at 516: its last words wait for the third period."""
    assert ended(one_kernel((8,) * 5, (8,) * 2, (8,) * 7)) == 800 + 72 + 300


@pytest.mark.skipif(NATIVE is None, reason="no compiled core")
@pytest.mark.parametrize("change", range(6))
def test_arrays_that_do_not_fit_each_other_are_refused(change: int) -> None:
    assert NATIVE is not None
    flow = LeastFlow(LeastWork((Block(((0, 0, 1, False),), 0, 0, (((8,), ()),)),), 0, 0), TimingParameters())
    arrays = [array("q", some) for some in (flow.stream, (1, 0), GATED.flat, (*START, 0, 0, 2, *NOT_ISSUED), START * 2)]
    assert NATIVE.home_reads(*arrays)
    if change < len(arrays):
        arrays[change].pop()
    else:
        arrays[0][9] = 1 << 40
    with pytest.raises(ValueError, match="fit"):
        NATIVE.home_reads(*arrays)
