"""A network of so many kernels that a search would hardly end is refused in one sentence, which names what is left."""

from __future__ import annotations

import pytest
from asked_for import of_bytes
from scheduling import DEFAULT, network

from cascader import schedule
from cascader.ethosu.forms import making
from cascader.ethosu.network.network import EthosuPart
from cascader.frontends.vela import import_network
from npu_model.errors import InputError
from npu_model.memory.timing_adapter import profile
from sim import quick_cycles
from validation.builder import NetworkBuilder

SYSTEM = profile("u55_high_end").memory_system()


def test_a_network_is_searched_up_to_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = of_bytes(network("tiny_conv"), DEFAULT, SYSTEM)
    count = len(schedule(asked, quick_cycles).point.schedule.network.graph.parts)
    monkeypatch.setattr(making, "MOST_PARTS", count)
    assert schedule(asked, quick_cycles).point.memory > 0
    monkeypatch.setattr(making, "MOST_PARTS", count - 1)
    with pytest.raises(InputError, match=rf"has {count} kernels, and one of at most {count - 1} is searched"):
        schedule(asked, quick_cycles)


def test_an_arg_max_is_searched_up_to_the_rows_of_a_feature_map() -> None:
    """Vela makes one pool of 65,536 rows. It would cut a row more into pools of four rows, which are too many parts."""
    net = NetworkBuilder("segments")
    parts = import_network(net.finish([net.arg_max(net.input((1, 256, 256, 2), "classes"))])).graph.parts
    rows = [part.payload.operation.ofm.shape.height for part in parts if isinstance(part.payload, EthosuPart)]
    assert max(rows) == 1 << 16
    assert len(parts) < 8
    assert max(rows) // 4 == making.MOST_PARTS
