"""``npu-testbed validate``: our figures beside those of our peers."""

from __future__ import annotations

import argparse
from typing import Any

from testbed.commands.options import BAR_MISSED, Parser, add_json_option, example, print_json


def add(commands: Any) -> None:
    """Add the command's parser with its subcommands."""
    parser: Parser = commands.add_parser(
        "validate",
        help="compare the simulator with its peers",
        description="Compare the simulator with a peer and report every error.",
        epilog=example("npu-testbed validate fvp"),
    )
    peers = parser.add_subparsers(title="peers", dest="peer", metavar="PEER", required=True)
    fvp: Parser = peers.add_parser(
        "fvp",
        help="counters of the Corstone FVPs",
        description=(
            "Replay command streams that were measured on the Corstone-300 and Corstone-310 FVPs and compare cycles and data beats. "
            "Matching the FVP is matching Arm's simulator, not silicon. Status 1 if a bar is missed."
        ),
        epilog=example("npu-testbed validate fvp --json"),
    )
    add_json_option(fvp)
    fvp.set_defaults(run=run_fvp)


def run_fvp(arguments: argparse.Namespace) -> int:
    """Print the scorecard; status 1 if it misses a bar."""
    from testbed.progress import progress
    from validation.fvp import render, scorecard, to_json

    with progress() as show:
        card = scorecard(lambda done, total: show(f"Replaying: {done} of {total}"))
    if arguments.json:
        print_json("validate fvp", to_json(card))
    else:
        print("\n\n".join(table.text() for table in render(card)))
    return 0 if card.passed else BAR_MISSED
