"""Vela's own schedule of a network that was scheduled here, for the headline of its report."""

from __future__ import annotations

from cascader.ethosu.search.request import PERFORMANCE, ModelSource, Request
from cascader.frontends.vela import CORES
from cascader.frontends.vela.known_tensors import with_own_shapes
from cascader.frontends.vela.model_changes import without_constant_outputs
from npu_model.compiled.network import CpuOperator
from npu_model.errors import InputError
from npu_model.memory.outer_arena import has_outer_arena
from npu_testbed.ground.progress import Progress
from npu_testbed.replays.simulation import Simulation
from npu_testbed.replays.vela_runs import VelaBatch, VelaOutcome, VelaPoint, VelaRun, VelaTask, outcomes
from sim.functional import runs_here


def _model(request: Request) -> bytes | None:
    """The model for Vela; None if Vela would schedule another network, or would use more memories than one arena."""
    if not isinstance(request.source, ModelSource) or request.homes or request.spill or request.ignore_ops or request.keep_inputs:
        return None
    if has_outer_arena(request.memory):
        return None
    try:
        model, _ = without_constant_outputs(with_own_shapes(request.source.data))
    except InputError:
        return None
    return model


def vela_rival(request: Request, ours: Simulation, show: Progress) -> VelaPoint | None:
    """Vela Performance on the memories of our schedule, by the first of its cores that compiles the model.

    None if tensors lie outside the arena, if Vela fails, or if it leaves other operators on the CPU.
    """
    model, names = _model(request), request.names
    if model is None:
        return None
    task = VelaTask(model, ours.device.name, names.system_config, names.memory_mode, names.config, ours.system, ours.timing)
    on_cpu = sum(isinstance(step, CpuOperator) and not runs_here(step) for step in ours.network.steps)
    show("Compiling with Vela for the headline of the report")
    for core in CORES:
        (found,) = outcomes(VelaBatch(task, (VelaRun(core, PERFORMANCE),)))
        if isinstance(found, VelaOutcome):
            return found.point if len(found.on_cpu) == on_cpu else None
    return None
