"""Vela as a checked legaliser: the first core whose stream keeps to the network's tensors. The C++ core comes first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from cascader.frontends.children import nothing
from cascader.frontends.vela.compiler import compile_network, require_known_shapes
from cascader.frontends.vela.compiler_options import CompilerOptions, legalising
from cascader.frontends.vela.result import CORES, NOTHING_KNOWN, Known, VelaResult
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.brief import Brief
from npu_model.errors import InputError, LimitError
from npu_model.front import later
from npu_model.tflite.identifiers import is_tosa

with later():
    # A network is read while Vela runs, so that Vela starts at once.
    from cascader.frontends.vela import (
        debug_database,
        known_faults,
        known_tensors,
        mend,
        model_changes,
        moves,
        other_core,
        state_order,
        stream_check,
    )
    from cascader.frontends.vela import lift as lifting
    from npu_model.compiled import cpu_operators as operators
    from npu_model.compiled import network as networks
    from npu_model.tflite import model as models

if TYPE_CHECKING:
    from cascader.ethosu.network.network import Network
    from npu_model.program import ConstantOutput

MANY_SPARED = 500
"""If merged loops spare more kernels than this, only the merged network is searched: every Part costs search time in every form."""


class Legalised(Brief, frozen=True):
    """A legalised compilation whose stream was found right, as Vela emits it and mended, and the layer graph of each.

    ``note`` says why the C++ core did not make it: which layer's access of that core's stream is wrong. It is "" if the C++ core did.
    """

    unshown = ("result", "stream", "mended")

    result: VelaResult
    stream: networks.CompiledNetwork
    mended: mend.Mended
    note: str = ""

    @property
    def core(self) -> str:
        """The core of Vela that made the compilation."""
        return self.result.core

    @property
    def spared(self) -> int:
        """The number of kernels that merged loops spare."""
        return moves.spared_kernels(self.stream)

    def network(self, *, mend: bool = True, merge: bool | None = None) -> Network:
        """The layer graph. ``mend`` rounds 8-bit fully connected layers once, as LiteRT's reference kernels do.

        ``merge`` merges loops of kernels. None merges them only if they spare more than :data:`MANY_SPARED` kernels, because a search of
        both would take long.
        """
        merged = self.spared > MANY_SPARED if merge is None else merge
        return (
            replace(lifting.lift(self.mended.network, merge=merged), mended=self.mended.layers)
            if mend
            else lifting.lift(self.stream, merge=merged)
        )


def _checked(model: bytes, result: VelaResult, *, unsigned_copies: bool = True) -> Legalised:
    """The compilation by one core; InputError, as a clause, if its stream is wrong.

    In a model without signed bytes, the C++ core copies bytes as signed ones. These copies are mended unless ``unsigned_copies`` is set.
    """
    stream = debug_database.named_network(result)
    if not unsigned_copies:
        stream = mend.with_whole_bytes(stream, model)
    fault = known_faults.known_fault(model, result.core, result.version, unsigned_copies=unsigned_copies)
    fault = fault or state_order.state_fault(stream) or stream_check.stream_fault(stream, result.database)
    if fault:
        raise InputError(fault)
    return Legalised(result, stream, mend.mended_network(result, model, stream))


Progress = Callable[[str], object]
"""A callback that is told of each step of the work."""


def _silent(_doing: str) -> None:
    """A progress callback that does nothing."""


def _by_python_core(model: bytes, options: CompilerOptions, progress: Progress = _silent) -> Legalised:
    """The Python core's compilation; InputError if its stream is wrong or gives no layer graph.

    This core takes an unknown extent for the stand-in in its place.
    """
    parsed = models.model_of(model)
    require_known_shapes(parsed, sorted({index for one in parsed.operators for index in one.outputs if index >= 0}))
    progress(f"Compiling with Vela's {CORES[1]} core as legaliser")
    found = _checked(model, compile_network(model, replace(options, legacy=True)))
    found.network()
    return found


def _by_simpler_operators(model: bytes, options: CompilerOptions) -> Legalised | None:
    """The first core's compilation of the network with operators of several images split by image.

    None if there are no such operators, or if no core can compile the network.
    """
    made = None if is_tosa(model) else model_changes.with_simpler_operators(model)
    if made is None:
        return None
    for legacy in (False, True):
        with suppress(InputError):
            found = _checked(made, compile_network(made, replace(options, legacy=legacy)))
            found.network()
            finder = operators.OperatorFinder(models.read_tflite(model))
            for step in found.stream.steps:
                if isinstance(step, networks.CpuOperator) and step.code not in networks.COPIES:
                    finder.find(step)  # An output that the original model does not have cannot be executed.
            return replace(found, note=f"its {found.core} core legalised the network with simpler operators instead")
    return None


def _stand_in(model: bytes, options: CompilerOptions, progress: Progress) -> Legalised:
    """The compilation that replaces a wrong one of the C++ core, with its note; the Python core's InputError if there is none.

    It is the Python core's, unless that core leaves operators of several images to the CPU which the NPU can run image by image.
    """
    try:
        found = _by_python_core(model, options, progress)
    except InputError:
        simpler = _by_simpler_operators(model, options)
        if simpler is None:
            raise
        return simpler
    simpler = _by_simpler_operators(model, options) if _on_cpu(found) else None
    if simpler is not None and _on_cpu(simpler) < _on_cpu(found):
        return simpler
    return replace(found, note=f"its {found.core} core legalised the network instead")


def _with(found: Legalised, constants: tuple[ConstantOutput, ...]) -> Legalised:
    """A compilation whose constant outputs are added to the outputs of its model."""
    if not constants:
        return found
    stream, mended = (replace(one, constant_outputs=constants) for one in (found.stream, found.mended.network))
    names = ", ".join(repr(one.name) for one in constants)
    loss = f"Both of Vela's cores lose the values of outputs that are constants ({names}): they got the network without these."
    note = f"{found.note} {loss}" if found.note else loss
    return replace(found, stream=stream, mended=replace(found.mended, network=mended), note=note)


def legalised(
    model: bytes,
    accelerator_name: str = DEFAULT_ACCELERATOR,
    cpu_operators: tuple[str, ...] = (),
    *,
    meanwhile: Callable[[], object] = nothing,
    progress: Progress = _silent,
    known: Known = NOTHING_KNOWN,
) -> Legalised:
    """Compile a quantised .tflite or TOSA ``model`` into one kernel per operator, by the first core of Vela whose stream is right.

    If no core's stream is right, operators of several images are split by image (:func:`with_simpler_operators`). Operators that change
    nothing are left out, and values of shapes and constants are computed in advance. Vela does not see constant outputs; they are added to
    the network afterwards. InputError as :func:`compile_network` raises it for the C++ core where nothing else can compile it either, or if
    no stream can be taken, nor mended: it names both cores, the layers and the accesses. ``meanwhile`` is called once Vela runs.
    Compilations in ``known`` are not repeated.
    """

    def meanwhile_look() -> None:
        meanwhile()
        _require_prepared(model)

    options = legalising(accelerator_name, cpu_operators)
    try:
        return _compiled(model, options, meanwhile_look, progress, known)
    except _OtherModelError as held:
        return _with(_compiled(held.model, options, nothing, progress), held.constants)


class _OtherModelError(Exception):
    """The model must be changed before Vela gets it: Vela's result for it is of no use. The other ``model`` replaces it.

    ``constants`` are the outputs that the other model does not have.
    """

    def __init__(self, model: bytes, constants: tuple[ConstantOutput, ...]) -> None:
        super().__init__()
        self.model, self.constants = model, constants


def _require_prepared(model: bytes) -> None:
    """Raise an error that stops Vela's work on a model that must be changed first. Vela itself reports a model that cannot be read."""
    with suppress(InputError):
        other, constants = known_tensors.prepared(model)
        if other is not model:
            raise _OtherModelError(other, constants)


