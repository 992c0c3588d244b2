"""``npu-testbed inspect``: the Programs of a file as text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import Parser, example
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "inspect",
        help="print the NPU programs of a file as text",
        description=(
            "Print the text form of every NPU program in a compiled *_vela.tflite or a schedule file, and why an operator is on the CPU."
        ),
        epilog=example("npu-testbed inspect mobilenet_v1.json", "npu-testbed inspect network_vela.tflite > network.txt"),
    )
    parser.add_argument("file", metavar="FILE", help="a *_vela.tflite or a schedule file")
    parser.set_defaults(run=Printed(answer))


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """The text form."""
    from npu_testbed.outcomes import TextOutcome
    from npu_testbed.pipeline import inspect

    show(f"Reading {arguments.file}")
    return TextOutcome("inspect", inspect(arguments.file))
