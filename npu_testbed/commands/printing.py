"""From the function of a command that gives a result to the one that prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress

Answer = Callable[[argparse.Namespace, "Progress"], "Outcome"]
"""The work of a command: from its arguments, with progress, to its result. It writes the files that are asked for and prints nothing."""


class Printed:
    """The ``run`` of a command whose work is ``answer``: prints what that gives, and returns its exit status."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __call__(self, arguments: argparse.Namespace) -> int:
        """Do the work with progress on a terminal, and print."""
        from npu_testbed.progress import progress
        from npu_testbed.terminal import show

        with progress() as watched:
            result = self.answer(arguments, watched)
        if getattr(arguments, "chip", None) is not None:
            from npu_testbed.chips import load_chip
            from npu_testbed.endings import say

            say("note", f"of chip {arguments.chip} these are not known: {load_chip(arguments.chip).unknown}.")
        if getattr(arguments, "json", False):
            print(result.to_json(), end="")
        elif result.coloured:
            show(result.text())
        else:
            print(result.text(), end="")
        return result.status