def _compiled(
    model: bytes, options: CompilerOptions, meanwhile: Callable[[], object], progress: Progress, known: Known = NOTHING_KNOWN
) -> Legalised:
    """Like :func:`legalised`, for a model without constant outputs, or until ``meanwhile`` finds some."""
    try:
        result = compile_network(model, options, meanwhile=meanwhile, known=known)

        plain = model_changes.without_identities(model)
        if plain is not model:
            model, result = plain, compile_network(plain, options)
    except InputError as error:
        reason = str(error).rpartition(": ")[0] or str(error).rstrip(".")  # without the remedy
        try:
            second = _stand_in(model, options, progress)
        except InputError:
            raise error from None
        return replace(second, note=f"{reason}; {second.note}.")
    progress(f"Checking the stream of Vela's {result.core} core")
    try:
        return _checked(model, result)
    except LimitError as error:  # what is right, but beyond us
        limit = error
        wrong = str(error).rpartition("; ")[0] or str(error).rstrip(".")  # without the remedy
    except InputError as error:  # A wrong stream, or one that cannot even be read.
        limit = None
        wrong = f"Vela {result.version}'s {CORES[0]} core emits a wrong stream: {str(error).rstrip('.')}"
    try:
        second = _stand_in(model, options, progress)
        return replace(second, note=f"{wrong}; {second.note}.")
    except InputError as error:
        if limit is not None:
            raise limit from None
        wrong = f"{wrong}; its {CORES[1]} core cannot stand in: {str(error).rstrip('.')}"
    with suppress(InputError):
        mended = _checked(model, result, unsigned_copies=False)
        return replace(mended, note=f"{wrong}; the {CORES[0]} core's copies were mended.")
    raise InputError(f"{wrong}; change that part of the network.")


