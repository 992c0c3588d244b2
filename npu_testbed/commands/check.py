"""``npu-testbed check``: a schedule held to a budget, or to what it was, for continuous integration."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_accelerator_option,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_recompute_option,
    add_timing_option,
    add_vela_timeout_option,
    byte_count,
    cycle_count,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.differences.bars import Baseline
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
            "npu-testbed check network.json --against baseline.json --update",
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
    parser.add_argument(
        "--update", action="store_true", help="write the file of --against anew, from what is found now: what was there is no bar"
    )
    parser.add_argument("--sram-map", metavar="M.svg", help="draw what lies where in the arena, over the cycles")
    parser.add_argument("--markdown", action="store_true", help="print a summary in Markdown, for a pull request")
    _add_compile_options(parser)
    add_memory_options(parser, "of a schedule the one that it was made for, else the timing adapter u55_high_end")
    add_timing_option(parser, "of a schedule that which it was made for, else the model's own")
    add_input_shape_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


_NO_BAR = "No bar was given: give --max-cycles, --max-bytes or --against, or --json for a baseline to hold others to."

_COMPILING = ("accelerator_config", "optimise", "arena_cache_size", "effort", "ignore_ops", "recompute", "input_shape")
"""Options that only a network that is not compiled yet has a use for."""


def _add_compile_options(parser: Parser) -> None:
    group = parser.add_argument_group("compilation", "For a network that is not compiled yet, as `npu-testbed compile` has them.")
    add_accelerator_option(group, None)
    group.add_argument("--optimise", choices=("Performance", "Size"), help="what to optimise for within the bound (default: Performance)")
    group.add_argument("--arena-cache-size", metavar="BYTES", type=byte_count, help="most bytes of the arena (default: as for compile)")
    group.add_argument("--effort", choices=("quick", "standard", "thorough"), help="how hard to search (default: standard)")
    group.add_argument("--ignore-ops", metavar="OP[,OP...]", help="TFLite builtin operators to leave on the CPU")
    add_home_option(group)
    add_recompute_option(group)
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
    from npu_testbed.differences.bars import bars, check_json
    from npu_testbed.differences.sides import is_scheduled
    from npu_testbed.differences.summary import check_markdown, check_text, update_text
    from npu_testbed.outcomes import PlainOutcome

    _require_together(arguments)
    baseline = _baseline(arguments)
    unasked = arguments.json or arguments.update
    wants_bar = not unasked and arguments.max_cycles is None and arguments.max_bytes is None and baseline is None
    if wants_bar and not is_scheduled(arguments.file) and _bound(arguments) is None:
        # It is said before the network is compiled.
        raise InputError(_NO_BAR)
    simulation = _replayed(arguments, show)
    baseline = _comparable(arguments, baseline, simulation)
    held = None if arguments.update else baseline
    found = bars(simulation, arguments.max_cycles, arguments.max_bytes, held, arguments.tolerance or Fraction(0))
    if wants_bar and not found:
        raise InputError(_NO_BAR)
    shown = check_markdown if arguments.markdown else check_text
    said = update_text(arguments.against, simulation, baseline) if arguments.update else ""
    outcome = PlainOutcome(
        "check",
        simulation,
        lambda: check_json(simulation, found),
        lambda: "\n\n".join(filter(None, [shown(simulation, found, baseline), said])),
        passed=all(bar.is_met for bar in found),
    )
    _write(arguments, outcome, simulation)
    return outcome


def _require_together(arguments: argparse.Namespace) -> None:
    """InputError for options of which one has no use for the other, or without it, and for places that cannot be written to."""
    from npu_testbed.files import require_picture, require_writable

    if arguments.json and arguments.markdown:
        raise InputError("--json was given together with --markdown, and one document is printed: leave one of them out.")
    for option in ("tolerance", "update"):
        if getattr(arguments, option) not in (None, False) and arguments.against is None:
            raise InputError(f"--{option} was given without --against, whose baseline it is for: give both, or leave it out.")
    if arguments.update and arguments.tolerance is not None:
        raise InputError("--tolerance was given together with --update, which holds nothing to the baseline: leave one of them out.")
    if arguments.update:
        require_writable(arguments.against, arguments.file)
    if arguments.sram_map is not None:
        require_picture(arguments.sram_map, arguments.file, *([] if arguments.against is None else [arguments.against]))


def _baseline(arguments: argparse.Namespace) -> Baseline | None:
    """The baseline that is given; with --update None for one that is not there, or of another version."""
    from npu_testbed.differences.bars import earlier_baseline, read_baseline

    if arguments.against is None:
        return None
    return earlier_baseline(arguments.against) if arguments.update else read_baseline(arguments.against)


def _bound(arguments: argparse.Namespace) -> int | None:
    """Most bytes of the arena that a network to be compiled may take; None if nothing says how many."""
    from npu_model.accelerator import DEFAULT_ACCELERATOR
    from npu_testbed.commands.choices import memory_options
    from npu_testbed.device_memory import arena_bound

    return arena_bound(arguments.accelerator_config or DEFAULT_ACCELERATOR, memory_options(arguments), arguments.arena_cache_size)


def _comparable(arguments: argparse.Namespace, baseline: Baseline | None, simulation: Simulation) -> Baseline | None:
    """The baseline if it is of the same accelerator, memory system and timing; InputError if not, but None with --update."""
    from npu_testbed.differences.bars import require_comparable

    if baseline is None:
        return None
    try:
        require_comparable(baseline, simulation, arguments.against)
    except InputError:
        if arguments.update:
            return None
        raise
    return baseline


def _write(arguments: argparse.Namespace, outcome: Outcome, simulation: Simulation) -> None:
    """Write the files that are asked for, all or none."""
    from npu_testbed.files import write_files
    from npu_testbed.views.program_map import program_map
    from npu_testbed.views.sram_map import sram_map_svg

    files: dict[Path, bytes] = {}
    if arguments.update:
        files[Path(arguments.against)] = outcome.to_json().encode("utf-8")
    if arguments.sram_map is not None:
        files[Path(arguments.sram_map)] = sram_map_svg(program_map(simulation)).encode("utf-8")
    if files:
        write_files(files)


def _replayed(arguments: argparse.Namespace, show: Progress) -> Simulation:
    """The replay of a file that is scheduled, or of what `compile` makes of a network."""
    from npu_model.timing import DEFAULT_TIMING
    from npu_testbed.commands.choices import home_options, memory_options
    from npu_testbed.compilation.compiler import DEFAULT_ACCELERATOR, CompileOptions, compile_model
    from npu_testbed.differences.sides import Side, is_scheduled, replay_side
    from npu_testbed.scheduling import DEFAULT_EFFORT, DEFAULT_OPTIMISE
    from npu_testbed.simulation import VelaOptions
    from npu_testbed.timing import load_timing

    memory = memory_options(arguments)
    timing = None if arguments.timing is None else load_timing(arguments.timing)
    if is_scheduled(arguments.file):
        of_chip = () if arguments.chip is None else ("accelerator_config",)
        given = [f"--{name.replace('_', '-')}" for name in _COMPILING if name not in of_chip and getattr(arguments, name) is not None]
        given += ["--home"] if arguments.homes else []
        if given:
            raise InputError(f"{arguments.file} is scheduled already, so that {' and '.join(given)} cannot change it: leave them out.")
        npu = VelaOptions(arguments.accelerator_config if of_chip else None, chip=arguments.chip)
        return replay_side(Side(arguments.file, npu, memory, timing), show)
    options = CompileOptions(
        accelerator=arguments.accelerator_config or DEFAULT_ACCELERATOR,
        arena_cache_size=arguments.arena_cache_size,
        optimise=arguments.optimise or DEFAULT_OPTIMISE,
        effort=arguments.effort or DEFAULT_EFFORT,
        memory=memory,
        recompute=arguments.recompute,
        homes=home_options(arguments),
        ignore_ops=tuple(name.strip() for name in (arguments.ignore_ops or "").split(",") if name.strip()),
        processes=arguments.jobs,
        timing=timing or DEFAULT_TIMING,
    )
    return compile_model(arguments.file, options, show).simulation
