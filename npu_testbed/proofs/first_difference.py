"""The search for the first differing layer: two runs are compared tensor by tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.tflite.model import read_tflite
from npu_testbed.models.undefined import PartlyDefined
from npu_testbed.proofs.divergence import Divergence, Tensor, divergence, made_tensors
from npu_testbed.proofs.verification import LITERT, MENDED_STREAM, VELA_STREAM, Arrays, Verification, compare
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import reference_tensors


class Runs(Struct, frozen=True, eq=False):
    """The verified network and Vela's stream of the model, mended or not, each with its outputs; the model's inputs and outputs.

    ``counts`` as in :func:`npu_testbed.proofs.verification.compare`.
    """

    network: CompiledNetwork
    stream: CompiledNetwork
    mended: CompiledNetwork
    inputs: Sequence[Arrays]
    asked: Sequence[Arrays]
    found: Sequence[Arrays]
    expected: Sequence[Arrays]
    counts: Mapping[str, PartlyDefined]


def _first(reference: str, runs: Runs) -> int:
    """The first inference whose outputs differ."""
    for index, (ours, theirs) in enumerate(zip(runs.found, runs.expected, strict=True)):
        if any(row.differing for row in compare(reference, [ours], [theirs], runs.counts)):
            return index
    return 0


def _of_model(model: bytes, inputs: Sequence[Arrays]) -> list[Tensor]:
    """LiteRT's tensors in the order in which the operators make them."""
    read, tensors = read_tflite(model), reference_tensors(model, inputs)
    made = [index for operator in read.operators for index in operator.outputs]
    return [(read.tensors[index].name, tensors[index]) for index in made if index in tensors]


def _named(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors with names. A nameless tensor is named after the next tensor with a name, which is its layer's."""
    found, name = list[Tensor](), ""
    for own, array in reversed(tensors):
        name = own or name
        found.append((name, array))
    return found[::-1]


def differing_reference(result: Verification) -> str:
    """The reference for the search: Vela's stream if the schedule differs from it, else LiteRT; "" without a difference."""
    if not (result.equal_to(VELA_STREAM) or result.equal_to(MENDED_STREAM)):
        return VELA_STREAM
    asked = any(row.reference == LITERT for row in result.comparisons)
    return LITERT if asked and not result.equal_to(LITERT) else ""


def first_difference(result: Verification, runs: Runs, model: bytes, kernels: CpuKernels | None) -> Divergence | None:
    """The first layer that differs from the reference whose outputs ``runs`` expects; None if it cannot be determined."""
    reference = differing_reference(result)
    last = _first(reference, runs) + 1
    stream = runs.stream if result.equal_to(VELA_STREAM) else runs.mended
    try:
        if reference == LITERT:
            made = made_tensors(stream, runs.asked[:last], kernels)
            return divergence(reference, _of_model(model, runs.inputs[:last]), made)
        tensors = _named(made_tensors(stream, runs.asked[:last], kernels))
        return divergence(reference, tensors, made_tensors(runs.network, runs.inputs[:last], kernels))
    except InputError:
        return None
