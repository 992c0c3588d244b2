"""Networks compared with Vela and LiteRT: the runs of ``npu-testbed validate vela`` and ``litert``.

>>> from npu_testbed.proofs.peers import validate_vela
>>> [score.verdict.name for score in validate_vela(["zoo:tiny_conv"], optimise=("Size",))]
['EQUAL']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from enum import Enum
from itertools import product

from msgspec import Struct

from cascader.frontends.vela import CompilerOptions, compile_network, mended_network
from npu_model.accelerator import DEFAULT_ACCELERATOR, accelerator, require_use
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_testbed.devices.configs import load_memory_system
from npu_testbed.ground.progress import Progress, silent
from npu_testbed.models.sources import ZOO, Model, load_model
from npu_testbed.proofs.verification import LITERT, compare, functional_outputs, seeded_inputs
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import reference_outputs
from validation.tables import Table
from validation.vela.replays import OPTIMISE, VelaScore, score_vela
from validation.zoo import zoo_names

INFERENCES = 2
"""Inferences that are compared with LiteRT: one on any values, one only on extreme values."""


def zoo_models() -> tuple[str, ...]:
    """Every network that the package builds, which are validated if no model is named."""
    return tuple(f"{ZOO}{name}" for name in zoo_names())


def _cases(
    models: Sequence[str], accelerators: Sequence[str], optimise: Sequence[str], what: str, progress: Progress
) -> Iterator[tuple[Model, str, str]]:
    """Every requested compilation with its model loaded. Names are checked before any long work."""
    for name in accelerators:
        require_use(name, "replay")
    devices = [accelerator(name).name for name in accelerators]
    for source in models:
        model = load_model(source)
        for device, strategy in product(devices, optimise):
            progress(f"{what}: {model.name}, {device}, {strategy}")
            yield model, device, strategy


def validate_vela(
    models: Sequence[str],
    accelerators: Sequence[str] = (DEFAULT_ACCELERATOR,),
    optimise: Sequence[str] = OPTIMISE,
    progress: Progress = silent,
) -> tuple[VelaScore, ...]:
    """Vela's schedules of ``models`` (paths or ``zoo:NAME``) replayed on the memory system that Vela compiles for by default.

    InputError if a model cannot be read or compiled, or an accelerator is unknown.
    """
    system = load_memory_system()
    return tuple(
        score_vela(model.name, model.data, system, device, strategy)
        for model, device, strategy in _cases(models, accelerators, optimise, "Replaying Vela's schedule", progress)
    )


class BytesVerdict(Enum):
    """The reason why the bytes of a functional run equal, or differ from, those of LiteRT's reference kernels."""

    EQUAL = "equal"
    ROUNDED_TWICE = "equal once fully connected layers are rounded once: Vela's stream rounds them twice"
    UNEXPLAINED = "UNEXPLAINED"


class LitertScore(Struct, frozen=True):
    """Vela's schedule of one network run bit by bit: ``differing`` of ``size`` output bytes differ from LiteRT's."""

    network: str
    accelerator: str
    optimise: str
    differing: int
    size: int
    verdict: BytesVerdict

    @property
    def passed(self) -> bool:
        """Whether the bytes are equal or their difference is explained."""
        return self.verdict is not BytesVerdict.UNEXPLAINED


def _score_litert(model: Model, device: str, strategy: str, seed: int) -> LitertScore:
    result = compile_network(model.data, CompilerOptions(device, optimise=strategy))
    network = read_compiled(result.compiled)
    inputs = seeded_inputs(network, INFERENCES, seed)
    expected = reference_outputs(model.data, inputs)

    def differing(one: CompiledNetwork, kernels: CpuKernels) -> tuple[int, int]:
        rows = compare(LITERT, functional_outputs(one, inputs, kernels), expected)
        return sum(row.differing for row in rows), sum(row.size for row in rows)

    verdict = BytesVerdict.EQUAL
    with closing(CpuKernels(model.data)) as kernels:
        found, size = differing(network, kernels)
        if found:
            # The debug database says which kernels run a FULLY_CONNECTED of the model; their shapes alone would not.
            mended = mended_network(result, model.data)
            explained = bool(mended.layers) and not differing(mended.network, kernels)[0]
            verdict = BytesVerdict.ROUNDED_TWICE if explained else BytesVerdict.UNEXPLAINED
    return LitertScore(model.name, device, strategy, found, size, verdict)


def validate_litert(
    models: Sequence[str],
    accelerators: Sequence[str] = (DEFAULT_ACCELERATOR,),
    optimise: Sequence[str] = OPTIMISE,
    progress: Progress = silent,
    *,
    seed: int = 0,
) -> tuple[LitertScore, ...]:
    """Vela's schedules of ``models`` run bit by bit on seeded inputs, and compared with LiteRT's reference kernels.

    InputError as :func:`validate_vela`, if LiteRT is not installed, or its kernels cannot execute an operator on the CPU.
    """
    return tuple(
        _score_litert(model, device, strategy, seed)
        for model, device, strategy in _cases(models, accelerators, optimise, "Running bit by bit", progress)
    )


def litert_table(scores: Sequence[LitertScore]) -> Table:
    """The scores as one table."""
    rows = tuple((s.network, s.accelerator, s.optimise, str(s.differing), str(s.size), s.verdict.value) for s in scores)
    equal, unexplained = sum(not score.differing for score in scores), sum(not score.passed for score in scores)
    note = f"{equal} of {len(scores)} schedules give LiteRT's bytes, {unexplained} differ without an explanation."
    headers = ("network", "accelerator", "optimise", "differing bytes", "of", "verdict")
    return Table("Vela's schedules, run bit by bit beside LiteRT's reference kernels", headers, rows, (note,))
