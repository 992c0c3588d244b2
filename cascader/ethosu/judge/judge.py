"""The judge of one form of a network: the cycles of its drafts in replay."""

from __future__ import annotations

from hashlib import blake2b

from cascader.draft.draft import Draft
from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.judge.contest import Contest, DraftRun, ProgramRun, Score
from cascader.ethosu.judge.replay import Replay, decides, flat_replay
from cascader.ethosu.judge.tables import HAS_CORE, Tables, Works
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.drafts import schedule_of
from npu_model.accelerator import accelerator as find_accelerator

_MOST_KNOWN = 512
"""The most drafts whose cycles a judge remembers; beyond it all are forgotten. Changes by replays repeat up to half of the drafts."""


def _digest(draft: Draft) -> bytes:
    """A digest of :attr:`~cascader.draft.draft.Draft.runs`, which may hold the jobs of thousands of kernels."""
    form, *tables = draft.runs
    sizes = ".".join(map(str, (form, *map(len, tables))))
    return blake2b(b"".join([sizes.encode(), b":", *tables]), digest_size=16).digest()


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
        self._known: dict[bytes, Score] = {}
        self._beaten: dict[bytes, Score] = {}

    def cycles(self, draft: Draft) -> int:
        """NPU cycles of a draft, which is not checked."""
        known = self._known.get(_digest(draft))
        return self.run(draft).score[0] if known is None else known[0]

    def run(self, draft: Draft, *, known: bool = False) -> DraftRun:
        """The replay of a draft, which is not checked. If it is ``known``, others run beside it."""
        found = self._replayed(draft, None, known=known)
        assert found is not None  # noqa: S101  # it competes with none
        self._remember(self._known, _digest(draft), found.score)
        return found

    def contest(self, draft: Draft, cycles: int) -> Contest:
        """A contest of changes of a draft of ``cycles`` cycles."""
        return Contest(DraftRun((cycles, 0)) if self._works is None else self.run(draft, known=True), self._better)

    def _better(self, draft: Draft, best: DraftRun) -> DraftRun | None:
        """The replay of a draft if it is better than the best; None if it is not, or ends no sooner for so long that it is given up."""
        name = _digest(draft)
        some = (self._known.get(name), self._beaten.get(name))
        if any(score is not None and score >= best.score for score in some):
            return None
        found = self._replayed(draft, best)
        if found is None:
            self._remember(self._beaten, name, best.score)
            return None
        self._remember(self._known, name, found.score)
        if found.score >= best.score:
            return None
        # Few are better: it takes less time to replay these again than to keep what every replay passes.
        return self.run(draft, known=True) if found.programs else found

    def _remember(self, scores: dict[bytes, Score], name: bytes, score: Score) -> None:
        if len(scores) >= _MOST_KNOWN:
            scores.clear()
        scores[name] = score

    def _replayed(self, draft: Draft, best: DraftRun | None, *, known: bool = False) -> DraftRun | None:
        """The replay of a draft, ``known`` to later ones; None if it was found to be no better than the best."""
        works = self._works
        if not self._decides:
            return DraftRun((draft.cycles, 0))
        issued = None if works is None else self._tables.issued(draft, works)
        if issued is None or works is None:
            return DraftRun((self.replay(lower(schedule_of(draft, self._network, self._tables.accelerator.name), checked=False)), 0))
        programs = list[ProgramRun]()
        others = best.programs if best is not None and len(best.programs) == len(issued) else (None,) * len(issued)
        for one, other in zip(issued, others, strict=True):
            beside = works.replay.known() if known else other and other.known
            cycles, times = works.replay.timed(one.rows, one.works, beside)
            if cycles < 0:
                return None
            programs.append(ProgramRun(one, cycles, times, beside if known else None))
        return DraftRun((sum(one.cycles for one in programs), sum(sum(one.times[2::3]) for one in programs)), tuple(programs))
