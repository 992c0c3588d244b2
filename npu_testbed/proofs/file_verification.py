"""The network in a file, run bit by bit and compared with its references, and a schedule compiled by TVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.job.schedule import Schedule
from cascader.frontends.vela import legalised
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator_names
from npu_model.compiled.containers import unpacked
from npu_model.compiled.deployed import deployed_payloads
from npu_model.compiled.driver_checks import DriverCheck, file_checks, payload_checks, require_driver
from npu_model.compiled.executorch import RUNTIME, executorch_payloads
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.export.regions import cpu_codes
from npu_model.export.tflite_file import payload_of
from npu_model.front import later
from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import read_tflite
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.deployed_names import named_alike
from npu_testbed.models.sources import Model, as_recorded, load_model, recorded_source
from npu_testbed.models.te_models import TeModel, host_runs, is_te, load_te
from npu_testbed.models.undefined import PartlyDefined, counted_outputs, entries, other_inputs
from npu_testbed.proofs.first_difference import Runs, differing_reference, first_difference
from npu_testbed.proofs.given_inputs import inference_inputs
from npu_testbed.proofs.verification import (
    BUILT_IN,
    HOST,
    LITERT,
    MENDED_STREAM,
    VELA_STREAM,
    Arrays,
    Once,
    Reference,
    Verification,
    compared,
    functional_outputs,
    renamed,
)
from npu_testbed.replays.program_files import ReadFile, read_network
from sim.hazards import network_hazards
from validation.litert.cpu_kernels import CpuKernels, require_kernels
from validation.litert.judge import judge, litert_installed
from validation.reading import read_file

with later():
    from npu_testbed.proofs import tensorir_proof  # Only a user of the proof pays for TVM.

if TYPE_CHECKING:
    from npu_testbed.proofs.tensorir_proof import TensorirProof


def verify(
    path: str | Path,
    model: str | None = None,
    *,
    files: Sequence[str | Path] = (),
    inferences: int = 2,
    seed: int = 0,
    progress: Progress = silent,
) -> Verification:
    """Run a ``*_vela.tflite``, a ``.pte`` of one delegate or a schedule bit by bit, and compare it with its references.

    Each of ``files`` gives the inputs of one inference, as in :func:`npu_testbed.proofs.given_inputs.inference_inputs`; ``inferences`` more
    run on seeded inputs. The references are Vela's legalised stream of the original ``model``, the same stream with mended fully connected
    layers, if any, and LiteRT, if installed. The default ``model`` is the built-in one that a schedule records. LiteRT's kernels execute
    the CPU operators of all of them, one by one. Every order of operations that the NPU may choose is checked, too. InputError if the model
    is missing or wrong, or if LiteRT is not installed and a CPU operator is not a mere copy.
    """
    progress(f"Reading {path}")
    read = read_network(path)
    network = read.network
    _require_driver(path, read)
    if model is not None and is_te(model):
        inputs = inference_inputs(network, files, inferences, seed)
        return replace(_verify_te(read, model, Path(path).name, inputs, seed, progress), given=len(files))
    if RUNTIME in cpu_codes(network):
        raise InputError(f"{Path(path).name} has {len(network.programs)} delegates, made of one TOSA network each: verify one by one.")
    if read.deployed and model is None:
        said = "It does not hold the network that it was made from: give that with --model, and values are compared, too."
        return Verification(Path(path).name, 0, seed, (), said, hazards=network_hazards(network))
    original = _original(read, model, Path(path).name)
    if read.deployed:
        network = named_alike(network, legalised(original.data, _legaliser(network)).stream, Path(path).name)
    tosa = is_tosa(original.data)
    if read.delegate and not tosa:
        raise InputError(f"{original.name} is not a TOSA network: give the one that ExecuTorch compiled {Path(path).name} from.")
    require_kernels(network)
    progress(f"Compiling {original.name} with Vela as legaliser, and running {Path(path).name}")
    inputs = inference_inputs(network, files, inferences, seed)
    counts = {} if tosa else counted_outputs(read_tflite(original.data))
    with nullcontext() if tosa else closing(CpuKernels(original.data)) as kernels:
        if counts and kernels is not None:
            inputs = _detecting(network, inputs, counts, kernels, seed)
        ours = Once(lambda: functional_outputs(network, inputs, kernels))
        vela = legalised(original.data, _legaliser(network), meanwhile=ours.run)
        mended, expected = vela.mended, vela.stream
        _require_constants(network, expected, Path(path).name)
        # A delegate names nothing: its inputs and outputs are those of its TOSA network, in the same order.
        asked = renamed(inputs, network.inputs, expected.inputs) if read.delegate else inputs
        found = renamed(ours.outputs(), network.outputs, expected.outputs) if read.delegate else ours.outputs()
        progress(f"Running {original.name}")
        stream = Once(lambda: functional_outputs(expected, asked, kernels))
        references: list[Reference] = [(VELA_STREAM, lambda _: stream.outputs())]
        if mended.layers:
            references.append((MENDED_STREAM, lambda inputs: functional_outputs(mended.network, inputs, kernels)))
        judged = _judged(original, inputs, stream)
        references += judged.references
        notes = [vela.note, judged.note]
        if counts:
            told = ", ".join(dict.fromkeys(one.count for one in counts.values() if one.count))
            number = f"the number in {told}" if told else "a number that is no output (make it one)"
            notes.append(f"Entries of {', '.join(counts)} behind {number} are undefined.")
        result = Verification(
            model=Path(path).name,
            inferences=len(asked),
            given=len(files),
            seed=seed,
            comparisons=compared(found, asked, references, counts),
            skipped=" ".join(filter(None, notes)),
            fully_connected=mended.layers,
            unmended=mended.unmended,
            hazards=network_hazards(network),
        )
        reference = differing_reference(result)
        if reference:
            progress("Looking for the first layer that differs")
            theirs = next(outputs(asked) for name, outputs in references if name == reference)
            runs = Runs(network, expected, mended.network, inputs, asked, found, theirs, counts)
            result = replace(result, began=first_difference(result, runs, original.data, kernels))
        return result


def _legaliser(network: CompiledNetwork) -> str:
    """The NPU of the reference: the network's own, or the default one. The output bytes are the same."""
    device = network.programs[0].accelerator
    return device if device in accelerator_names() else DEFAULT_ACCELERATOR


