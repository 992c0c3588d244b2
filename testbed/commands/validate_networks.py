"""``npu-testbed validate vela``, ``vela-estimate`` and ``litert``: networks, compiled by Vela, set beside a peer."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from testbed.commands.options import BAR_MISSED, Parser, add_json_option, example, print_json

ALL, BOTH = "all", "both"


def add(peers: Any) -> None:
    """Add the three parsers to those of ``validate``."""
    vela = _parser(
        peers,
        "vela",
        "SRAM and cycles of Vela's schedules",
        "Compile networks with Vela, replay its schedules and compare the SRAM that they touch with Vela's own figure, and cycles with its "
        "estimate. Status 1 if a difference in SRAM has no explanation.",
    )
    vela.add_argument(
        "--compare",
        action="store_true",
        help="set our own schedules beside Vela's, too, as npu-testbed compare does (a minute a network); status 1 if ours needs more "
        "bytes than Vela Size or is more than 1 %% slower in Vela Performance's bytes",
    )
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


def _parser(peers: Any, name: str, summary: str, description: str) -> Parser:
    parser: Parser = peers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example(f"npu-testbed validate {name} zoo:ds_cnn --optimise Size", f"npu-testbed validate {name} network.tflite --json"),
    )
    add_models_argument(parser)
    parser.add_argument(
        "--accelerator-config",
        metavar="NAME",
        default="ethos-u55-128",
        help="ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256, or all of them (default: ethos-u55-128)",
    )
    parser.add_argument("--optimise", choices=("Performance", "Size", BOTH), default=BOTH, help="Vela's strategy (default: both)")
    add_json_option(parser)
    return parser


def add_models_argument(parser: Parser) -> None:
    """``MODEL...``."""
    parser.add_argument("models", metavar="MODEL", nargs="*", help="a .tflite or zoo:NAME (default: every network of the zoo)")


def model_sources(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The models that were named, else those of the zoo."""
    from testbed.peers import zoo_models

    return tuple(arguments.models) or zoo_models()


def _choices(arguments: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Models, accelerators and strategies."""
    from npu_model.accelerator import accelerator_names
    from validation.vela import OPTIMISE

    device, strategy = arguments.accelerator_config, arguments.optimise
    devices = tuple(name for name in accelerator_names() if name.startswith("ethos-u55-")) if device == ALL else (device,)
    return model_sources(arguments), devices, OPTIMISE if strategy == BOTH else (strategy,)


def run_vela(arguments: argparse.Namespace) -> int:
    """Print the scores, and the comparisons that are asked for; status 1 if a score is unexplained or a comparison lost."""
    from testbed.peers import compare_schedules, validate_vela
    from testbed.progress import progress
    from validation.vela import passed, render, to_json

    models, devices, strategies = _choices(arguments)
    with progress() as show:
        scores = validate_vela(models, devices, strategies, show)
        compared = compare_schedules(models, devices, show) if arguments.compare else ()
    if arguments.json:
        print_json("validate vela", to_json(scores) | ({"comparisons": [one.to_json() for one in compared]} if compared else {}))
    else:
        tables = (*render(scores), *(one.table() for one in compared))
        print("\n\n".join(table.text() for table in tables))
    return 0 if passed(scores) and all(one.passed for one in compared) else BAR_MISSED


def run_estimate(arguments: argparse.Namespace) -> int:
    """Print the counts and what deviates; status 1 if a value does."""
    from testbed.peers import validate_vela_estimate
    from testbed.progress import progress
    from validation.vela_estimate import passed, render, to_json

    with progress() as show:
        comparisons = validate_vela_estimate(*_choices(arguments), show)
    if arguments.json:
        print_json("validate vela-estimate", to_json(comparisons))
    else:
        print("\n\n".join(table.text() for table in render(comparisons)))
    return 0 if passed(comparisons) else BAR_MISSED


def run_litert(arguments: argparse.Namespace) -> int:
    """Print the differing bytes; status 1 if they are unexplained."""
    from testbed.peers import litert_table, validate_litert
    from testbed.progress import progress

    with progress() as show:
        scores = validate_litert(*_choices(arguments), show)
    passed = all(score.passed for score in scores)
    if arguments.json:
        rows = [asdict(score) | {"verdict": score.verdict.name, "passed": score.passed} for score in scores]
        print_json("validate litert", {"passed": passed, "networks": rows})
    else:
        print(litert_table(scores).text())
    return 0 if passed else BAR_MISSED
