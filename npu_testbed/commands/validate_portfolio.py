"""``npu-testbed validate portfolio``: our schedules of the portfolio's networks, compared with Vela's and verified."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OnMemory
from npu_testbed.asked.option import Option
from npu_testbed.commands.validate_networks import Devices

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.validation import PortfolioListOutcome, PortfolioOutcome
    from validation.portfolio import PortfolioNetwork


class ValidatePortfolioOptions(OnMemory["PortfolioOutcome | PortfolioListOutcome"], frozen=True, kw_only=True):
    """The options of ``validate portfolio``."""

    sample: Annotated[bool, Option("only a sample: one network for each kind")] = False
    drawn: Annotated[
        int | None,
        Option("N networks that are drawn at random, instead of the portfolio's: portfolio:drawn_S and the following ones", "N", int),
    ] = None
    seed: Annotated[int | None, Option("number of the first drawn network, up to 999999 (default: 0)", "S", int)] = None
    list: Annotated[bool, Option("list the networks and what each stands for, without a comparison")] = False
    accelerator_config: Devices = ()
    no_verify: Annotated[bool, Option("leave out the functional runs")] = False
    results: kinds.Results = None
    page: Annotated[kinds.PathText | None, Option("write the findings as a Markdown page, too", "FILE.md", writes="file")] = None


class ValidatePortfolio(ValidatePortfolioOptions, frozen=True):
    """Compare our schedules with Vela's (the better of its two cores) on small networks that the package builds itself.

    Our smallest schedule of each runs bit by bit, and is compared with LiteRT's reference kernels (extra 'numerics').

    Status 1 if
    - our smallest schedule needs more bytes than Vela Size,
    - in Vela Size's or Vela Performance's bytes ours takes more than 1.01 of its cycles,
    - an output differs from LiteRT's and the portfolio names no exception, or
    - a network fails, which is reported with the others' results.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed validate portfolio --list",
        "npu-testbed validate portfolio mnist 'lstm_*' classifiers",
        "npu-testbed validate portfolio --sample --accelerator-config ethos-u55-256",
        "npu-testbed validate portfolio --results findings --page portfolio.md",
        "npu-testbed validate portfolio --drawn 20 --seed 1000",
        "npu-testbed validate portfolio --sample --home input=ext --home output=ext",
    )

    names: Annotated[
        str | Sequence[str],
        Option("networks or groups, with * and ? as in a shell (default: all)", "NAME", source=True, many=True),
    ] = ()

    def answer(self, show: "Progress") -> "PortfolioOutcome | PortfolioListOutcome":
        """Examine the networks; status 1 if one does not pass."""
        from npu_testbed.asked.outputs import require_outputs
        from npu_testbed.asked.request import requests_of, run_of
        from npu_testbed.commands.validate_networks import devices
        from npu_testbed.ground.files import asked_files, write_files
        from npu_testbed.models.sources import PORTFOLIO
        from npu_testbed.outcomes.validation import PortfolioListOutcome, PortfolioOutcome
        from npu_testbed.portfolio.run import examine_all
        from npu_testbed.portfolio.tables import page

        networks = _networks(self)
        if self.list:
            return PortfolioListOutcome(networks)
        require_outputs(self)
        requests = requests_of(self, [f"{PORTFOLIO}{network.name}" for network in networks], devices(self.accelerator_config), show)
        results = None if self.results is None else Path(self.results)
        report = examine_all(requests, run_of(self, show), verified=not self.no_verify, results=results)
        write_files(asked_files((self.page, lambda: page(report).encode("utf-8"))))
        return PortfolioOutcome(report)


def _networks(ask: "ValidatePortfolio") -> "tuple[PortfolioNetwork, ...]":
    """The requested networks; InputError for options that exclude each other."""
    from npu_model.errors import InputError
    from npu_testbed.portfolio.run import chosen
    from validation.portfolio import drawn_networks

    if ask.drawn is None:
        if ask.seed is not None:
            raise InputError("--seed can only be given together with --drawn: add it, or leave --seed out.")
        return chosen(kinds.texts(ask.names), sample=ask.sample)
    if ask.names or ask.sample:
        raise InputError("--drawn takes the place of names and of --sample: leave either out.")
    return drawn_networks(ask.drawn, ask.seed or 0)
