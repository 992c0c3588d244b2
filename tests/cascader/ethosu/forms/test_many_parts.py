"""A network of so many kernels that a search would hardly end is refused in one sentence, which names what is left."""

from __future__ import annotations

import pytest
from asked_for import of_bytes
from scheduling import DEFAULT, network

from cascader import schedule
from cascader.ethosu.forms import making
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles

SYSTEM = profile("u55_high_end").memory_system()


def test_a_network_is_searched_up_to_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = of_bytes(network("tiny_conv"), DEFAULT, SYSTEM)
    count = len(schedule(asked, quick_cycles).point.schedule.network.graph.parts)
    monkeypatch.setattr(making, "MOST_PARTS", count)
    assert schedule(asked, quick_cycles).point.memory > 0
    monkeypatch.setattr(making, "MOST_PARTS", count - 1)
    with pytest.raises(InputError, match=rf"has {count} kernels, and one of at most {count - 1} is searched"):
        schedule(asked, quick_cycles)
