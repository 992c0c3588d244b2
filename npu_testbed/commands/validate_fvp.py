"""``npu-testbed validate fvp``: the counters of Arm's FVPs, as others published them or from an installed FVP."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import (
    Parser,
    add_input_shape_option,
    add_json_option,
    add_timing_option,
    add_vela_timeout_option,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_model.memory.system import MemorySystem
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress
    from validation.fvp.live import FvpOptions

DEFAULT_OPTIMISE = "Performance"
"""Vela's default."""

_COMPILATION = ("optimise", "system_config", "memory_mode")
_LIVE = (
    "vela_timeout",
    *("model", "fvp", "firmware", "model_address", "no_trace", "fvp_argument", "event", "timeout"),
    *("accelerator_config", "timing_adapter", *_COMPILATION),
)
"""Options that only a live comparison reads."""

_BUILT_IN = "none"
"""``--model-address`` of firmware that has the network built in."""


def add(peers: Any) -> None:
    """Add the parser to those of ``validate``."""
    parser: Parser = peers.add_parser(
        "fvp",
        help="counters of the Corstone FVPs",
        description=(
            "Replay command streams that were measured on the Corstone-300 and Corstone-310 FVPs and compare cycles and data beats. "
            "Matching the FVP is matching Arm's simulator, not silicon. Status 1 if a bar is missed that is not known to be. "
            "With --live, run a network on an installed Corstone-300 FVP instead and compare its counters and, from its PMU trace, every "
            "operation; that has no bar to miss."
        ),
        epilog=example(
            "npu-testbed validate fvp --json",
            "npu-testbed validate fvp --live network.tflite --fvp FVP_Corstone_SSE-300_Ethos-U55 --firmware runner.axf",
        ),
    )
    add_timing_option(parser)
    add_json_option(parser)
    _add_live_options(parser)
    parser.set_defaults(run=Printed(answer))


def _add_live_options(parser: Parser) -> None:
    live = parser.add_argument_group("live comparison")
    live.add_argument("--live", action="store_true", help="run MODEL on an installed FVP")
    live.add_argument(
        "model", metavar="MODEL", nargs="?", help="a schedule file, a *_vela.tflite, a .tflite to compile, zoo:NAME or portfolio:NAME"
    )
    live.add_argument("--fvp", metavar="FILE", type=Path, help="the FVP's binary (default: the one in PATH)")
    live.add_argument("--firmware", metavar="FILE", type=Path, help="the .axf to run (default: the runner of the package mlia-ethos-u)")
    live.add_argument(
        "--model-address",
        metavar="ADDRESS",
        type=_address,
        help=f"where the firmware expects the compiled network, or {_BUILT_IN} if it is built in (default: 0x90000000)",
    )
    live.add_argument("--no-trace", action="store_const", const=True, help="ask for no PMU trace: counters alone, no operations")
    live.add_argument("--fvp-argument", metavar="TEXT", action="append", help="a further argument for the FVP; may be repeated")
    live.add_argument(
        "--event", metavar="NAME", action="append", help="PMU event of the firmware's next numbered counter, from 0 on; may be repeated"
    )
    live.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="bound of the run (default: 900)")
    live.add_argument(
        "--timing-adapter", metavar="NAME|FILE", help="what the firmware programs into the timing adapters (default: off, as ready runners)"
    )
    live.add_argument(
        "--accelerator-config",
        metavar="NAME",
        help="ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256 (default: the schedule's, or ethos-u55-128)",
    )
    live.add_argument("--optimise", choices=("Performance", "Size"), help="Vela's strategy (default: Performance)")
    live.add_argument("--system-config", metavar="NAME", help="Vela's system config (default: Ethos_U55_High_End_Embedded)")
    live.add_argument("--memory-mode", metavar="NAME", help="Vela's memory mode (default: Shared_Sram)")
    add_input_shape_option(live)
    add_vela_timeout_option(live)


