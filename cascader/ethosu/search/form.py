"""A form of a network in the search. It is sent to each other process once, and planned there once."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import cached_property
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from cascader.draft.draft import Draft
from cascader.ethosu.cascade import Cascader
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.judge.judge import Judge
from cascader.ethosu.judge.replay import Replay
from cascader.ethosu.judge.tables import Tables
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.drafts import schedule_of
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem

_NUMBERS = count()
"""Numbers of the forms that this process has sent."""


class FormRank(Struct, frozen=True):
    """The rank of a form among all ``count`` of a search; the form with the most parts has ``number`` 0."""

    number: int
    count: int


OTHER_COSTS = 2
"""Number of a form's plans for other costs."""


def other_rates(cycles: int) -> tuple[int, int]:
    """Half and twice the weight decoder's cycles for a channel.

    >>> other_rates(4)
    (2, 8)
    """
    return max(1, cycles // 2), min(64, 2 * max(1, cycles))


class Form:
    """One form of a network for a device with its memories."""

    def __init__(  # noqa: PLR0913  # a network on a device, and what a search says of it
        self,
        rank: FormRank,
        network: Network,
        accelerator: str,
        system: MemorySystem,
        options: CascadeOptions,
        provenance: Provenance,
        name: str = "",
    ) -> None:
        """``name`` is the form's name for listeners."""
        self.rank = rank
        self.name = name
        self.network = network
        self.accelerator = accelerator
        self.system = system
        self.options = options
        self.provenance = provenance
        self._judge: Judge | None = None

    @cached_property
    def cascader(self) -> Cascader:
        """The plans, made on demand. All forms share the rows of changed drafts."""
        drafts = self.options.drafts
        own = replace(self.options, drafts=replace(drafts, rows=drafts.rows // self.rank.count))
        return Cascader(self.network, self.accelerator, self.system, own, self.provenance, self._tables, form=self.rank.number)

    @cached_property
    def others(self) -> tuple[Cascader, ...]:
        """The plans for a faster and for a slower weight decoder: their best drafts are other starts."""
        drafts, timing = self.options.drafts, self.provenance.timing
        own = replace(self.options, drafts=replace(drafts, rows=drafts.rows // self.rank.count))
        rates = (replace(timing, decoder_cycles_per_channel=rate) for rate in other_rates(timing.decoder_cycles_per_channel))
        terms = self.network, self.accelerator, self.system, own, self.provenance, self._tables
        return tuple(Cascader(*terms, expected=other, form=self.rank.number) for other in rates)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.network, find_accelerator(self.accelerator))

    def judge(self, replay: Replay) -> Judge:
        """The judge of a replay in this process: the previous judge if it has an equal replay, otherwise a new one."""
        if self._judge is None or self._judge.replay != replay:
            self._judge = Judge(self.network, self.accelerator, replay, self._tables)
        return self._judge

    def schedule(self, draft: Draft) -> Schedule:
        """The Schedule of a draft of this form, not checked."""
        return schedule_of(draft, self.network, self.accelerator, self.provenance)

    def expected(self, draft: Draft) -> int:
        """Cycles of a draft with exactly its copies, which replays may have issued later.

        A U55's estimates stay: replays confirm them for copies that are issued early. Counted anew, the estimate of ds_cnn is 7.5 % high in
        place of 4.4 %.
        """
        requests_ahead = find_accelerator(self.accelerator).access.ifm_ahead
        return self.cascader.drafter.expected(draft) if requests_ahead else draft.cycles

    @property
    def description(self) -> str:
        """The form's name and its size, for listeners."""
        return f"form {self.name or self.rank.number} of {len(self.network.graph.parts)} parts"

    @cached_property
    def label(self) -> str:
        """A name that no other form of any process has, for :class:`cascader.search.shared_arguments.SharedArgument`."""
        return f"{os.getpid()}.{next(_NUMBERS)}"

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self.rank, self.network, self.accelerator, self.system, self.options, self.provenance, self.name))

    def packed(self) -> tuple[Callable[[bytes], Form], bytes]:
        """The function and the bytes from which another process makes its own form, which has its own plans."""
        return _form, self._pickled

    def worker_processes(self, processes: int) -> range:
        """Numbers of the processes that plan this form: one if there are more forms than processes, otherwise an equal share.

        Forms are dealt out by their size, back and forth, so that each process has about the same work.
        """
        classes = min(processes, self.rank.count)
        turn, at = divmod(self.rank.number, classes)
        return range(classes - 1 - at if turn % 2 else at, processes, classes)

    def __reduce__(self) -> tuple[object, ...]:
        """The form without its plans."""
        return _form, (self._pickled,)


def _form(pickled: bytes) -> Form:
    """The form in another process."""
    return Form(*pickle.loads(pickled))  # noqa: S301  # made by this program a moment ago
