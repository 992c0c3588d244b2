"""Many networks of the portfolio, several at once: each in one process, kept as soon as it is finished."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from msgspec import Struct

from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.ethosu.search.request import Request, Run
from cascader.search.workers import as_completed, default_processes, workers
from npu_model.documents import plain, typed
from npu_model.errors import InputError, did_you_mean
from npu_testbed.ground.answers import FOLDER, Answers, key_of_request
from npu_testbed.ground.failures import Failure, attempt
from npu_testbed.ground.files import require_folder
from npu_testbed.models.sources import PORTFOLIO
from npu_testbed.portfolio.examination import examine
from npu_testbed.portfolio.verdict import Examined, Report
from validation.portfolio import NETWORKS, PortfolioNetwork, drawn_network, drawn_number, portfolio_network

SCHEMA = 3
"""Version of a finding in a folder; raised whenever a field changes its meaning."""


class Results(Struct, frozen=True):
    """A folder of findings."""

    folder: Path
    verified: bool

    def key(self, request: Request) -> str:
        """The key of a network's finding, which begins with the network's name."""
        digest = key_of_request("finding", request, SCHEMA, self.verified)
        return f"{request.source.name.removeprefix(PORTFOLIO)}-{request.device}-{digest[:16]}"

    def find(self, request: Request) -> Examined | None:
        """The finding in the folder, None if there is none."""
        return Answers(self.folder).find(self.key(request), partial(typed, Examined))

    def search(self, request: Request) -> Answers:
        """The answers of the search of a network while the network is examined."""
        return Answers(self.folder / f"{FOLDER}-{self.key(request)}")

    def write(self, request: Request, finding: Examined) -> None:
        """Write a finding, which replaces the answers of its search. Failures are not written, so that they are tried again."""
        if not finding.failure:
            Answers(self.folder).keep(self.key(request), plain(finding))
            self.search(request).remove()


def chosen(patterns: Sequence[str] = (), *, sample: bool = False) -> tuple[PortfolioNetwork, ...]:
    """The networks whose name or group matches a shell pattern of ``patterns`` (all without any); with ``sample``, representatives.

    The name of a random network draws that network. InputError if a pattern fits none.
    """
    drawn = dict.fromkeys(number for pattern in patterns if (number := drawn_number(pattern)) is not None)
    for pattern in patterns:
        if drawn_number(pattern) is None and not any(_fits(network, pattern) for network in NETWORKS):
            near = did_you_mean(pattern, [name for network in NETWORKS for name in (network.name, network.group)])
            raise InputError(f"No network or group of the portfolio is called {pattern!r}{near}: --list names all {len(NETWORKS)}.")
    found = [network for network in NETWORKS if not patterns or any(_fits(network, pattern) for pattern in patterns)]
    found += map(drawn_network, drawn)
    if sample and not any(network.sampled for network in found):
        raise InputError(f"None of the {len(found)} networks that were named is in the sample: leave --sample out.")
    return tuple(network for network in found if network.sampled or not sample)


def _fits(network: PortfolioNetwork, pattern: str) -> bool:
    return fnmatchcase(network.name, pattern) or fnmatchcase(network.group, pattern)


def _one(request: Request, verified: bool, results: Results | None) -> Examined:  # noqa: FBT001  # sent to a process
    if results is None:
        return examine(request, verified=verified)
    finding = examine(request, verified=verified, results=results.search(request).folder)
    results.write(request, finding)
    return finding


def _name(request: Request) -> str:
    return request.source.name.removeprefix(PORTFOLIO)


def _failed(request: Request, failure: Failure) -> Examined:
    network = portfolio_network(_name(request))
    return Examined(network.name, network.group, request.device, request.memory.name, failure=failure.reason)


_ALONE = Run(None)


def examine_all(requests: Sequence[Request], run: Run = _ALONE, *, verified: bool = True, results: Path | None = None) -> Report:
    """The findings of the requested networks of the portfolio, one at a time in each process.

    A folder ``results`` keeps findings, and known findings are not computed again. A failure on one network does not affect the others.
    InputError before any long work if a home is wrong or the folder cannot be written.
    """
    progress = run.show
    for request in requests:
        for home in request.homes:
            wanted_home(home, request.memory)
    if results is not None:
        require_folder(results)
    there = None if results is None else Results(results, verified)
    found: dict[int, Examined] = {}
    missing: list[int] = []
    for number, request in enumerate(requests):
        finding = None if there is None else there.find(request)
        if finding is None:
            missing.append(number)
        else:
            found[number] = finding
    with workers(min(default_processes() if run.processes is None else run.processes, max(len(missing), 1))) as executor:
        futures = {}
        for number in missing:
            request = requests[number]
            progress(f"{_name(request)}, {request.device}: {number + 1} of {len(requests)}")
            futures[executor.submit(_one, request, verified, there)] = number
        for future in as_completed(futures):
            request = requests[futures[future]]
            outcome = attempt(partial(future.result), _name(request), request.device, "The comparison")
            found[futures[future]] = _failed(request, outcome) if isinstance(outcome, Failure) else outcome
            progress(f"{_name(request)}, {request.device}: {len(found)} of {len(requests)} done")
    return Report(tuple(found[number] for number in range(len(requests))))
