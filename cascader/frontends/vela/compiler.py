"""Runs Vela. Only this module starts the compiler, in a process of its own, and reads its results from the folder that it wrote.

Vela's native core can crash or hang on a damaged model. Then this process raises one InputError and lives on.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cascader.frontends.children import GUARD, LIMITS, nothing, run_child
from cascader.frontends.folders import own_folder
from cascader.frontends.vela import direct
from cascader.frontends.vela.compiler_options import DEFAULT_OPTIONS, CompilerOptions
from cascader.frontends.vela.direct import DirectCall, direct_call
from cascader.frontends.vela.installed import installed_version
from cascader.frontends.vela.result import CORES, NOTHING_KNOWN, Known, VelaResult, VelaSummary
from cascader.frontends.vela_timeout import time_limit
from npu_model.errors import InputError, UnfinishedError
from npu_model.front import later
from npu_model.printable import printable
from npu_model.tflite.identifiers import is_tosa

with later():
    # The modules that read a model take longer to import than Vela takes to start. They are imported while Vela runs.
    from cascader.frontends.vela import debug_database, model_changes, remedies
    from npu_model.compiled import network as networks
    from npu_model.tflite import model as models
    from npu_model.tflite import record_reader

if TYPE_CHECKING:
    from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor

COMPILED = "out/network_vela.tflite"
"""Location of the compiled network in the folder of a compilation."""

_KIB = 1024

_OFFSETS = b"OfflineMemoryAllocation"
"""Name of the metadata with arena offsets. A model seldom has it before Vela has compiled it."""

_TRACEBACK = "Traceback (most recent call last)"
_MISTAKE = (
    r"(Type|Attribute|Key|Index|Name|Value|ZeroDivision|Overflow|Recursion|NotImplemented|Assertion|UnboundLocal|Unicode\w*)Error|"
    "StopIteration"
)
"""Kinds of exceptions that mean a mistake in a program, as the last line of Python's traceback begins with them."""


class VelaFailedError(InputError):
    """Vela ended with a status other than 0."""


def failure(status: int, said: str) -> VelaFailedError:
    """The error for a Vela run that ended with a status other than 0 after it printed ``said``: its last error line, or the signal."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    last = (errors or lines or [f"exit status {status}"])[-1]
    kind, _, text = last.partition(": ")
    if status > 0 and re.fullmatch(_MISTAKE, kind) and _TRACEBACK in said:
        # Python's message on a mistake in Vela's code does not help a user; the message of an assertion in Vela may.
        last = text if kind in ("AssertionError", "ValueError") and text else "internal error"
    reason = f"crashed with signal {-status}" if status < 0 else f"says {last[:300]!r}"
    return VelaFailedError(f"Vela cannot compile the network, it {reason}: check the model and the configuration names.")


def _summary(folder: Path) -> VelaSummary:
    files = sorted(folder.glob("*_summary_*.csv"))
    if not files:
        raise InputError("Vela wrote no summary of the compilation: check the model.")
    with files[0].open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    # The CSV gives memory in KiB as a decimal fraction, which is exact: bytes are its multiple of 1/1024.
    return VelaSummary(
        sram_memory_used=round(float(row["sram_memory_used"]) * _KIB),
        cycles_total=round(float(row["cycles_total"])),
    )


def read_result(
    folder: Path, model: TfliteModel, version: str, core: str, said: str = "", cpu_operators: tuple[str, ...] = ()
) -> VelaResult:
    """The result of a compilation of ``model`` in ``folder``, for which Vela printed ``said``.

    InputError if there is no result, or if nothing runs on the NPU: then it names the operators and Vela's reasons.
    """
    output = folder / COMPILED
    if not output.is_file():
        raise InputError("Vela wrote no compiled network: it found nothing that the NPU can run; use quantised operators that it supports.")
    compiled = output.read_bytes()
    summary = _summary(folder / "out")
    database = folder / "out" / "network_debug.xml"
    raw = database.read_text(encoding="utf-8", errors="replace") if database.is_file() else ""
    text = debug_database.with_quoted_names(raw, model)
    if not networks.is_compiled(models.read_tflite(compiled)):
        raise InputError(remedies.nothing_left(model, said, cpu_operators))
    return VelaResult(compiled, debug_database.layer_names(text, model), summary, version, text, core, said, cpu_operators)


MEMORY_BYTES = 4 << 30
"""Limit on the compiler's address space, where the system can set one. Those networks take less than 1 GiB."""

