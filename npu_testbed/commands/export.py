"""``npu-testbed export``: a schedule as files that stock Ethos-U software takes."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.option import Option

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.export import ExportOutcome


class ExportOptions(Ask["ExportOutcome"], frozen=True, kw_only=True):
    """The options of ``export``."""

    format: Annotated[Literal["tflite", "c", "mlf", "raw", "tir-c"], Option("what to write (default: tflite)")] = "tflite"
    model: Annotated[
        kinds.PathText | None,
        Option("the network that it was made from; needed for operators on the CPU, and keeps its metadata (tflite)", "MODEL"),
    ] = None
    input_shape: kinds.InputShapes = ()
    layout: kinds.Layouts = ()
    sizes: kinds.Sizes = None
    cop_format: Annotated[
        Literal["COP1", "COP2"],
        Option("form of the driver payload: COP2 is Vela's other form, which the core driver of November 2025 refuses (default: COP1)"),
    ] = "COP1"
    fast_scratch: Annotated[
        bool,
        Option(
            "for runtimes of the memory mode Dedicated_Sram: write the arena as the fast scratch, and the tensors outside it as the arena "
            "(default: for a schedule of that mode, in format tflite)"
        ),
    ] = False
    no_fast_scratch: Annotated[
        bool, Option("write the arena as region 1 in any memory mode: for firmware that keeps region 1 in the fast memory")
    ] = False
    stream: Annotated[
        str | None,
        Option(
            'cut a schedule into jobs that each wait for rows of this input ("input": the only one). The rows arrive one by one in a '
            "ring of few rows. The source waits for room in it; with CYCLES_PER_ROW it never waits, as the ring is large enough (format c)",
            "NAME[=CYCLES_PER_ROW]",
        ),
    ] = None


class Export(ExportOptions, frozen=True):
    """Write a schedule file or a compiled *_vela.tflite for stock Ethos-U software.

    The formats are a .tflite for TFLite Micro and the Linux driver, C sources, an archive in TVM's Model Library Format, and the raw .npz
    that Vela writes for ExecuTorch. Format tir-c writes the cascaded network as C for any processor instead of the NPU (extra
    'tensorir').
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed export mobilenet_v1.json -o mobilenet_v1_npu.tflite",
        "npu-testbed export mobilenet_v1.json --format c -o mobilenet_v1.c",
    )

    file: Annotated[kinds.Source, Option("a schedule file or a *_vela.tflite", "FILE", source=True)]
    output: Annotated[
        kinds.PathText,
        Option("file to write; the C formats write the header beside it", "OUTPUT", named=("-o",), needed=True, writes="file"),
    ]

    def answer(self, show: "Progress") -> "ExportOutcome":
        """Write the files."""
        from npu_model.compiled.layouts import layout_sentences
        from npu_model.compiled.lost_inputs import lost_inputs
        from npu_testbed.asked.outputs import require_outputs
        from npu_testbed.asked.request import shaped_model
        from npu_testbed.ground.endings import say
        from npu_testbed.outcomes.export import ExportOutcome
        from npu_testbed.replays.exports import ExportTerms
        from npu_testbed.replays.program_files import export_files, read_network, write_files
        from npu_testbed.runtimes.runtime_use import of_file
        from npu_testbed.runtimes.runtime_words import homes_warning
        from npu_testbed.runtimes.sizes import sizes_file

        if self.fast_scratch and self.no_fast_scratch:
            raise InputError("--fast-scratch cannot be combined with --no-fast-scratch: choose one.")
        file, model = str(self.file), shaped_model(self, self.model)
        output, sources = str(self.output), (file,) if model is None else (file, model)
        require_outputs(self, *sources)
        show(f"Reading {file}")
        read = read_network(file)
        files = export_files(
            read,
            output,
            self.format,
            model=model,
            options=ExportTerms(self.cop_format, True if self.fast_scratch else False if self.no_fast_scratch else None, self.stream or ""),
            progress=show,
            note=lambda sentence: say("note", sentence),
        )
        runtimes = of_file(read.network, read.plan)
        if self.format == "tflite" and (warning := homes_warning(runtimes[0], runtimes[-1].cycles)):
            say("note", warning)
        if self.sizes is not None:
            files[Path(self.sizes)] = sizes_file(runtimes, self.sizes, Path(output).stem)
        write_files(files, *sources)
        layouts = layout_sentences(read.network.nhwc, read.network.inputs, read.network.outputs)
        return ExportOutcome(file, self.format, files, runtimes, lost_inputs(read.network), layouts)
