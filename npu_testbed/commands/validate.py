"""``npu-testbed validate``: our figures beside those of our peers, and the whole suite as one scorecard."""

from __future__ import annotations

import argparse
from typing import Any

from npu_testbed.commands import validate_fvp, validate_networks, validate_portfolio
from npu_testbed.commands.options import BAR_MISSED, Parser, add_json_option, add_vela_timeout_option, example, print_json


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
    add_vela_timeout_option(parser)
    parser.set_defaults(run=run_all)


def run_all(arguments: argparse.Namespace) -> int:
    """Print the scorecard; status 1 if a bar is missed."""
    from npu_testbed.progress import progress
    from npu_testbed.suite import suite_json, suite_table, validate_all

    with progress() as show:
        suite = validate_all(arguments.models, show)
    if arguments.json:
        print_json("validate all", suite_json(suite))
    else:
        print(suite_table(suite).text())
    return 0 if suite.passed else BAR_MISSED
