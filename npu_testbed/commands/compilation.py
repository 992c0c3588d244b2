"""``npu-testbed compile``: a model to a compiled ``*_vela.tflite`` in one step, in Vela's place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.list_configs import ListConfigFiles, ListConfigsOf, SupportedOpsReport, Version
from npu_testbed.commands.options import (
    Parser,
    add_cpu_operations_option,
    add_cpu_option,
    add_home_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_recompute_option,
    add_vela_timeout_option,
    byte_count,
    example,
)
from npu_testbed.commands.printing import Printed
from npu_testbed.compilation.vela_options import add_vela_options, notes

if TYPE_CHECKING:
    from npu_testbed.compilation.compiler import CompileOptions
    from npu_testbed.outcomes.compilation import CompilationOutcome
    from npu_testbed.progress import Progress


_MOST_ALIGNMENT = 1 << 20


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "compile",
        help="compile a network to a *_vela.tflite, in the place of `vela`",
        description=(
            "Schedule a quantised network and write it as NAME_vela.tflite, which TFLite Micro and the Linux driver run as they run Vela's "
            "files, with NAME_summary_CONFIG.csv and NAME_per-layer.csv in Vela's columns. The options are Vela's; --arena-cache-size is a "
            "bound that holds, or that is refused with the smallest one that is reached."
        ),
        epilog=example(
            "npu-testbed compile network.tflite --accelerator-config ethos-u55-128 --arena-cache-size 262144 --output-dir build",
            "npu-testbed compile zoo:ds_cnn --optimise Size --verbose-performance",
            "npu-testbed compile network.tflite --home input=ext --arena-cache-size 131072",
        ),
    )
    parser.add_argument("model", metavar="MODEL", help="a .tflite or .tosa file, zoo:NAME or portfolio:NAME")
    _add_vela_options(parser)
    group = parser.add_argument_group(
        "promise",
        "Without these and without an arena size: never larger and never slower than Vela, checked by replay before anything is written. "
        "With an arena size: the fastest in that size, and never slower than Vela. With --optimise Size: the fewest bytes of what is no "
        "slower than Vela Size.",
    )
    group.add_argument("--fewest-bytes", action="store_true", help="the smallest arena, however many cycles it takes")
    group.add_argument("--fewest-cycles", action="store_true", help="the fewest cycles, however large the arena (or within the arena size)")
    group = parser.add_argument_group("search")
    efforts = ("quick", "standard", "thorough")
    group.add_argument("--effort", choices=efforts, default="standard", help="how hard to search (default: standard)")
    add_home_option(group)
    add_recompute_option(group)
    add_jobs_option(group)
    add_input_shape_option(group)
    add_vela_timeout_option(group)
    add_memory_options(
        parser, "the timing adapter u55_high_end, which is Ethos_U55_High_End_Embedded with Shared_Sram", config_action="append"
    )
    parser.add_argument(
        "--timing-profile",
        metavar="PROFILE.toml",
        help="timing parameters of the NPU, as `calibrate fit` writes them (default: the model's own); --timing is a switch of Vela's",
    )
    add_vela_options(parser)
    add_json_option(parser)
    # Vela takes an option by any beginning that no other one has, and scripts do so.
    parser.allow_abbrev = True
    parser.set_defaults(run=Printed(answer))


def alignment(text: str) -> int:
    """A power of 2 from 16 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 16 <= value <= _MOST_ALIGNMENT or value & (value - 1):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no alignment, give a power of 2 from 16 to {_MOST_ALIGNMENT}")
    return value


def _add_vela_options(parser: Parser) -> None:
    group = parser.add_argument_group("Vela's options")
    accelerators = "ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256 (default: ethos-u55-256, as Vela's)"
    group.add_argument("--accelerator-config", metavar="NAME", default="ethos-u55-256", help=accelerators)
    group.add_argument("--output-dir", metavar="DIR", type=Path, default=Path("output"), help="folder to write to (default: output)")
    group.add_argument(
        "--arena-cache-size",
        metavar="BYTES",
        type=byte_count,
        help="most bytes of the arena, such as 262144 or 256KiB (default: those of the memory mode, else the arena that Vela plans)",
    )
    group.add_argument(
        "--optimise",
        choices=("Performance", "Size"),
        default="Performance",
        help="what to optimise for within the bound (default: Performance)",
    )
    group.add_argument(
        "--output-format",
        choices=("tflite", "raw"),
        default="tflite",
        help="raw writes NAME_vela.npz, of a network that is all on the NPU (default: tflite)",
    )
    group.add_argument(
        "--ignore-ops", metavar="OP[,OP...]", action="append", default=[], help="TFLite builtin operators to leave on the CPU"
    )
    group.add_argument(
        "--cpu-tensor-alignment",
        metavar="BYTES",
        type=alignment,
        default=16,
        help="alignment of the network's inputs and outputs, and of what operators on the CPU read and write (default: 16)",
    )
    group.add_argument("--debug-force-legacy-core", action="store_true", help="hold ours to Vela's Python core, in place of its C++ core")
    group.add_argument("--disable-cascading", action="store_true", help="run every layer whole, one after the other, whatever Vela's takes")
    group.add_argument(
        "--enable-debug-db",
        action="store_true",
        help="also write NAME_debug.xml, as Vela does, and NAME_schedule.json",
    )
    for name in ("--verbose-performance", "--verbose-cycle-estimate"):
        group.add_argument(name, action="store_true", help="also print the table of layers")
    add_cpu_operations_option(group)
    add_cpu_option(group)
    group.add_argument("--version", action=Version, help="print the version, and exit")
    group.add_argument("--supported-ops-report", action=SupportedOpsReport, help="write SUPPORTED_OPS.md here, and exit")
    group.add_argument("--list-config-files", action=ListConfigFiles, help="print the configuration file that Vela comes with, and exit")
    group.add_argument("--list-configs", action=ListConfigsOf, help="print the configurations of a file, and exit")


