"""``npu-testbed sweep``: schedules on every combination of networks, MACs, memories, budgets and parameters."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.errors import InputError
from npu_testbed.commands.options import (
    Parser,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_recompute_option,
    add_results_option,
    add_timing_option,
    add_vela_timeout_option,
    byte_count,
    example,
)
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.memory_options import MemoryOptions
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress
    from npu_testbed.sweeps import SweepPoint
    from npu_testbed.sweeps.cluster import Cluster


def names(text: str) -> tuple[str, ...]:
    """One or more names between commas."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} has an empty name, give NAME or NAME,NAME")
    return found


def budgets(text: str) -> tuple[int | None, ...]:
    """Numbers of bytes between commas; "none" for no bound."""
    return tuple(dict.fromkeys(None if part == "none" else byte_count(part) for part in names(text)))


def milliseconds(text: str) -> float:
    """A time in milliseconds, above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no time, give milliseconds above 0")
    return value


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "sweep",
        help="schedule networks on every combination of MACs, memories, budgets and parameters",
        description=(
            "Schedule each network on each accelerator with each memory system, each value of each parameter and each budget, as "
            "`schedule` does, and say what is fastest within each budget. A larger budget gets what a smaller one found, if that is "
            "better. With --results a sweep that was interrupted goes on where it was."
        ),
        epilog=example(
            "npu-testbed sweep zoo:ds_cnn --accelerator-config all --arena-cache-size 12000,16000,none --results found",
            "npu-testbed sweep network.tflite --accelerator-config ethos-u55-64,ethos-u55-128 --system-config Ethos_U55_High_End_Embedded "
            "--set OffChipFlash.read_latency=64,128,256 --deadline 5 --csv network.csv",
        ),
    )
    parser.add_argument("models", metavar="MODEL", nargs="+", help="a .tflite file, or zoo:NAME or portfolio:NAME")
    parser.add_argument(
        "--accelerator-config",
        metavar="NAME,...",
        type=names,
        default=("ethos-u55-128",),
        help="accelerators, or all (default: ethos-u55-128)",
    )
    parser.add_argument(
        "--arena-cache-size",
        metavar="BYTES,...",
        type=budgets,
        default=(),
        help="budgets of the arena, such as 64KiB, none for no bound (default: those of the memory modes)",
    )
    parser.add_argument("--optimise", choices=("Performance", "Size"), default="Performance", help="as for schedule (default: Performance)")
    parser.add_argument(
        "--effort", choices=("quick", "standard", "thorough"), default="standard", help="as for schedule (default: standard)"
    )
    _add_memories(parser)
    add_home_option(parser)
    add_recompute_option(parser)
    add_timing_option(parser)
    group = parser.add_argument_group("work")
    add_results_option(group)
    add_jobs_option(group)
    group.add_argument(
        "--distributed", metavar="ADDRESS", help="work on the Dask cluster whose scheduler is there, such as tcp://host:8786"
    )
    for name, what in (("ca-file", "the certificate of the authority"), ("cert", "the certificate"), ("key", "the key")):
        group.add_argument(f"--tls-{name}", metavar="PEM", help=f"{what} for a cluster at tls://, as `dask scheduler` takes it")
    add_input_shape_option(group)
    add_vela_timeout_option(group)
    group = parser.add_argument_group("reports")
    group.add_argument("--deadline", metavar="MS", type=milliseconds, help="also say what meets this time with fewest MACs and bytes")
    group.add_argument("--csv", metavar="F.csv", help="write a line for each point")
    group.add_argument("--plot", metavar="F.svg", help="draw milliseconds over bytes, a plot for each MODEL")
    group.add_argument("--report", metavar="R.html", help="write a page with all points, which asks for a deadline; it needs no network")
    add_json_option(group)
    parser.set_defaults(run=Printed(answer))


def _add_memories(parser: Parser) -> None:
    group = parser.add_argument_group("memory systems", "Timing adapters and Vela's configurations. Without any: u55_high_end.")
    group.add_argument("--timing-adapter", metavar="NAME|FILE,...", type=names, default=(), help="timing-adapter profiles")
    group.add_argument("--system-config", metavar="NAME,...", type=names, default=(), help="system configs of Vela's configuration")
    group.add_argument(
        "--memory-mode", metavar="NAME,...", type=names, default=(), help="memory modes of Vela's configuration, with each of them"
    )
    group.add_argument("--config", metavar="INI", help="configuration file to read these from (default: the vela.ini of Vela)")
    group.add_argument(
        "--set",
        metavar="KEY=V,...",
        dest="settings",
        action="append",
        default=[],
        help="values of a parameter, such as OffChipFlash.read_latency=64,128 or clock_hz=400000000; may be given several times",
    )


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Sweep, and write what is asked for."""
    from npu_testbed.files import write_files
    from npu_testbed.html.sweep import sweep_page
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.sweeps import sweep
    from npu_testbed.sweeps.sweep_tables import sweep_csv, sweep_json, sweep_text
    from npu_testbed.views.sweep_plot import sweep_svg

    _check(arguments)
    found = sweep(
        _points(arguments, show),
        results=arguments.results,
        processes=arguments.jobs,
        cluster=_cluster(arguments),
        progress=show,
    )
    files: dict[Path, bytes] = {}
    if arguments.csv is not None:
        files[Path(arguments.csv)] = sweep_csv(found)
    if arguments.plot is not None:
        files[Path(arguments.plot)] = sweep_svg(found).encode("utf-8")
    if arguments.report is not None:
        files[Path(arguments.report)] = sweep_page(found, arguments.deadline)
    write_files(files)
    return PlainOutcome("sweep", found, lambda: sweep_json(found), lambda: sweep_text(found, arguments.deadline))


