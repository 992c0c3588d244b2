"""Options that several commands share, spelled as Vela spells them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from fractions import Fraction

Options = argparse.ArgumentParser | argparse._ArgumentGroup  # noqa: SLF001  # argparse has no public name for a group
"""A parser, or a group of its options."""

MOST_TIMES = 8
"""Largest multiple of a network's multiply-accumulates that a user may allow: no form is known that gains bytes by more."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps paragraphs, and items that begin with a dash, each wrapped to the terminal; examples stay as they are to be typed."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        pieces: list[str] = []
        for line in text.splitlines():
            goes_on = pieces and line and not line.startswith(("- ", "  ")) and pieces[-1] and not pieces[-1].startswith("  ")
            # What follows a colon or a heading is a list; all else is one paragraph.
            if goes_on and not pieces[-1].endswith(":"):
                pieces[-1] += f" {line}"
            else:
                pieces.append(line)
        return "\n".join(self._piece(piece, width, indent) for piece in pieces)

    @staticmethod
    def _piece(piece: str, width: int, indent: str) -> str:
        if piece.startswith("  ") or not piece:
            return indent + piece
        further = indent + ("  " if piece.startswith("- ") else "")
        return fill(piece, width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)


_CHIP_HAS = ("--timing-adapter", "--system-config", "--config")
"""Options whose place a chip takes; others override what it has."""


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses abbreviations and raises what is wrong as one sentence."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Formatter, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it, but of arguments that are unknown to a command its own parser complains, which knows its help."""
        chip = self._option_string_actions.get("--chip")
        # That of `device run` is a whole system, with addresses.
        if chip is not None and chip.dest == "chip":
            self._take_chip(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            # An option of another command is like one that has nothing to do with it: --effort is like --report.
            alike = [option for option in self._option_string_actions if option[:3] == word[:3]]
            near = did_you_mean(word, alike) if word.startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        if getattr(found, "input_shape", None):
            _give_shapes(found)
        return found, unknown

    def _take_chip(self, words: Sequence[str]) -> None:
        """Make what ``--chip`` stands for the defaults of the other options."""
        finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        for option in ("--chip", *_CHIP_HAS):
            finder.add_argument(option)
        ends = list(words).index("--") if "--" in words else len(words)
        with suppress(argparse.ArgumentError):
            given = finder.parse_known_args(words[:ends])[0]
            if given.chip is None:
                return
            from npu_testbed.chips import load_chip

            chip = load_chip(given.chip)
            for option in _CHIP_HAS:
                if getattr(given, option[2:].replace("-", "_")) is not None:
                    raise InputError(f"{option} was given together with --chip {chip.name}, which has a memory system: drop one of them.")
            kept = {action.dest for action in self._actions if isinstance(action, argparse._AppendAction)}  # noqa: SLF001  # no public name
            values = {name: value for name, value in chip.defaults.items() if value is not None}
            self.set_defaults(**{name: [value] if name in kept else value for name, value in values.items()})

    def error(self, message: str) -> Any:
        """Raise InputError in place of argparse's exit, so that every error leaves by one door."""
        if match := re.search(r"invalid choice: '([^']*)'.*?\(choose from (.*)\)", message):
            message += did_you_mean(match[1], re.findall(r"[^', ]+", match[2]))
        raise InputError(f"{message[:1].upper()}{message[1:]} (see `{self.prog} --help`).")


HELP_WIDTH = 80
"""Characters of a line of an example in a help text, whatever the terminal is."""


def _folded(line: str) -> str:
    r"""A command as a shell reads it, in lines of at most :data:`HELP_WIDTH` characters; an option stays beside its value.

    >>> print(_folded("npu-testbed " + " ".join(f"--option-{n} value" for n in range(6))))
      npu-testbed --option-0 value --option-1 value --option-2 value \
        --option-3 value --option-4 value --option-5 value
    """
    lines = ["  "]
    for words in re.split(" (?=-)", line):
        if len(lines[-1]) + len(words) + len(" \\") > HELP_WIDTH:
            lines[-1] += "\\"
            lines.append("    ")
        lines[-1] += f"{words} "
    return "\n".join(lines).rstrip()


def example(*lines: str) -> str:
    """The epilogue of a help text."""
    return "\n".join(("example:" if len(lines) == 1 else "examples:", *map(_folded, lines)))


MOST_CYCLES = 1 << 62
"""Bound of a number of cycles."""
MOST_BYTES = 1 << 40
"""Bound of a number of bytes: an address of the NPU has 40 bits."""


_UNITS = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
"""Bytes of the units that a size may be written in, whatever the case of their letters."""


def byte_count(text: str) -> int:
    """A number of bytes from 1 to `MOST_BYTES`, alone or in KiB, MiB or GiB.

    >>> byte_count("262144"), byte_count("256KiB"), byte_count("1 MiB")
    (262144, 262144, 1048576)
    """
    unit = _UNITS.get(text[-3:].lower())
    try:
        value = int(text) if unit is None else int(text[:-3]) * unit
    except ValueError:
        value = 0
    if not 1 <= value <= MOST_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is no number of bytes, give an integer from 1 to {MOST_BYTES}, or one with KiB, MiB or GiB behind it"
        )
    return value