def _address(text: str) -> int | str:
    if text == _BUILT_IN:
        return text
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 32:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no address from 0 to 0xffffffff; give one such as 0x90000000, or {_BUILT_IN}")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds from 1 to 86400")
    return value


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Make the scorecard, or the live comparison; status 1 if the scorecard misses a bar."""
    if arguments.live:
        return _live(arguments, show)
    _require_none(arguments)
    from npu_testbed.documents.document import checked
    from npu_testbed.documents.fvp import ValidateFvpDocument
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.timing import load_timing, timing_json, timing_text
    from validation.fvp.scorecard import render, scorecard, to_json

    timing = load_timing(arguments.timing)
    card = scorecard(lambda done, total: show(f"Replaying: {done} of {total}"), timing)

    def document() -> ValidateFvpDocument:
        return checked(ValidateFvpDocument, to_json(card) | {"timing": timing_json(timing)})

    def text() -> str:
        changed = [f"Timing: {timing_text(timing)}"] if timing.changed() else []
        return "\n\n".join([*changed, *(table.text() for table in render(card))])

    return PlainOutcome("validate fvp", card, document, text, passed=card.passed)


def _spelling(name: str) -> str:
    return "MODEL" if name == "model" else f"--{name.replace('_', '-')}"


def _require_none(arguments: argparse.Namespace) -> None:
    """The recorded points know no options: none of them is ignored."""
    from npu_model.errors import InputError

    given = [_spelling(name) for name in _LIVE if getattr(arguments, name) is not None]
    if given:
        raise InputError(f"{' and '.join(given)} can only be given together with --live: add it, or leave them out.")


def _options(arguments: argparse.Namespace) -> FvpOptions:
    from validation.fvp.live.runner import MODEL_ADDRESS, TIMEOUT_SECONDS, FvpOptions

    address = MODEL_ADDRESS if arguments.model_address is None else arguments.model_address
    return FvpOptions(
        binary=arguments.fvp,
        firmware=arguments.firmware,
        model_address=None if address == _BUILT_IN else address,
        trace=not arguments.no_trace,
        arguments=tuple(arguments.fvp_argument or ()),
        events=tuple(arguments.event or ()),
        timeout=TIMEOUT_SECONDS if arguments.timeout is None else arguments.timeout,
    )


def _require_no_compilation(arguments: argparse.Namespace, model: bytes) -> None:
    """A compiled network runs as it is: options of the compilation would be ignored."""
    from npu_model.compiled.network import is_compiled
    from npu_model.errors import InputError
    from npu_model.tflite.model import read_tflite

    given = [_spelling(name) for name in _COMPILATION if getattr(arguments, name) is not None]
    if given and is_compiled(read_tflite(model)):
        raise InputError(f"{arguments.model} is compiled already, so that {' and '.join(given)} cannot change it: leave them out.")


def _system(arguments: argparse.Namespace) -> MemorySystem | None:
    from npu_testbed.configs import load_timing_adapter

    return None if arguments.timing_adapter is None else load_timing_adapter(arguments.timing_adapter)


def _live(arguments: argparse.Namespace, show: Progress) -> Outcome:
    from npu_model.accelerator import require_use
    from npu_model.errors import InputError
    from npu_model.memory.vela_ini import DEFAULT_MEMORY_MODE
    from npu_testbed.documents.document import checked
    from npu_testbed.documents.fvp import ValidateFvpLiveDocument
    from npu_testbed.live_network import live_network
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.timing import load_timing, timing_json
    from validation.fvp.live import render, to_json, validate_live

    if arguments.model is None:
        raise InputError("--live runs 1 network on the FVP and 0 were named: give a schedule file, a .tflite or zoo:NAME.")
    show(f"Reading {arguments.model}")
    model = live_network(arguments.model)
    timing = model.timing if arguments.timing is None else load_timing(arguments.timing)
    device = arguments.accelerator_config or model.accelerator
    require_use(device, "replay")
    _require_no_compilation(arguments, model.data)
    show(f"Running {model.name} on the FVP")
    result = validate_live(
        model.data,
        device,
        _options(arguments),
        optimise=arguments.optimise or DEFAULT_OPTIMISE,
        system_config=arguments.system_config or "",
        memory_mode=arguments.memory_mode or DEFAULT_MEMORY_MODE,
        system=_system(arguments),
        timing=timing,
    )
    return PlainOutcome(
        "validate fvp --live",
        result,
        lambda: checked(ValidateFvpLiveDocument, to_json(result) | {"timing": timing_json(timing)}),
        lambda: "\n\n".join(table.text() for table in render(result)),
    )
