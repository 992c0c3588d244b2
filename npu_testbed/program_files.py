"""Work on the Programs of a file: show them, export them, run them beside their references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.job.schedule import Schedule
from npu_model.compiled.containers import is_delegate, unpacked
from npu_model.compiled.driver_checks import DriverCheck, file_checks, payload_checks, require_driver
from npu_model.compiled.executorch import RUNTIME, executorch_payloads, read_executorch
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.export.regions import cpu_codes
from npu_model.export.tflite_file import payload_of
from npu_model.front import later
from npu_model.printable import printable
from npu_model.program.text import to_text
from npu_model.tflite.identifiers import is_tflite, is_tosa
from npu_testbed.cpu_reasons import with_reasons
from npu_testbed.files import require_writable
from npu_testbed.files import write_files as write_whole
from npu_testbed.models import BUILT, Model, load_model
from npu_testbed.progress import Progress, silent
from npu_testbed.scheduling import read_schedule
from npu_testbed.te_models import TeModel, host_runs, is_te, load_te
from sim.hazards import network_hazards
from validation.reading import read_file

if TYPE_CHECKING:
    from cascader.frontends import vela
    from cascader.frontends.vela import remedies
    from npu_model.tflite import model as models
    from npu_testbed import exports, tensorir_proof, undefined
    from npu_testbed import first_difference as first_differences
    from npu_testbed import verification as verifications
    from npu_testbed.tensorir_proof import TensorirProof
    from npu_testbed.verification import Arrays, Once, Reference, Verification
    from validation.litert import cpu_kernels
    from validation.litert import judge as litert_judge
else:
    remedies = later("cascader.frontends.vela.remedies")  # the front of Vela is for those who ask it
    exports = later("npu_testbed.exports")  # a replay alone does not need the writers
    vela = later("cascader.frontends.vela")  # a replay alone does not need the compiler
    models = later("npu_model.tflite.model")  # the same
    first_differences = later("npu_testbed.first_difference")  # the same
    undefined = later("npu_testbed.undefined")  # the same
    verifications = later("npu_testbed.verification")  # nor the functional run
    cpu_kernels = later("validation.litert.cpu_kernels")  # the same
    litert_judge = later("validation.litert.judge")  # the same
    tensorir_proof = later("npu_testbed.tensorir_proof")  # only who asks for the proof pays for TVM


_LINE = 2000
"""Characters of the line of a CPU operator."""


class _Read(Struct, frozen=True):
    """The network in a file, and the schedule if the file is one; the inputs and outputs of a ``delegate`` have no names."""

    network: CompiledNetwork
    plan: Schedule | None = None
    delegate: bool = False


def _read_network(path: str | Path) -> _Read:
    """The network of a ``*_vela.tflite``, a ``.pte`` or a schedule file, told apart by content."""
    data = unpacked(read_file(path, "File"))
    if is_delegate(data):
        return _Read(read_executorch(data), delegate=True)
    if is_tflite(data):
        return _Read(read_compiled(data))
    if data.lstrip()[:1] != b"{":
        raise InputError(
            f"File {str(path)!r} is neither a compiled network nor a schedule: give a *_vela.tflite, a .pte or a schedule file."
        )
    plan = read_schedule(path)
    return _Read(lower(plan), plan)


def inspect(path: str | Path) -> str:
    """The text form of every Program in a ``*_vela.tflite``, a ``.pte`` or a schedule file, in order.

    Each CPU operator has a line, which says why it is there: as the schedule records it, or as Vela says of a compiled file's.
    """
    read = _read_network(path)
    network = read.network if read.plan is not None else with_reasons(read.network, unpacked(read_file(path, "File")))

    def line(step: CpuOperator) -> str:
        outputs = "".join(f" {binding.name!r}" for binding in step.outputs[:1])
        return printable(f"cpu {step.code}{outputs}{f': {remedies.explained(step.code, step.reason)}' if step.reason else ''}", _LINE)

    return "\n".join(f"{line(step)}\n" if isinstance(step, CpuOperator) else to_text(step) for step in network.steps)


def export_files(
    path: str | Path,
    output: str | Path,
    file_format: str = "tflite",
    *,
    model: str | None = None,
    cop_format: str = "COP1",
    fast_scratch: bool = False,
    stream: str = "",
    progress: Progress = silent,
) -> dict[Path, bytes]:
    """A schedule or a ``*_vela.tflite`` in a format of :data:`npu_testbed.exports.FORMATS`: what is to be written, by path.

    ``cop_format``, ``fast_scratch`` and ``stream`` are those of :func:`npu_testbed.exports.export`. One of the files is ``output``,
    whose name names the others. InputError if its name does not suit the format, the network needs ``model`` and has it not, or it
    cannot be exported.
    """
    if model is not None and file_format != "tflite":
        raise InputError(f"--model {model} has no use for format {file_format}, which holds nothing of it: leave it out.")
    progress(f"Reading {path}")
    read = _read_network(path)
    original = None if model is None else load_model(model).data
    target = Path(output)
    progress(f"Encoding {target.name}")
    files = exports.export(
        read.plan or read.network,
        file_format,
        name=target.stem,
        model=original,
        cop_format=cop_format,
        fast_scratch=fast_scratch,
        stream=stream,
    )
    if target.name not in files:
        raise InputError(
            f"Format {file_format} writes {' and '.join(files)}, not {target.name!r}: give -o {target.with_name(list(files)[-1])}."
        )
    return {target.with_name(name): data for name, data in files.items()}


def write_files(files: dict[Path, bytes], *sources: str | Path) -> None:
    """Write all files or none; InputError if one of them cannot be written or would overwrite one of ``sources``."""
    for path in files:
        require_writable(path, *sources)
    write_whole(files)


def verify(path: str | Path, model: str | None = None, *, inferences: int = 2, seed: int = 0, progress: Progress = silent) -> Verification:
    """Run a ``*_vela.tflite``, a ``.pte`` of one delegate or a schedule bit by bit on seeded inputs, beside its references.

    These are Vela's legalised stream of the original ``model`` (by default the one of the package's own that a schedule records), the
    same with its fully connected layers mended, if it has any, and LiteRT, where it is installed. LiteRT's kernels execute the
    CPU operators of all of them, one by one. The orders of its operations that the NPU may choose are checked too. InputError if the
    model is missing or another, or if LiteRT is not installed and an operator on the CPU is not a mere copy.
    """
    progress(f"Reading {path}")
    read = _read_network(path)
    network = read.network
    _require_driver(path, read)
    if model is not None and is_te(model):
        return _verify_te(read, model, Path(path).name, inferences, seed, progress)
    if RUNTIME in cpu_codes(network):
        raise InputError(f"{Path(path).name} has {len(network.programs)} delegates, made of one TOSA network each: verify one by one.")
    original = _original(read.plan, model, Path(path).name)
    tosa = is_tosa(original.data)
    if read.delegate and not tosa:
        raise InputError(f"{original.name} is no TOSA network: give the one that ExecuTorch compiled {Path(path).name} from.")
    cpu_kernels.require_kernels(network)
    progress(f"Compiling {original.name} with Vela as legaliser, and running {Path(path).name}")
    device, inputs = network.programs[0].accelerator, verifications.seeded_inputs(network, inferences, seed)
    with nullcontext() if tosa else closing(cpu_kernels.CpuKernels(original.data)) as kernels:
        ours = verifications.Once(lambda: verifications.functional_outputs(network, inputs, kernels))
        legalised = vela.legalised(original.data, device, meanwhile=ours.run)
        mended, expected = legalised.mended, legalised.stream
        _require_constants(network, expected, Path(path).name)
        # A delegate names nothing: its inputs and outputs are those of its TOSA network, in the same order.
        asked = verifications.renamed(inputs, network.inputs, expected.inputs) if read.delegate else inputs
        found = verifications.renamed(ours.outputs(), network.outputs, expected.outputs) if read.delegate else ours.outputs()
        progress(f"Running {original.name}")
        stream = verifications.Once(lambda: verifications.functional_outputs(expected, asked, kernels))
        references: list[Reference] = [(verifications.VELA_STREAM, lambda _: stream.outputs())]
        if mended.layers:
            references.append(
                (verifications.MENDED_STREAM, lambda inputs: verifications.functional_outputs(mended.network, inputs, kernels))
            )
        judged = _judged(original, inputs, stream)
        references += judged.references
        notes = [legalised.note, judged.note]
        counts = {} if tosa else undefined.counted_outputs(models.read_tflite(original.data))
        if counts:
            notes.append(f"Entries of {', '.join(counts)} behind the number in {', '.join(dict.fromkeys(counts.values()))} are undefined.")
        result = verifications.verification(
            Path(path).name,
            found,
            asked,
            references,
            seed,
            " ".join(filter(None, notes)),
            mended.layers,
            mended.unmended,
            network_hazards(network),
            counts,
        )
        reference = first_differences.differing_reference(result)
        if reference:
            progress("Looking for the first layer that differs")
            theirs = next(outputs(asked) for name, outputs in references if name == reference)
            runs = first_differences.Runs(network, expected, mended.network, inputs, asked, found, theirs, counts)
            result = replace(result, began=first_differences.first_difference(result, runs, original.data, kernels))
        return result


def _te_model(read: _Read, source: str, name: str) -> TeModel:
    """The graph that a schedule was made from; InputError if the file is no schedule, or another graph's."""
    model = load_te(source)
    if read.plan is None:
        raise InputError(f"{name} is no schedule, and {model.name} is a graph of Tensor Expressions: give the model that it was made from.")
    _require_recorded(read.plan, name, model.name, model.sha256)
    return model


