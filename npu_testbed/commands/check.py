"""``npu-testbed check``: a schedule held to a budget, or to what it was, for continuous integration."""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_timing_option,
    add_vela_timeout_option,
    byte_count,
    cycle_count,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress
    from npu_testbed.simulation import Simulation

_MOST_TOLERANCE = 1000


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "check",
        help="hold a schedule to a budget or a baseline, with exit status 1 if it is missed",
        description=(
            "Replay a schedule file, a *_vela.tflite, or what `npu-testbed compile` would make of a network with the same options, and "
            "hold its cycles and its SRAM to limits, or to those that another check printed with --json. The exit status is 0 if all "
            "bars are met and 1 if one is missed."
        ),
        epilog=example(
            "npu-testbed check network.json --max-cycles 100000 --max-bytes 65536",
            "npu-testbed check network.json --json > baseline.json",
            "npu-testbed check network.json --against baseline.json --tolerance 1 --markdown",
        ),
    )
    parser.add_argument(
        "file", metavar="FILE", help="a schedule file, a *_vela.tflite, a .pte, a C array, a .tflite to compile, zoo:NAME or portfolio:NAME"
    )
    parser.add_argument("--max-cycles", metavar="N", type=cycle_count, help="most NPU cycles")
    parser.add_argument("--max-bytes", metavar="N", type=byte_count, help="most bytes of SRAM to set aside")
    parser.add_argument(
        "--against", metavar="BASELINE.json", help="what `check --json` printed before: no more cycles and bytes than there"
    )
    parser.add_argument("--tolerance", metavar="PERCENT", type=percent, help="how much more than the baseline's is allowed (default: 0)")
    parser.add_argument("--markdown", action="store_true", help="print a summary in Markdown, for a pull request")
    _add_compile_options(parser)
    add_memory_options(parser, "of a schedule the one that it was made for, else the timing adapter u55_high_end")
    add_timing_option(parser, "of a schedule that which it was made for, else the model's own")
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


_NO_BAR = "No bar was given: give --max-cycles, --max-bytes or --against, or --json for a baseline to hold others to."

_COMPILING = ("accelerator_config", "optimise", "arena_cache_size", "effort", "ignore_ops")
"""Options that only a network that is not compiled yet has a use for."""


def _add_compile_options(parser: Parser) -> None:
    group = parser.add_argument_group("compilation", "For a network that is not compiled yet, as `npu-testbed compile` has them.")
    add_accelerator_option(group, None)
    group.add_argument("--optimise", choices=("Performance", "Size"), help="what to optimise for within the bound (default: Performance)")
    group.add_argument("--arena-cache-size", metavar="BYTES", type=byte_count, help="most bytes of the arena (default: as for compile)")
    group.add_argument("--effort", choices=("quick", "standard", "thorough"), help="how hard to search (default: standard)")
    group.add_argument("--ignore-ops", metavar="OP[,OP...]", help="TFLite builtin operators to leave on the CPU")
    add_jobs_option(group)
    add_vela_timeout_option(group)


def percent(text: str) -> Fraction:
    """A percentage, exactly, as a fraction of 1."""
    whole, mark, part = text.partition(".")
    if not all(digits.isascii() and digits.isdecimal() for digits in ([whole, part] if mark else [whole])) or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no percentage, give one such as 1 or 0.5")
    if (value := Fraction(text)) > _MOST_TOLERANCE:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is above {_MOST_TOLERANCE} per cent, give a smaller one")
    return value / 100


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Replay and compare; status 1 if a bar is missed."""
    from npu_testbed.commands.choices import memory_options
    from npu_testbed.differences.bars import bars, check_json, read_baseline, require_comparable
    from npu_testbed.differences.sides import is_scheduled
    from npu_testbed.differences.summary import check_markdown, check_text
    from npu_testbed.outcomes import PlainOutcome

    if arguments.json and arguments.markdown:
        raise InputError("--json was given together with --markdown, and one document is printed: leave one of them out.")
    if arguments.tolerance is not None and arguments.against is None:
        raise InputError("--tolerance was given without --against, whose baseline it is for: give both, or leave it out.")
    baseline = None if arguments.against is None else read_baseline(arguments.against)
    wants_bar = not arguments.json and arguments.max_cycles is None and arguments.max_bytes is None and baseline is None
    if wants_bar and not is_scheduled(arguments.file) and memory_options(arguments).arena_bound(arguments.arena_cache_size) is None:
        # It is said before the network is compiled.
        raise InputError(_NO_BAR)
    simulation = _replayed(arguments, show)
    if baseline is not None:
        require_comparable(baseline, simulation, arguments.against)
    found = bars(simulation, arguments.max_cycles, arguments.max_bytes, baseline, arguments.tolerance or Fraction(0))
    if wants_bar and not found:
        raise InputError(_NO_BAR)
    shown = check_markdown if arguments.markdown else check_text
    return PlainOutcome(
        "check",
        simulation,
        lambda: check_json(simulation, found),
        lambda: shown(simulation, found, baseline),
        passed=all(bar.is_met for bar in found),
    )


def _replayed(arguments: argparse.Namespace, show: Progress) -> Simulation:
    """The replay of a file that is scheduled, or of what `compile` makes of a network."""
    from npu_model.timing import DEFAULT_TIMING
    from npu_testbed.commands.choices import memory_options
    from npu_testbed.compilation.compiler import DEFAULT_ACCELERATOR, CompileOptions, compile_model
    from npu_testbed.differences.sides import Side, is_scheduled, replay_side
    from npu_testbed.scheduling import DEFAULT_EFFORT, DEFAULT_OPTIMISE
    from npu_testbed.timing import load_timing

    memory = memory_options(arguments)
    timing = None if arguments.timing is None else load_timing(arguments.timing)
    if is_scheduled(arguments.file):
        given = [f"--{name.replace('_', '-')}" for name in _COMPILING if getattr(arguments, name) is not None]
        if given:
            raise InputError(f"{arguments.file} is scheduled already, so that {' and '.join(given)} cannot change it: leave them out.")
        return replay_side(Side(arguments.file, memory=memory, timing=timing), show)
    options = CompileOptions(
        accelerator=arguments.accelerator_config or DEFAULT_ACCELERATOR,
        arena_cache_size=arguments.arena_cache_size,
        optimise=arguments.optimise or DEFAULT_OPTIMISE,
        effort=arguments.effort or DEFAULT_EFFORT,
        memory=memory,
        ignore_ops=tuple(name.strip() for name in (arguments.ignore_ops or "").split(",") if name.strip()),
        processes=arguments.jobs,
        timing=timing or DEFAULT_TIMING,
    )
    return compile_model(arguments.file, options, show).simulation
