"""The functional run of a network against its references: the number of differing bytes for each output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import Binding
from npu_testbed.documents.verify import OutputEntry
from npu_testbed.models.undefined import PartlyDefined, defined_part
from npu_testbed.proofs.divergence import Divergence
from sim.functional import FilterCache, NetworkState, run
from sim.hazards import Hazard
from validation.litert.cpu_kernels import CpuKernels

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by the name of the input or output."""

HOST = "the Tensor Expressions, compiled by TVM for this machine"
"""Reference for a command stream from Tensor Expressions."""
VELA_STREAM = "Vela's legalised stream"
MENDED_STREAM = "Vela's legalised stream, mended"
LITERT = "LiteRT's reference kernels"
BUILT_IN = "LiteRT's built-in kernels"
"""Kernels that are not a reference, because they round differently. They run models that the reference kernels cannot."""

_QUANTISED_BITS = 16
"""Widest integers that a network's activations are quantised to."""


class OutputComparison(OutputEntry, frozen=True):
    """One output of all inferences and one reference: ``differing`` of ``size`` bytes.

    ``undefined`` are the bytes that could not be compared, because the operator defines only a part of its output. ``is_vacuous``: no
    inference defined half of the output.
    """

    is_vacuous: bool = False


class Verification(Struct, frozen=True):
    """All comparisons of a network; ``skipped`` names a reference that could not run, and why ("" if all ran).

    ``fully_connected`` are the layers that Vela rounds twice and LiteRT once. The mended stream rounds them once, as our own schedules do.
    ``unmended`` are 16-bit layers, which no rounding mends. ``hazards`` are results that depend on the NPU's order of operations; the run
    itself is in stream order. ``began`` is the first layer that differs. Without ``inferences``, only hazards were checked.
    """

    model: str
    inferences: int
    seed: int
    comparisons: tuple[OutputComparison, ...]
    skipped: str = ""
    fully_connected: tuple[str, ...] = ()
    unmended: tuple[str, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    began: Divergence | None = None
    given: int = 0
    """Inferences on the user's inputs."""

    def equal_to(self, reference: str) -> bool:
        """Whether ``reference`` has run and no byte differs from it."""
        rows = [comparison for comparison in self.comparisons if comparison.reference == reference]
        return bool(rows) and not any(row.differing for row in rows)

    @property
    def passed(self) -> bool:
        """Whether there is no hazard, and no byte differs from LiteRT, or without LiteRT from Vela's stream, mended or not.

        An output of which less than half was ever compared does not pass.
        """
        return not self.hazards and not self.vacuous and self._is_equal()

    @property
    def vacuous(self) -> tuple[str, ...]:
        """The outputs for which every inference compared less than half."""
        return tuple(dict.fromkeys(row.output for row in self.comparisons if row.is_vacuous))

    def _is_equal(self) -> bool:
        if not self.inferences:
            return True
        if any(comparison.reference == LITERT for comparison in self.comparisons):
            return self.equal_to(LITERT)
        if any(comparison.reference == HOST for comparison in self.comparisons):
            return self.equal_to(HOST)
        return self.equal_to(VELA_STREAM) or self.equal_to(MENDED_STREAM)

    @property
    def remark(self) -> str:
        """A remark for the reader of the comparisons; "" without one."""
        began = "" if self.began is None else self.began.text
        return " ".join(sentence for sentence in (began, self._difference(), self.skipped, self._vacuity()) if sentence)

    def _vacuity(self) -> str:
        """The part that was not compared, with the remedy; "" if half of each output was compared at least once."""
        if not self.vacuous:
            return ""
        rows = [row for row in self.comparisons if row.reference == self.comparisons[0].reference]
        compared, undefined = (sum(sizes) for sizes in ([row.size for row in rows], [row.undefined for row in rows]))
        return (
            f"Only {compared:,} of {compared + undefined:,} bytes were compared: no inference defines half of {', '.join(self.vacuous)}. "
            "Give such inputs with --input, try more --inferences or another --seed, or verify the network without its post-processing."
        )

    def _difference(self) -> str:
        """The cause of the differences; "" without differences or if it is unknown."""
        once = f"{_named(self.fully_connected)}, where {LITERT} round once"
        if self.equal_to(MENDED_STREAM) and not self.equal_to(VELA_STREAM):
            return f"Differs from {VELA_STREAM} only by the mending: that stream rounds twice in {once}."
        asked = any(comparison.reference == LITERT for comparison in self.comparisons)
        if not asked or self._is_equal() or not self.equal_to(VELA_STREAM):
            return ""
        if self.unmended:
            return f"Equal to {VELA_STREAM}, which multiplies by 16 bits in {_named(self.unmended)}, where {LITERT} multiply by 32."
        if self.fully_connected:
            return f"Equal to {VELA_STREAM}, which rounds twice in {once}."
        return f"Equal to {VELA_STREAM}: what differs from {LITERT} is how Vela computes this network, not how it was scheduled."


def _named(layers: tuple[str, ...]) -> str:
    return f"{len(layers)} fully connected layer{'s' * (len(layers) > 1)} ({', '.join(layers)})"


_LARGE = 1000.0
"""Replaces a float far outside the range of any quantised tensor."""


def _floats(binding: Binding, random: np.random.Generator, *, extreme: bool) -> NDArray[Any]:
    values = random.choice([-_LARGE, _LARGE], binding.shape) if extreme else random.standard_normal(binding.shape)
    return np.asarray(values).astype(f"f{binding.dtype.bytes}")


def _integers(binding: Binding, random: np.random.Generator, *, extreme: bool) -> NDArray[Any]:
    low, high = binding.dtype.minimum, binding.dtype.maximum
    values = random.choice([low, high], binding.shape) if extreme else random.integers(low, high + 1, binding.shape)
    return np.asarray(values).astype(str(binding.dtype))


def _indices(binding: Binding, random: np.random.Generator) -> NDArray[Any]:
    return random.integers(0, 2, binding.shape).astype(str(binding.dtype))


def _array(binding: Binding, random: np.random.Generator, *, extreme: bool, on_npu: bool) -> NDArray[Any]:
    if binding.dtype.floating:
        return _floats(binding, random, extreme=extreme)
    if binding.dtype.bits > _QUANTISED_BITS and not on_npu:
        return _indices(binding, random)
    return _integers(binding, random, extreme=extreme)


def seeded_inputs(network: CompiledNetwork, count: int, seed: int) -> list[dict[str, NDArray[Any]]]:
    """Arrays for every input of ``count`` inferences: any value of the type, or in every second inference only its two extremes.

    Floats are normal with deviation 1, or -1000 and 1000 in every second inference. Integers of 32 and 64 bits that only the CPU reads may
    be indices or counters, so they are 0 and 1, which are safe.
    """
    read = {binding for program in network.programs for binding in program.inputs}
    inputs = []
    for index in range(count):
        random = np.random.default_rng([seed, index])
        arrays = {b.name: _array(b, random, extreme=index % 2 == 1, on_npu=b in read) for b in network.inputs}
        inputs.append(arrays)
    return inputs


def functional_outputs(
    network: CompiledNetwork, inputs: Sequence[Arrays], kernels: CpuKernels | None = None
) -> list[dict[str, NDArray[Any]]]:
    """Outputs by name of one inference for each of ``inputs``, one after the other, so that the network's variables carry over.

    ``kernels`` execute the CPU operators.
    """
    filters, state = FilterCache(), NetworkState(network)
    on_cpu = None if kernels is None else kernels.executor(network)
    return [run(network, arrays, filters=filters, on_cpu=on_cpu, state=state) for arrays in inputs]


def renamed(arrays: Sequence[Arrays], own: Sequence[Binding], theirs: Sequence[Binding]) -> list[dict[str, NDArray[Any]]]:
    """Arrays of a network's inputs or outputs under another network's names, in the same order.

    InputError if the numbers or the sizes differ.
    """
    if [one.size for one in own] != [one.size for one in theirs]:
        ours, model = (", ".join(str(one.size) for one in side) for side in (own, theirs))
        raise InputError(f"Tensors of {ours} bytes are not those of the model, of {model}: give the network that it was made from.")
    return [{b.name: one[a.name] for a, b in zip(own, theirs, strict=True)} for one in arrays]


OLD_SUFFIX = "_cpu"
"""Suffix that Vela 3.0.0 adds to the names of a network's outputs."""


def compare(
    reference: str, found: Sequence[Arrays], expected: Sequence[Arrays], counts: Mapping[str, PartlyDefined] | None = None
) -> tuple[OutputComparison, ...]:
    """Pairs of outputs with the same name in ``found`` and in ``expected``; InputError if the names differ.

    ``counts`` says which outputs are defined in part; only that part is compared.
    """
    names = {name: name if name in expected[0] else name.removesuffix(OLD_SUFFIX) for name in found[0]}
    if set(names.values()) != expected[0].keys():
        raise InputError(
            f"The network's outputs are {', '.join(found[0])} but those of {reference} are {', '.join(expected[0])}: "
            "give the model that the network was compiled from."
        )
    comparisons = []
    for own, name in names.items():
        differing = size = undefined = most = 0
        counted = (counts or {}).get(name)
        for ours, theirs in zip(found, expected, strict=True):
            pair = defined_part(ours[own], theirs[name], counted, None if counted is None else theirs.get(counted.count))
            a, b = (np.frombuffer(values.tobytes(), np.uint8) for values in pair)
            size += a.size
            undefined += theirs[name].nbytes - b.size
            most = max(most, b.size)
            differing += int(np.count_nonzero(a != b)) if a.size == b.size else max(a.size, b.size)
        is_vacuous = 2 * most < expected[0][name].nbytes
        comparisons.append(OutputComparison(reference, name, differing, size, undefined, is_vacuous))
    return tuple(comparisons)


Reference = tuple[str, Callable[[Sequence[Arrays]], Sequence[Arrays]]]
"""A reference's name, and the function that computes its outputs."""


class Once:
    """Outputs that are computed once: while another process works, or when they are first needed."""

    def __init__(self, work: Callable[[], list[dict[str, NDArray[Any]]]]) -> None:
        self._work = work
        self._found: list[dict[str, NDArray[Any]]] | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Compute the outputs; keep an error for the caller."""
        if self._found is None and self._error is None:
            try:
                self._found = self._work()
            except Exception as error:  # noqa: BLE001  # whatever it is, it is raised below
                self._error = error

    def outputs(self) -> list[dict[str, NDArray[Any]]]:
        """The outputs; raises the error of their computation, if any."""
        self.run()
        if self._error is not None:
            raise self._error
        return self._found or []


def compared(
    found: Sequence[Arrays], inputs: Sequence[Arrays], references: Sequence[Reference], counts: Mapping[str, PartlyDefined] | None = None
) -> tuple[OutputComparison, ...]:
    """The outputs ``found`` for the seeded ``inputs`` with each reference. InputError if one of them cannot run."""
    return tuple(row for name, outputs in references for row in compare(name, found, outputs(inputs), counts))