def _verify_te(read: _Read, source: str, name: str, inferences: int, seed: int, progress: Progress) -> Verification:
    """A schedule of Tensor Expressions beside these, as TVM compiles them for the machine that this runs on."""
    model = _te_model(read, source, name)
    inputs = verifications.seeded_inputs(read.network, inferences, seed)
    progress(f"Running {name}")
    found = verifications.functional_outputs(read.network, inputs)
    progress(f"Compiling {model.name} with TVM, and running it")
    references: list[Reference] = [(verifications.HOST, lambda arrays: host_runs(model.graph, arrays))]
    return verifications.verification(name, found, inputs, references, seed, "", hazards=network_hazards(read.network))


class _Judged(Struct, frozen=True):
    """LiteRT among the references, if it could be asked, and what is to be said about it."""

    references: tuple[Reference, ...]
    note: str = ""


def _judged(original: Model, inputs: Sequence[Arrays], stream: Once) -> _Judged:
    """LiteRT's outputs of a model. Its process works while this one runs Vela's stream; a refusal does not make the answer worse."""
    if is_tosa(original.data):
        return _Judged((), f"{verifications.LITERT} read no TOSA.")
    if not litert_judge.litert_installed():
        return _Judged((), f"{verifications.LITERT} were not asked: install the extra 'numerics'.")
    try:
        judgement = litert_judge.judge(original.data, inputs, stream.run)
    except InputError as error:
        return _Judged(
            (), f"{str(error).removesuffix('check the model.').rstrip(': ')}: {verifications.VELA_STREAM} is all that was compared."
        )
    name = verifications.LITERT if judgement.is_reference else verifications.BUILT_IN
    return _Judged(((name, lambda _: judgement.outputs),), _built_in(judgement.built_in, is_reference=judgement.is_reference))


