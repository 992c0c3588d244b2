"""The Python API: one function per command of the command line, from sources to values; nothing is printed here.

>>> from testbed.pipeline import schedule, simulate_schedule
>>> plan = schedule("zoo:tiny_conv")
>>> plan.arena_size, simulate_schedule(plan).replay.footprint.peak
(8192, 8192)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.ethosu.lowering import lower
from cascader.ethosu.schedule import Provenance, Schedule
from cascader.ethosu.schedule_file import from_json, to_json
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, accelerator
from npu_model.compiled import CompiledNetwork, CpuOperator, is_compiled, read_compiled
from npu_model.errors import InputError
from npu_model.memory import MemorySystem
from npu_model.program.text import to_text
from npu_model.tflite_model import read_tflite
from sim import Listener, NetworkReplay, replay_network
from sim.views.trace import TraceRecorder, compressed, trace_json
from testbed import VERSION
from testbed.files import read_file, read_text, require_writable, write_file
from testbed.memory_options import MemoryOptions, memory_system_sha256, recorded_memory_system
from testbed.memory_use import fast_scratch_bytes, fast_scratch_footprint, has_fast_scratch, require_one_memory
from testbed.models import ZOO, Model, load_model

if TYPE_CHECKING:
    from testbed.verification import Reference, Verification

TFLITE_IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of a .tflite file."""

Tools = tuple[tuple[str, str], ...]
"""Names and versions."""

Progress = Callable[[str], None]
"""Told what is being done now."""

DEFAULT_OPTIMISE = "Performance"
"""Vela's default."""

NO_OPTIONS = MemoryOptions()


