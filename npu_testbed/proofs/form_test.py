"""The test of a registered form: its result for each of its networks computes the same bytes."""

from __future__ import annotations

import numpy as np

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms import FormTerms, forms
from cascader.ethosu.forms.own_forms import load_form
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.verify.check import check_schedule
from cascader.frontends.vela import import_network
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.errors import InputError
from npu_model.memory.ports import measured_with
from npu_model.memory.timing_adapter import profile
from npu_model.registered import FORMS, find_registered
from npu_testbed.models.sources import load_model
from sim.functional import run

SEED = 1


def _outputs(network: Network, device: str) -> dict[str, bytes]:
    """The output bytes of a network run layer by layer, for seeded inputs."""
    plan = schedule_layer_by_layer(network, device)
    check_schedule(plan)
    program, rng = lower(plan), np.random.default_rng(SEED)
    inputs = [rng.integers(b.dtype.minimum, b.dtype.maximum + 1, b.shape).astype(str(b.dtype)) for b in program.inputs]
    return {name: values.tobytes() for name, values in run(program, inputs).items()}


def require_same_outputs(name: str, device: str = DEFAULT_ACCELERATOR) -> None:
    """InputError if the form of an entry point leaves one of its networks unchanged, or changes a byte of an output."""
    one = find_registered(FORMS, name)
    system = profile(measured_with(device)).memory_system()
    for source in load_form(one).tests:
        network = import_network(load_model(source).data, device)
        made = next((form.network for form in forms(network, FormTerms(device, system)) if form.name == name), None)
        if made is None:
            raise InputError(f"The {one.description} finds nothing to do in {source}: name a network in which it does.")
        if _outputs(made, device) != _outputs(network, device):
            raise InputError(f"The {one.description} changes the outputs of {source}: a form keeps every output byte.")
