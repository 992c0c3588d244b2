"""Requests of tests by few words, and what they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Network
from cascader.ethosu.search import choice
from cascader.ethosu.search.exhaustive import MOST_SCHEDULES
from cascader.ethosu.search.request import ModelSource, NetworkSource, Request, Run
from cascader.ethosu.search.task import Choice, Task
from npu_model.memory.system import MemorySystem
from npu_testbed.asked import axes, replays
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.request import requested
from npu_testbed.commands.simulate import SimulateVela
from npu_testbed.commands.sweep import Sweep
from npu_testbed.comparisons import comparison
from npu_testbed.compilation import compiler
from npu_testbed.compilation.compile_options import Target
from npu_testbed.devices import memory_options
from npu_testbed.models import legalise
from npu_testbed.portfolio import examination, run
from npu_testbed.portfolio.verdict import Examined, Report
from npu_testbed.replays import scheduling, simulation
from npu_testbed.searches import frontiers
from sim import Listener
from validation.portfolio import PortfolioNetwork

DEVICE = "ethos-u55-128"
PLAIN = Target()
ALONE = Run()


def load_task(source: str, device: str = DEVICE, **fields: Any) -> Task:
    return legalise.load_task(requested(source, device, **fields))


def schedule(source: str, device: str = DEVICE, *, processes: int | None = None, **fields: Any) -> Schedule:
    return scheduling.schedule(requested(str(source), device, **fields), Run(processes))


def choose(
    task: Task, executor: Executor, budget: int | None = None, run: Run = ALONE, most: int = MOST_SCHEDULES, **fields: Any
) -> Choice:
    request = Request(NetworkSource("", task.network), task.accelerator, task.system, budget, **fields)
    return choice.choose(task, request, executor, run, most)


def frontier(source: str, device: str = DEVICE, *, processes: int | None = None, **fields: Any) -> frontiers.Frontier:
    return frontiers.frontier(requested(source, device, **fields), Run(processes))


def compare(source: str, device: str = DEVICE, *, processes: int | None = None, sweep: int = 8, **fields: Any) -> comparison.Comparison:
    sides = comparison.Sides(sweep, fields.pop("robust", False), fields.pop("energy", None))
    return comparison.compare(requested(source, device, **fields), Run(processes), sides)


def compile_model(source: str, target: Target = PLAIN, device: str = DEVICE, **fields: Any) -> compiler.Compilation:
    return compiler.compile_model(requested(source, device, **fields), target, Run(1))


def examine(name: str, device: str = DEVICE, *, verified: bool = True, **fields: Any) -> Examined:
    return examination.examine(requested(f"portfolio:{name}", device, **fields), verified=verified)


def examine_all(
    networks: Sequence[PortfolioNetwork], *, processes: int, verified: bool = True, results: Path | None = None, device: str = DEVICE
) -> Report:
    requests = [requested(f"portfolio:{network.name}", device) for network in networks]
    return run.examine_all(requests, Run(processes), verified=verified, results=results)


def points(models: Sequence[str], **said: Any) -> tuple[Request, ...]:
    return axes.points_of(sweep_of(models, **said), [requested(model).source for model in models])


def sweep_of(models: Sequence[str], **said: Any) -> Sweep:
    listed = {name: (value,) if isinstance(value, str) else value for name, value in said.items() if name in ("set", "home")}
    return Sweep(models=models, **(said | listed))


def simulate_vela(source: str, listeners: Sequence[Listener] = (), engine: str = "", **said: Any) -> simulation.Simulation:
    return simulation.simulate(replays.replay_of_model(SimulateVela(model=source, **said), source), listeners, engine=engine)


def replayed(source: str, **said: Any) -> simulation.Simulation:
    return simulation.simulate(replays.replay_of(SimulateVela(model=source, **said), source))


def said_memory(
    timing_adapter: str | None = None, system_config: str | None = None, memory_mode: str | None = None, config: Path | None = None
) -> OneSearch[Any]:
    return OneSearch(timing_adapter=timing_adapter, system_config=system_config, memory_mode=memory_mode, config=config)


def system_said(*said: Any, **more: Any) -> MemorySystem:
    return memory_options.memory_system(said_memory(*said, **more))


def of_bytes(model: bytes | Network, device: str, memory: MemorySystem, budget: int | None = None, **fields: Any) -> Request:
    source = NetworkSource("", model) if isinstance(model, Network) else ModelSource("", model)
    return Request(source, device, memory, budget, **fields)
