"""One network of the portfolio: compared with Vela, its smallest schedule verified. A failure is part of the finding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.homes import home_bytes
from cascader.ethosu.search.request import Request, Run
from cascader.frontends.folders import own_folder
from npu_model.errors import InputError, LimitError
from npu_testbed.comparisons.comparison import Comparison, Folders, Sides, compare
from npu_testbed.documents.portfolio import BytesAndCycles, Ours, VelaFigures
from npu_testbed.ground.failures import Failure, attempt
from npu_testbed.ground.progress import Progress
from npu_testbed.models.sources import PORTFOLIO
from npu_testbed.portfolio.verdict import Check, Examined
from npu_testbed.proofs.file_verification import verify
from npu_testbed.proofs.verification import LITERT, Verification
from npu_testbed.replays.scheduling import write_schedule
from npu_testbed.replays.vela_runs import VelaFailure, VelaPoint
from npu_testbed.searches.frontiers import FrontierPoint
from validation.portfolio import PortfolioNetwork, portfolio_network

INFERENCES = 2
"""Inferences that are compared with LiteRT: one on any values, one only on extreme values."""


def _figures(point: VelaPoint | FrontierPoint) -> BytesAndCycles:
    return BytesAndCycles(point.memory, point.cycles)


def _best(point: FrontierPoint | None) -> BytesAndCycles | None:
    return None if point is None else _figures(point)


def _peer(found: Comparison) -> VelaFigures | None:
    """Vela's figures; None if it has no schedule for Size or none for Performance."""
    failures = tuple(f"{failure.run.name} ({failure.run.core} core): {failure.reason}" for failure in found.failures)
    size, performance = found.size, found.performance
    if size is None or performance is None:
        return None
    return VelaFigures(_figures(size), size.core, _figures(performance), performance.core, failures)


def _no_peer(failures: Sequence[VelaFailure], *, separate: bool) -> str:
    """The reason why no core of Vela makes a stream for Size, or for Performance: each core with its first failure.

    LimitError for a limit of ours; InputError if Vela was stopped or did not start, so that another run may succeed.
    """
    if limit := next((failure for failure in failures if failure.is_limit), None):
        raise LimitError(limit.reason)
    first: dict[str, str] = {}
    for failure in failures:
        first.setdefault(failure.run.core, failure.reason)
    each = " ".join(f"{core} core: {reason}" for core, reason in first.items())
    how = "with --separate-io-regions" if separate else "on both of its cores"
    message = f"Vela fails {how}, so that there is nothing to compare with. {each}"
    if not all(failure.ended for failure in failures):
        raise InputError(message)
    return message


def _ours(found: Comparison, vela: VelaFigures | None) -> Ours:
    frontier = found.frontier
    return Ours(
        smallest=_figures(frontier.points[0]),
        at_size_cycles=None if vela is None else _best(frontier.at_most(vela.size.cycles)),
        in_size_bytes=None if vela is None else _best(frontier.within(vela.size.memory)),
        in_performance_bytes=None if vela is None else _best(frontier.within(vela.performance.memory)),
        outside_bytes=home_bytes(frontier.points[0].schedule.network),
        recomputed_macs=frontier.points[0].recomputed_macs,
    )


def judge(result: Verification, exception: str) -> tuple[Check, str]:
    """The verdict of a verification, with a remark. A difference that the portfolio names as an ``exception`` is a verdict of its own."""
    if not any(row.reference == LITERT for row in result.comparisons):
        return Check.FAILED, result.remark
    if result.equal_to(LITERT):
        return Check.EXACT, ""
    rows = [row for row in result.comparisons if row.reference == LITERT]
    differing = f"{sum(row.differing for row in rows):,} of {sum(row.size for row in rows):,} bytes differ from {LITERT}"
    if exception:
        return Check.EXCEPTION, f"{differing}: {exception}."
    return Check.DIFFERS, " ".join(filter(None, (f"{differing}.", result.remark)))


def _verified(network: PortfolioNetwork, plan: Schedule, show: Progress) -> tuple[Check, str]:
    if network.unverifiable:
        return Check.EXCEPTION, f"Not verified: {network.unverifiable}."
    with own_folder() as folder:
        path = folder / "smallest.json"
        write_schedule(plan, path)
        source = f"{PORTFOLIO}{network.name}"
        outcome = attempt(partial(verify, path, source, inferences=INFERENCES, progress=show), network.name, "", "The verification")
    if isinstance(outcome, Failure):
        return Check.FAILED, outcome.reason
    return judge(outcome, network.exception)


_ALONE, _NO_SWEEP = Run(), Sides(sweep=0)


def examine(request: Request, run: Run = _ALONE, *, verified: bool = True, results: Path | None = None) -> Examined:
    """The finding of a network of the portfolio, including its failures.

    Without homes in the request, the network's own homes apply. ``results`` is a folder as in
    :class:`npu_testbed.comparisons.comparison.Folders`.
    """
    name = request.source.name.removeprefix(PORTFOLIO)
    network = portfolio_network(name)
    request = request if request.homes else replace(request, homes=network.homes)
    finding = Examined(name, network.group, request.device, request.memory.name)
    found = attempt(partial(compare, request, run, _NO_SWEEP, Folders(results=results)), name, request.device, "The comparison")
    if isinstance(found, Failure):
        return replace(finding, failure=found.reason)
    vela, no_peer = _peer(found), ""
    if vela is None:
        try:
            no_peer = _no_peer(found.failures, separate=found.separate_io_regions)
        except InputError as error:
            return replace(finding, failure=str(error))
    check, remark = _verified(network, found.frontier.points[0].schedule, run.show) if verified else (Check.NOT_ASKED, "")
    return replace(finding, vela=vela, no_peer=no_peer, ours=_ours(found, vela), check=check, remark=remark)
