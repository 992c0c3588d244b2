"""Vela's own schedules of a network on both of its cores, replayed as ours are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cascader.ethosu.network.network import CpuPart, Network
from cascader.ethosu.schedule.codec import to_plain
from cascader.frontends.vela import CORES, checked_network, compile_network
from npu_model.compiled.network import COPIES, CompiledNetwork, CpuOperator
from npu_model.errors import InputError, UnfinishedError
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import quick_cycles
from sim.functional import is_copy
from testbed.answers import key_of
from testbed.configs import vela_ini_text
from testbed.memory_options import memory_system_sha256
from testbed.memory_use import arena_bytes
from testbed.progress import Progress, silent
from validation.reading import read_configuration


@dataclass(frozen=True, slots=True)
class VelaRun:
    """One compilation: ``optimise`` and ``arena_cache_size`` (bytes, None for Vela's default) are its options."""

    core: str
    optimise: str
    arena_cache_size: int | None = None

    @property
    def name(self) -> str:
        """Its name in a table."""
        return f"Vela {self.optimise}" if self.arena_cache_size is None else f"Vela at {self.arena_cache_size:,}"


@dataclass(frozen=True, slots=True)
class VelaPoint:
    """A compilation replayed: ``memory`` is the arena in bytes that its compiled file asks for, ``cycles`` are the replay's."""

    run: VelaRun
    memory: int
    cycles: int

    @property
    def overflows(self) -> bool:
        """Whether its arena exceeds the one that was asked for, which Vela takes as a wish."""
        return self.run.arena_cache_size is not None and self.memory > self.run.arena_cache_size


@dataclass(frozen=True, slots=True)
class VelaFailure:
    """A compilation that Vela did not finish, whose stream is wrong, or that cannot be compared, with the reason.

    ``ended`` is False if Vela was ended or not started: another time it may do better.
    """

    run: VelaRun
    reason: str
    ended: bool = True


@dataclass(frozen=True, slots=True)
class VelaTask:
    """A model, what it is compiled for by the names that Vela knows, and the memory system and the timing of the replay."""

    model: bytes = field(repr=False)
    accelerator: str
    system_config: str
    memory_mode: str
    config: Path | None
    system: MemorySystem
    timing: TimingParameters = DEFAULT_TIMING


@dataclass(frozen=True, slots=True)
class Outcome:
    """A point with the operators that its core leaves on the CPU, whose time no replay counts."""

    point: VelaPoint
    on_cpu: tuple[str, ...]


def vela_network(task: VelaTask, run: VelaRun) -> CompiledNetwork:
    """The Programs of one compilation; InputError if it fails or its stream is wrong."""
    result = compile_network(
        task.model,
        task.accelerator,
        optimise=run.optimise,
        arena_cache_size=run.arena_cache_size,
        system_config=task.system_config,
        memory_mode=task.memory_mode,
        config=task.config,
        legacy=run.core == CORES[1],
    )
    return checked_network(result, task.model)


def outcome(task: VelaTask, run: VelaRun) -> Outcome | VelaFailure:
    """The point of one compilation, or why there is none."""
    try:
        network = vela_network(task, run)
        cycles = quick_cycles(network, task.system, task.timing)
    except InputError as error:
        return VelaFailure(run, str(error), ended=not isinstance(error, UnfinishedError))
    on_cpu = tuple(step.code for step in network.steps if isinstance(step, CpuOperator) and not is_copy(step))
    return Outcome(VelaPoint(run, arena_bytes(network), cycles), on_cpu)


def outcome_key(task: VelaTask, run: VelaRun) -> str:
    """The key of what :func:`outcome` follows from."""
    ini = vela_ini_text() if task.config is None else read_configuration(task.config, "Configuration file")
    names = [task.accelerator, task.system_config, task.memory_mode, memory_system_sha256(task.system), to_plain(task.timing)]
    return key_of([names, ini, run.core, run.optimise, run.arena_cache_size], task.model)


def outcome_json(found: Outcome | VelaFailure) -> dict[str, Any] | None:
    """An outcome as values that JSON can hold; None for a failure, which is tried again."""
    if isinstance(found, VelaFailure):
        return None
    return {"memory": found.point.memory, "cycles": found.point.cycles, "on_cpu": list(found.on_cpu)}


def outcome_of(plain: Any, run: VelaRun) -> Outcome:
    """The outcome of a run that :func:`outcome_json` wrote; TypeError or LookupError if it is none."""
    memory, cycles, on_cpu = plain["memory"], plain["cycles"], plain["on_cpu"]
    if not (type(memory) is int and type(cycles) is int and type(on_cpu) is list and all(type(code) is str for code in on_cpu)):
        raise TypeError("An outcome has two integers and a list of texts.")
    return Outcome(VelaPoint(run, memory, cycles), tuple(on_cpu))


def _comparable(outcomes: Sequence[Outcome | VelaFailure], ours: int | None) -> Iterator[VelaPoint | VelaFailure]:
    """The points, but of cores that leave more to the CPU than another one or ``ours``: their cycles leave out what others count."""
    fewest = min((len(one.on_cpu) for one in outcomes if isinstance(one, Outcome)), default=0)
    other = "another one" if ours is None or fewest <= ours else "ours"
    fewest = fewest if ours is None else min(fewest, ours)
    for one in outcomes:
        if isinstance(one, VelaFailure):
            yield one
        elif len(one.on_cpu) > fewest:
            codes = ", ".join(sorted(set(one.on_cpu)))
            left = f"{len(one.on_cpu)} operator{'s' if len(one.on_cpu) > 1 else ''}"
            point = one.point
            yield VelaFailure(
                point.run,
                f"the {point.run.core} core leaves {left} on the CPU ({codes}), {other} {fewest}: "
                f"its {point.memory:,} bytes and {point.cycles:,} cycles are of another network",
            )
        else:
            yield one.point


def operators_on_cpu(network: Network) -> int:
    """How many operators a network of ours leaves to the CPU, copies aside."""
    left = [part.payload for part in network.graph.parts if isinstance(part.payload, CpuPart)]
    return sum(operator.code not in COPIES or (len(operator.inputs), len(operator.outputs)) != (1, 1) for operator in left)


def vela_points(
    task: VelaTask, runs: Sequence[VelaRun], executor: Executor, show: Progress = silent, *, on_cpu: int | None = None
) -> tuple[tuple[VelaPoint, ...], tuple[VelaFailure, ...]]:
    """The points of ``runs`` in their order, and the runs that failed, are wrong or cannot be compared.

    ``on_cpu`` is how many operators ours leaves to the CPU, if it is known.
    """
    answers = [executor.submit(outcome, task, run) for run in runs]
    outcomes: list[Outcome | VelaFailure] = []
    for run, answer in zip(runs, answers, strict=True):
        show(f"Compiling and replaying {run.name} ({run.core} core)")
        outcomes.append(answer.result())
    found = tuple(_comparable(outcomes, on_cpu))
    points = tuple(one for one in found if isinstance(one, VelaPoint))
    return points, tuple(one for one in found if isinstance(one, VelaFailure))


def both_cores(optimise: str, arena_cache_size: int | None = None) -> tuple[VelaRun, ...]:
    """The same compilation on each core."""
    return tuple(VelaRun(core, optimise, arena_cache_size) for core in CORES)
