"""From an Ask to its printed answer, and the exit status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npu_model.front import later
from npu_testbed.asked.commands import command_of
from npu_testbed.ground.endings import say
from npu_testbed.ground.progress import progress

with later():
    from npu_testbed.devices import chips  # few name one
    from npu_testbed.ground import terminal  # The colours of a report do not belong into a document.

if TYPE_CHECKING:
    from npu_testbed.asked.ask import Ask
    from npu_testbed.outcomes import Outcome


def _unknowns(ask: Ask[Any]) -> Iterator[str]:
    """The unknown facts of the chips whose memories are requested. `device run` has chips of another kind."""
    named = getattr(ask, "chip", None) if hasattr(ask, "timing_adapter") else None
    # One text may name a chip for each of two sides.
    names = named.split(",") if isinstance(named, str) and command_of(type(ask)).name == "diff" else named
    for name in dict.fromkeys(names) if isinstance(names, (tuple, list)) else () if names is None else (names,):
        yield f"of chip {name} these are not known: {chips.load_chip(str(name)).unknown}."


def printed(ask: Ask[Any]) -> int:
    """Do the work with progress on a terminal, print the answer, and return the exit status."""
    with progress() as watched:
        result: Outcome = ask.answer(watched)
    for sentence in _unknowns(ask):
        say("note", sentence)
    if ask.json:
        print(result.to_json(), end="")
        return result.status
    deadline = getattr(ask, "deadline", None)
    within = getattr(ask, "within", None)
    said = [result.deadline_text(float(deadline))] if deadline is not None else []
    said += [result.within_text(float(within))] if within is not None else []
    if not result.coloured:
        print(result.text(), end="")
    else:
        terminal.show("\n\n".join(filter(None, (result.text(), *said))))
    return result.status
