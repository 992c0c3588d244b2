"""The judge of one form of a network: the cycles of its drafts in replay."""

from __future__ import annotations

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.judge.flat_draft import Numbering
from cascader.ethosu.judge.replay import Replay, flat_replay
from cascader.ethosu.judge.tables import HAS_CORE, Tables, Works
from cascader.ethosu.network.network import Network
from npu_model.accelerator import accelerator as find_accelerator


class Judge:
    """Says what schedules of one network take in a ``replay``: the compiled one by flat drafts, any other one by what it is lowered to."""

    def __init__(self, network: Network, accelerator: str, replay: Replay, tables: Tables | None = None) -> None:
        """``tables`` are those of the network on the device, where somebody else fills them, too."""
        self.replay = replay
        device, flat = find_accelerator(accelerator), flat_replay(replay, accelerator)
        self._works = None if flat is None or not HAS_CORE else Works(network, device, flat)
        self._numbering = Numbering(network)
        self._tables = tables or Tables(network, device)

    def cycles(self, schedule: Schedule) -> int:
        """NPU cycles of a schedule, which is not checked."""
        works = self._works
        issued = None if works is None else self._tables.issued(self._numbering.flat(schedule), works)
        if issued is None or works is None:
            return self.replay(lower(schedule, checked=False))
        return sum(works.replay.cycles(one.rows, one.works) for one in issued)
