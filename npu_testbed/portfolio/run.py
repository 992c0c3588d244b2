"""Many networks of the portfolio, several at once: each in one process, kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from cascader.ethosu.network.wanted_homes import wanted_home
from cascader.search.workers import as_completed, default_processes, workers
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator
from npu_model.errors import InputError, did_you_mean
from npu_testbed.device_memory import system_of
from npu_testbed.failures import Failure, attempt
from npu_testbed.files import require_folder
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.one_memory import require_one_memory
from npu_testbed.places import IN_ARENA, Places
from npu_testbed.portfolio.examination import examine
from npu_testbed.portfolio.results import Results
from npu_testbed.portfolio.verdict import Examined, Report
from npu_testbed.progress import Progress, silent
from validation.portfolio import NETWORKS, PortfolioNetwork, drawn_network, drawn_number


def chosen(patterns: Sequence[str] = (), *, sample: bool = False) -> tuple[PortfolioNetwork, ...]:
    """The networks whose name or group is among ``patterns`` (as a shell's, all without any), with ``sample`` those that stand for others.

    A name of a drawn network is drawn. InputError if a pattern fits none.
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


def _one(name: str, device: str, memory: MemoryOptions, places: Places, verified: bool, results: Results | None) -> Examined:  # noqa: FBT001  # sent to a process
    if results is None:
        return examine(name, device, memory=memory, places=places, verified=verified)
    finding = examine(name, device, memory=memory, places=places, verified=verified, results=results.search(name).folder)
    results.write(finding)
    return finding


def _failed(network: PortfolioNetwork, device: str, memory: MemoryOptions, failure: Failure) -> Examined:
    return Examined(network.name, network.group, device, system_of(device, memory).name, failure=failure.reason)


def examine_all(
    networks: Sequence[PortfolioNetwork] = NETWORKS,
    accelerators: Sequence[str] = (DEFAULT_ACCELERATOR,),
    *,
    memory: MemoryOptions = NO_OPTIONS,
    places: Places = IN_ARENA,
    verified: bool = True,
    processes: int | None = None,
    results: Path | None = None,
    progress: Progress = silent,
) -> Report:
    """The findings of ``networks`` on ``accelerators``, so many at once as there are ``processes`` (None: the processors).

    With a folder ``results`` what it holds is not found again, and what is found is kept there. What fails on one network costs
    no other its finding. ``places`` are as :func:`examine` has them. InputError before anything takes time if a name is wrong or the
    folder cannot be written to.
    """
    for system in (system_of(name, memory) for name in accelerators):
        require_one_memory(system)
        for home in places.homes:
            wanted_home(home, system)
    if results is not None:
        require_folder(results)
    cases = [(network, accelerator(name).name) for name in accelerators for network in networks]
    found: dict[int, Examined] = {}
    missing: list[tuple[int, Results | None]] = []
    for number, (network, device) in enumerate(cases):
        there = None if results is None else Results(results, device, memory, verified, places)
        finding = None if there is None else there.find(network.name)
        if finding is None:
            missing.append((number, there))
        else:
            found[number] = finding
    with workers(min(default_processes() if processes is None else processes, max(len(missing), 1))) as executor:
        futures = {}
        for number, there in missing:
            network, device = cases[number]
            progress(f"{network.name}, {device}: {number + 1} of {len(cases)}")
            futures[executor.submit(_one, network.name, device, memory, places, verified, there)] = number
        for future in as_completed(futures):
            network, device = cases[futures[future]]
            outcome = attempt(partial(future.result), network.name, device, "The comparison")
            found[futures[future]] = _failed(network, device, memory, outcome) if isinstance(outcome, Failure) else outcome
            progress(f"{network.name}, {device}: {len(found)} of {len(cases)} done")
    return Report(tuple(found[number] for number in range(len(cases))))