def silent(_doing: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class VelaOptions:
    """Options of Vela's own schedule, by its names; None where not given."""

    accelerator: str | None = None
    optimise: str | None = None
    arena_cache_size: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, as the command line spells them."""
        values = {"--accelerator-config": self.accelerator, "--optimise": self.optimise, "--arena-cache-size": self.arena_cache_size}
        return tuple(option for option, value in values.items() if value is not None)


NO_VELA_OPTIONS = VelaOptions()


@dataclass(frozen=True, slots=True)
class Simulation:
    """A replayed network: what ran, on what, and what was planned for it.

    ``planned_bytes`` is the SRAM for feature maps that the ``planner`` says the network needs, and the replay's footprint what is
    touched of it: of the arena, or with ``fast_scratch`` (Vela's memory mode Dedicated_Sram) of the fast scratch alone.
    """

    model: str
    planner: str
    planned_bytes: int
    device: Accelerator
    system: MemorySystem
    network: CompiledNetwork = field(repr=False)
    replay: NetworkReplay = field(repr=False)
    tools: Tools
    fast_scratch: bool = False


def _tools(others: Tools) -> Tools:
    """Versions of the tools that took part; ours is the one that runs now."""
    return tuple(sorted((dict(others) | {"npu-testbed": VERSION}).items()))


def schedule(
    source: str,
    accelerator_config: str = DEFAULT_ACCELERATOR,
    *,
    arena_cache_size: int | None = None,
    memory: MemoryOptions = NO_OPTIONS,
    progress: Progress = silent,
) -> Schedule:
    """The layer-by-layer schedule of a model (a path or ``zoo:NAME``), with its provenance.

    InputError if the model or a name is wrong, or the arena would exceed ``arena_cache_size`` bytes.
    """
    from cascader.ethosu.layer_by_layer import schedule_layer_by_layer  # noqa: PLC0415  # a replay alone does not need the scheduler
    from cascader.frontends.vela import import_network  # noqa: PLC0415  # nor the compiler
    from cascader.frontends.vela.compiler import vela_version  # noqa: PLC0415  # nor the compiler

    device, system = accelerator(accelerator_config), memory.memory_system()
    require_one_memory(system)
    _check_budget(arena_cache_size)
    progress(f"Reading {source}")
    model = load_model(source)
    progress(f"Compiling {model.name} with Vela as legaliser")
    network = import_network(model.data, device.name)
    progress(f"Scheduling {model.name}")
    provenance = Provenance(
        model.name, model.sha256, _tools((("ethos-u-vela", vela_version()),)), system.name, memory_system_sha256(system)
    )
    return schedule_layer_by_layer(network, device.name, arena_cache_size=arena_cache_size, provenance=provenance)


def _check_budget(arena_cache_size: int | None) -> None:
    if arena_cache_size is not None and arena_cache_size < 1:
        raise InputError(f"--arena-cache-size {arena_cache_size} is below 1: give a number of bytes.")


def write_schedule(plan: Schedule, path: str | Path) -> None:
    """Write a schedule file, whole or not at all."""
    write_file(path, to_json(plan).encode("ascii"))


def read_schedule(path: str | Path) -> Schedule:
    """Read and check a schedule file; InputError if it is damaged or wrong in itself."""
    return from_json(read_text(path, "Schedule"))


def simulate_schedule(
    plan: Schedule, memory: MemoryOptions = NO_OPTIONS, listeners: Sequence[Listener] = (), progress: Progress = silent
) -> Simulation:
    """Replay a schedule, on the memory system that it records unless ``memory`` names another.

    InputError if this installation has no such memory system.
    """
    recorded = plan.provenance
    system = memory.memory_system() if memory.given else recorded_memory_system(recorded.memory_system, recorded.memory_system_sha256)
    require_one_memory(system)
    progress(f"Replaying {recorded.model}")
    network = lower(plan)
    return Simulation(
        model=recorded.model,
        planner="the schedule",
        planned_bytes=plan.arena_size,
        device=accelerator(plan.accelerator),
        system=system,
        network=network,
        replay=replay_network(network, system, listeners),
        tools=_tools(recorded.tools),
    )


def _require_nothing_given(name: str, options: VelaOptions) -> None:
    """A compiled file has been scheduled: options of the compilation would be ignored."""
    if options.given:
        raise InputError(f"{name} is compiled already, so that {' and '.join(options.given)} cannot change it: leave them out.")


def simulate_vela(
    source: str,
    options: VelaOptions = NO_VELA_OPTIONS,
    memory: MemoryOptions = NO_OPTIONS,
    listeners: Sequence[Listener] = (),
    progress: Progress = silent,
) -> Simulation:
    """Replay Vela's own schedule of a model: a compiled ``*_vela.tflite`` as it is, anything else compiled first.

    InputError if the model or a name is wrong, or ``options`` are given for a model that is compiled already.
    """
    system = memory.memory_system()
    progress(f"Reading {source}")
    model = load_model(source)
    if is_compiled(read_tflite(model.data)):
        _require_nothing_given(model.name, options)
        network = read_compiled(model.data)
        size = fast_scratch_bytes(network) if has_fast_scratch(network) else network.arena_size
        plan = _VelaPlan(network, "the compiled file", size)
    else:
        progress(f"Compiling {model.name} with Vela")
        plan = _compile(model, options, memory)
    scratch = fast_scratch_footprint(plan.network, system) if has_fast_scratch(plan.network) else None
    progress(f"Replaying {model.name}")
    replay = replay_network(plan.network, system, listeners)
    return Simulation(
        model=model.name,
        planner=plan.planner,
        planned_bytes=plan.planned_bytes,
        device=accelerator(plan.network.programs[0].accelerator),
        system=system,
        network=plan.network,
        replay=replace(replay, footprint=scratch or replay.footprint),
        tools=_tools(plan.tools),
        fast_scratch=scratch is not None,
    )


@dataclass(frozen=True, slots=True)
class _VelaPlan:
    """Vela's schedule of a network and the arena that it says this takes."""

    network: CompiledNetwork
    planner: str
    planned_bytes: int
    tools: Tools = ()


def _compile(model: Model, options: VelaOptions, memory: MemoryOptions) -> _VelaPlan:
    from cascader.frontends.vela import compile_network, named_network  # noqa: PLC0415  # a compiled file does not need the compiler

    optimise = DEFAULT_OPTIMISE if options.optimise is None else options.optimise
    system_config, memory_mode = memory.vela_names
    result = compile_network(
        model.data,
        DEFAULT_ACCELERATOR if options.accelerator is None else options.accelerator,
        optimise=optimise,
        arena_cache_size=options.arena_cache_size,
        system_config=system_config,
        memory_mode=memory_mode,
        config=memory.config,
    )
    planner = f"Vela {result.version} --optimise {optimise}"
    return _VelaPlan(named_network(result), planner, result.summary.sram_memory_used, (("ethos-u-vela", result.version),))


def write_trace(simulation: Simulation, recorder: TraceRecorder, path: str | Path) -> None:
    """Write the trace that ``recorder``, one of the simulation's listeners, took; compressed if the name ends in ``.gz``."""
    text = trace_json(simulation.replay, recorder)
    write_file(path, compressed(text) if str(path).endswith(".gz") else text.encode("ascii"))


def _read_network(path: str | Path) -> tuple[CompiledNetwork, Schedule | None]:
    """The network in a ``*_vela.tflite`` or a schedule file, told apart by their content, and the schedule if it is one."""
    data = read_file(path, "File")
    if data[4:8] == TFLITE_IDENTIFIER:
        return read_compiled(data), None
    if data.lstrip()[:1] != b"{":
        raise InputError(f"File {str(path)!r} is neither a compiled .tflite nor a schedule: give a *_vela.tflite or a schedule file.")
    plan = read_schedule(path)
    return lower(plan), plan


def inspect(path: str | Path) -> str:
    """The text form of every Program in a ``*_vela.tflite`` or a schedule file, in order, with a line for each CPU operator."""
    network, _ = _read_network(path)
    return "\n".join(f"cpu {step.code}\n" if isinstance(step, CpuOperator) else to_text(step) for step in network.steps)


def export_files(
    path: str | Path, output: str | Path, file_format: str = "tflite", *, model: str | None = None, progress: Progress = silent
) -> dict[Path, bytes]:
    """A schedule or a ``*_vela.tflite`` in a format of :data:`testbed.export.FORMATS`: what is to be written, by path.

    One of the files is ``output``, whose name names the others. InputError if its name does not suit the format, the network
    needs ``model`` and has it not, or it cannot be exported.
    """
    from testbed.export import export  # noqa: PLC0415  # a replay alone does not need the writers

    if model is not None and file_format != "tflite":
        raise InputError(f"--model {model} has no use for format {file_format}, which holds nothing of it: leave it out.")
    progress(f"Reading {path}")
    network, plan = _read_network(path)
    original = None if model is None else load_model(model).data
    target = Path(output)
    progress(f"Encoding {target.name}")
    files = export(network if plan is None else plan, file_format, name=target.stem, model=original)
    if target.name not in files:
        raise InputError(
            f"Format {file_format} writes {' and '.join(files)}, not {target.name!r}: give -o {target.with_name(list(files)[-1])}."
        )
    return {target.with_name(name): data for name, data in files.items()}


def write_files(files: dict[Path, bytes], *sources: str | Path) -> None:
    """Write each file whole or not at all, none if one of them cannot be or would overwrite one of ``sources``."""
    for path in files:
        require_writable(path, *sources)
    for path, data in files.items():
        write_file(path, data)


def verify(path: str | Path, model: str | None = None, *, inferences: int = 2, seed: int = 0, progress: Progress = silent) -> Verification:
    """Run a ``*_vela.tflite`` or a schedule bit by bit on seeded inputs, beside its references.

    These are Vela's legalised stream of the original ``model`` (by default the one from the zoo that a schedule records) and,
    where it is installed, LiteRT. InputError if the model is missing or another, or runs an operator on the CPU that is not a copy.
    """
    from cascader.frontends.vela import compile_network, named_network  # noqa: PLC0415  # a replay alone does not need the compiler
    from testbed.verification import LITERT, VELA_STREAM, functional_outputs, verification  # noqa: PLC0415  # nor the functional run
    from validation.litert import litert_installed, reference_outputs  # noqa: PLC0415  # the same

    progress(f"Reading {path}")
    network, plan = _read_network(path)
    original = _original(plan, model, Path(path).name)
    progress(f"Compiling {original.name} with Vela as legaliser")
    device = network.programs[0].accelerator
    legalised = named_network(compile_network(original.data, device, legalise=True))
    references: list[Reference] = [(VELA_STREAM, lambda inputs: functional_outputs(legalised, inputs))]
    skipped = ""
    if litert_installed():
        references.append((LITERT, lambda inputs: reference_outputs(original.data, inputs)))
    else:
        skipped = f"{LITERT} were not asked: install the extra 'numerics'."
    progress(f"Running {original.name}")
    return verification(Path(path).name, network, references, inferences, seed, skipped)


def _original(plan: Schedule | None, model: str | None, name: str) -> Model:
    """The model that a file was made from; InputError if it is not known or not the recorded one."""
    source = model
    if source is None and plan is not None and plan.provenance.model.startswith(ZOO):
        source = plan.provenance.model
    if source is None:
        raise InputError(f"{name} does not hold the network that it was made from: give it with --model.")
    original = load_model(source)
    if plan is not None and plan.provenance.model_sha256 not in ("", original.sha256):
        raise InputError(
            f"{name} was made from {plan.provenance.model} with SHA-256 {plan.provenance.model_sha256[:12]}, but {original.name} has "
            f"{original.sha256[:12]}: give the model that it was made from."
        )
    return original
