"""The command line called from tests: in this process, with what it printed."""

from __future__ import annotations

import contextlib
import io
import re

from msgspec import Struct

from npu_testbed.commands.cli import main


class Outcome(Struct, frozen=True):
    """Exit status and printed texts of a command line."""

    status: int
    output: str
    errors: str


def call(*argv: object) -> Outcome:
    """Run ``npu-testbed`` with these arguments; an exception that escapes fails the test."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main([str(argument) for argument in argv])
    return Outcome(status, output.getvalue(), errors.getvalue())


def refusal(*argv: object) -> str:
    """The one sentence with which a command line is refused; fails unless that, and status 2, is all there is.

    A slow machine also says how far long work has come, a line every half minute.
    """
    outcome = call(*argv)
    assert outcome.status == 2, outcome
    assert outcome.output == ""
    errors = re.sub(r"^npu-testbed: after \d+ s: .*\n", "", outcome.errors, flags=re.MULTILINE)
    prefix, _, sentence = errors.partition("npu-testbed: error: ")
    assert prefix == ""
    assert sentence.count("\n") == 1
    assert sentence.endswith((".\n", ").\n")), sentence
    assert "Traceback" not in sentence
    return sentence.strip()