def cycle_count(text: str) -> int:
    """A number of cycles, 1 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) <= MOST_CYCLES):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of cycles, give an integer of 1 or more")
    return int(text)


def positive_count(text: str) -> int:
    """A number from 1 to 1000."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1000")
    return value


def add_jobs_option(parser: Options) -> None:
    """``--jobs``."""
    parser.add_argument(
        "--jobs", metavar="N", type=positive_count, help="processes that share the search (default: the processors); the result is the same"
    )


def add_home_option(parser: Options) -> None:
    """``--home``."""
    parser.add_argument(
        "--home",
        dest="homes",
        metavar="WHAT=MEMORY",
        action="append",
        default=[],
        help=(
            "let a tensor live outside the arena, in a memory of the memory system by its name or as axi0 or axi1: input=ext puts all "
            "inputs there, output=ext all outputs, NAME=ext one of them or another tensor; or the name of a TOML file with such lines "
            "(repeatable; default: all in the arena)"
        ),
    )


def add_spill_option(parser: Options) -> None:
    """``--spill``."""
    parser.add_argument(
        "--spill",
        metavar="MEMORY",
        help=(
            "let the search move tensors between layers to this memory, such as ext or axi1, from which they come through the arena by "
            "DMA (default: all of them stay in the arena)"
        ),
    )


def add_results_option(parser: Options) -> None:
    """``--results``."""
    parser.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        help="keep each result in this folder as soon as it is found, and do not find again what is there and still holds",
    )


def percentage(text: str) -> float:
    """A number from 0 to 100."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no percentage, give a number from 0 to 100")
    return value


def add_layer_options(parser: Options) -> None:
    """``--csv``, ``--min-percent`` and ``--no-advice``: the layers of a replay and what would make it faster."""
    parser.add_argument("--csv", metavar="T.csv", help="write all rows of the per-layer table as comma-separated values")
    parser.add_argument(
        "--min-percent", metavar="P", type=percentage, help="fold layers below this part of the cycles into one row (default: 1)"
    )
    parser.add_argument("--no-advice", action="store_true", help="do not look for what would make the schedule faster or smaller")


def add_report_option(parser: Options) -> None:
    """``--report``."""
    parser.add_argument(
        "--report",
        metavar="R.html",
        help="write a page that shows all of it: SRAM and units over time, layers, findings; it needs no network",
    )


DEFAULT_MIN_PERCENT = 1.0
"""Part of the cycles, in per cent, below which layers are folded into one row."""


def min_percent(arguments: argparse.Namespace) -> float:
    """The value of ``--min-percent``; InputError if it is given for a document, which has every layer."""
    if arguments.min_percent is not None and arguments.json:
        raise InputError(
            f"--min-percent {arguments.min_percent:g} was given together with --json, which has every layer: drop one of them."
        )
    return DEFAULT_MIN_PERCENT if arguments.min_percent is None else float(arguments.min_percent)


def seconds(text: str) -> float:
    """A time in seconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 7 * 24 * 3600:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no time, give seconds above 0, up to a week")
    return value


def _give_shapes(arguments: argparse.Namespace) -> None:
    """Put the shapes of ``--input-shape`` to the models that a command reads, once."""
    from npu_model.errors import InputError
    from npu_testbed.input_shapes import ShapedSource

    shapes, arguments.input_shape = arguments.input_shape, None
    # Of `verify` and `export` the file is a schedule, and the model what it was made from.
    every = (("model",),) if hasattr(arguments, "model") else (("models",), ("before", "after"), ("file",))
    for names in every:
        read = {name: given for name in names if (given := getattr(arguments, name, None))}
        for name, given in read.items():
            setattr(
                arguments, name, ShapedSource(given, shapes) if isinstance(given, str) else [ShapedSource(one, shapes) for one in given]
            )
        if read:
            return
    raise InputError("--input-shape was given without a model that is read: give the model, or leave it out.")


