"""``npu-testbed validate``: our figures beside those of our peers, and the whole suite as one scorecard."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npu_testbed.commands import validate_fvp, validate_networks, validate_portfolio
from npu_testbed.commands.options import Parser, add_input_shape_option, add_json_option, add_vela_timeout_option, example
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser with its subcommands."""
    parser: Parser = commands.add_parser(
        "validate",
        help="compare the simulator with its peers",
        description="Compare the simulator with a peer and report every error.",
        epilog=example("npu-testbed validate all", "npu-testbed validate fvp", "npu-testbed validate vela zoo:ds_cnn"),
    )
    peers = parser.add_subparsers(title="peers", dest="peer", metavar="PEER", required=True)
    validate_fvp.add(peers)
    validate_networks.add(peers)
    validate_portfolio.add(peers)
    _add_all(peers)


def _add_all(peers: Any) -> None:
    parser: Parser = peers.add_parser(
        "all",
        help="the scorecard of all peers",
        description=(
            "Check every peer and print one scorecard: measured streams against the FVP's counters, and networks on the ethos-u55-128 "
            "against Vela's SRAM and estimate and LiteRT's bytes (not checked if LiteRT is not installed). About two minutes for the whole "
            "zoo. Status 1 if a bar is missed that is not known to be."
        ),
        epilog=example("npu-testbed validate all", "npu-testbed validate all zoo:ds_cnn zoo:resnet8 --json"),
    )
    validate_networks.add_models_argument(parser)
    add_json_option(parser)
    add_input_shape_option(parser)
    add_vela_timeout_option(parser)
    parser.set_defaults(run=Printed(answer_all))


def answer_all(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Make the scorecard; status 1 if a bar is missed."""
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.suite import suite_json, suite_table, validate_all

    suite = validate_all(arguments.models, show)
    return PlainOutcome("validate all", suite, lambda: suite_json(suite), lambda: suite_table(suite).text(), passed=suite.passed)
