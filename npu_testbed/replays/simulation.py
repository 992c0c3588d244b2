"""Replays of schedules, ours and Vela's, with the planned figures for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.homes import on_ports
from cascader.ethosu.search.request import CompiledSource, ModelSource, Request, ScheduleSource
from npu_model.accelerator import Accelerator, accelerator
from npu_model.brief import Brief
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.outer_arena import ARENA, FAST_SCRATCH, as_scheduled
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.cpu_time import DEFAULT_CPU, CpuTable, load_cpu_table
from npu_testbed.cpu_time.estimate import Inference, inference_of
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.ground.versions import Tools, tool_versions
from npu_testbed.models.compiled_homes import homes_of
from npu_testbed.replays.memory_use import fast_scratch_bytes, fast_scratch_footprint, has_fast_scratch, memory_name
from sim import Listener, NetworkReplay, counted_network, replay_network
from sim.functional import require_defined

with later():
    from cascader.frontends import vela
    from cascader.frontends.vela import model_changes
    from sim import hazards as orders  # few reports look for hazards
    from sim.views import trace  # few replays are traced

if TYPE_CHECKING:
    from sim.hazards import Hazard
    from sim.views.recorder import EventRecorder
    from sim.views.trace_memory import TraceBuffer

ENGINES = ("fast", "simpy")
"""Engines of a replay: the fast recurrence, which tells listeners nothing, or the SimPy engine; both count the same cycles."""


def replayed(
    network: CompiledNetwork,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    engine: str = "",
    timing: TimingParameters = DEFAULT_TIMING,
) -> NetworkReplay:
    """The replay of a network by a named engine of :data:`ENGINES`.

    The default is the fast one, unless there are listeners. InputError for listeners with the fast one.
    """
    if listeners and engine == "fast":
        raise InputError(
            "--engine fast tells nothing event by event, as a trace, a timeline or a report needs: leave it out, or give --engine simpy."
        )
    if listeners or engine == "simpy":
        return replay_network(network, system, listeners, timing)
    return counted_network(network, system, timing)


class Simulation(Brief, frozen=True, dict=True):
    """A replayed network, its hardware, and its plan.

    ``planned_bytes`` is the SRAM for feature maps that the ``planner`` says the network needs; the replay's footprint is the part that it
    touches. These bytes belong to the arena, or with ``fast_scratch`` (Vela's memory mode Dedicated_Sram) to the fast scratch. The memory
    mode grants ``granted_bytes`` of it (None: no bound), which Vela may exceed. ``cpu`` is the table of the
    operators' CPU cycles (None: the default).
    """

    unshown = ("network", "replay")

    model: str
    planner: str
    planned_bytes: int
    device: Accelerator
    system: MemorySystem
    network: CompiledNetwork
    replay: NetworkReplay
    tools: Tools
    fast_scratch: bool = False
    timing: TimingParameters = DEFAULT_TIMING
    granted_bytes: int | None = None
    cpu: CpuTable | None = None

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Orders that the waits, BLOCKDEP and the partition of the shared buffer do not guarantee. Only a report pays for the check."""
        return orders.network_hazards(self.network)

    @property
    def inference(self) -> Inference:
        """The time of an inference including CPU operators, by the table ``cpu`` or the default one."""
        return inference_of(self.network, self.replay.cycles, self.system.clock_hz, self.cpu or load_cpu_table(DEFAULT_CPU))

    @property
    def memory_name(self) -> str:
        """The memory that holds the feature maps: SRAM, or the arena's memory."""
        return memory_name(self.system, FAST_SCRATCH if self.fast_scratch else ARENA)


def simulate(
    request: Request,
    listeners: Sequence[Listener] = (),
    progress: Progress = silent,
    engine: str = "",
    *,
    separate_io_regions: bool = False,
) -> Simulation:
    """Replay the source of a request: a schedule, a compiled network, or Vela's own schedule of a model.

    ``separate_io_regions`` is Vela's option for the model's compilation. InputError if a home or a stream is wrong.
    """
    if isinstance(request.source, ScheduleSource):
        return _simulated(request, request.source.plan, listeners, progress, engine)
    plan = _vela_plan(request, progress, separate_io_regions=separate_io_regions)
    system = on_ports(request.memory, homes_of(plan.network, request.homes, request.memory))
    progress(f"Replaying {request.source.name}")
    found = simulate_plan(request.source.name, plan, system, listeners, engine, request.timing)
    # A mode with a fast scratch outside the arena limits only the scratch.
    bounds_arena = found.fast_scratch or system.port_of(ARENA) == system.port_of(FAST_SCRATCH)
    return replace(found, granted_bytes=request.budget if bounds_arena else None)


def simulate_schedule(plan: Schedule, listeners: Sequence[Listener] = (), progress: Progress = silent, engine: str = "") -> Simulation:
    """Replay a schedule on the memory system and with the timing that it records; InputError if it records none."""
    recorded = plan.provenance
    if recorded.memory_system is None:
        raise InputError("The schedule holds no memory system: give one, such as --timing-adapter u55_high_end.")
    source = ScheduleSource(recorded.model, plan)
    return simulate(Request(source, plan.accelerator, recorded.memory_system, timing=recorded.timing), listeners, progress, engine)


def _simulated(request: Request, plan: Schedule, listeners: Sequence[Listener], progress: Progress, engine: str) -> Simulation:
    """The replay of a schedule."""
    system = on_ports(as_scheduled(request.memory), plan.network.homes)
    progress(f"Replaying {request.source.name}")
    network = lower(plan)
    require_defined(network)
    return Simulation(
        model=request.source.name,
        planner="the schedule",
        planned_bytes=plan.arena_size,
        device=accelerator(plan.accelerator),
        system=system,
        network=network,
        replay=replayed(network, system, listeners, engine, request.timing),
        tools=tool_versions(plan.provenance.tools),
        timing=request.timing,
        granted_bytes=request.budget,
    )


def _require_right(name: str, network: CompiledNetwork) -> None:
    """InputError if the stream reads bytes that nothing wrote: it computes another network, and its cycles would be meaningless."""
    wrong = next(unwritten_reads(network), None)
    if wrong is not None:
        raise InputError(
            f"{name} holds a wrong stream: {wrong.text}; compile the network with Vela's other core, or change that part of it."
        )


def _vela_plan(request: Request, progress: Progress, *, separate_io_regions: bool) -> VelaPlan:
    """Vela's schedule, from the compiled network or by a compilation; InputError for a wrong stream."""
    source = request.source
    if isinstance(source, CompiledSource):
        network = source.network
        _require_right(source.name, network)
        return VelaPlan(network, "the compiled file", fast_scratch_bytes(network) if has_fast_scratch(network) else network.arena_size)
    if not isinstance(source, ModelSource):
        raise TypeError(f"{source!r} is no model that Vela compiles.")
    progress(f"Compiling {source.name} with Vela")
    return _compiled(source, request, separate_io_regions=separate_io_regions)


def simulate_plan(
    name: str,
    plan: VelaPlan,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    engine: str = "",
    timing: TimingParameters = DEFAULT_TIMING,
) -> Simulation:
    """Replay a compiled network of the model ``name``; InputError if its stream reads bytes that nothing wrote."""
    require_defined(plan.network)
    scratch = fast_scratch_footprint(plan.network, system) if has_fast_scratch(plan.network) else None
    replay = replayed(plan.network, system, listeners, engine, timing)
    return Simulation(
        model=name,
        planner=plan.planner,
        planned_bytes=plan.planned_bytes,
        device=accelerator(plan.network.programs[0].accelerator),
        system=system,
        network=plan.network,
        replay=replace(replay, footprint=scratch or replay.footprint),
        tools=tool_versions(plan.tools),
        fast_scratch=scratch is not None,
        timing=timing,
    )


class VelaPlan(Struct, frozen=True):
    """Vela's schedule of a network, and the arena that Vela states for it."""

    network: CompiledNetwork
    planner: str
    planned_bytes: int
    tools: Tools = ()


def _compiled(source: ModelSource, request: Request, *, separate_io_regions: bool) -> VelaPlan:
    names = request.names
    data, _ = model_changes.without_constant_outputs(vela.with_own_shapes(source.data))
    asked = vela.CompilerOptions(request.device, request.optimise, request.budget, names.system_config, names.memory_mode, names.config)
    result = vela.compile_network(data, replace(asked, separate_io_regions=separate_io_regions))
    separate = " --separate-io-regions" if separate_io_regions else ""
    planner = f"Vela {result.version} --optimise {request.optimise}{separate}"
    return VelaPlan(vela.checked_network(result, data), planner, result.summary.sram_memory_used, (("ethos-u-vela", result.version),))


def trace_file(simulation: Simulation, recorder: EventRecorder, path: str | Path, buffers: Sequence[TraceBuffer] = ()) -> bytes:
    """The bytes for a file ``path`` with the trace of ``recorder``, one of the simulation's listeners.

    They are compressed if the name ends in ``.gz``. ``buffers`` of the arena, as :func:`npu_testbed.views.arena_map.trace_buffers` has
    them, get tracks of their own.
    """
    text = trace.trace_json(simulation.replay, recorder, buffers)
    return trace.compressed(text) if str(path).endswith(".gz") else text.encode("ascii")
