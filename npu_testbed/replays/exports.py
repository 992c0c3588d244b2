"""Export of a schedule or a compiled network in one of the formats, as files by name; writing them is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from msgspec import Struct

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_model.command_stream import COP_FORMATS
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.outer_arena import is_scheduled_in_fast_scratch
from npu_model.program.alignment import ALIGNMENT
from npu_model.tflite.identifiers import is_tosa
from npu_testbed.replays.fast_scratch import in_fast_scratch, require_outer

with later():
    from cascader.tensorir import c_source  # the other formats have no use for TVM
    from npu_model import export as formats  # one of the formats is asked for
    from npu_testbed.replays import streaming  # few inputs arrive row by row


def _tflite(network: CompiledNetwork, name: str, model: bytes | None, cop_format: str) -> dict[str, bytes]:
    original = None if model is None or is_tosa(model) else model
    return {f"{name}.tflite": formats.export_tflite(network, original, cop_format)}


def _raw(network: CompiledNetwork, name: str, _model: bytes | None, cop_format: str) -> dict[str, bytes]:
    return {f"{name}.npz": formats.export_raw(network, cop_format)}


def _c(network: CompiledNetwork, name: str, _model: bytes | None, _cop_format: str) -> dict[str, bytes]:
    return {file: text.encode("ascii") for file, text in formats.export_c(network, formats.c_identifier(name)).items()}


def _mlf(network: CompiledNetwork, name: str, _model: bytes | None, _cop_format: str) -> dict[str, bytes]:
    return {f"{name}.tar": formats.export_mlf(network, formats.c_identifier(name))}


_FORMATS: dict[str, Callable[[CompiledNetwork, str, bytes | None, str], dict[str, bytes]]] = {
    "tflite": _tflite,
    "c": _c,
    "mlf": _mlf,
    "raw": _raw,
}

FORMATS = tuple(_FORMATS)
"""Names of the formats for the NPU, the default first."""


class ExportTerms(Struct, frozen=True):
    """Terms of an export.

    ``cop_format`` is the format of the driver payloads: COP1, which Arm's core driver takes, or COP2 in formats tflite and raw.
    ``fast_scratch`` makes the arena region 2 and tensors outside it region 1, as runtimes of the memory mode Dedicated_Sram expect. None
    means True for format tflite and a schedule for such a memory mode. ``stream`` names an input that arrives row by row, in a ring with
    the fewest rows that the jobs need. NAME=CYCLES_PER_ROW makes the ring large enough for a source of that pace that never waits. The C
    sources of a schedule then have a job for every few rows. Each job lists the rows that it waits for and the rows that it frees.
    ``outer_alignment`` is the alignment in bytes of each tensor outside a fast scratch.
    """

    cop_format: str = COP_FORMATS[0]
    fast_scratch: bool | None = None
    stream: str = ""
    outer_alignment: int = ALIGNMENT


USUAL = ExportTerms()

TIR_C = "tir-c"
"""A schedule's network as C for any processor instead of the NPU, by TVM."""


def _check_model(schedule: Schedule, model: bytes) -> None:
    recorded, given = schedule.provenance.model_sha256, sha256(model).hexdigest()
    if recorded and recorded != given:
        raise InputError(
            f"The schedule was made from {schedule.provenance.model!r} with SHA-256 {recorded[:16]}... but the model given has "
            f"{given[:16]}...: give that model, or make the schedule again."
        )


def is_made_for_fast_scratch(source: Schedule | CompiledNetwork) -> bool:
    """Whether a schedule was made for a memory mode that separates a fast scratch from the arena (Dedicated_Sram)."""
    return isinstance(source, Schedule) and is_scheduled_in_fast_scratch(source.provenance.memory_system)


def _check_asked(source: Schedule | CompiledNetwork, file_format: str, options: ExportTerms) -> None:
    """InputError if the format is unknown, or does not allow an option."""
    cop_format, stream = options.cop_format, options.stream
    if file_format not in (*FORMATS, TIR_C):
        raise InputError(f"Export format {file_format!r} is unknown: choose {', '.join((*FORMATS, TIR_C))}.")
    if cop_format != COP_FORMATS[0] and file_format not in ("tflite", "raw"):
        raise InputError(
            f"--cop-format {cop_format} applies to formats tflite and raw: the core driver reads the sources of {file_format}; drop it."
        )
    if options.fast_scratch and file_format != "tflite":
        raise InputError(f"--fast-scratch is of format tflite alone, whose operator names one, and not of {file_format}: drop one of them.")
    if stream and (file_format != "c" or not isinstance(source, Schedule)):
        raise InputError(f"--stream {stream} applies to schedules in format c, whose jobs the firmware starts one by one: give --format c.")


def export(
    source: Schedule | CompiledNetwork,
    file_format: str = "tflite",
    *,
    name: str = "network",
    model: bytes | None = None,
    options: ExportTerms = USUAL,
) -> dict[str, bytes]:
    """The files of ``source`` in a format of ``FORMATS`` or ``TIR_C``, from file name to content; the same input gives the same bytes.

    ``name`` is the stem of the file names, and after :func:`c_identifier` the prefix of names in C. ``model`` is the original .tflite file.
    Format tflite needs it if the network has CPU operators, because a schedule does not hold their options and constants. With it, the file
    keeps the model's metadata and signatures.

    InputError if the format is unknown, the model is not the schedule's, or the network cannot be exported.
    """
    _check_asked(source, file_format, options)
    fast_scratch, stream = options.fast_scratch, options.stream
    if fast_scratch is None:
        fast_scratch = file_format == "tflite" and is_made_for_fast_scratch(source)
    if isinstance(source, Schedule):
        if model is not None:
            _check_model(source, model)
        if file_format == TIR_C:
            return c_source.schedule_c(source, formats.c_identifier(name))
        if stream:
            cut = streaming.cut_in_pace(source, stream)
            rows = formats.StreamedRows(cut.until, cut.freed, cut.ring)
            return {file: text.encode("ascii") for file, text in formats.export_c(cut.network, formats.c_identifier(name), rows).items()}
        if fast_scratch:
            require_outer(source)
        source = lower(source)
    if fast_scratch:
        source = in_fast_scratch(source, options.outer_alignment)
    if file_format == TIR_C:
        raise InputError(f"Format {TIR_C} was asked for of a compiled network: it needs a schedule file; make one with `schedule`.")
    return _FORMATS[file_format](source, name, model, options.cop_format)
