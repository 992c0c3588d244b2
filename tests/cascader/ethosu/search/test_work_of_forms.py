"""Work of the search: a network that gains nothing by streamed pools, tiles and skips made again costs hardly a draft or a replay more."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cascader import Settings, schedule
from cascader.draft.trials import Trials
from cascader.ethosu.options import CascadeOptions
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.timing import TimingParameters
from npu_testbed.memory_options import MemoryOptions
from npu_testbed.models import load_model
from sim import quick_cycles

MEMORY = MemoryOptions().memory_system()
PLAIN = CascadeOptions(streamed_pools=False, recompute=Fraction(1))


def work(name: str, options: CascadeOptions, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """The cycles of the answer, the drafts that were tried, and the replays."""
    drafts, replays, tried = 0, 0, Trials.cycles

    def counted(self: Trials, *arguments: object) -> int | None:
        nonlocal drafts
        drafts += 1
        return tried(self, *arguments)  # type: ignore[arg-type]

    def replay(network: CompiledNetwork, /, system: MemorySystem, timing: TimingParameters) -> int:
        nonlocal replays
        replays += 1
        return quick_cycles(network, system, timing)

    monkeypatch.setattr(Trials, "cycles", counted)
    found = schedule(load_model(name).data, "ethos-u55-128", MEMORY, None, replay, Settings(options=options))
    monkeypatch.setattr(Trials, "cycles", tried)
    return found.point.cycles, drafts, replays


NETWORKS = ("zoo:tiny_residual", *(f"portfolio:{name}" for name in ("reshaped_outputs", "far_concat", "residual_int16")))


@pytest.mark.parametrize("name", NETWORKS)
def test_where_forms_of_fewer_bytes_gain_nothing_there_are_less_than_a_tenth_more_drafts_and_replays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles, drafts, replays = work(name, CascadeOptions(), monkeypatch)
    plain_cycles, plain_drafts, plain_replays = work(name, PLAIN, monkeypatch)
    assert cycles == plain_cycles
    assert 0 < drafts <= plain_drafts * 1.1
    assert 0 < replays <= plain_replays * 1.1