def answer(arguments: argparse.Namespace, show: Progress) -> CompilationOutcome:
    """Compile, and write all files or none."""
    from msgspec.structs import replace

    from npu_testbed.compilation.compiler import compile_model, debug_files, network_name
    from npu_testbed.cpu_time import load_cpu_table
    from npu_testbed.endings import say
    from npu_testbed.files import make_folder, require_makeable, require_writable
    from npu_testbed.outcomes.compilation import CompilationOutcome
    from npu_testbed.pipeline import write_files

    said = list(notes(arguments))
    with _as_vela():
        require_makeable(arguments.output_dir)
        if arguments.output_dir.is_dir():
            ending = "tflite" if arguments.output_format == "tflite" else "npz"
            require_writable(arguments.output_dir / f"{network_name(arguments.model)}_vela.{ending}", arguments.model)
    options, cpu = _options(arguments), load_cpu_table(arguments.cpu)
    for sentence in said:
        say("note", sentence)
    compilation = compile_model(arguments.model, options, show)
    compilation = replace(compilation, simulation=replace(compilation.simulation, cpu=cpu))
    files = dict(compilation.files)
    if arguments.enable_debug_db:
        files |= debug_files(compilation)
    show(f"Writing {arguments.output_dir}")
    make_folder(arguments.output_dir)
    paths = {arguments.output_dir / name: data for name, data in files.items()}
    write_files(paths, arguments.model)
    estimated = arguments.verbose_performance or arguments.verbose_cycle_estimate
    sizes = {str(path): len(data) for path, data in paths.items()}
    return CompilationOutcome(compilation, sizes, layers=estimated, cpu_operations=arguments.show_cpu_operations)


@contextmanager
def _as_vela() -> Iterator[None]:
    """Within, bad input is what Vela ends with status 1 for: files and configurations, not the words of the command line."""
    from npu_model.errors import InputError
    from npu_testbed.endings import VelaStatusError

    try:
        yield
    except InputError as error:
        raise VelaStatusError(str(error)) from None


def _options(arguments: argparse.Namespace) -> CompileOptions:
    from npu_model.errors import InputError
    from npu_testbed.commands.choices import arena_bound, home_options, memory_options
    from npu_testbed.compilation.compile_options import FEWEST_BYTES, FEWEST_CYCLES, PROMISE, CompileOptions
    from npu_testbed.device_memory import system_of
    from npu_testbed.timing import load_timing

    if arguments.fewest_bytes and arguments.fewest_cycles:
        raise InputError("--fewest-bytes was given together with --fewest-cycles: each gives the other up, choose one.")
    if len(arguments.config or ()) > 1:
        raise InputError(f"--config was given {len(arguments.config)} times: write the sections that are needed into one file.")
    arguments.config = arguments.config[0] if arguments.config else None
    memory = memory_options(arguments)
    if memory.from_vela:
        with _as_vela():
            system_of(arguments.accelerator_config, memory)
            arena_bound(arguments)
    return CompileOptions(
        accelerator=arguments.accelerator_config,
        arena_cache_size=arguments.arena_cache_size,
        optimise=arguments.optimise,
        cascade=not arguments.disable_cascading,
        effort=arguments.effort,
        recompute=arguments.recompute,
        homes=home_options(arguments),
        memory=memory,
        ignore_ops=tuple(name.strip() for words in arguments.ignore_ops for name in words.split(",") if name.strip()),
        processes=arguments.jobs,
        timing=load_timing(arguments.timing_profile),
        output_format=arguments.output_format,
        aim=FEWEST_BYTES if arguments.fewest_bytes else FEWEST_CYCLES if arguments.fewest_cycles else PROMISE,
        cpu_tensor_alignment=arguments.cpu_tensor_alignment,
        legacy=arguments.debug_force_legacy_core,
    )
