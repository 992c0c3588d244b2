"""Vela's own schedules of a network, replayed like ours: one call for the runs of a core, and its answer as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cascader.frontends.vela import CORES, CompilerOptions, VelaResult, checked_network
from npu_model.brief import Brief
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.documents import plain, typed
from npu_model.errors import InputError, LimitError, UnfinishedError
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.devices.configs import vela_ini_text
from npu_testbed.devices.memory_options import memory_system_sha256
from npu_testbed.ground.answers import key_of
from npu_testbed.replays.memory_use import sram_bytes
from npu_testbed.replays.separate_regions import EndPorts, on_end_ports
from sim import quick_cycles
from sim.functional import runs_here
from validation.reading import read_configuration
from validation.vela.branches import Limit, compile_at


class VelaRun(Struct, frozen=True):
    """One compilation: ``optimise`` and ``arena_cache_size`` (bytes, None for Vela's default) are its options."""

    core: str
    optimise: str
    arena_cache_size: int | None = None

    @property
    def limit(self) -> Limit:
        """Its terms."""
        return Limit(self.optimise, self.arena_cache_size)

    @property
    def name(self) -> str:
        """The name in a table."""
        return f"Vela {self.optimise}" if self.arena_cache_size is None else f"Vela at {self.arena_cache_size:,}"


class VelaPoint(Struct, frozen=True):
    """A replayed compilation: ``memory`` is the arena in bytes that its compiled file asks for, ``cycles`` are the replay's."""

    run: VelaRun
    memory: int
    cycles: int

    @property
    def core(self) -> str:
        """The core of Vela that made it."""
        return self.run.core

    @property
    def optimise(self) -> str:
        """Vela's strategy."""
        return self.run.optimise

    @property
    def arena_cache_size(self) -> int | None:
        """The arena that was asked for, in bytes; None for Vela's default."""
        return self.run.arena_cache_size

    @property
    def overflows(self) -> bool:
        """Whether its arena exceeds the requested one, which Vela takes as a target."""
        return self.arena_cache_size is not None and self.memory > self.arena_cache_size


class VelaFailure(Struct, frozen=True):
    """A compilation that Vela did not finish, that has a wrong stream, or that cannot be compared, with the reason.

    ``ended`` is False if Vela was stopped or did not start, so that another run may succeed. With ``is_limit``, it is a limit of ours.
    """

    run: VelaRun
    reason: str
    ended: bool = True
    is_limit: bool = False


class VelaTask(Brief, frozen=True):
    """A model, its compilation targets by Vela's names, and the memory system and the timing of the replay."""

    unshown = ("model",)

    model: bytes
    accelerator: str
    system_config: str
    memory_mode: str
    config: Path | None
    system: MemorySystem
    timing: TimingParameters = DEFAULT_TIMING
    end_ports: EndPorts | None = None
    """Ports of the network's inputs and outputs if they have regions of their own (``--separate-io-regions``), else None."""

    @property
    def target(self) -> CompilerOptions:
        """The accelerator and memories that Vela compiles for."""
        options = CompilerOptions(self.accelerator, system_config=self.system_config, memory_mode=self.memory_mode, config=self.config)
        return options if self.end_ports is None else replace(options, separate_io_regions=True)

    def replayed_on(self, network: CompiledNetwork) -> MemorySystem:
        """The memory system with a compilation's inputs and outputs in the memories of ours."""
        return self.system if self.end_ports is None else on_end_ports(self.system, network, self.end_ports)


class VelaOutcome(Struct, frozen=True):
    """A point with the operators that its core leaves on the CPU, whose time the replay does not count."""

    point: VelaPoint
    on_cpu: tuple[str, ...]


def _checked(result: VelaResult | InputError, task: VelaTask) -> CompiledNetwork:
    """The Programs of a result; InputError if the result is an error, or its stream is wrong."""
    if isinstance(result, InputError):
        raise result
    return checked_network(result, task.model)


def vela_network(task: VelaTask, run: VelaRun) -> CompiledNetwork:
    """The Programs of one compilation; InputError if it fails or its stream is wrong."""
    (result,) = compile_at(task.model, task.target, (run.limit,), run.core)
    return _checked(result, task)


class VelaBatch(Struct, frozen=True):
    """Runs of one core, ``at_once`` of them in parallel. Runs of the Python core share work that does not depend on their options."""

    task: VelaTask
    runs: tuple[VelaRun, ...]
    at_once: int = 1

    def worker_processes(self, processes: int) -> range:
        """One process for the Python core, whose runs take longest, and the others for the C++ core."""
        last = processes - 1
        return range(last, processes) if self.runs[0].core == CORES[1] else range(max(last, 1))


def _compiled(batch: VelaBatch) -> Sequence[VelaResult | InputError]:
    limits = tuple(run.limit for run in batch.runs)
    return compile_at(batch.task.model, batch.task.target, limits, batch.runs[0].core, batch.at_once)


_Figures = tuple[int, int, tuple[str, ...]]
"""Bytes of the arena, cycles, and operators on the CPU."""

_MOST_KNOWN = 64
_KNOWN: dict[object, _Figures] = {}
"""Figures of this process's newest compilations by their inputs, because Vela makes the same schedule for several arena sizes."""


def _figures(task: VelaTask, result: VelaResult | InputError) -> _Figures:
    """The figures of one compilation; InputError if it failed or its stream is wrong."""
    if isinstance(result, InputError):
        raise result
    data = tuple(sha256(one).digest() for one in (task.model, result.compiled, result.database.encode()))
    key = task.system, task.timing, task.end_ports, result.core, result.version, data
    found = _KNOWN.get(key)
    if found is None:
        network = _checked(result, task)
        on_cpu = tuple(step.code for step in network.steps if isinstance(step, CpuOperator) and not runs_here(step))
        found = sram_bytes(network), quick_cycles(network, task.replayed_on(network), task.timing), on_cpu
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _outcome(task: VelaTask, run: VelaRun, result: VelaResult | InputError) -> VelaOutcome | VelaFailure:
    """The point of one compilation, or the reason of its failure."""
    try:
        memory, cycles, on_cpu = _figures(task, result)
    except InputError as error:
        return VelaFailure(run, str(error), ended=not isinstance(error, UnfinishedError), is_limit=isinstance(error, LimitError))
    return VelaOutcome(VelaPoint(run, memory, cycles), on_cpu)


def outcomes(batch: VelaBatch) -> tuple[VelaOutcome | VelaFailure, ...]:
    """The outcomes of the runs, in their order."""
    return tuple(_outcome(batch.task, run, result) for run, result in zip(batch.runs, _compiled(batch), strict=True))


_OUTCOMES: Any = tuple[VelaOutcome | None, ...]
"""The kept outcomes of a batch: None for a failure."""


def outcomes_key(batch: VelaBatch) -> str:
    """The key of everything that determines :func:`outcomes`."""
    task = batch.task
    ini = vela_ini_text() if task.config is None else read_configuration(task.config, "Configuration file")
    names = [task.accelerator, task.system_config, task.memory_mode, memory_system_sha256(task.system), plain(task.timing)]
    names += [] if task.end_ports is None else [plain(task.end_ports)]
    return key_of([names, ini, [[run.core, run.optimise, run.arena_cache_size] for run in batch.runs]], task.model)


def outcomes_json(found: Sequence[VelaOutcome | VelaFailure]) -> list[Any] | None:
    """Outcomes as values that JSON can hold; None for a failure, which is tried again, and None for the whole if all failed."""
    made = [None if isinstance(one, VelaFailure) else one for one in found]
    return plain(made) if any(made) else None


def outcomes_of(given: Any, batch: VelaBatch) -> tuple[VelaOutcome | VelaFailure, ...]:
    """The outcomes from :func:`outcomes_json`, with failures tried again; InputError or ValueError for other values."""
    found = typed(_OUTCOMES, given)
    known = {run: one for run, one in zip(batch.runs, found, strict=True) if one is not None and one.point.run == run}
    again = tuple(run for run in batch.runs if run not in known)
    tried = dict(zip(again, outcomes(replace(batch, runs=again)), strict=True)) if again else {}
    return tuple(known.get(run) or tried[run] for run in batch.runs)
