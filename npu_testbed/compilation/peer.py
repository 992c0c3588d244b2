"""Vela's own compilation for the same command line: its file, and its schedule replayed as ours is."""

from __future__ import annotations

from msgspec import Struct

from cascader.ethosu.search.request import ModelSource, Request
from cascader.frontends.vela import VelaResult, checked_network, compile_network
from cascader.frontends.vela.result import NOTHING_KNOWN, Known
from npu_model.brief import Brief
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.timing import TimingParameters
from npu_testbed.compilation.compile_options import Target
from npu_testbed.compilation.vela_runs import options_of
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.ground.versions import Tools
from npu_testbed.replays.memory_use import sram_bytes
from npu_testbed.replays.separate_regions import EndPorts, on_end_ports
from npu_testbed.replays.simulation import Simulation, VelaPlan, simulate_plan


class PeerFigures(Struct, frozen=True):
    """Bytes of SRAM that a user sets aside (the arena, or a fast scratch apart from it), and NPU cycles of the replay."""

    memory: int
    cycles: int


class Peer(Brief, frozen=True):
    """Vela's compilation: its files, its replay, and the figures that ours must match."""

    unshown = ("result", "simulation")

    result: VelaResult
    simulation: Simulation
    figures: PeerFigures


def simulation_of(
    name: str, network: CompiledNetwork, planner: str, system: MemorySystem, tools: Tools, timing: TimingParameters
) -> Simulation:
    """The replay of a compiled network; its requested bytes count as planned."""
    return simulate_plan(name, VelaPlan(network, planner, sram_bytes(network), tools), system, timing=timing)


def vela_peer(
    source: ModelSource,
    request: Request,
    target: Target,
    ends: EndPorts | None = None,
    progress: Progress = silent,
    known: Known = NOTHING_KNOWN,
) -> Peer:
    """Compile a model with Vela for a request and a target, on the requested core, and replay the result.

    ``ends`` are the ports of inputs and outputs outside the arena. A ``known`` run is not repeated. InputError as
    :func:`cascader.frontends.vela.compile_network` raises it, or if the stream is wrong.
    """
    result = compile_network(source.data, options_of(request, target, separate=ends is not None), known=known)
    progress(f"Checking the stream of Vela's {result.core} core")
    network = checked_network(result, source.data)
    progress("Replaying Vela's schedule")
    system = request.memory if ends is None else on_end_ports(request.memory, network, ends)
    planner = f"Vela {result.version} --optimise {request.optimise}{'' if ends is None else ' --separate-io-regions'}"
    simulation = simulation_of(source.name, network, planner, system, (("ethos-u-vela", result.version),), request.timing)
    return Peer(result, simulation, PeerFigures(simulation.planned_bytes, simulation.replay.cycles))
