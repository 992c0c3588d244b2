"""A chosen runtime: networks that it cannot run are refused, and its own bytes are part of the allowed arena."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.request import Request
from cascader.ethosu.search.task import Task
from npu_model.errors import InputError
from npu_model.program.alignment import ALIGNMENT
from npu_testbed.ground.endings import say
from npu_testbed.runtimes.own_share import own_share
from npu_testbed.runtimes.runtime_use import BARE, NAMES, TFLM, RuntimeUse


def require_together(runtime: str | None, request: Request) -> None:
    """InputError if a request puts tensors into a memory that the runtime cannot use for them."""
    moved = next((f"--home {home}" for home in request.homes), None if request.spill is None else f"--spill {request.spill}")
    if runtime not in (None, BARE) and moved is not None:
        where = "which plans inputs and outputs into its own arena, where a home saves no byte"
        why = where if runtime == TFLM else "whose delegate knows its scratch alone"
        raise InputError(f"{moved} cannot be combined with --runtime {runtime}, {why}: drop one of them.")


def planned_room(runtime: str | None, request: Request, task: Task) -> Request:
    """The request with the budget for its plan: TFLite Micro's own bytes are subtracted from the allowed arena."""
    if runtime != TFLM or request.budget is None:
        return request
    share = own_share(lower(schedule_layer_by_layer(task.network, task.accelerator, checked=False), checked=False))
    room = (request.budget - share.most) // ALIGNMENT * ALIGNMENT
    if room < max(ALIGNMENT, share.planner):
        raise InputError(
            f"--arena-cache-size {request.budget} leaves TFLite Micro no room: it takes up to {share.most} bytes for itself and needs "
            f"{share.planner} more; allow {share.most + share.planner} bytes or more."
        )
    say("note", f"TFLite Micro takes up to {share.most:,} bytes for itself: {room:,} of the {request.budget:,} are left for activations.")
    return replace(request, budget=room)


def require_runs(runtime: str | None, uses: Sequence[RuntimeUse]) -> None:
    """InputError if the runtime cannot run the network."""
    refused = next((use.refused for use in uses if use.runtime == runtime), "")
    if runtime is not None and refused:
        raise InputError(f"{NAMES[runtime]} cannot run this network: {refused}. Drop --runtime {runtime}, or choose another one.")
