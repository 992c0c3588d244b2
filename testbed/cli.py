"""The command line: parser, and the one door by which every error leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from npu_model.errors import InputError
from testbed import VERSION
from testbed.commands import calibrate, compare, export, frontier, inspect, schedule, simulate, validate, verify
from testbed.commands.options import Parser, example

BAD_INPUT = 2
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE, as shells report it."""


def build_parser() -> Parser:
    """The parser of all commands; each sets ``run``, the function that takes the parsed arguments."""
    parser = Parser(
        prog="npu-testbed",
        description="Schedule networks for Arm Ethos-U55 class NPUs and replay schedules: cycles, SRAM and traffic.",
        epilog=example(
            "npu-testbed schedule zoo:mobilenet_v1 -o mobilenet_v1.json",
            "npu-testbed simulate schedule mobilenet_v1.json",
            "npu-testbed frontier zoo:ds_cnn --plot ds_cnn.svg",
            "npu-testbed simulate vela zoo:mobilenet_v1 --optimise Size",
        )
        + "\n\nexit status: 0 done, 1 a bar is missed or a comparison differs, 2 bad input",
    )
    parser.add_argument("--version", action="version", version=f"npu-testbed {VERSION}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for command in (schedule, frontier, compare, simulate, inspect, verify, export, validate, calibrate):
        command.add(commands)
    return parser


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:
        # --help and --version have been printed.
        return int(stop.code or 0)
    return int(arguments.run(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv[1:]`` if None) and return the exit status; nothing is raised for bad input."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Names in a model are any text; a terminal that cannot show them must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(argv)
        sys.stdout.flush()
    except InputError as error:
        print(f"npu-testbed: error: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201  # standard error is where errors go
        return BAD_INPUT
    except BrokenPipeError:
        # Who reads our output has seen enough; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