_LAUNCH = f"""{GUARD}
import os, runpy, sys
end_with_parent(os.getcwd())
{LIMITS}
runpy.run_module("ethosu.vela", run_name="__main__", alter_sys=True)
"""
"""Program text of the child that runs Vela's command line."""

_FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16")


def vela_version() -> str:
    """Version of the installed Vela; InputError if Vela is not installed."""
    version = installed_version()
    if version is None:
        raise InputError("Vela is not installed: pip install 'ethos-u-vela>=5.2,<6'.")
    return version


def read_model(model: bytes) -> TfliteModel:
    """The model, if Vela can take it; InputError otherwise."""
    parsed = models.model_of(model)
    if is_tosa(model):
        return parsed  # only Vela knows what is in it
    if networks.is_compiled(parsed):
        raise InputError("The .tflite file is compiled for an Ethos-U already: give the network that it was compiled from.")
    if not parsed.operators:
        raise InputError("The .tflite file has 0 operators: a network of 1 or more is needed.")
    require_known_shapes(parsed, parsed.inputs)
    for index in sorted({index for operator in parsed.operators for index in operator.inputs + operator.outputs if index >= 0}):
        _require_readable(parsed.tensors[index])
    _require_options(model, parsed)
    floats = [_float_operand(parsed, operator) for operator in parsed.operators]
    if None not in floats and floats[0] is not None:
        raise InputError(
            f"Tensor {floats[0].name!r} has type {floats[0].dtype}: the NPU works on INT8, UINT8 and INT16; "
            f"quantise the network, of which all {len(floats)} operators compute with floats."
        )
    return parsed


def for_vela(model: bytes) -> bytes:
    """The model without metadata that Vela would take for its own."""
    return model_changes.without_own_offsets(model) if _OFFSETS in model and not is_tosa(model) else model


def require_known_shapes(model: TfliteModel, tensors: Sequence[int]) -> None:
    """InputError if one of these tensors has an unknown extent on another axis than the first.

    An unknown first axis, the batch, becomes 1.
    """
    for index in tensors:
        tensor = model.tensors[index]
        signature = tensor.shape_signature or tensor.shape
        unknown = [axis for axis, extent in enumerate(signature) if extent < 1 and axis]
        if not unknown:
            continue
        first = model.tensors[model.inputs[0]] if index not in model.inputs and model.inputs else tensor
        known = [extent if extent > 0 else _GUESS[axis > 0] for axis, extent in enumerate(first.shape_signature or first.shape)]
        axes = f"ax{'es' if len(unknown) > 1 else 'is'} {' and '.join(map(str, unknown))}"
        raise InputError(
            f"Tensor {printable(tensor.name)!r} has no known extent on {axes} ({', '.join(map(str, signature))}), and only the first "
            f"axis, the batch, may be unknown: fix it with --input-shape '{printable(first.name)}={','.join(map(str, known))}', say."
        )


_GUESS = (1, 224)
"""Extents of an example: the batch, and all other axes."""


MAX_ELEMENTS = (1 << 31) - 1
"""Limit of a tensor's elements: Vela holds the distance of two of them in 32 bits with a sign."""

_QUANTISED = ("INT8", "UINT8", "INT16")


_ITEM_BYTES = {"INT8": 1, "UINT8": 1, "BOOL": 1, "INT16": 2, "UINT16": 2, "FLOAT16": 2, "INT32": 4, "UINT32": 4, "FLOAT32": 4, "INT64": 8}


