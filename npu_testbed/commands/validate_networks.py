"""``npu-testbed validate vela``, ``vela-estimate`` and ``litert``: networks, compiled by Vela, set beside a peer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from npu_testbed.commands.options import (
    BAR_MISSED,
    Parser,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_results_option,
    add_vela_timeout_option,
    example,
    print_json,
)

ALL, BOTH = "all", "both"

_COMPARED = ("timing_adapter", "system_config", "memory_mode", "config", "jobs", "results")
"""Options that only a comparison reads."""


def add(peers: Any) -> None:
    """Add the three parsers to those of ``validate``."""
    vela = _parser(
        peers,
        "vela",
        "SRAM and cycles of Vela's schedules, and ours beside them",
        "Compile networks with Vela for its default memory system, replay its schedules and compare the SRAM that they touch with "
        "Vela's own figure, and cycles with its estimate.\n"
        "With --compare, set our own schedules beside Vela's, too: a row per network, a row per arena size of a sweep of eight, and every\n"
        "schedule of Vela's that ours does not match in its bytes and cycles.\n\n"
        "Status 1 if a difference in SRAM has no explanation, or if with --compare\n"
        "- ours needs more bytes than Vela Size at its cycles, or is more than 1 % slower in Vela Performance's bytes,\n"
        "- at an arena size that Vela fits ours is more than 1 % slower, or\n"
        "- a network fails, which is reported beside the others' results.",
        "npu-testbed validate vela network.tflite --compare --accelerator-config all --system-config Ethos_U55_Deep_Embedded",
    )
    vela.add_argument(
        "--compare", action="store_true", help="set our own schedules beside Vela's, as npu-testbed compare does (minutes a network)"
    )
    add_memory_options(
        vela, "the timing adapter u55_high_end, and Vela's defaults for its own decisions. Only with --compare, whose tables they are about"
    )
    add_jobs_option(vela)
    add_results_option(vela)
    vela.set_defaults(run=run_vela)
    estimate = _parser(
        peers,
        "vela-estimate",
        "Vela's own estimate, reproduced",
        "Compile networks with Vela and reproduce its estimate of every operation, column by column: cycles within 1, bytes and MACs "
        "exactly. Status 1 if a value does not hold, which is how a change in Vela is seen.",
    )
    estimate.set_defaults(run=run_estimate)
    litert = _parser(
        peers,
        "litert",
        "outputs of Vela's schedules, bit by bit",
        "Compile networks with Vela, run its schedules bit by bit on seeded random inputs and compare the outputs with those of LiteRT's "
        "reference kernels (extra 'numerics'). Status 1 if a difference has no explanation.",
    )
    litert.set_defaults(run=run_litert)


def _parser(peers: Any, name: str, summary: str, description: str, *examples: str) -> Parser:
    parser: Parser = peers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example(
            f"npu-testbed validate {name} zoo:ds_cnn --optimise Size", f"npu-testbed validate {name} network.tflite --json", *examples
        ),
    )
    add_models_argument(parser)
    parser.add_argument(
        "--accelerator-config",
        metavar="NAME",
        action="append",
        help="ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256, or all of them; may be repeated (default: ethos-u55-128)",
    )
    parser.add_argument("--optimise", choices=("Performance", "Size", BOTH), default=BOTH, help="Vela's strategy (default: both)")
    add_json_option(parser)
    add_vela_timeout_option(parser)
    return parser


def add_models_argument(parser: Parser) -> None:
    """``MODEL...``."""
    parser.add_argument(
        "models", metavar="MODEL", nargs="*", help="a .tflite, zoo:NAME or portfolio:NAME (default: every network of the zoo)"
    )


def model_sources(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The models that were named, else those of the zoo."""
    from npu_testbed.peers import zoo_models

    return tuple(arguments.models) or zoo_models()