def _built_in(codes: tuple[str, ...], *, is_reference: bool) -> str:
    """The sentence that says which built-in kernels were asked; "" if none were."""
    if not is_reference:
        return "LiteRT lacks reference kernels of the model, whose operators cannot be executed one by one: its built-in ones were asked."
    if not codes:
        return ""
    return f"LiteRT lacks reference kernels of {', '.join(codes)}: of {'these' if len(codes) > 1 else 'it'} the built-in ones were asked."


def _require_driver(path: str | Path, read: _Read) -> None:
    """InputError, naming the check, if the core driver would refuse a file, or what a schedule is exported to."""
    if read.plan is not None:
        checks: Iterator[DriverCheck] = (check for program in read.network.programs for check in payload_checks(payload_of(program)))
    elif read.delegate:
        checks = (check for payload in executorch_payloads(unpacked(read_file(path, "File"))) for check in payload_checks(payload))
    else:
        checks = file_checks(unpacked(read_file(path, "File")))
    require_driver(checks, Path(path).name)


def _require_constants(network: CompiledNetwork, expected: CompiledNetwork, name: str) -> None:
    """InputError if an output that is a constant of the model is none of the network's."""
    known = {one.name for one in network.constant_outputs}
    for constant in expected.constant_outputs:
        if constant.name not in known:
            raise InputError(
                f"{name} has no output {constant.name!r}, which is a constant of the model: Vela 5.2's Python core loses such outputs; "
                "compile the model with `npu-testbed compile`, which keeps them."
            )


def prove(path: str | Path, model: str | None = None, *, inferences: int = 2, seed: int = 0, progress: Progress = silent) -> TensorirProof:
    """Compile a schedule's TensorIR and run it on seeded inputs: outputs, memory and work beside what LiteRT and the schedule say.

    ``model`` is by default the package's own that the schedule records. InputError if the file is no schedule, the extra ``tensorir``
    is not installed, or a kernel cannot be expressed.
    """
    progress(f"Reading {path}")
    plan = _read_network(path).plan
    if plan is None:
        raise InputError(f"{Path(path).name} is a compiled network: the proof in TensorIR needs a schedule file; make one with `schedule`.")
    if model is not None and is_te(model):
        graph = _te_model(_Read(lower(plan), plan), model, Path(path).name).graph
        judges = [(verifications.HOST, lambda arrays: host_runs(graph, arrays))]
        return tensorir_proof.prove_schedule(plan, judges, inferences=inferences, seed=seed, progress=progress)
    original = _original(plan, model, Path(path).name)
    return tensorir_proof.prove_schedule(
        plan, tensorir_proof.litert_judges(original.data), inferences=inferences, seed=seed, progress=progress
    )


def _original(plan: Schedule | None, model: str | None, name: str) -> Model:
    """The model that a file was made from; InputError if it is not known or not the recorded one."""
    source = model
    if source is None and plan is not None and plan.provenance.model.startswith(BUILT):
        source = plan.provenance.model
    if source is None:
        raise InputError(f"{name} does not hold the network that it was made from: give it with --model.")
    original = load_model(source)
    if plan is not None:
        _require_recorded(plan, name, original.name, original.sha256)
    return original


def _require_recorded(plan: Schedule, name: str, model: str, sha256: str) -> None:
    """InputError if a schedule was made from another model than that of this hash."""
    if plan.provenance.model_sha256 not in ("", sha256):
        raise InputError(
            f"{name} was made from {plan.provenance.model} with SHA-256 {plan.provenance.model_sha256[:12]}, but {model} has "
            f"{sha256[:12]}: give the model that it was made from, with the --input-shape that it was made with."
        )