def _detecting(
    network: CompiledNetwork, inputs: list[dict[str, NDArray[Any]]], counts: Mapping[str, PartlyDefined], kernels: CpuKernels, seed: int
) -> list[dict[str, NDArray[Any]]]:
    """The inputs, and more of them if they define less than half of a counted output: for each number, the input with the most entries."""
    groups = [{name: one for name, one in counts.items() if one.count == count} for count in {one.count: None for one in counts.values()}]
    before = functional_outputs(network, inputs, kernels)
    few = [one for one in groups if 2 * max(entries(outputs, one) for outputs in before) < sum(counted.most for counted in one.values())]
    others = list(other_inputs(network.inputs, seed)) if few else []
    after = functional_outputs(network, others, kernels)
    chosen = []
    for group in few:
        found = [entries(outputs, group) for outputs in after]
        if max(found) > max(entries(outputs, group) for outputs in before):
            chosen.append(found.index(max(found)))
    return [*inputs, *(others[number] for number in dict.fromkeys(chosen))]


def _te_model(read: ReadFile, source: str, name: str) -> TeModel:
    """The graph that a schedule was made from; InputError for another file, or for another graph's schedule."""
    model = load_te(source)
    if read.plan is None:
        raise InputError(
            f"{name} is not a schedule, and {model.name} is a graph of Tensor Expressions: give the model that it was made from."
        )
    _require_recorded(read.plan, name, model.name, model.sha256)
    return model


def _verify_te(read: ReadFile, source: str, name: str, inputs: Sequence[Arrays], seed: int, progress: Progress) -> Verification:
    """Tensor Expressions as a reference for their schedule: TVM compiles them for this machine."""
    model = _te_model(read, source, name)
    progress(f"Running {name}")
    found = functional_outputs(read.network, inputs)
    progress(f"Compiling {model.name} with TVM, and running it")
    references: list[Reference] = [(HOST, lambda arrays: host_runs(model.graph, arrays))]
    return Verification(name, len(inputs), seed, compared(found, inputs, references), hazards=network_hazards(read.network))


class _Judged(Struct, frozen=True):
    """LiteRT's runs among the references, if LiteRT could be asked, and the remarks."""

    references: tuple[Reference, ...]
    note: str = ""


def _judged(original: Model, inputs: Sequence[Arrays], stream: Once) -> _Judged:
    """LiteRT's outputs of a model.

    Its process works while this one runs Vela's stream. If it refuses the model, the answer is still valid.
    """
    if is_tosa(original.data):
        return _Judged((), f"{LITERT} read no TOSA.")
    if not litert_installed():
        return _Judged((), f"{LITERT} were not asked: install the extra 'numerics'.")
    try:
        judgement = judge(original.data, inputs, stream.run)
    except InputError as error:
        return _Judged((), f"{str(error).removesuffix('check the model.').rstrip(': ')}: {VELA_STREAM} is all that was compared.")
    name = LITERT if judgement.is_reference else BUILT_IN
    notes = (_built_in(judgement.built_in, is_reference=judgement.is_reference), _defined(judgement.defined))
    return _Judged(((name, lambda _: judgement.outputs),), " ".join(filter(None, notes)))