def _require_readable(tensor: TfliteTensor) -> None:
    """InputError for a tensor that makes Vela crash or read past its end, and for a scale of no real values."""
    name, elements = printable(tensor.name, 60), math.prod(tensor.shape)
    if len(tensor.name) > models.MAX_TENSOR_NAME:
        raise InputError(
            f"Tensor {name!r} has a name of {len(tensor.name):,} characters: {models.MAX_TENSOR_NAME:,} is the most; rename it."
        )
    if elements > MAX_ELEMENTS:
        raise InputError(f"Tensor {name!r} has {elements:,} elements: {MAX_ELEMENTS:,} is the most; shrink the input (--input-shape).")
    if tensor.dtype == "INT4":
        raise InputError(f"Tensor {name!r} has type INT4, which Vela cannot read: convert the network with weights of 8 bits (INT8).")
    needed = elements * _ITEM_BYTES.get(tensor.dtype, 0)
    if tensor.data and len(tensor.data) < needed:
        raise InputError(
            f"Tensor {name!r} has {len(tensor.data):,} bytes of data, but {elements:,} elements of {tensor.dtype} need {needed:,}: "
            "the file is damaged or the tensor is sparse; get a fresh copy, or make the tensor dense."
        )
    wrong = [scale for scale in tensor.scales if not (math.isfinite(scale) and scale >= 0)]
    if wrong and tensor.dtype in _QUANTISED:
        raise InputError(f"Tensor {name!r} has the scale {wrong[0]}: it must be finite and above 0; quantise the network again.")


_WINDOWED = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "MAX_POOL_2D", "AVERAGE_POOL_2D")

_EXTENTS = {
    "StrideH": "stride_h",
    "StrideW": "stride_w",
    "DilationHFactor": "dilation_h_factor",
    "DilationWFactor": "dilation_w_factor",
    "FilterHeight": "filter_height",
    "FilterWidth": "filter_width",
}
"""Fields of the options of operators with a window, with their names in TFLite's schema."""


_NEEDS_OPTIONS = (
    *(*_WINDOWED, "CONCATENATION", "FULLY_CONNECTED", "PACK", "RESIZE_BILINEAR"),
    *("RESIZE_NEAREST_NEIGHBOR", "SOFTMAX", "SPLIT", "SPLIT_V", "UNPACK"),
)
"""Operators without options at which Vela 5.2's C++ core crashes or ends with an error, as a run for each operator showed."""

MAX_WINDOW = 65_536
"""Limit of a window's extent, stride and dilation where the input is shorter: the NPU's tensors have as many rows and columns at most.

Vela multiplies such numbers in 32 bits: from 2^30 on it then runs for minutes, or emits operations that read no element.
"""


def _require_options(model: bytes, parsed: TfliteModel) -> None:
    """InputError for an operator without options that Vela reads, or with a window of no or of too many elements."""
    needing = [index for index, operator in enumerate(parsed.operators) if operator.code in _NEEDS_OPTIONS]
    if not needing:
        return
    reader = record_reader.RecordReader(model)
    for index in needing:
        operator, fields = parsed.operators[index], dict(reader.operator(index).fields)
        layer = f"{operator.code} {' '.join(repr(printable(parsed.tensors[output].name, 60)) for output in operator.outputs[:1])}"
        if not fields:
            raise InputError(f"{layer} has no options, which Vela needs: convert the network again.")
        if operator.code not in _WINDOWED:
            continue
        most = max([MAX_WINDOW, *(extent for operand in operator.inputs if operand >= 0 for extent in parsed.tensors[operand].shape)])
        extents = [(name, value) for field, name in _EXTENTS.items() if isinstance(value := fields.get(field), int)]
        for name, value in extents:
            if not 1 <= value <= most:
                bound = f"{most:,} is the most" if value > most else "1 is the least"
                raise InputError(f"{layer} has the {name} {value:,}: {bound}; convert the network again.")


def _float_operand(model: TfliteModel, operator: TfliteOperator) -> TfliteTensor | None:
    """The first floating-point operand or result of an operator that is not a constant.

    Such a tensor keeps the operator on the CPU; None if there is none.
    """
    tensors = (model.tensors[index] for index in operator.inputs + operator.outputs if index >= 0)
    return next((tensor for tensor in tensors if tensor.dtype in _FLOATS and not tensor.data), None)


def unfinished(timeout: float) -> UnfinishedError:
    """The error for a Vela run that was ended after ``timeout`` seconds."""
    return UnfinishedError(f"Vela did not finish within {timeout:g} s: give it longer (--vela-timeout), or get a fresh copy.")


