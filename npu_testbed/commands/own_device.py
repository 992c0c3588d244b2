"""Tensor Expressions for your own device: planned in stripes along any axes, proven by a run, written as plan, TensorIR or C."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascader.tensorir.apply import apply
from cascader.tensorir.c_source import c_source
from cascader.tensorir.device import chosen, own_device
from cascader.tensorir.prove import prove
from cascader.tensorir.te_frontend import TeGraph, read_graph
from npu_model.errors import InputError
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.te_models import is_te, load_graph
from npu_testbed.outcomes.device_plan import DevicePlanOutcome
from validation.reading import read_configuration

ENDINGS = (".json", ".c", ".py")
"""Endings of the file that is written: the plan, C with a header, TensorIR as TVM's script."""


def plan_for_device(
    source: str,
    device_file: str | Path,
    output: str | Path | None = None,
    *,
    budget: int | None = None,
    smallest: bool = False,
    progress: Progress = silent,
) -> DevicePlanOutcome:
    """The fastest plan (or the ``smallest``) of Tensor Expressions within a device's memory and a ``budget`` of bytes, proven by a run.

    The outcome holds the files for ``output``. InputError if the source is a model file, the device file is wrong, or nothing fits.
    """
    ending = Path(output).suffix if output is not None else ENDINGS[0]
    if ending not in ENDINGS:
        raise InputError(
            f"Output {str(output)!r} has none of the endings {', '.join(ENDINGS)}: they say whether plan, C or TensorIR is written."
        )
    if not is_te(source):
        raise InputError(f"--device was given with {source}: a device of your own takes Tensor Expressions; give GRAPH.py:FUNCTION.")
    device = own_device(read_configuration(Path(device_file), "Device file"), Path(device_file).stem)
    name, graph = load_graph(source)
    read = read_graph(graph.inputs, graph.outputs, graph.constants, device.matchers)
    progress(f"Planning stripes of {len(read.affine.parts)} parts for {device.name}")
    proposal = chosen(device, read, budget, smallest=smallest)
    progress("Compiling TensorIR and running it")
    proof = prove(read, proposal.plans, _seeded(read))
    if proof.failures():
        raise InputError(f"The plan of {name} for {device.name} does not hold: {' '.join(proof.failures())}")
    return DevicePlanOutcome(name, device, read, proposal, proof, str(output or ""))


def files_of(outcome: DevicePlanOutcome) -> Mapping[Path, bytes]:
    """The files of an outcome, by path."""
    target = Path(outcome.output)
    if target.suffix == ".json":
        return {target: outcome.to_json().encode("ascii")}
    applied = apply(outcome.graph, [plan.group for plan in outcome.proposal.plans])
    if target.suffix == ".py":
        tables = {name: values.tolist() for name, values in applied.tables.items()}
        return {target: f"{applied.module.script()}\n\nTABLES = {tables!r}\n".encode()}
    made = c_source(applied, outcome.graph.constants, target.stem)
    return {target.with_name(file): text.encode("ascii") for file, text in made.files.items()}


def _seeded(read: TeGraph) -> dict[str, NDArray[Any]]:
    """Arrays for the graph's inputs: any value of an integer type, floats of deviation 1."""
    random, found = np.random.default_rng(0), {}
    buffers = {name: buffer for buffer, name in read.stages.names.items()}
    for name in read.inputs:
        dtype, shape = np.dtype(str(buffers[name].dtype)), tuple(int(extent) for extent in buffers[name].shape)
        if dtype.kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            found[name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return found
