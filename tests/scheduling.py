"""Networks and schedules that several test files use, each made once."""

from __future__ import annotations

from functools import cache

from cpu_networks import cpu_split_network
from reference_data import shared_data

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Network
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, named_network
from cascader.frontends.vela.lift import lift
from npu_model.compiled.network import CompiledNetwork
from validation.zoo import build, zoo_names

DEFAULT = "ethos-u55-128"


def model_bytes(name: str) -> bytes:
    """A zoo network, the one with a CPU operator ("cpu"), or a real network of the reference data (skips without them)."""
    if name == "cpu":
        return cpu_split_network()
    return build(name) if name in zoo_names() else (shared_data() / "models" / f"{name}.tflite").read_bytes()


@cache
def legalised(name: str, accelerator: str = DEFAULT) -> CompiledNetwork:
    return named_network(compile_network(model_bytes(name), CompilerOptions(accelerator, legalise=True)))


@cache
def network(name: str, accelerator: str = DEFAULT) -> Network:
    return lift(legalised(name, accelerator))


@cache
def schedule(name: str, accelerator: str = DEFAULT) -> Schedule:
    return schedule_layer_by_layer(network(name, accelerator), accelerator)
