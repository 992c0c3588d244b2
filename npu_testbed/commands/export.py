"""``npu-testbed export``: a schedule as files that stock Ethos-U software takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from npu_testbed.commands.options import Parser, add_input_shape_option, add_json_option, example
from npu_testbed.commands.printing import Printed

if TYPE_CHECKING:
    from npu_testbed.outcomes import Outcome
    from npu_testbed.progress import Progress


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser: Parser = commands.add_parser(
        "export",
        help="write a schedule for stock Ethos-U software",
        description=(
            "Write a schedule file or a compiled *_vela.tflite as a .tflite for TFLite Micro and the Linux driver, as C sources, as an "
            "archive in TVM's Model Library Format, or as the raw .npz that Vela writes for ExecuTorch. Format tir-c writes the cascaded "
            "network as C for any processor instead of the NPU (extra 'tensorir')."
        ),
        epilog=example(
            "npu-testbed export mobilenet_v1.json -o mobilenet_v1_npu.tflite",
            "npu-testbed export mobilenet_v1.json --format c -o mobilenet_v1.c",
        ),
    )
    parser.add_argument("file", metavar="FILE", help="a schedule file or a *_vela.tflite")
    parser.add_argument("-o", "--output", metavar="OUTPUT", required=True, help="file to write; the C formats write the header beside it")
    parser.add_argument(
        "--format", choices=("tflite", "c", "mlf", "raw", "tir-c"), default="tflite", help="what to write (default: tflite)"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="the network that it was made from; needed for operators on the CPU, and keeps its metadata (tflite)",
    )
    parser.add_argument(
        "--cop-format",
        choices=("COP1", "COP2"),
        default="COP1",
        help="form of the driver payload: COP2 is Vela's other one, which the core driver of November 2025 refuses (default: COP1)",
    )
    add_input_shape_option(parser)
    scratch = parser.add_mutually_exclusive_group()
    scratch.add_argument(
        "--fast-scratch",
        action="store_const",
        const=True,
        help=(
            "write the arena as the fast scratch, and what lives outside it as the arena, for runtimes of the memory mode Dedicated_Sram "
            "(default: for a schedule of that mode, in format tflite)"
        ),
    )
    scratch.add_argument(
        "--no-fast-scratch",
        dest="fast_scratch",
        action="store_const",
        const=False,
        help="write the arena as region 1 in any memory mode: for firmware that keeps region 1 in the fast memory",
    )
    parser.add_argument(
        "--stream",
        metavar="NAME[=CYCLES_PER_ROW]",
        help=(
            'cut a schedule into jobs that each wait for rows of this input ("input": the only one), which arrive one by one in a ring of '
            "few rows; the source waits for room in it, or with CYCLES_PER_ROW never does (format c)"
        ),
    )
    add_json_option(parser)
    parser.set_defaults(run=Printed(answer))


def answer(arguments: argparse.Namespace, show: Progress) -> Outcome:
    """Write the files."""
    from npu_model.printable import printable
    from npu_testbed.documents.export import ExportDocument
    from npu_testbed.endings import say
    from npu_testbed.files import require_writable
    from npu_testbed.outcomes import PlainOutcome
    from npu_testbed.pipeline import export_files, write_files

    require_writable(arguments.output, *filter(None, (arguments.file, arguments.model)))
    files = export_files(
        arguments.file,
        arguments.output,
        arguments.format,
        model=arguments.model,
        cop_format=arguments.cop_format,
        fast_scratch=arguments.fast_scratch,
        stream=arguments.stream or "",
        progress=show,
        note=lambda sentence: say("note", sentence),
    )
    write_files(files, arguments.file, *filter(None, (arguments.model,)))
    sizes = {str(path): len(data) for path, data in files.items()}
    return PlainOutcome(
        "export",
        files,
        lambda: ExportDocument(arguments.file, arguments.format, sizes),
        lambda: "\n".join(f"{printable(path)}: {size:,} bytes" for path, size in sizes.items()),
    )
