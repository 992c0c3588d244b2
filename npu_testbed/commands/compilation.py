"""``npu-testbed compile``: a model to a compiled ``*_vela.tflite`` in one step, in Vela's place."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_model.printable import printable
from npu_testbed.commands.list_configs import ListConfigFiles, ListConfigsOf, SupportedOpsReport, Version
from npu_testbed.commands.options import (
    Parser,
    add_cpu_operations_option,
    add_input_shape_option,
    add_jobs_option,
    add_json_option,
    add_memory_options,
    add_vela_timeout_option,
    byte_count,
    example,
    print_json,
)
from npu_testbed.compilation.vela_options import add_vela_options, notes

if TYPE_CHECKING:
    from npu_testbed.compilation.compiler import Compilation, CompileOptions


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
        ),
    )
    parser.add_argument("model", metavar="MODEL", help="a .tflite or .tosa file, zoo:NAME or portfolio:NAME")
    _add_vela_options(parser)
    group = parser.add_argument_group("search")
    efforts = ("quick", "standard", "thorough")
    group.add_argument("--effort", choices=efforts, default="standard", help="how hard to search (default: standard)")
    add_jobs_option(group)
    add_input_shape_option(group)
    add_vela_timeout_option(group)
    add_memory_options(parser, "the timing adapter u55_high_end, which is Ethos_U55_High_End_Embedded with Shared_Sram")
    parser.add_argument(
        "--timing-profile",
        metavar="PROFILE.toml",
        help="timing parameters of the NPU, as `calibrate fit` writes them (default: the model's own); --timing is a switch of Vela's",
    )
    add_vela_options(parser)
    add_json_option(parser)
    parser.set_defaults(run=run)


def _add_vela_options(parser: Parser) -> None:
    group = parser.add_argument_group("Vela's options")
    accelerators = "ethos-u55-32, ethos-u55-64, ethos-u55-128 or ethos-u55-256 (default: ethos-u55-256, as Vela's)"
    group.add_argument("--accelerator-config", metavar="NAME", default="ethos-u55-256", help=accelerators)
    group.add_argument("--output-dir", metavar="DIR", type=Path, default=Path("output"), help="folder to write to (default: output)")
    group.add_argument("--arena-cache-size", metavar="BYTES", type=byte_count, help="most bytes of the arena (default: no bound)")
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
    group.add_argument("--ignore-ops", metavar="OP[,OP...]", default="", help="TFLite builtin operators to leave on the CPU")
    group.add_argument("--disable-cascading", action="store_true", help="run every layer whole, one after the other")
    group.add_argument("--enable-debug-db", action="store_true", help="also write NAME_schedule.json, all that was decided")
    for name in ("--verbose-performance", "--verbose-cycle-estimate"):
        group.add_argument(name, action="store_true", help="also print the table of layers")
    add_cpu_operations_option(group)
    group.add_argument("--version", action=Version, help="print the version, and exit")
    group.add_argument("--supported-ops-report", action=SupportedOpsReport, help="write SUPPORTED_OPS.md here, and exit")
    group.add_argument("--list-config-files", action=ListConfigFiles, help="print the configuration file that Vela comes with, and exit")
    group.add_argument("--list-configs", action=ListConfigsOf, help="print the configurations of a file, and exit")


def run(arguments: argparse.Namespace) -> int:
    """Compile, write all files or none, and report."""
    from npu_testbed.compilation.compiler import compile_model, schedule_file
    from npu_testbed.endings import say
    from npu_testbed.files import make_folder, require_makeable
    from npu_testbed.pipeline import write_files
    from npu_testbed.progress import progress

    said = list(notes(arguments))
    require_makeable(arguments.output_dir)
    for sentence in said:
        say("note", sentence)
    with progress() as show:
        compilation = compile_model(arguments.model, _options(arguments), show)
        files = dict(compilation.files)
        if arguments.enable_debug_db:
            files |= [schedule_file(compilation)]
        show(f"Writing {arguments.output_dir}")
        make_folder(arguments.output_dir)
        paths = {arguments.output_dir / name: data for name, data in files.items()}
        write_files(paths, arguments.model)
    _report(compilation, paths, arguments)
    return 0


def _options(arguments: argparse.Namespace) -> CompileOptions:
    from npu_testbed.commands.choices import arena_bound, memory_options
    from npu_testbed.compilation.compiler import CompileOptions
    from npu_testbed.timing import load_timing

    return CompileOptions(
        accelerator=arguments.accelerator_config,
        arena_cache_size=arena_bound(arguments),
        optimise=arguments.optimise,
        cascade=not arguments.disable_cascading,
        effort=arguments.effort,
        memory=memory_options(arguments),
        ignore_ops=tuple(name.strip() for name in arguments.ignore_ops.split(",") if name.strip()),
        processes=arguments.jobs,
        timing=load_timing(arguments.timing_profile),
        output_format=arguments.output_format,
    )


def _report(compilation: Compilation, paths: dict[Path, bytes], arguments: argparse.Namespace) -> None:
    from npu_testbed.reports.cpu_operators import cpu_operators_json, cpu_operators_text
    from npu_testbed.reports.summary import summary_json, summary_text
    from npu_testbed.reports.tables import layers_json, layers_text

    simulation = compilation.simulation
    if arguments.json:
        document = summary_json(simulation) | {"layers": layers_json(simulation.replay)}
        if arguments.show_cpu_operations:
            document["cpu_operations"] = cpu_operators_json(simulation.network)
        print_json("compile", document | {"files": {str(path): len(data) for path, data in paths.items()}})
        return
    sections = [summary_text(simulation)]
    if arguments.verbose_performance or arguments.verbose_cycle_estimate:
        sections.append(layers_text(simulation.replay))
    if arguments.show_cpu_operations:
        sections.append(cpu_operators_text(simulation.network))
    sections.append("\n".join(f"{printable(str(path))}: {len(data):,} bytes" for path, data in paths.items()))
    print("\n\n".join(sections))
