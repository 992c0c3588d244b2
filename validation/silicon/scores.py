"""The replay compared with silicon: counters of the MAC array run by run, and cycles as differences between runs."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, groupby
from operator import attrgetter
from statistics import NormalDist, linear_regression, median

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.cost.mac_activity import mac_activity
from npu_model.memory.system import Memory, MemorySystem
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from sim import quick_replay
from sim.engine.transactions import read_transactions
from validation.silicon.programs import multiplication, program
from validation.silicon.records import ACCELERATOR, SiliconRun, counted_runs, elementwise_runs, runs

APART = 128
"""Output channels between two runs whose difference counts: what is the same in both drops out, and less is lost in the jitter."""

STEADY = 176
"""Input channels from which on every difference is met within 3 %."""

IFM_BLOCK = 32
"""Input channels (of 8 bits) of an IFM block: a started one takes as long as a whole one."""

READS_OFF = 5
"""Read transactions by which a run may differ from silicon's, of 16 to 1,383."""

HOME, ARENA = Fraction(97, 10), Fraction(3)
"""Cycles of a word (8 bytes) where the weights are copied from, and in the arena; no latency.

The memories are not stated, so these are chosen for the differences, the mean error of all: a fit.
"""


class Difference(Struct, frozen=True):
    """Cycles between two runs of equal input channels, ours and silicon's."""

    inputs: int
    outputs: tuple[int, int]
    ours: int
    silicon: int

    @property
    def error(self) -> float:
        """Relative error."""
        return (self.ours - self.silicon) / self.silicon


def chosen_system(constants: Fraction = HOME, arena: Fraction = ARENA) -> MemorySystem:
    """The two memories, of ``constants`` and ``arena`` cycles a word, without latency."""
    memories = [Memory(name, 0, 0, cycles_per_word=pace, shared=False) for name, pace in (("arena", arena), ("home", constants))]
    return MemorySystem("silicon", 1, (memories[0], memories[1]), (1, 0, 0, 0, 0, 0, 0, 0), 1)


@cache
def differences(
    constants: Fraction = HOME,
    timing: TimingParameters = DEFAULT_TIMING,
    measured: tuple[SiliconRun, ...] | None = None,
    system: MemorySystem | None = None,
) -> tuple[Difference, ...]:
    """Every pair of the ``measured`` runs (by default of all) that counts; InputError if Vela's API is not installed.

    ``system`` replaces the memories that ``constants`` chooses.
    """
    memories = chosen_system(constants) if system is None else system

    def ours(run: SiliconRun) -> int:
        return quick_replay(program(run.inputs, run.outputs), memories, timing).cycles

    found = []
    for inputs, row in groupby(runs() if measured is None else measured, attrgetter("inputs")):
        cycles = [(run.outputs, ours(run), run.cycles) for run in row]
        for (a, our_a, its_a), (b, our_b, its_b) in combinations(cycles, 2):
            if b - a >= APART:
                found.append(Difference(inputs, (a, b), our_b - our_a, its_b - its_a))
    return tuple(found)


def jitter() -> float:
    """Standard deviation of one count of cycles, in cycles, without any model of the NPU.

    Four runs at the corners of 32 input and 32 output channels cancel everything but the work of these channels, which is the same
    anywhere, and four jitters. The median of the residuals replaces a root mean square, because the counts have steps.
    """
    counted = {(run.inputs, run.outputs): run.cycles for run in runs()}
    corners = [
        counted[i, o] - counted[i - 32, o] - counted[i, o - 32] + counted[i - 32, o - 32] for i, o in counted if (i - 32, o - 32) in counted
    ]
    middle = median(corners)
    return median(abs(corner - middle) for corner in corners) / NormalDist().inv_cdf(0.75) / 2


def slopes() -> dict[int, Fraction]:
    """Cycles of silicon for one more output channel, by IFM blocks: the mean over the last 384 output channels."""
    counted: dict[int, dict[int, int]] = {}
    for run in runs():
        counted.setdefault(ceil_div(run.inputs, IFM_BLOCK), {})[run.outputs] = run.cycles
    return {blocks: Fraction(row[528] - row[144], 384) for blocks, row in counted.items()}


@cache
def reads_off(measured: tuple[SiliconRun, ...] | None = None) -> tuple[int, ...]:
    """Read transactions on AXI0 of the ``measured`` runs (by default of all) less silicon's.

    All regions and the commands are on that port.
    """
    memory = Memory("any", 0, 0, shared=False)
    system, device = MemorySystem("silicon", 1, (memory, memory), (0,) * 8, 0), accelerator(ACCELERATOR)
    counted = counted_runs() if measured is None else measured
    return tuple(read_transactions(program(run.inputs, run.outputs), device, system, DEFAULT_TIMING)[0] - run.axi0_reads for run in counted)


def counters_missed() -> tuple[SiliconRun, ...]:
    """Runs in which our MAC_ACTIVE or MAC_DPU_ACTIVE is not silicon's."""
    missed, device = [], accelerator(ACCELERATOR)
    for run in counted_runs():
        (kernel,) = program(run.inputs, run.outputs).kernels
        activity = mac_activity(kernel, device)
        if (activity.active, activity.dot_products) != (run.mac_active, run.mac_dpu_active):
            missed.append(run)
    return tuple(missed)


def cycles_per_element(system: MemorySystem) -> tuple[float, float]:
    """Cycles of one more element of a multiplication: ours in ``system`` and silicon's, each the slope of a line through the runs."""
    elements = [float(number) for number, _ in elementwise_runs()]
    ours = [float(quick_replay(multiplication(number), system).cycles) for number, _ in elementwise_runs()]
    silicon = [cycles for _, cycles in elementwise_runs()]
    return linear_regression(elements, ours).slope, linear_regression(elements, silicon).slope
