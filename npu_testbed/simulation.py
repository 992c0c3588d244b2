"""Replays of schedules, ours and Vela's, with what was planned for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.network.homes import on_ports
from cascader.request import PERFORMANCE
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, accelerator
from npu_model.brief import Brief
from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.compiled_homes import homes_of
from npu_testbed.cpu_time import DEFAULT_CPU, CpuTable, load_cpu_table
from npu_testbed.cpu_time.estimate import Inference, inference_of
from npu_testbed.device_memory import arena_bound, compiled_for, memory_of, system_of
from npu_testbed.files import write_file
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.memory_use import fast_scratch_bytes, fast_scratch_footprint, has_fast_scratch, memory_name
from npu_testbed.models import Model, load_model
from npu_testbed.one_memory import ARENA, FAST_SCRATCH, as_scheduled
from npu_testbed.progress import Progress, silent
from npu_testbed.versions import Tools, tool_versions
from sim import Listener, NetworkReplay, counted_network, replay_network
from sim.functional import require_defined
from sim.hazards import Hazard, network_hazards

if TYPE_CHECKING:
    from cascader.frontends import vela
    from cascader.frontends.vela import model_changes
    from npu_model.compiled import containers
    from sim.views import trace
    from sim.views.trace import TraceRecorder
    from sim.views.trace_memory import TraceBuffer
else:
    vela = later("cascader.frontends.vela")  # as said above
    model_changes = later("cascader.frontends.vela.model_changes")  # as said above
    containers = later("npu_model.compiled.containers")  # a schedule is in none
    trace = later("sim.views.trace")  # few replays are traced

ENGINES = ("fast", "simpy")
"""Engines of a replay: the fast recurrence, which tells listeners nothing, or the SimPy engine; both count the same cycles."""

_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
"""Beginning of a schedule file; a C array's brace is followed by a number."""


def replayed(
    network: CompiledNetwork,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    engine: str = "",
    timing: TimingParameters = DEFAULT_TIMING,
) -> NetworkReplay:
    """The replay of a network by the engine of a name of :data:`ENGINES`; without one the fast one, unless there are listeners.

    InputError for listeners and the fast one.
    """
    if listeners and engine == "fast":
        raise InputError(
            "--engine fast tells nothing event by event, as a trace, a timeline or a report needs: leave it out, or give --engine simpy."
        )
    if listeners or engine == "simpy":
        return replay_network(network, system, listeners, timing)
    return counted_network(network, system, timing)


