"""The command line: its parser, and the one place that reports errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_model.front import later
from npu_model.native import slow_sentence
from npu_testbed.asked.commands import COMMANDS, FAMILIES, Command
from npu_testbed.asked.parser import Parser, example
from npu_testbed.asked.vela_timeout import vela_timeout
from npu_testbed.commands.list_configs import Print, chips, configs, supported_ops_report, version
from npu_testbed.ground.endings import (
    AS_VELA,
    BROKEN_PIPE,
    INTERRUPTED,
    VelaStatusError,
    abandon_output,
    prepare_streams,
    refuse,
    refuse_memory_error,
    refuse_output,
    refuse_system_error,
    report_bug,
    safe_output,
    say,
)
from npu_testbed.ground.output import OutputError
from npu_testbed.ground.termination import Terminated, terminations

with later():
    from npu_testbed.asked import making  # --help and --version answer at once
    from npu_testbed.commands import printing

if TYPE_CHECKING:
    from npu_testbed.asked.ask import Ask


def build_parser(word: str = "") -> Parser:
    """The parser of all commands, or of those alone that begin with a ``word``; each sets ``asked``, the :class:`Command`.

    A command gets its options on demand.
    """
    parser = Parser(
        prog="npu-testbed",
        description="Schedule networks for Arm Ethos-U class NPUs and replay schedules: cycles, SRAM and traffic.",
        epilog=example(
            "npu-testbed schedule zoo:mobilenet_v1 -o mobilenet_v1.json",
            "npu-testbed simulate schedule mobilenet_v1.json",
            "npu-testbed frontier zoo:ds_cnn --plot ds_cnn.svg",
            "npu-testbed simulate vela zoo:mobilenet_v1 --optimise Size",
        )
        + "\n\nexit status: 0 done, 1 a bar is missed or a comparison differs, 2 bad input, 70 a mistake in npu-testbed itself",
    )
    parser.add_argument("--version", action=Print, text=version, help="print the version and the compiled cores that run, and exit")
    parser.add_argument(
        "--list-configs", action=Print, text=configs, help="print the accelerators, memory systems and modes that options take"
    )
    parser.add_argument("--list-chips", action=Print, text=chips, help="print the chips that --chip takes, with their sources, and exit")
    report = "write the operators that the NPU runs to SUPPORTED_OPS.md here, and exit"
    parser.add_argument("--supported-ops-report", action=Print, text=supported_ops_report, help=report)
    families: dict[str, Any] = {"": parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)}
    # The parsers of all commands take longer than the parser of one with its options.
    for command in [one for one in COMMANDS if one.words.split()[0] == word] or COMMANDS:
        first, _, way = command.words.partition(" ")
        if way and first not in families:
            families[first] = _family(families[""], first)
        place, name = (families[first], way) if way else (families[""], first)
        place.add_parser(name, help=command.summary, fill=_filled(command))
    return parser


def _family(commands: Any, word: str) -> Any:
    family = FAMILIES[word]
    parser = commands.add_parser(word, help=family.summary, description=family.description, epilog=example(*family.examples))
    return parser.add_subparsers(title=family.title, dest="way", metavar=family.metavar, required=True)


def _filled(command: Command) -> Callable[[Parser], None]:
    def fill(parser: Parser) -> None:
        making.fill(parser, command.load())
        parser.set_defaults(asked=command)

    return fill


_WITHOUT_MATRICES = "schedule", "frontier", "compare", "compile"
"""Commands that multiply no matrices. For these, numpy's library would start a thread per processor, which spins for a while."""


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = build_parser(*words[:1]).parse_args(words)
    except SystemExit as stop:
        # --help and --version have been printed.
        return int(stop.code or 0)
    return _answer(arguments)


def _answer(arguments: argparse.Namespace) -> int:
    command: Command = arguments.asked
    kind = command.load()
    if command.words in _WITHOUT_MATRICES:
        # Nobody has imported numpy yet.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if (kind.is_search or command.words.startswith("validate")) and (slow := slow_sentence()):
        say("note", slow)
    ask = making.made(kind, vars(arguments))
    with vela_timeout(ask):
        try:
            return printing.printed(ask)
        except KeyboardInterrupt as stop:
            if not (isinstance(stop, Terminated) and stop.is_told):
                say("stopped", _stopped(ask, stop))
            raise


def _stopped(ask: Ask[Any], stop: KeyboardInterrupt) -> str:
    """The message of a command that was stopped without a result, and what was kept for another run."""
    by = "a signal to end" if isinstance(stop, Terminated) else "an interrupt"
    kept = [folder for name in ask.goes_on_from if (folder := getattr(ask, name, None)) is not None]
    again = f"; the same command continues from {' and '.join(map(str, kept))}" if kept else ", and nothing was written"
    return f"by {by} before it had a result{again}."


def main(argv: Sequence[str] | None = None) -> int:  # noqa: PLR0911  # each way to end has its status
    """Run a command line (``sys.argv[1:]`` if None) and return the exit status; it never raises."""
    prepare_streams()
    try:
        with terminations(), safe_output():
            return _run(argv)
    except VelaStatusError as error:
        return refuse(str(error), AS_VELA)
    except InputError as error:
        return refuse(str(error))
    except BrokenPipeError:
        # Who reads our output has seen enough.
        abandon_output()
        return BROKEN_PIPE
    except OutputError as error:
        return refuse_output(error)
    except OSError as error:
        return refuse_system_error(error)
    except MemoryError:
        return refuse_memory_error()
    except Terminated as error:
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # whatever it is: it is our mistake, and no traceback for the user
        return report_bug(error)
