"""``npu-testbed device``: the NPU behind its registers, for firmware on an emulated core and for programs in C."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import Parser, add_accelerator_option, add_json_option, add_timing_option, example, seconds
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser with its subcommands."""
    parser: Parser = commands.add_parser(
        "device",
        help="run firmware on the NPU behind its registers",
        description="The NPU with its registers, interrupt and PMU: for firmware on an emulated Cortex-M, and for drivers on the host.",
        epilog=example("npu-testbed device run firmware.elf --chip corstone-300", "npu-testbed device files -o host"),
    )
    ways = parser.add_subparsers(title="ways", dest="way", metavar="WAY", required=True)
    _add_run(ways)
    _add_files(ways)
    _add_serve(ways)


def _add_run(ways: Any) -> None:
    parser: Parser = ways.add_parser(
        "run",
        help="run an ELF file on a chip",
        description=(
            "Run firmware on an emulated Cortex-M core with the NPU in its address space, and print what it sends through its UART or "
            "semihosting. Status 1 unless it ends by itself with exit code 0."
        ),
        epilog=example(
            "npu-testbed device run firmware.elf --chip corstone-300",
            "npu-testbed device run firmware.elf --chip board.toml --data model.tflite@0x62000000 --time-limit 2",
        ),
    )
    parser.add_argument("firmware", metavar="FIRMWARE.elf", help="what the linker wrote for a Cortex-M (.elf, .axf)")
    parser.add_argument(
        "--chip",
        metavar="NAME|FILE.toml",
        dest="board",
        default="corstone-300",
        help="core, memories, NPU and UART (default: corstone-300)",
    )
    parser.add_argument(
        "--data",
        metavar="FILE@ADDRESS",
        action="append",
        default=[],
        help="a file that lies in memory from the start; may be given several times",
    )
    parser.add_argument(
        "--time-limit", metavar="SECONDS", type=seconds, default=10.0, help="most time of the chip's own clock (default: 10)"
    )
    add_timing_option(parser)
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def _add_files(ways: Any) -> None:
    parser: Parser = ways.add_parser(
        "files",
        help="write the C library for programs on the host",
        description="Write npu_device.h and npu_device.c, by which a driver that is built for the host has the NPU.",
        epilog=example("npu-testbed device files -o host"),
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="an existing folder")
    parser.set_defaults(run=write_host_files)


def _add_serve(ways: Any) -> None:
    parser: Parser = ways.add_parser(
        "serve",
        help="serve a device to another process through standard input and output",
        description="Serve a device over standard input and output: the C library starts this command. docs/firmware.md has the protocol.",
        epilog=example("npu-testbed device serve --accelerator-config ethos-u55-256 --timing-adapter off"),
    )
    add_accelerator_option(parser, "ethos-u55-128")
    parser.add_argument(
        "--timing-adapter", metavar="NAME|FILE", default="u55_high_end", help="memories behind the AXI ports (default: u55_high_end)"
    )
    add_timing_option(parser)
    parser.set_defaults(run=serve)


def _placed(text: str) -> tuple[int, bytes]:
    """FILE@ADDRESS as an address and the file's bytes."""
    from npu_model.errors import InputError
    from validation.reading import read_file

    path, _, address = text.rpartition("@")
    try:
        number = int(address, 0)
    except ValueError:
        number = -1
    if not path or not 0 <= number < 1 << 32:
        raise InputError(f"--data {text[:60]!r} has no address: give FILE@ADDRESS, such as model.tflite@0x62000000.")
    return number, read_file(path, "Data")


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Run the firmware; status 1 unless it ends with exit code 0."""
    from fractions import Fraction

    from npu_testbed.firmware import load_chip, run_firmware
    from npu_testbed.firmware.run_text import run_json, run_text
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.timing import load_timing

    data = [_placed(text) for text in arguments.data]
    chip, timing = load_chip(arguments.board), load_timing(arguments.timing)
    show(f"Running {arguments.firmware} on {chip.name}")
    result = run_firmware(arguments.firmware, chip, Fraction(arguments.time_limit), data, timing)
    return PlainOutcome("device run", result, lambda: run_json(result), lambda: run_text(result), passed=result.passed)


def write_host_files(arguments: argparse.Namespace) -> int:
    """Write the library."""
    from npu_model.printable import printable
    from npu_testbed.firmware.serve import host_files
    from npu_testbed.pipeline import write_files

    files = {arguments.output / name: content for name, content in host_files().items()}
    write_files(files)
    for path, content in files.items():
        print(f"{printable(str(path))}: {len(content):,} bytes")
    return 0


def serve(arguments: argparse.Namespace) -> int:
    """Serve until the other side goes."""
    from npu_testbed.configs import load_timing_adapter
    from npu_testbed.firmware.serve import serve as serve_device
    from npu_testbed.timing import load_timing

    serve_device(arguments.accelerator_config, load_timing_adapter(arguments.timing_adapter), load_timing(arguments.timing))
    return 0