def input_shape(text: str) -> Any:
    """An ``--input-shape``."""
    from npu_model.errors import InputError
    from npu_testbed.input_shapes import InputShape

    try:
        return InputShape.of(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def add_input_shape_option(parser: Options) -> None:
    """``--input-shape``, which the parser puts to the models."""
    parser.add_argument(
        "--input-shape",
        metavar="[NAME=]1,224,224,3",
        type=input_shape,
        action="append",
        help="shape of an input, in place of the model's; may be repeated, and needs the extra numerics (default: the model's own)",
    )


def add_vela_timeout_option(parser: Options) -> None:
    """``--vela-timeout``, which :func:`npu_testbed.vela_timeout.vela_timeout` makes hold."""
    parser.add_argument(
        "--vela-timeout", metavar="SECONDS", type=seconds, help="most time that one compilation with Vela may take (default: 120)"
    )


def add_memory_options(parser: argparse.ArgumentParser, default: str, *, config_action: str = "store") -> None:
    """The options of :class:`npu_testbed.memory_options.MemoryOptions`; ``default`` says what holds without them.

    With the ``config_action`` append all files of several --config are kept, as Vela keeps them.
    """
    group = parser.add_argument_group("memory system", f"Either a timing adapter or Vela's configuration. Without any: {default}.")
    group.add_argument(
        "--chip",
        metavar="NAME|FILE",
        help="accelerator and memory system of a chip of `npu-testbed --list-chips`, or of a .toml file; other options override it",
    )
    group.add_argument(
        "--timing-adapter",
        metavar="NAME|FILE",
        help="timing-adapter profile: u55_high_end or off, for a U65 u65_high_end or u65_off, or a .toml file",
    )
    group.add_argument(
        "--system-config", metavar="NAME", help="system config of Vela's configuration (its default: Ethos_U55_High_End_Embedded)"
    )
    group.add_argument("--memory-mode", metavar="NAME", help="memory mode of Vela's configuration (its default: Shared_Sram)")
    file = "configuration file to read these from (default: the vela.ini of Vela)"
    group.add_argument("--config", metavar="INI", type=Path, action=config_action, help=file)


def add_settings_option(parser: Options) -> None:
    """``--set``, which :mod:`npu_testbed.settings` reads."""
    parser.add_argument(
        "--set",
        metavar="MEMORY.PARAMETER=VALUE",
        dest="settings",
        action="append",
        default=[],
        help="what if: a parameter of a memory, such as OffChipFlash.read_latency=64, or clock_hz; may be given several times",
    )


def add_timing_option(parser: Options, default: str = "the model's own") -> None:
    """``--timing``; ``default`` says what holds without it."""
    parser.add_argument(
        "--timing",
        metavar="PROFILE.toml",
        help=f"timing parameters of the NPU, as `calibrate fit` writes them (default: {default})",
    )


def times(text: str) -> Fraction:
    """A multiple of 1 or more, such as 1.1.

    >>> times("1.14")
    Fraction(57, 50)
    """
    from fractions import Fraction

    try:
        value = Fraction(text) if re.fullmatch(r"\d{1,4}(\.\d{1,6})?", text, re.ASCII) else Fraction(0)
    except ValueError:
        value = Fraction(0)
    if not 1 <= value <= MOST_TIMES:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no multiple, give one from 1 to {MOST_TIMES}, such as 1.1")
    return value


def add_recompute_option(parser: Options) -> None:
    """``--recompute`` and ``--no-recompute``; None stands for the search's own."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--recompute",
        metavar="MACS",
        type=times,
        help=(
            "multiply-accumulates that tiles and skips made again may come to, as a multiple of the network's (default: 1.1); "
            "every answer says how many it does"
        ),
    )
    group.add_argument("--no-recompute", dest="recompute", action="store_const", const=times("1"), help="multiply and add nothing twice")


def add_energy_option(parser: Options, what: str) -> None:
    """``--energy``; ``what`` says whose energies are compared."""
    parser.add_argument(
        "--energy",
        metavar="TABLE.toml",
        help=f"{what}, by a table of what a MAC, a byte of each memory and a cycle take ('illustrative' is shipped; it is of no device)",
    )


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """The MODEL of commands that take Tensor Expressions, too."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help=(
            "a .tflite file, zoo:NAME or portfolio:NAME for a network that the package builds, or GRAPH.py:FUNCTION for Tensor "
            "Expressions (extra 'tensorir'): that file is your own code, and it is run"
        ),
    )


def add_accelerator_option(parser: Options, default: str | None) -> None:
    """``--accelerator-config``; ``default`` None if the command must see whether it was given."""
    help_text = (
        "ethos-u55-32, ethos-u55-64, ethos-u55-128, ethos-u55-256, ethos-u65-256 or ethos-u65-512 "
        "(default: ethos-u55-128; Vela's own default is ethos-u55-256)"
    )
    parser.add_argument("--accelerator-config", metavar="NAME", default=default, help=help_text)


def add_compilation_options(parser: argparse.ArgumentParser) -> None:
    """The options of :class:`npu_testbed.simulation.VelaOptions`, and ``--vela-timeout``."""
    group = parser.add_argument_group("compilation", "For a network that is not compiled yet.")
    add_accelerator_option(group, None)
    group.add_argument("--optimise", choices=("Performance", "Size"), help="Vela's strategy (default: Performance)")
    group.add_argument("--arena-cache-size", metavar="BYTES", type=byte_count, help="Vela's bound for the arena (default: Vela's own)")
    add_input_shape_option(group)
    add_vela_timeout_option(group)


def add_cpu_operations_option(parser: Options) -> None:
    """``--show-cpu-operations``."""
    words = "also name the operators that stay on the CPU, and say why: the value, the bound and what to change"
    parser.add_argument("--show-cpu-operations", action="store_true", help=words)


def add_cpu_option(parser: Options) -> None:
    """``--cpu``."""
    parser.add_argument(
        "--cpu",
        metavar="NAME|FILE",
        default="cortex-m55",
        help=(
            "the core whose ranges of cycles stand for operators on the CPU, calls of the NPU and copies: cortex-m55, cortex-m85, or a "
            "TOML file of one's own (default: cortex-m55, whose figures are estimates)"
        ),
    )


def add_json_option(parser: Options) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