class VelaOptions(Struct, frozen=True):
    """Options of Vela's own schedule, by its names; None where not given.

    With a ``chip`` (its name) the accelerator is the chip's: the NPU that a file must be for which is compiled already.
    """

    accelerator: str | None = None
    optimise: str | None = None
    arena_cache_size: int | None = None
    separate_io_regions: bool | None = None
    chip: str | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as the command line spells them."""
        accelerator = None if self.chip is not None else self.accelerator
        values = {"--accelerator-config": accelerator, "--optimise": self.optimise, "--arena-cache-size": self.arena_cache_size}
        separate = ("--separate-io-regions",) if self.separate_io_regions else ()
        return (*(option for option, value in values.items() if value is not None), *separate)

    def require_npu(self, name: str, device: str) -> None:
        """InputError if the chip has another NPU than the ``device`` that the file ``name`` is for."""
        if self.chip is not None and self.accelerator != device:
            raise InputError(
                f"{name} is for {device} and --chip {self.chip} has an {self.accelerator}: compile the network for that chip, or drop "
                "--chip."
            )


NO_VELA_OPTIONS = VelaOptions()


class Simulation(Brief, frozen=True):
    """A replayed network: what ran, on what, and what was planned for it.

    ``planned_bytes`` is the SRAM for feature maps that the ``planner`` says the network needs, and the replay's footprint is the part that
    it touches. That is a part of the arena, or with ``fast_scratch`` (Vela's memory mode Dedicated_Sram) of the fast scratch. The memory
    mode grants ``granted_bytes`` of it (None: no bound), which Vela may exceed. ``hazards`` are what the waits, BLOCKDEP and the partition
    of the shared buffer do not guarantee. ``cpu`` is the table of what operators take there (None: the default).
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
    hazards: tuple[Hazard, ...] = ()
    cpu: CpuTable | None = None

    @property
    def inference(self) -> Inference:
        """The time of an inference with what the CPU does, by the table ``cpu``, or the default one."""
        return inference_of(self.network, self.replay.cycles, self.system.clock_hz, self.cpu or load_cpu_table(DEFAULT_CPU))

    @property
    def memory_name(self) -> str:
        """The memory that holds the feature maps: SRAM, or what the arena lies in."""
        return memory_name(self.system, FAST_SCRATCH if self.fast_scratch else ARENA)


def _recorded_memory_system(provenance: Provenance) -> MemorySystem:
    if provenance.memory_system is None:
        raise InputError("The schedule holds no memory system: give one, such as --timing-adapter u55_high_end.")
    return provenance.memory_system


def simulate_schedule(
    plan: Schedule,
    memory: MemoryOptions = NO_OPTIONS,
    listeners: Sequence[Listener] = (),
    progress: Progress = silent,
    engine: str = "",
    timing: TimingParameters | None = None,
) -> Simulation:
    """Replay a schedule, on the memory system that it records unless ``memory`` names another, with its timing unless one is given.

    InputError if it records none, or needs a larger arena than the memory mode grants.
    """
    recorded = plan.provenance
    system = system_of(plan.accelerator, memory) if memory.given else memory.as_set(_recorded_memory_system(recorded))
    system = on_ports(as_scheduled(system), plan.network.homes)
    granted = arena_bound(plan.accelerator, memory) if memory.given else None
    if granted is not None and plan.arena_size > granted:
        raise InputError(
            f"The schedule needs an arena of {plan.arena_size} bytes, and memory mode {compiled_for(plan.accelerator, memory)[1]} grants "
            f"arena_cache_size={granted}: make the schedule for that memory mode, or choose another one."
        )
    timing = recorded.timing if timing is None else timing
    progress(f"Replaying {recorded.model}")
    network = lower(plan)
    require_defined(network)
    return Simulation(
        model=recorded.model,
        planner="the schedule",
        planned_bytes=plan.arena_size,
        device=accelerator(plan.accelerator),
        system=system,
        network=network,
        replay=replayed(network, system, listeners, engine, timing),
        tools=tool_versions(recorded.tools),
        timing=timing,
        granted_bytes=granted,
        hazards=network_hazards(network),
    )


def _require_nothing_given(name: str, options: VelaOptions) -> None:
    """A compiled file has been scheduled: options of the compilation would be ignored."""
    if options.given:
        raise InputError(f"{name} is compiled already, so that {' and '.join(options.given)} cannot change it: leave them out.")


def _require_right(name: str, network: CompiledNetwork) -> None:
    """A stream that reads what nothing wrote computes another network: its cycles would say nothing."""
    wrong = next(unwritten_reads(network), None)
    if wrong is not None:
        raise InputError(
            f"{name} holds a wrong stream: {wrong.text}; compile the network with Vela's other core, or change that part of it."
        )


def simulate_vela(  # noqa: PLR0913  # it stands for a command, whose options these are
    source: str,
    options: VelaOptions = NO_VELA_OPTIONS,
    memory: MemoryOptions = NO_OPTIONS,
    listeners: Sequence[Listener] = (),
    progress: Progress = silent,
    engine: str = "",
    timing: TimingParameters = DEFAULT_TIMING,
    homes: tuple[str, ...] = (),
) -> Simulation:
    """Replay Vela's own schedule of a model.

    A ``*_vela.tflite``, a ``.pte`` or a C array with either is replayed as it is. Any other model is compiled first.

    ``homes`` say in which memory the inputs and outputs are that have regions of their own, as pairs WHAT=MEMORY; they are in the arena's
    where nothing is said.

    InputError if the model or a name is wrong, ``options`` are given for a model that is compiled already, or the stream is wrong.
    """
    progress(f"Reading {source}")
    model = load_model(source)
    if _JSON_OBJECT.match(model.data):
        raise InputError(f"{model.name} is not a model but JSON: `npu-testbed simulate schedule` replays a schedule file.")
    model = replace(model, data=containers.unpacked(model.data))
    network = containers.read_container(model.data)
    if network is not None:
        _require_nothing_given(model.name, options)
        _require_right(model.name, network)
        device = network.programs[0].accelerator
        options.require_npu(model.name, device)
    else:
        device = DEFAULT_ACCELERATOR if options.accelerator is None else accelerator(options.accelerator).name
    memory = memory_of(device, memory)
    system = system_of(device, memory)
    if network is not None:
        size = fast_scratch_bytes(network) if has_fast_scratch(network) else network.arena_size
        plan = VelaPlan(network, "the compiled file", size)
    else:
        progress(f"Compiling {model.name} with Vela")
        plan = _compile(model, options, memory)
    system = on_ports(system, homes_of(plan.network, homes, system))
    progress(f"Replaying {model.name}")
    found = simulate_plan(model.name, plan, system, listeners, engine, timing)
    # A mode that parts a fast scratch from the arena bounds the scratch alone.
    bounds_arena = found.fast_scratch or options.arena_cache_size is not None or system.port_of(ARENA) == system.port_of(FAST_SCRATCH)
    return replace(found, granted_bytes=memory.arena_bound(options.arena_cache_size) if bounds_arena else None)


def simulate_plan(
    name: str,
    plan: VelaPlan,
    system: MemorySystem,
    listeners: Sequence[Listener] = (),
    engine: str = "",
    timing: TimingParameters = DEFAULT_TIMING,
) -> Simulation:
    """Replay a compiled network of the model ``name``; InputError if its stream reads what nothing wrote."""
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
        hazards=network_hazards(plan.network),
    )


