"""Vela's two runs for one command line, as legaliser and as peer, in one process that starts first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cascader.ethosu.search.request import ModelSource, Request
from cascader.frontends.vela.compiler_options import CompilerOptions, legalising
from cascader.frontends.vela.result import NOTHING_KNOWN, Known
from cascader.frontends.vela.together import compile_together
from npu_model.accelerator import accelerator
from npu_model.front import later
from npu_testbed.compilation.compile_options import FEWEST_CYCLES, Target

with later():
    from npu_testbed.models import legalise  # imported while Vela ran

if TYPE_CHECKING:
    from cascader.ethosu.search.task import Task
    from npu_testbed.ground.progress import Progress


def options_of(request: Request, target: Target, *, separate: bool = False) -> CompilerOptions:
    """The options of Vela's own compilation; with ``separate`` its inputs and outputs have regions of their own."""
    names = request.names
    return CompilerOptions(
        request.device,
        request.optimise,
        request.budget,
        names.system_config,
        names.memory_mode,
        names.config,
        cpu_operators=request.ignore_ops,
        cpu_tensor_alignment=target.cpu_tensor_alignment,
        legacy=target.legacy,
        separate_io_regions=separate,
    )


def vela_runs(request: Request, target: Target, meanwhile: Callable[[], object], show: Progress) -> tuple[Known, Task | None]:
    """Both compilations of a request, unless only Vela's command line compiles them; ``meanwhile`` is called while they run.

    If the network is legalised before Vela has planned it, the task is made meanwhile, too, with its usual forms: they do not depend on
    Vela's plan. None if it is not.
    """
    if not isinstance(request.source, ModelSource):
        meanwhile()
        return NOTHING_KNOWN, None
    legaliser = legalising(accelerator(request.device).name, request.ignore_ops)
    # If tensors live outside the arena, or the runtime needs a share of it, the network decides Vela's options.
    is_later = request.homes or (target.runtime is not None and request.budget is not None)
    peer = () if is_later or not request.cascade else (options_of(request, target),)
    tasks: list[Task] = []

    def first(known: Known) -> None:
        tasks.append(legalise.load_task(request, show, known=known).with_usual_forms())

    # For the fewest cycles in any bytes the search makes fewer forms, on other terms.
    begins = bool(peer) and target.aim != FEWEST_CYCLES
    known = compile_together(request.source.data, (legaliser, *peer), meanwhile, *((first,) if begins else ()))
    return known, next(iter(tasks), None)
