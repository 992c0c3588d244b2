"""A step of a proof: its two forms give the same bytes."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascader.ethosu.proof.least_flow import FLOW, LONG_AGO, RELEASED, START, LeastFlow
from cascader.ethosu.proof.least_step import python_step, step, with_least
from cascader.ethosu.proof.least_work import Block, LeastWork
from npu_model.native import native
from npu_model.timing import DEFAULT_TIMING

NATIVE = native("cascader.ethosu")
CYCLES = st.integers(0, 1 << 40) | st.just(LONG_AGO)


@pytest.mark.skipif(NATIVE is None, reason="no compiled core")
@given(st.data(), st.integers(1, 4), st.integers(1, 4), CYCLES, CYCLES)
def test_the_compiled_step_is_the_python_one(data: st.DataObject, before: int, blocks: int, start: int, macs: int) -> None:
    """Behind any block of the kernel before, or for each block behind one of them."""
    assert NATIVE is not None
    times = with_least(data.draw(st.lists(CYCLES, min_size=before * len(START), max_size=before * len(START))))
    size = blocks * (FLOW + before * RELEASED)
    link = array("q", data.draw(st.lists(CYCLES, min_size=size, max_size=size)))
    origins = array("q", data.draw(st.just([]) | st.lists(st.integers(0, before - 1), min_size=blocks, max_size=blocks)))
    assert NATIVE.least_step(times, link, origins, start, macs) == python_step(times, link, origins, start, macs)


def test_a_step_behind_several_blocks_is_the_least_of_the_flows_behind_each() -> None:
    flow = LeastFlow(LeastWork((Block(((10, 5, 100, False),), 20, 8),) * 4, 0, 32), DEFAULT_TIMING)
    before = [START._replace(mac=50), START._replace(finish=1000)]
    link = array("q", [*flow.flat, *flow.released(None), *flow.released(3, 7)])
    times = with_least([*before[0], *before[1]])
    found = step(times, link, array("q"), LONG_AGO, LONG_AGO)
    ways = flow.behind(before[0], None), flow.behind(before[1], 3, 7)
    assert tuple(found[: len(START)]) == tuple(map(min, *ways))
    for origin, way in enumerate(ways):
        assert tuple(step(times, link, array("q", [origin]), LONG_AGO, LONG_AGO)[: len(START)]) == way


def test_a_step_waits_for_its_start_and_for_its_macs() -> None:
    """Behind its two blocks' MACs come its output and its last response."""
    flow = LeastFlow(LeastWork((Block(((10, 5, 100, False),), 20, 8),) * 2, 4, 32), DEFAULT_TIMING)
    link = array("q", [*flow.flat, *flow.released(None)])
    end = flow.behind(START, None).finish
    assert step(with_least(START), link, array("q"), 1000, LONG_AGO)[-1] == 1000 + end
    assert step(with_least(START), link, array("q"), LONG_AGO, 9000)[-1] == 9000 + 2 * 100 + 20 + 8 + 32


@pytest.mark.skipif(NATIVE is None, reason="no compiled core")
@pytest.mark.parametrize(("times", "link", "origins"), [(5, 21, 0), (7, 21, 0), (10, 20, 0), (10, 0, 0), (10, 21, 2)])
def test_arrays_that_do_not_fit_each_other_are_refused(times: int, link: int, origins: int) -> None:
    assert NATIVE is not None
    with pytest.raises(ValueError, match="do not fit"):
        NATIVE.least_step(array("q", [0] * times), array("q", [0] * link), array("q", [0] * origins), 0, 0)