def child(
    words: Sequence[str], folder: Path, timeout: float, meanwhile: Callable[[], object] = nothing, runs: int = 1
) -> subprocess.CompletedProcess[str]:
    """Run a program of Vela's that compiles ``runs`` times; UnfinishedError if it does not start or does not end in time."""
    try:
        return run_child(words, folder=folder, timeout=timeout * runs, meanwhile=meanwhile)
    except subprocess.TimeoutExpired:
        raise unfinished(timeout) from None
    except OSError as error:
        raise UnfinishedError(f"Vela cannot be started ({error.strerror}): check the Python installation and the free memory.") from None


def limits_of(timeout: float) -> list[str]:
    """The arguments of a child that limit its bytes and seconds."""
    return [str(MEMORY_BYTES), str(2 * math.ceil(timeout))]


def write_terms(folder: Path, call: DirectCall) -> None:
    """Write the files that a direct call reads in ``folder``."""
    for name, text in call.files.items():
        (folder / name).write_text(text, encoding="utf-8")


def said_in(folder: Path) -> str:
    """The words that Vela's core printed in a direct call in ``folder``."""
    return (folder / direct.SAID).read_text(encoding="utf-8", errors="replace")


def _run(
    arguments: Sequence[str], network: str, call: DirectCall | None, folder: Path, timeout: float, meanwhile: Callable[[], object]
) -> str:
    """Compile the file ``network`` in ``folder`` and return what Vela prints.

    Vela's core is called directly, or by its command line if no direct call exists or it fails.
    """
    limits = limits_of(timeout)
    if call is not None:
        write_terms(folder, call)
        process = child(direct.command({".": call}, limits), folder, timeout, meanwhile)
        if process.returncode == 0 and (folder / COMPILED).is_file():
            return said_in(folder)
        shutil.rmtree(folder / "out", ignore_errors=True)
    command = [sys.executable, "-c", _LAUNCH, *limits, network, "--output-dir", "out", *arguments]
    process = child(command, folder, timeout, meanwhile if call is None else nothing)
    if process.returncode != 0:
        raise failure(process.returncode, process.stderr + process.stdout)
    return process.stdout


def compile_network(
    model: bytes,
    options: CompilerOptions = DEFAULT_OPTIONS,
    *,
    timeout: float | None = None,
    meanwhile: Callable[[], object] = nothing,
    known: Known = NOTHING_KNOWN,
) -> VelaResult:
    """Compile a .tflite or TOSA ``model`` with Vela's command line, or with a direct call of its core.

    ``timeout`` is in seconds; None takes the value of :data:`TIMEOUT_VARIABLE`, or else :data:`TIMEOUT_SECONDS`. ``meanwhile`` is called
    once Vela runs and the model was found fit for Vela. Compilations in ``known`` are not repeated.

    Raises InputError if the model is damaged, floating-point or compiled already, a name is unknown, or Vela fails, crashes, hangs or
    places no operator on the NPU.
    """
    found = known.get(options)
    if found is not None:
        meanwhile()
        if isinstance(found, UnfinishedError):
            raise found
        return found
    parsed: TfliteModel | None = None

    def read() -> None:
        nonlocal parsed
        parsed = read_model(model)
        meanwhile()

    version, tosa = vela_version(), is_tosa(model)
    model = for_vela(model)
    if options.legacy and tosa:
        raise InputError(f"Vela's {CORES[1]} core reads no TOSA: leave --debug-force-legacy-core out.")
    words, call = options.words(), None if tosa else direct_call(options)
    network = "network.tosa" if tosa else "network.tflite"  # by the name Vela tells what it is
    with own_folder() as folder:
        (folder / network).write_bytes(model)
        said = _run(words, network, call, folder, time_limit() if timeout is None else timeout, read)
        assert parsed is not None  # noqa: S101  # it was read while Vela ran
        return read_result(folder, parsed, version, CORES[options.legacy], said, options.cpu_operators)


def reasons_text(model: bytes, options: CompilerOptions = DEFAULT_OPTIONS) -> str:
    """All that Vela prints while it compiles a .tflite ``model``, even if nothing is left for the NPU.

    InputError if Vela fails.
    """
    with own_folder() as folder:
        (folder / "network.tflite").write_bytes(model)
        return _run(options.words(), "network.tflite", direct_call(options), folder, time_limit(), nothing)
