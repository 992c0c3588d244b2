"""A search that may be stopped at any time, with the best schedule so far as its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.front import later
from npu_testbed.ground.endings import INTERRUPTED
from npu_testbed.ground.progress import Progress
from npu_testbed.ground.termination import Terminated, TimeIsUp, time_limit

with later():
    from cascader.ethosu.search import task as tasks
    from cascader.ethosu.striped import choice as stripes
    from cascader.ethosu.verify import check  # imported by the search that was left

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Choice, OnPoint


class Ending(Struct, frozen=True):
    """A choice, the reason why its search stopped early (empty: it did not) and the exit status.

    ``striped`` are the stripe plans that it executes (None: it has none).
    """

    choice: tasks.Choice
    stopped: str = ""
    status: int = 0
    striped: stripes.StripedPoint | None = None


class Watched:
    """The best schedule so far of a search, shown with the current work."""

    def __init__(self, show: Progress) -> None:
        self.best: Choice | None = None
        self._show = show
        self._doing = ""

    def seen(self, choice: Choice) -> None:
        """Keep a better schedule."""
        self.best = choice
        self.show(self._doing)

    def show(self, doing: str) -> None:
        """Show the current work and the best schedule so far."""
        self._doing = doing
        self._show(doing if self.best is None else f"{doing}; best so far: {described(self.best)}")


def described(choice: Choice) -> str:
    """Cycles and bytes of a choice, and their distance from the proven lower bounds.

    >>> from cascader.ethosu.search.task import Choice, Point
    >>> described(Choice(Point(2048, 1500, 1490, None), 1000))
    '1,500 NPU cycles in 2,048 bytes, at most 50.0% more than any schedule needs'
    """
    gap = "" if choice.gap is None else f", at most {choice.gap:.1%} more than any schedule needs"
    return f"{choice.point.cycles:,} NPU cycles in {choice.point.memory:,} bytes{gap}"


def best_in_time(search: Callable[[Progress, OnPoint], Choice], show: Progress, seconds: float | None = None) -> Ending:
    """Search to the end, or until ``seconds`` are over, Ctrl-C is pressed or a signal asks the process to end.

    A search that ends early answers with its best schedule so far, checked like the answer of a complete search.

    InputError if the time was over before the first schedule. Other interruptions before that are raised again.
    """
    watched = Watched(show)
    try:
        with time_limit(seconds):
            return Ending(search(watched.show, watched.seen))
    except KeyboardInterrupt as stop:
        if watched.best is None:
            if isinstance(stop, TimeIsUp):
                raise InputError(f"--time-limit {seconds:g} was over before a schedule was found that fits: allow more.") from None
            raise

        check.check_schedule(watched.best.point.schedule)
        if isinstance(stop, TimeIsUp):
            return Ending(watched.best, f"the time limit of {seconds:g} s")
        if isinstance(stop, Terminated):
            return Ending(watched.best, "a signal to end", stop.status)
        return Ending(watched.best, "an interrupt", INTERRUPTED)