def _defined(codes: tuple[str, ...]) -> str:
    """The sentence that names operators compared with their definition; "" if there are none."""
    if not codes:
        return ""
    return f"{', '.join(codes)} was held to its definition, with 64-bit integers: LiteRT's reference kernel of it is wrong."


def _built_in(codes: tuple[str, ...], *, is_reference: bool) -> str:
    """The sentence that names the built-in kernels that were used; "" if there are none."""
    if not is_reference:
        return "LiteRT lacks reference kernels of the model, whose operators cannot be executed one by one: its built-in ones were asked."
    if not codes:
        return ""
    return f"LiteRT lacks reference kernels of {', '.join(codes)}: of {'these' if len(codes) > 1 else 'it'} the built-in ones were asked."


def _require_driver(path: str | Path, read: ReadFile) -> None:
    """InputError, with the failed check, if the core driver would refuse a file or a schedule's export."""
    if read.plan is not None:
        checks: Iterator[DriverCheck] = (check for program in read.network.programs for check in payload_checks(payload_of(program)))
    elif read.deployed:
        checks = (check for payload in deployed_payloads(read_file(path, "File")) for check in payload_checks(payload))
    elif read.delegate:
        checks = (check for payload in executorch_payloads(unpacked(read_file(path, "File"))) for check in payload_checks(payload))
    else:
        checks = file_checks(unpacked(read_file(path, "File")))
    require_driver(checks, Path(path).name)


def _require_constants(network: CompiledNetwork, expected: CompiledNetwork, name: str) -> None:
    """InputError if the network lacks an output that is a constant of the model."""
    known = {one.name for one in network.constant_outputs}
    for constant in expected.constant_outputs:
        if constant.name not in known:
            raise InputError(
                f"{name} has no output {constant.name!r}, which is a constant of the model: Vela 5.2's Python core loses such outputs; "
                "compile the model with `npu-testbed compile`, which keeps them."
            )


def prove(path: str | Path, model: str | None = None, *, inferences: int = 2, seed: int = 0, progress: Progress = silent) -> TensorirProof:
    """Compile a schedule's TensorIR and run it on seeded inputs.

    Outputs, memory and work are compared with LiteRT and the schedule. The default ``model`` is the built-in one that the schedule records.
    InputError if the file is no schedule, the extra ``tensorir`` is not installed, or a kernel cannot be expressed.
    """
    progress(f"Reading {path}")
    read = read_network(path)
    plan = read.plan
    if plan is None:
        raise InputError(f"{Path(path).name} is a compiled network: the proof in TensorIR needs a schedule file; make one with `schedule`.")
    if model is not None and is_te(model):
        graph = _te_model(read, model, Path(path).name).graph
        judges = [(HOST, lambda arrays: host_runs(graph, arrays))]
        return tensorir_proof.prove_schedule(plan, judges, inferences=inferences, seed=seed, progress=progress)
    original = _original(read, model, Path(path).name)
    return tensorir_proof.prove_schedule(
        plan, tensorir_proof.litert_judges(original.data), inferences=inferences, seed=seed, progress=progress
    )


def _original(read: ReadFile, model: str | None, name: str) -> Model:
    """The model that a file was made from, in the layouts that it records; InputError if it is unknown, or not the recorded one."""
    plan, nhwc = read.plan, read.network.nhwc
    source = None if model is None else as_recorded(model, nhwc)
    if source is None and plan is not None:
        source = recorded_source(plan.provenance.model, nhwc)
    if source is None:
        raise InputError(f"{name} does not hold the network that it was made from: give it with --model.")
    original = load_model(source)
    if plan is not None:
        _require_recorded(plan, name, original.name, original.sha256)
    return original


def _require_recorded(plan: Schedule, name: str, model: str, sha256: str) -> None:
    """InputError unless a schedule was made from the model with this hash."""
    if plan.provenance.model_sha256 not in ("", sha256):
        raise InputError(
            f"{name} was made from {plan.provenance.model} with SHA-256 {plan.provenance.model_sha256[:12]}, but {model} has "
            f"{sha256[:12]}: give the model that it was made from, with the --input-shape and the --layout that it was made with."
        )
