"""The network in a compiled file or a schedule: shown as text, or exported to another format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_model.compiled.containers import holds_payloads, is_delegate, unpacked
from npu_model.compiled.deployed import read_deployed
from npu_model.compiled.executorch import read_executorch
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.printable import printable
from npu_model.program.text import to_text
from npu_model.tflite.identifiers import is_tflite
from npu_testbed.ground.files import require_writable
from npu_testbed.ground.files import write_files as write_whole
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.cpu_reasons import with_reasons
from npu_testbed.models.deployed_names import say_streams
from npu_testbed.models.sources import as_recorded, load_model
from npu_testbed.replays.scheduling import read_schedule
from validation.reading import read_file

with later():
    from cascader.frontends.vela import remedies  # Vela's front end is imported only if it is needed.
    from npu_testbed.replays import exports  # to show a file needs no writers
    from npu_testbed.replays import fast_scratch as scratch

_LINE = 2000
"""Characters in the line of a CPU operator."""


class ReadFile(Struct, frozen=True):
    """The network in a file, and the schedule if the file is one; the inputs and outputs of a ``delegate`` have no names.

    A ``deployed`` network is driver payloads in C or in a raw file.
    """

    network: CompiledNetwork
    plan: Schedule | None = None
    delegate: bool = False
    deployed: bool = False


def read_network(path: str | Path) -> ReadFile:
    """The network of a ``*_vela.tflite``, a ``.pte`` or a schedule file. The content tells which it is."""
    data = unpacked(read_file(path, "File"))
    if is_delegate(data):
        return ReadFile(read_executorch(data), delegate=True)
    if is_tflite(data):
        return ReadFile(read_compiled(data))
    if holds_payloads(data):
        network = read_deployed(data)
        say_streams(path, data)
        return ReadFile(network, deployed=True)
    if data.lstrip()[:1] != b"{":
        raise InputError(
            f"File {str(path)!r} is neither a compiled network nor a schedule: give a *_vela.tflite, a .pte, a C source with a driver "
            "payload, a raw .npz or a schedule file."
        )
    plan = read_schedule(path)
    return ReadFile(lower(plan), plan)


def inspect(path: str | Path) -> str:
    """The text form of every Program in a ``*_vela.tflite``, a ``.pte`` or a schedule file, in order.

    Each CPU operator has a line with the reason: a schedule records it, and Vela gives it for a compiled file.
    """
    read = read_network(path)
    network = read.network if read.plan is not None else with_reasons(read.network, unpacked(read_file(path, "File")))

    def line(step: CpuOperator) -> str:
        outputs = "".join(f" {binding.name!r}" for binding in step.outputs[:1])
        return printable(f"cpu {step.code}{outputs}{f': {remedies.explained(step.code, step.reason)}' if step.reason else ''}", _LINE)

    return "\n".join(f"{line(step)}\n" if isinstance(step, CpuOperator) else to_text(step) for step in network.steps)


def export_files(  # noqa: PLR0913  # what is exported and how, and who is told of it
    path: str | Path | ReadFile,
    output: str | Path,
    file_format: str = "tflite",
    *,
    model: str | None = None,
    options: exports.ExportTerms | None = None,
    progress: Progress = silent,
    note: Callable[[str], None] = lambda _: None,
) -> dict[Path, bytes]:
    """A schedule or a ``*_vela.tflite`` in a format of :data:`npu_testbed.replays.exports.FORMATS`, as files by path.

    ``options`` are as in :func:`npu_testbed.replays.exports.export`. One of the files is ``output``; the others are named after it.
    ``note`` receives a sentence if the file's cycles may differ from the schedule's. InputError if the output's name does not suit the
    format, if ``model`` is needed and missing, or if the network cannot be exported.
    """
    if model is not None and file_format != "tflite":
        raise InputError(f"--model {model} has no use for format {file_format}, which holds nothing of it: leave it out.")
    if not isinstance(path, ReadFile):
        progress(f"Reading {path}")
    read = path if isinstance(path, ReadFile) else read_network(path)
    original = None if model is None else load_model(as_recorded(model, read.network.nhwc)).data
    target = Path(output)
    progress(f"Encoding {target.name}")
    options = options or exports.USUAL
    files = exports.export(read.plan or read.network, file_format, name=target.stem, model=original, options=options)
    if target.name not in files:
        raise InputError(
            f"Format {file_format} writes {' and '.join(files)}, not {target.name!r}: give -o {target.with_name(list(files)[-1])}."
        )
    fast_scratch = options.fast_scratch
    asked = read.plan is not None and (fast_scratch or exports.is_made_for_fast_scratch(read.plan))
    if asked and file_format != exports.TIR_C:
        said = scratch.scratch_note(read.network, fast_scratch=fast_scratch is not False and file_format == "tflite")
        if said:
            note(said)
    return {target.with_name(name): data for name, data in files.items()}


def write_files(files: dict[Path, bytes], *sources: object) -> None:
    """Write all files or none; InputError if one of them cannot be written or would overwrite one of ``sources``."""
    for path in files:
        require_writable(path, *sources)
    write_whole(files)
