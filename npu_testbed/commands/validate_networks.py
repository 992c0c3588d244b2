"""``npu-testbed validate vela``, ``vela-estimate`` and ``litert``: networks, compiled by Vela, set beside a peer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import (
    Parser,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_results_option,
    add_vela_timeout_option,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress

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
    vela.set_defaults(run=Printed(answer_vela))
    estimate = _parser(
        peers,
        "vela-estimate",
        "Vela's own estimate, reproduced",
        "Compile networks with Vela and reproduce its estimate of every operation, column by column: cycles within 1, bytes and MACs "
        "exactly. Status 1 if a value does not hold, which is how a change in Vela is seen.",
    )
    estimate.set_defaults(run=Printed(answer_estimate))
    litert = _parser(
        peers,
        "litert",
        "outputs of Vela's schedules, bit by bit",
        "Compile networks with Vela, run its schedules bit by bit on seeded random inputs and compare the outputs with those of LiteRT's "
        "reference kernels (extra 'numerics'). Status 1 if a difference has no explanation.",
    )
    litert.set_defaults(run=Printed(answer_litert))


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
    add_input_shape_option(parser)
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
    return accelerator_names("u55") if ALL in names else tuple(dict.fromkeys(names))


def _choices(arguments: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Models, accelerators and strategies."""
    from validation.vela.replays import OPTIMISE

    strategy = arguments.optimise
    return model_sources(arguments), devices(arguments.accelerator_config), OPTIMISE if strategy == BOTH else (strategy,)


def answer_vela(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Make the scores, and the comparisons that are asked for; status 1 if a score is unexplained."""
    if arguments.compare:
        return _comparison(arguments, show)
    _require_none(arguments)
    from npu_testbed.documents.comparison import ValidateVelaDocument
    from npu_testbed.documents.document import checked
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.peers import validate_vela
    from validation.vela.replays import passed, render, to_json

    scores = validate_vela(*_choices(arguments), show)
    return PlainOutcome(
        "validate vela",
        scores,
        lambda: checked(ValidateVelaDocument, to_json(scores)),
        lambda: "\n\n".join(table.text() for table in render(scores)),
        passed=passed(scores),
    )


def _require_none(arguments: argparse.Namespace) -> None:
    """Without a comparison Vela's schedules are replayed on what it compiles for by default: no option is ignored."""
    from npu_model.errors import InputError

    given = [f"--{name.replace('_', '-')}" for name in _COMPARED if getattr(arguments, name) is not None]
    if given:
        raise InputError(f"{' and '.join(given)} can only be given together with --compare: add it, or leave them out.")


def _comparison(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Make the scores and the comparisons; status 1 if a score is unexplained, a comparison misses a bar, or a network fails."""
    from msgspec.structs import replace

    from npu_testbed.commands.choices import memory_options
    from npu_testbed.comparisons.beside_vela import beside_vela
    from npu_testbed.documents.comparison import ValidateVelaDocument
    from npu_testbed.documents.document import checked
    from npu_testbed.outcomes import PlainOutcome
    from validation.vela.replays import render, to_json

    memory = memory_options(arguments)
    result = beside_vela(*_choices(arguments), memory=memory, processes=arguments.jobs, progress=show, results=arguments.results)

    def document() -> ValidateVelaDocument:
        scores = checked(ValidateVelaDocument, to_json(result.scores))
        failures = tuple(failure.to_json() for failure in result.failures)
        comparisons = tuple(summary.to_json() for summary in result.summaries)
        return replace(scores, passed=result.passed, failures=failures, comparisons=comparisons)

    def text() -> str:
        notes = ["This table is of Vela's default system config and memory mode."] if memory.given else []
        notes += [failure.sentence for failure in result.failures]
        scores = "\n".join([*(table.text() for table in render(result.scores)), *notes])
        return "\n\n".join([scores, *(table.text() for summary in result.summaries for table in summary.tables())])

    return PlainOutcome("validate vela", result, document, text, passed=result.passed)


def answer_estimate(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Count what deviates; status 1 if a value does."""
    from npu_testbed.documents.document import checked
    from npu_testbed.documents.validation import ValidateVelaEstimateDocument
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.peers import validate_vela_estimate
    from validation.vela.estimate import passed, render, to_json

    comparisons = validate_vela_estimate(*_choices(arguments), show)
    return PlainOutcome(
        "validate vela-estimate",
        comparisons,
        lambda: checked(ValidateVelaEstimateDocument, to_json(comparisons)),
        lambda: "\n\n".join(table.text() for table in render(comparisons)),
        passed=passed(comparisons),
    )


def answer_litert(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Count the differing bytes; status 1 if they are unexplained."""
    from npu_testbed.documents.document import extended
    from npu_testbed.documents.validation import LitertScoreEntry, ValidateLitertDocument
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.peers import litert_table, validate_litert

    scores = validate_litert(*_choices(arguments), show)
    passed = all(score.passed for score in scores)

    def document() -> ValidateLitertDocument:
        rows = (extended(LitertScoreEntry, score, verdict=score.verdict.name, passed=score.passed) for score in scores)
        return ValidateLitertDocument(passed, tuple(rows))

    return PlainOutcome("validate litert", scores, document, lambda: litert_table(scores).text(), passed=passed)