def _check(arguments: argparse.Namespace) -> None:
    """InputError for options that cannot be followed, before any work."""
    from npu_testbed.files import require_page, require_picture, require_writable

    if arguments.plot is not None:
        require_picture(arguments.plot, *arguments.models)
    if arguments.csv is not None:
        require_writable(arguments.csv, *arguments.models)
    if arguments.report is not None:
        require_page(arguments.report, *arguments.models)
    if arguments.distributed is not None and arguments.jobs is not None:
        raise InputError("--jobs was given together with --distributed, whose cluster has its own workers: drop one of them.")
    tls = [f"--{name.replace('_', '-')}" for name in _TLS if getattr(arguments, name) is not None]
    if tls and arguments.distributed is None:
        raise InputError(f"{tls[0]} was given without --distributed, whose connections it encrypts: give both, or leave it out.")
    if 0 < len(tls) < len(_TLS):
        raise InputError(f"{' and '.join(tls)} was given alone: encryption takes --tls-ca-file, --tls-cert and --tls-key.")
    if arguments.distributed is not None and arguments.vela_timeout is not None:
        raise InputError("--vela-timeout was given together with --distributed: set it where the workers run, or leave it out.")
    if arguments.deadline is not None and arguments.json and arguments.report is None:
        raise InputError("--deadline was given together with --json, which has the time of every point: drop one of them.")


_TLS = ("tls_ca_file", "tls_cert", "tls_key")


def _cluster(arguments: argparse.Namespace) -> Cluster | None:
    """The Dask cluster that is asked for."""
    from npu_testbed.sweeps.cluster import Certificates, Cluster

    given = [Path(path) for name in _TLS if (path := getattr(arguments, name)) is not None]
    if arguments.distributed is None:
        return None
    return Cluster(arguments.distributed, Certificates(*given) if given else None)


def _points(arguments: argparse.Namespace, show: Callable[[str], None]) -> tuple[SweepPoint, ...]:
    from npu_model.accelerator import accelerator_names
    from npu_testbed.commands.choices import home_options
    from npu_testbed.models import load_model
    from npu_testbed.places import Places
    from npu_testbed.settings import choice
    from npu_testbed.sweeps import Space, points_of
    from npu_testbed.timing import load_timing

    choices = [choice(text) for text in arguments.settings]
    if len({one.key for one in choices}) < len(choices):
        raise InputError("--set was given twice with the same key: give all of its values at once.")
    models = []
    for source in dict.fromkeys(arguments.models):
        show(f"Reading {source}")
        models.append(load_model(source))
    return points_of(
        Space(
            models=models,
            accelerators=accelerator_names("u55") if arguments.accelerator_config == ("all",) else arguments.accelerator_config,
            memories=_memories(arguments),
            choices=choices,
            budgets=arguments.arena_cache_size,
            optimise=arguments.optimise,
            effort=arguments.effort,
            timing=load_timing(arguments.timing),
            places=Places(home_options(arguments), arguments.recompute),
        )
    )


def _memories(arguments: argparse.Namespace) -> list[MemoryOptions]:
    """Every timing adapter, and every system config with every memory mode."""
    from npu_testbed.memory_options import MemoryOptions

    config = None if arguments.config is None else Path(arguments.config)
    found = [MemoryOptions(name) for name in arguments.timing_adapter]
    if arguments.system_config or arguments.memory_mode or config is not None:
        for system in arguments.system_config or (None,):
            found += [MemoryOptions(None, system, mode, config) for mode in arguments.memory_mode or (None,)]
    return found or [MemoryOptions()]
