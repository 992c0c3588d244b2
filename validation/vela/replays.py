"""Vela's schedules replayed: the SRAM that their streams touch next to Vela's own figure, and cycles next to its estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from msgspec import Struct

from cascader.frontends.vela import CompilerOptions, checked_network, compile_network
from npu_model.accelerator import DEFAULT_ACCELERATOR
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.memory.system import MemorySystem
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from sim import counted_network
from validation.fvp.scores import relative
from validation.tables import Table, percent

OPTIMISE = ("Size", "Performance")
"""Values of Vela's ``--optimise``."""


class SramVerdict(Enum):
    """Why the bytes that a replay touches are, or are not, the ``sram_memory_used`` of Vela's summary."""

    EQUAL = "equal"
    PADDING = "the highest tensor is padded to 16 bytes"
    CPU_TENSORS = "tensors between CPU operators, which no NPU operation touches"
    UNTOUCHED = "allocated tensors that nothing touches"
    UNEXPLAINED = "UNEXPLAINED"


class VelaScore(Struct, frozen=True):
    """One compilation replayed. Bytes: Vela's figure, the arena of the file, and the replay's peak and live peak.

    ``cycles`` is the replay's NPU ACTIVE, ``vela_cycles`` Vela's own estimate; ``cpu_operators`` are left on the CPU.
    """

    network: str
    accelerator: str
    optimise: str
    vela_sram: int
    arena: int
    peak: int
    live_peak: int
    verdict: SramVerdict
    cycles: int
    vela_cycles: int
    cpu_operators: int

    @property
    def estimate_error(self) -> float:
        """Relative distance of Vela's estimate from the replay."""
        return relative(self.vela_cycles, self.cycles)

    @property
    def passed(self) -> bool:
        """Whether the bytes are equal or their difference is explained."""
        return self.verdict is not SramVerdict.UNEXPLAINED


def sram_verdict(vela_sram: int, peak: int, cpu_extent: int, arena: int) -> SramVerdict:
    """Explain Vela's figure by the bytes touched (``peak``), the end of the CPU operators' tensors, and the arena's size.

    The first explanation that gives Vela's figure exactly is taken.

    >>> sram_verdict(1024, 1020, 0, 1024)
    <SramVerdict.PADDING: 'the highest tensor is padded to 16 bytes'>
    """
    if vela_sram == peak:
        return SramVerdict.EQUAL
    if vela_sram == round_up(peak, ALIGNMENT):
        return SramVerdict.PADDING
    if vela_sram == round_up(max(peak, cpu_extent), ALIGNMENT):
        return SramVerdict.CPU_TENSORS
    if vela_sram == arena > peak:
        return SramVerdict.UNTOUCHED
    return SramVerdict.UNEXPLAINED


def _cpu_extent(network: CompiledNetwork) -> int:
    """End of the highest tensor that a CPU operator reads or writes; 0 without one."""
    operators = [step for step in network.steps if isinstance(step, CpuOperator)]
    return max((b.byte_range.end for op in operators for b in op.inputs + op.outputs), default=0)


def score_vela(
    name: str,
    model: bytes,
    system: MemorySystem,
    accelerator: str = DEFAULT_ACCELERATOR,
    optimise: str = "Performance",
    cpu_operators: tuple[str, ...] = (),
) -> VelaScore:
    """Compile the .tflite ``model`` with Vela, replay what it emits on ``system``, and compare.

    ``system`` should be what Vela compiles for (its default system config and memory mode), or the cycles say nothing of its
    estimate. ``cpu_operators`` are builtin operators to leave on the CPU. Raises InputError where :func:`compile_network`
    does, and if the stream is wrong.
    """
    result = compile_network(model, CompilerOptions(accelerator, optimise=optimise, cpu_operators=cpu_operators))
    network = checked_network(result, model)
    run = counted_network(network, system)
    return VelaScore(
        network=name,
        accelerator=accelerator,
        optimise=optimise,
        vela_sram=result.summary.sram_memory_used,
        arena=network.arena_size,
        peak=run.footprint.peak,
        live_peak=run.footprint.live_peak,
        verdict=sram_verdict(result.summary.sram_memory_used, run.footprint.peak, _cpu_extent(network), network.arena_size),
        cycles=run.cycles,
        vela_cycles=result.summary.cycles_total,
        cpu_operators=len(network.steps) - len(network.programs),
    )


def passed(scores: Sequence[VelaScore]) -> bool:
    """Whether there are scores and every difference is explained."""
    return bool(scores) and all(score.passed for score in scores)


def render(scores: Sequence[VelaScore]) -> list[Table]:
    """The scores as one table."""
    columns: dict[str, Callable[[VelaScore], object]] = {
        "network": lambda score: score.network,
        "accelerator": lambda score: score.accelerator,
        "optimise": lambda score: score.optimise,
        "Vela SRAM": lambda score: score.vela_sram,
        "replay peak": lambda score: score.peak,
        "live peak": lambda score: score.live_peak,
        "SRAM": lambda score: score.verdict.value,
        "Vela cycles": lambda score: score.vela_cycles,
        "replay": lambda score: score.cycles,
        "Vela - replay": lambda score: percent(score.estimate_error),
    }
    equal = sum(score.verdict is SramVerdict.EQUAL for score in scores)
    unexplained = sum(not score.passed for score in scores)
    notes = (
        f"{equal} of {len(scores)} peaks equal Vela's figure, {unexplained} differ without an explanation.",
        "The live peak is what perfect packing would need for the same order of operations.",
    )
    return [Table.of("Vela's schedules, replayed", scores, columns, notes)]