def devices(names: Sequence[str] | None) -> tuple[str, ...]:
    """The accelerators that were named, each once; the default without any."""
    from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names

    if names is None:
        return (DEFAULT_ACCELERATOR,)
    return tuple(name for name in accelerator_names() if name.startswith("ethos-u55-")) if ALL in names else tuple(dict.fromkeys(names))


def _choices(arguments: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Models, accelerators and strategies."""
    from validation.vela.replays import OPTIMISE

    strategy = arguments.optimise
    return model_sources(arguments), devices(arguments.accelerator_config), OPTIMISE if strategy == BOTH else (strategy,)


def run_vela(arguments: argparse.Namespace) -> int:
    """Print the scores, and the comparisons that are asked for; status 1 if a score is unexplained."""
    if arguments.compare:
        return _run_comparison(arguments)
    _require_none(arguments)
    from npu_testbed.peers import validate_vela
    from npu_testbed.progress import progress
    from validation.vela.replays import passed, render, to_json

    with progress() as show:
        scores = validate_vela(*_choices(arguments), show)
    if arguments.json:
        print_json("validate vela", to_json(scores))
    else:
        print("\n\n".join(table.text() for table in render(scores)))
    return 0 if passed(scores) else BAR_MISSED


def _require_none(arguments: argparse.Namespace) -> None:
    """Without a comparison Vela's schedules are replayed on what it compiles for by default: no option is ignored."""
    from npu_model.errors import InputError

    given = [f"--{name.replace('_', '-')}" for name in _COMPARED if getattr(arguments, name) is not None]
    if given:
        raise InputError(f"{' and '.join(given)} can only be given together with --compare: add it, or leave them out.")


def _run_comparison(arguments: argparse.Namespace) -> int:
    """Print the scores and the comparisons; status 1 if a score is unexplained, a comparison misses a bar, or a network fails."""
    from npu_testbed.commands.choices import memory_options
    from npu_testbed.compare.beside_vela import beside_vela
    from npu_testbed.progress import progress
    from validation.vela.replays import render, to_json

    memory = memory_options(arguments)
    with progress() as show:
        result = beside_vela(*_choices(arguments), memory=memory, processes=arguments.jobs, progress=show, results=arguments.results)
    if arguments.json:
        failures = [failure.to_json() for failure in result.failures]
        found = {"passed": result.passed, "failures": failures, "comparisons": [summary.to_json() for summary in result.summaries]}
        print_json("validate vela", to_json(result.scores) | found)
    else:
        notes = ["This table is of Vela's default system config and memory mode."] if memory.given else []
        notes += [failure.sentence for failure in result.failures]
        scores = "\n".join([*(table.text() for table in render(result.scores)), *notes])
        print("\n\n".join([scores, *(table.text() for summary in result.summaries for table in summary.tables())]))
    return 0 if result.passed else BAR_MISSED


def run_estimate(arguments: argparse.Namespace) -> int:
    """Print the counts and what deviates; status 1 if a value does."""
    from npu_testbed.peers import validate_vela_estimate
    from npu_testbed.progress import progress
    from validation.vela.estimate import passed, render, to_json

    with progress() as show:
        comparisons = validate_vela_estimate(*_choices(arguments), show)
    if arguments.json:
        print_json("validate vela-estimate", to_json(comparisons))
    else:
        print("\n\n".join(table.text() for table in render(comparisons)))
    return 0 if passed(comparisons) else BAR_MISSED


def run_litert(arguments: argparse.Namespace) -> int:
    """Print the differing bytes; status 1 if they are unexplained."""
    from npu_testbed.peers import litert_table, validate_litert
    from npu_testbed.progress import progress

    with progress() as show:
        scores = validate_litert(*_choices(arguments), show)
    passed = all(score.passed for score in scores)
    if arguments.json:
        rows = [asdict(score) | {"verdict": score.verdict.name, "passed": score.passed} for score in scores]
        print_json("validate litert", {"passed": passed, "networks": rows})
    else:
        print(litert_table(scores).text())
    return 0 if passed else BAR_MISSED
