"""The network of a live comparison: a model, a compiled file, or a schedule file that is exported for the FVP."""

from __future__ import annotations

from pathlib import Path

from cascader.ethosu.job.schedule import Schedule
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.brief import Brief
from npu_model.compiled.network import CpuOperator
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.models.input_shapes import ShapedSource
from npu_testbed.models.sources import BUILT, load_model, recorded_source

# A compiled network does not need the scheduler.
with later():
    from cascader.ethosu.codegen import lowering
    from npu_testbed.replays import exports, scheduling


class LiveNetwork(Brief, frozen=True):
    """A network for the FVP to run, as a .tflite, compiled or not.

    ``accelerator`` and ``timing`` apply unless the command line names others.
    """

    unshown = ("data",)

    name: str
    data: bytes
    accelerator: str = DEFAULT_ACCELERATOR
    timing: TimingParameters = DEFAULT_TIMING


def live_network(source: str) -> LiveNetwork:
    """The network of ``source``: a .tflite, ``zoo:NAME``, or a schedule file, whose stream is exported with its arena as region 1.

    InputError if it cannot be read, or if the schedule has operators on the CPU and its model is not built in.
    """
    path = Path(source)
    if source.startswith(BUILT) or path.suffix != ".json":
        model = load_model(source)
        return LiveNetwork(model.name, model.data)

    if isinstance(source, ShapedSource):
        raise InputError(f"{path.name} is scheduled already, so that {source.option} cannot change it: leave it out.")
    plan = scheduling.read_schedule(path)
    return LiveNetwork(path.name, _exported(plan, path.name), plan.accelerator, plan.provenance.timing)


def _exported(plan: Schedule, name: str) -> bytes:

    network, recorded = lowering.lower(plan), plan.provenance.model
    source = recorded_source(recorded, plan.provenance.nhwc or ())
    original = None if source is None else load_model(source).data
    if original is None and any(isinstance(step, CpuOperator) for step in network.steps):
        raise InputError(
            f"{name} leaves operators of {recorded} to the CPU, whose options no schedule holds: write the compiled file with "
            "`npu-testbed export --model`, and run that."
        )
    return exports.export(plan, name="network", model=original, options=exports.ExportTerms(fast_scratch=False))["network.tflite"]
