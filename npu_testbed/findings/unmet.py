"""A limit of the arena that Vela exceeds, and the options under which `npu-testbed schedule` keeps it."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.search.effort import QUICK
from cascader.ethosu.search.request import PERFORMANCE, ModelSource, Request, Run
from npu_model.accelerator import require_use
from npu_model.errors import BudgetError, InputError
from npu_testbed.findings.finding import Finding, part
from npu_testbed.ground.progress import Progress
from npu_testbed.models.legalise import load_task
from npu_testbed.replays.scheduling import choice_of
from npu_testbed.replays.simulation import Simulation
from npu_testbed.searches.other_ways import ways_for

KIND = "budget"


def _reached(request: Request, run: Run) -> str:
    """The options that meet the budget, each with its bytes and cycles; empty if no tried option meets it."""
    try:
        point = choice_of(load_task(request, run.show), request, run).point
    except BudgetError as error:
        return ", or ".join(ways_for(error, request, run))
    return f"--arena-cache-size {request.budget} ({point.memory:,} bytes, {point.cycles:,} cycles)"


def unmet_limit(request: Request, simulation: Simulation, show: Progress) -> tuple[Finding, ...]:
    """The finding on an arena limit that the replay of a request exceeds; none if it is met, or if no search can start from the source."""
    limit, size = simulation.granted_bytes, simulation.planned_bytes
    if limit is None or size <= limit or not isinstance(request.source, ModelSource):
        return ()
    try:
        require_use(request.device, "schedule")
        request = replace(request, optimise=PERFORMANCE, budget=limit, effort=QUICK)
        found = _reached(request, Run(1, show, bounds=False))
    except InputError:
        return ()
    remedy = f"`npu-testbed schedule` meets it with {found}" if found else "no option of `npu-testbed schedule` that was tried meets it"
    text = f"Vela exceeds the limit of {limit:,} bytes by {size - limit:,}; {remedy}."
    return (Finding(KIND, text, "another schedule", 0, size - limit, limit, part(size - limit, size)),)
