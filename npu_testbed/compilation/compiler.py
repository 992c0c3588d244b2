"""From a network to the compiled file: scheduled, replayed, encoded, with the reports beside it."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import PurePath

from cascader.ethosu.schedule.file import to_json
from cascader.ethosu.schedule.schedule import Schedule
from npu_model.memory.vela_ini import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_model.tflite.tosa import model_of
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass
from npu_testbed.compilation.layers_csv import COLUMNS, layer_table
from npu_testbed.compilation.summary_csv import summary_row
from npu_testbed.csv_file import csv_file
from npu_testbed.exports import export
from npu_testbed.memory_options import NO_OPTIONS, MemoryOptions
from npu_testbed.models import BUILT, load_model
from npu_testbed.progress import Progress, silent
from npu_testbed.scheduling import DEFAULT_EFFORT, DEFAULT_OPTIMISE, schedule
from npu_testbed.simulation import Simulation, simulate_schedule

DEFAULT_ACCELERATOR = "ethos-u55-256"
"""Vela's default: a file that replaces one of Vela's must run where that one did."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of a compilation, by Vela's names; ``ignore_ops`` are builtin operators that stay on the CPU.

    ``output_format`` is tflite or raw: Vela's ``.npz`` of a network that runs on the NPU as a whole.
    """

    accelerator: str = DEFAULT_ACCELERATOR
    arena_cache_size: int | None = None
    optimise: str = DEFAULT_OPTIMISE
    cascade: bool = True
    effort: str = DEFAULT_EFFORT
    memory: MemoryOptions = NO_OPTIONS
    ignore_ops: tuple[str, ...] = ()
    processes: int | None = None
    timing: TimingParameters = DEFAULT_TIMING
    output_format: str = "tflite"


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled network: the schedule, its replay, and files by name, the compiled ``NAME_vela.tflite`` or ``.npz`` first."""

    name: str
    schedule: Schedule = field(repr=False)
    simulation: Simulation = field(repr=False)
    files: dict[str, bytes] = field(repr=False)


def network_name(model: str) -> str:
    """The stem that the files of a model are named with.

    >>> network_name("person.tflite"), network_name("out.tosa"), network_name("zoo:ds_cnn")
    ('person', 'out', 'ds_cnn')
    """
    for prefix in BUILT:
        model = model.removeprefix(prefix)
    return PurePath(model.replace("/", "_")).stem if model.lower().endswith((".tflite", ".tosa")) else model.replace("/", "_")


_DEFAULT = CompileOptions()


def compile_model(source: str, options: CompileOptions = _DEFAULT, progress: Progress = silent) -> Compilation:
    """Compile a model (a path, ``zoo:NAME`` or ``portfolio:NAME``); nothing is written.

    InputError as :func:`npu_testbed.scheduling.schedule` raises it, or if the network cannot be exported.
    """
    plan = schedule(
        source,
        options.accelerator,
        arena_cache_size=options.arena_cache_size,
        optimise=options.optimise,
        cascade=options.cascade,
        effort=options.effort,
        memory=options.memory,
        ignore_ops=options.ignore_ops,
        processes=options.processes,
        timing=options.timing,
        progress=progress,
    )
    model = load_model(source)
    parsed, name = model_of(model.data), network_name(model.name)
    simulation = simulate_schedule(plan, progress=progress)
    progress(f"Encoding {name}")
    files = export(plan, options.output_format, name=f"{name}_vela", model=model.data)
    configuration = options.memory.vela_names if options.memory.timing_adapter is None else (DEFAULT_SYSTEM_CONFIG, DEFAULT_MEMORY_MODE)
    table = layer_table(simulation, parsed)
    bound = options.memory.arena_bound(options.arena_cache_size)
    row = summary_row(simulation, parsed, name, configuration, bound, len(table))
    files[f"{name}_summary_{configuration[0]}.csv"] = csv_file([list(row), list(row.values())])
    files[f"{name}_per-layer.csv"] = csv_file([list(COLUMNS), *map(list, table)])
    return Compilation(name, plan, replace(simulation, model=model.name), files)


def schedule_file(compilation: Compilation) -> tuple[str, bytes]:
    """The schedule as a file, which has what Vela's debug database has and more."""
    return f"{compilation.name}_schedule.json", to_json(compilation.schedule).encode("ascii")
