"""The judge of one form of a network: the cycles of its drafts in replay."""

from __future__ import annotations

from cascader.draft.draft import Draft
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.judge.replay import Replay, decides, flat_replay
from cascader.ethosu.judge.tables import HAS_CORE, Tables, Works
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.drafts import schedule_of
from npu_model.accelerator import accelerator as find_accelerator

_MOST_KNOWN = 512
"""The most drafts whose cycles a judge remembers; beyond it all are forgotten. Changes by replays repeat up to half of the drafts."""


class Judge:
    """Gives the cycles of a network's drafts in a ``replay``. A compiled replay takes drafts, any other replay takes lowered Programs.

    If the replay does not decide (:func:`cascader.ethosu.judge.replay.decides`), the judge repeats the estimate of each draft.
    """

    def __init__(self, network: Network, accelerator: str, replay: Replay, tables: Tables | None = None) -> None:
        """``tables`` are the tables of the network on the device, if they are shared."""
        self.replay = replay
        device, flat = find_accelerator(accelerator), flat_replay(replay, accelerator)
        self._works = None if flat is None or not HAS_CORE else Works(network, device, flat)
        self._tables = tables or Tables(network, device)
        self._network = network
        self._decides = decides(replay, accelerator)
        self._known: dict[object, int] = {}

    def cycles(self, draft: Draft) -> int:
        """NPU cycles of a draft, which is not checked."""
        if not self._decides:
            return draft.cycles
        found = self._known.get(draft.runs)
        if found is None:
            found = self._replayed(draft)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[draft.runs] = found
        return found

    def _replayed(self, draft: Draft) -> int:
        works = self._works
        issued = None if works is None else self._tables.issued(draft, works)
        if issued is None or works is None:
            return self.replay(lower(schedule_of(draft, self._network, self._tables.accelerator.name), checked=False))
        return sum(works.replay.cycles(one.rows, one.works) for one in issued)