class VelaPlan(Struct, frozen=True):
    """Vela's schedule of a network and the arena that it says this takes."""

    network: CompiledNetwork
    planner: str
    planned_bytes: int
    tools: Tools = ()


def _compile(model: Model, options: VelaOptions, memory: MemoryOptions) -> VelaPlan:
    # A compiled file does not need the compiler.

    optimise = PERFORMANCE if options.optimise is None else options.optimise
    device = DEFAULT_ACCELERATOR if options.accelerator is None else options.accelerator
    system_config, memory_mode = compiled_for(device, memory)
    data, _ = model_changes.without_constant_outputs(vela.with_own_shapes(model.data))
    asked = vela.CompilerOptions(device, optimise, options.arena_cache_size, system_config, memory_mode, memory.config)
    result = vela.compile_network(data, replace(asked, separate_io_regions=bool(options.separate_io_regions)))
    separate = " --separate-io-regions" if options.separate_io_regions else ""
    planner = f"Vela {result.version} --optimise {optimise}{separate}"
    return VelaPlan(vela.checked_network(result, data), planner, result.summary.sram_memory_used, (("ethos-u-vela", result.version),))


def trace_file(simulation: Simulation, recorder: TraceRecorder, path: str | Path, buffers: Sequence[TraceBuffer] = ()) -> bytes:
    """Bytes of a file ``path`` with the trace that ``recorder``, one of the simulation's listeners, took.

    They are compressed if the name ends in ``.gz``. ``buffers`` of the arena, as :func:`npu_testbed.views.arena_map.trace_buffers` has
    them, get tracks of their own.
    """
    text = trace.trace_json(simulation.replay, recorder, buffers)
    return trace.compressed(text) if str(path).endswith(".gz") else text.encode("ascii")


def write_trace(simulation: Simulation, recorder: TraceRecorder, path: str | Path, buffers: Sequence[TraceBuffer] = ()) -> None:
    """Write the trace that :func:`trace_file` makes."""
    write_file(path, trace_file(simulation, recorder, path, buffers))
