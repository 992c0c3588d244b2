"""Files with inputs or outputs outside the arena, under TFLite Micro: none is written that is worse there than Vela's."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.search.request import ModelSource, Request
from npu_model.errors import InputError
from npu_testbed.compilation.compile_options import Target
from npu_testbed.compilation.compiler import Compilation
from npu_testbed.compilation.peer import PeerFigures, vela_peer
from npu_testbed.compilation.promise import shortfall
from npu_testbed.ground.progress import Progress
from npu_testbed.runtimes.runtime_use import tflm


def require_no_worse(made: Compilation, request: Request, target: Target, progress: Progress) -> None:
    """InputError if our file breaks the promise where TFLite Micro places its inputs and outputs: Vela's file without homes is better.

    A file that is for another runtime, or that TFLite Micro cannot run, is free.
    """
    ours, source = made.verdict.ours, request.source
    if not request.homes or target.runtime is not None or target.output_format == "raw" or made.verdict.written == "vela":
        return
    there = tflm(made.simulation.network, request.memory, None if ours is None else ours.cycles, request.timing)
    if there.refused or there.cycles is None or not isinstance(source, ModelSource):
        return
    try:
        vela = vela_peer(source, replace(request, homes=()), target, progress=progress)
    except InputError:
        return
    clause = shortfall(PeerFigures(there.planned + there.placed, there.cycles), vela.figures, request, target.aim)
    if clause:
        raise InputError(
            f"With --home {request.homes[0]} this file {clause} under TFLite Micro, which plans inputs and outputs into its own arena: "
            "give --runtime bare if your own firmware binds the regions, or leave --home out."
        )
