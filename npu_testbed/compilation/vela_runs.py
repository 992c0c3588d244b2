"""Vela's two runs for one command line, as legaliser and as peer, in one process that starts first."""

from __future__ import annotations

from collections.abc import Callable

from cascader.ethosu.search.request import ModelSource, Request
from cascader.frontends.vela.compiler_options import CompilerOptions, legalising
from cascader.frontends.vela.result import NOTHING_KNOWN, Known
from cascader.frontends.vela.together import compile_together
from npu_model.accelerator import accelerator
from npu_testbed.compilation.compile_options import Target


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


def vela_runs(request: Request, target: Target, meanwhile: Callable[[], object]) -> Known:
    """Both compilations of a request, unless only Vela's command line compiles them; ``meanwhile`` is called while they run."""
    if not isinstance(request.source, ModelSource):
        meanwhile()
        return NOTHING_KNOWN
    legaliser = legalising(accelerator(request.device).name, request.ignore_ops)
    # If tensors live outside the arena, or the runtime needs a share of it, the network decides Vela's options.
    later = request.homes or (target.runtime is not None and request.budget is not None)
    peer = () if later or not request.cascade else (options_of(request, target),)
    return compile_together(request.source.data, (legaliser, *peer), meanwhile)
