"""One network of the portfolio: compared with Vela, its smallest schedule verified; whatever fails is said in the finding."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.homes import home_bytes
from cascader.ethosu.search.task import Choice
from cascader.frontends.folders import own_folder
from cascader.request import SIZE, Request, Run
from npu_testbed.comparisons.comparison import Comparison, Folders, NoPeerError, Sides, compare
from npu_testbed.comparisons.vela_runs import VelaPoint
from npu_testbed.failures import Failure, attempt
from npu_testbed.file_verification import verify
from npu_testbed.frontiers import FrontierPoint
from npu_testbed.legalise import load_task
from npu_testbed.models import PORTFOLIO
from npu_testbed.portfolio.verdict import BytesAndCycles, Check, Examined, Ours, VelaFigures
from npu_testbed.progress import Progress
from npu_testbed.scheduling import choice_of, write_schedule
from npu_testbed.verification import LITERT, Verification
from validation.portfolio import PortfolioNetwork, portfolio_network

INFERENCES = 2
"""Inferences that are compared with LiteRT: one on any values, one on extreme values alone."""


def _figures(point: VelaPoint | FrontierPoint) -> BytesAndCycles:
    return BytesAndCycles(point.memory, point.cycles)


def _best(point: FrontierPoint | None) -> BytesAndCycles | None:
    return None if point is None else _figures(point)


def _peer(found: Comparison) -> VelaFigures:
    failures = tuple(f"{failure.run.name} ({failure.run.core} core): {failure.reason}" for failure in found.failures)
    size, performance = found.size, found.performance
    return VelaFigures(_figures(size), size.run.core, _figures(performance), performance.run.core, failures)


def _ours(found: Comparison) -> Ours:
    frontier = found.frontier
    return Ours(
        smallest=_figures(frontier.points[0]),
        at_size_cycles=_best(frontier.at_most(found.size.cycles)),
        in_size_bytes=_best(frontier.within(found.size.memory)),
        in_performance_bytes=_best(frontier.within(found.performance.memory)),
        outside_bytes=home_bytes(frontier.points[0].schedule.network),
        macs_again=frontier.points[0].macs_again,
    )


def judge(result: Verification, exception: str) -> tuple[Check, str]:
    """The verdict of a verification, with a remark; a difference with an ``exception`` that the portfolio names is one."""
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


def _alone(finding: Examined, request: Request, run: Run, *, verified: bool) -> Examined:
    """The finding of a network of which Vela has no valid stream: our smallest schedule, verified."""

    def smallest() -> Choice:
        least = replace(request, optimise=SIZE)
        return choice_of(load_task(least, run.show), least, run)

    made = attempt(smallest, finding.network, finding.accelerator, "The schedule")
    if isinstance(made, Failure):
        return replace(finding, failure=made.reason)
    plan = made.point.schedule
    check, remark = _verified(portfolio_network(finding.network), plan, run.show) if verified else (Check.NOT_ASKED, "")
    ours = Ours(BytesAndCycles(made.point.memory, made.point.cycles), None, None, None, home_bytes(plan.network), plan.network.macs_again)
    return replace(finding, ours=ours, check=check, remark=remark)


_ALONE, _NO_SWEEP = Run(), Sides(sweep=0)


def examine(request: Request, run: Run = _ALONE, *, verified: bool = True, results: Path | None = None) -> Examined:
    """The finding of a network of the portfolio; what fails of it is in the finding.

    Without homes in the request the network's own hold. ``results`` is a folder as :class:`npu_testbed.comparisons.comparison.Folders`
    has one.
    """
    name = request.source.name.removeprefix(PORTFOLIO)
    network = portfolio_network(name)
    request = request if request.homes else replace(request, homes=network.homes)
    finding = Examined(name, network.group, request.device, request.memory.name)
    found = attempt(partial(compare, request, run, _NO_SWEEP, Folders(results=results)), name, request.device, "The comparison")
    if isinstance(found, Failure) and isinstance(found.error, NoPeerError):
        return _alone(replace(finding, no_peer=found.reason), request, run, verified=verified)
    if isinstance(found, Failure):
        return replace(finding, failure=found.reason)
    check, remark = _verified(network, found.frontier.points[0].schedule, run.show) if verified else (Check.NOT_ASKED, "")
    return replace(finding, vela=_peer(found), ours=_ours(found), check=check, remark=remark)
