"""``npu-testbed validate portfolio``: our schedules beside Vela's on the networks of the portfolio, and verified."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import (
    Parser,
    add_home_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_recompute_option,
    add_results_option,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress
    from validation.portfolio import PortfolioNetwork


def add(peers: Any) -> None:
    """Add the parser to those of ``validate``."""
    parser: Parser = peers.add_parser(
        "portfolio",
        help="our schedules beside Vela's on networks as people have them",
        description=(
            "Set our schedules beside Vela's (the better of its two cores) on small networks that the package builds itself, and run our\n"
            "smallest schedule of each bit by bit beside LiteRT's reference kernels (extra 'numerics').\n\n"
            "Status 1 if\n"
            "- our smallest schedule needs more bytes than Vela Size,\n"
            "- in Vela Size's or Vela Performance's bytes ours takes more than 1.01 of its cycles,\n"
            "- an output differs from LiteRT's and the portfolio names no exception, or\n"
            "- a network fails, which is reported beside the others' results."
        ),
        epilog=example(
            "npu-testbed validate portfolio --list",
            "npu-testbed validate portfolio mnist 'lstm_*' classifiers",
            "npu-testbed validate portfolio --sample --accelerator-config ethos-u55-256",
            "npu-testbed validate portfolio --results findings --page portfolio.md",
            "npu-testbed validate portfolio --drawn 20 --seed 1000",
            "npu-testbed validate portfolio --sample --home input=ext --home output=ext",
        ),
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="networks or groups, with * and ? as in a shell (default: all)")
    parser.add_argument("--sample", action="store_true", help="only networks that stand for others of their kind")
    parser.add_argument(
        "--drawn",
        metavar="N",
        type=int,
        help="N networks that nobody wrote down, in place of the portfolio's: portfolio:drawn_S and following",
    )
    parser.add_argument("--seed", metavar="S", type=int, help="number of the first drawn network, up to 999999 (default: 0)")
    parser.add_argument("--list", action="store_true", help="name the networks and what each stands for, and compare nothing")
    parser.add_argument(
        "--accelerator-config",
        metavar="NAME",
        action="append",
        help="ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256, or all of them; may be repeated (default: ethos-u55-128)",
    )
    parser.add_argument("--no-verify", action="store_true", help="leave out the functional runs")
    add_results_option(parser)
    parser.add_argument("--page", metavar="FILE.md", help="write the findings as a Markdown page, too")
    add_memory_options(parser, "the timing adapter u55_high_end, and Vela's defaults for its own decisions")
    add_home_option(parser)
    add_recompute_option(parser)
    add_jobs_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Examine the networks; status 1 if one does not pass."""
    from npu_testbed.commands.choices import home_options, memory_options
    from npu_testbed.commands.validate_networks import devices
    from npu_testbed.files import require_writable, write_file
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.places import Places
    from npu_testbed.portfolio.run import examine_all
    from npu_testbed.portfolio.tables import page, tables

    networks = _networks(arguments)
    if arguments.list:
        return _listed(networks)
    if arguments.page is not None:
        require_writable(arguments.page)
    report = examine_all(
        networks,
        devices(arguments.accelerator_config),
        memory=memory_options(arguments),
        places=Places(home_options(arguments), arguments.recompute),
        verified=not arguments.no_verify,
        processes=arguments.jobs,
        results=arguments.results,
        progress=show,
    )
    if arguments.page is not None:
        write_file(arguments.page, page(report).encode("utf-8"))
    return PlainOutcome(
        "validate portfolio",
        report,
        report.to_json,
        lambda: "\n\n".join(table.text() for table in tables(report)),
        passed=report.passed,
    )


def _networks(arguments: argparse.Namespace) -> tuple[PortfolioNetwork, ...]:
    """The networks that are asked for; InputError for options that do not go together."""
    from npu_model.errors import InputError
    from npu_testbed.portfolio.run import chosen
    from validation.portfolio import drawn_networks

    if arguments.drawn is None:
        if arguments.seed is not None:
            raise InputError("--seed can only be given together with --drawn: add it, or leave --seed out.")
        return chosen(arguments.names, sample=arguments.sample)
    if arguments.names or arguments.sample:
        raise InputError("--drawn takes the place of names and of --sample: leave either out.")
    return drawn_networks(arguments.drawn, arguments.seed or 0)


def _listed(networks: Sequence[PortfolioNetwork]) -> Outcome:
    """The networks by group."""
    from npu_testbed.documents.portfolio import PortfolioNetworkEntry, ValidatePortfolioListDocument
    from npu_testbed.outcomes import PlainOutcome
    from validation.layout import grid

    entries = tuple(
        PortfolioNetworkEntry(one.name, one.group, one.idiom, one.precision, one.exception, one.sampled, tuple(one.homes))
        for one in networks
    )
    rows = [(one.name, one.group, one.precision, "*" if one.sampled else "", one.idiom) for one in networks]
    return PlainOutcome(
        "validate portfolio --list",
        networks,
        lambda: ValidatePortfolioListDocument(entries),
        lambda: grid(("network", "group", "precision", "sample", "stands for"), rows, (True,) * 5),
    )