def _always(_is_same: other_core.IsSame) -> bool:
    return True


def alternative(
    model: bytes,
    first: Legalised,
    accelerator_name: str = DEFAULT_ACCELERATOR,
    *,
    flat: bool = False,
    copies: bool = False,
    may_gain: Callable[[other_core.IsSame], bool] = _always,
) -> Legalised | None:
    """The Python core's compilation in addition to ``first``, the C++ core's, of a network that may be ``flat``.

    The network's bytes may depend on ``copies`` (:func:`cascader.frontends.vela.other_core.may_be_better`).
    None if it cannot be better, is wrong, or leaves more operators on the CPU. A network that is not flat must be one that ``may_gain`` by
    other kernels in place of those which both cores do not make alike.
    """
    if first.core != CORES[0]:
        return None
    bare, constants = known_tensors.prepared(model)
    parsed = models.model_of(bare)
    if not other_core.may_be_better(parsed, first.stream, copies=copies) or not (flat or may_gain(other_core.same_kernels(parsed))):
        return None
    with suppress(InputError):
        found = _by_python_core(bare, legalising(accelerator_name))
        return _with(found, constants) if _on_cpu(found) <= _on_cpu(first) else None
    return None


def _on_cpu(legalised: Legalised) -> int:

    return sum(isinstance(step, networks.CpuOperator) for step in legalised.stream.steps)


def import_network(
    model: bytes, accelerator_name: str = DEFAULT_ACCELERATOR, cpu_operators: tuple[str, ...] = (), *, mend: bool = True
) -> Network:
    """The Network of a quantised .tflite ``model`` with Vela's blocks and weight streams for this accelerator.

    ``mend`` rounds 8-bit fully connected layers once, as LiteRT's reference kernels do; without it they round twice, as Vela's do.
    ``mended`` of the Network names those layers. It raises the InputErrors of :func:`legalised`.
    """
    return legalised(model, accelerator_name, cpu_operators).network(mend=mend)
