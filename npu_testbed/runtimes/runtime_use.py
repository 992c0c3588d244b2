"""Runtime uses: the placement of a network's memories by a runtime, the bytes of its arena, and the network's cycles there."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.export.regions import home_sizes
from npu_model.memory.outer_arena import is_scheduled_in_fast_scratch
from npu_model.memory.system import AXI0, AXI1, MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import Binding
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.region_numbers import FIRST_HOME
from npu_model.shapes import round_up
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_testbed.replays.fast_scratch import in_fast_scratch
from npu_testbed.replays.memory_use import arena_bytes, fast_scratch_bytes
from npu_testbed.runtimes.own_share import OwnShare, method_share, own_share
from sim import quick_cycles

RUNTIMES = TFLM, EXECUTORCH, BARE = "tflm", "executorch", "bare"
"""Runtimes: TFLite Micro, ExecuTorch, and your own firmware on the core driver."""

NAMES = {TFLM: "TFLite Micro", EXECUTORCH: "ExecuTorch", BARE: "Your own firmware"}

DRIVER_PORTS = (AXI1, *[AXI0] * 7)
"""Port of each region in the default REGIONCFG of Arm's core driver: constants at AXI1, everything else at AXI0."""


class RuntimeUse(Struct, frozen=True):
    """A network in a runtime, in bytes and cycles.

    - ``planned``: bytes that the file asks for; ``placed``: bytes of inputs and outputs that the runtime adds.
    - ``own``: what the runtime takes for itself (None: not known).
    - ``outside``: bytes by region that the application keeps elsewhere; ``fast``: bytes of a fast scratch.
    - ``ports``: the ports of the regions in use; ``cycles``: of the NPU (None where nothing was replayed).
    - ``refused``: why the runtime cannot run the network ("": it can). Then all figures are 0.
    """

    runtime: str
    planned: int = 0
    placed: int = 0
    own: OwnShare | None = None
    outside: tuple[tuple[int, int], ...] = ()
    fast: int = 0
    ports: tuple[tuple[int, int], ...] = ()
    cycles: int | None = None
    refused: str = ""

    @property
    def arena(self) -> int:
        """A sufficient number of bytes for the application's arena."""
        own, planned = self.own, self.planned + self.placed
        return round_up(planned if own is None else max(planned, own.planner) + own.most, ALIGNMENT)

    @property
    def least_arena(self) -> int:
        """Bytes below which the runtime refuses the arena."""
        return round_up(self.planned + self.placed + (0 if self.own is None else self.own.least), ALIGNMENT)


def _ends(network: CompiledNetwork) -> list[Binding]:
    """The inputs and outputs that live outside the arena, each once."""
    return list(dict.fromkeys(one for one in (*network.inputs, *network.outputs) if one.region >= FIRST_HOME))


def _ports(network: CompiledNetwork, system: MemorySystem) -> tuple[tuple[int, int], ...]:
    regions = sorted({region.index for program in network.programs for region in program.regions})
    return tuple((region, system.port_of(region)) for region in regions)


def _use(runtime: str, network: CompiledNetwork, system: MemorySystem, **more: Any) -> RuntimeUse:
    """The placement with what a network takes in any runtime, and ``more``."""
    return RuntimeUse(runtime, arena_bytes(network), fast=fast_scratch_bytes(network), ports=_ports(network, system), **more)


def in_driver_ports(system: MemorySystem) -> MemorySystem:
    """The memory system with tensors outside the arena at AXI0, where the driver's default REGIONCFG and TFLite Micro put them."""
    ports = tuple(DRIVER_PORTS[i] if i >= FIRST_HOME else port for i, port in enumerate(system.region_ports))
    return replace(system, region_ports=ports)


def tflm(network: CompiledNetwork, system: MemorySystem, cycles: int | None, timing: TimingParameters = DEFAULT_TIMING) -> RuntimeUse:
    """The placement by TFLite Micro, which puts inputs and outputs outside the arena into its own arena, with the driver's default ports.

    ``cycles`` is the cycles of the replay on ``system`` (None: nothing is replayed).
    """
    if network.resources:
        return RuntimeUse(TFLM, refused="its file keeps resource variables, which take bytes that the application chooses")
    ends = _ends(network)
    inner = sorted(set(home_sizes(network)) - {one.region for one in ends})
    if inner:
        return RuntimeUse(TFLM, refused=f"region {inner[0]} holds a tensor between layers, which no .tflite can name: use --format c")
    there = in_driver_ports(system)
    moved = bool(ends) and there.region_ports != system.region_ports
    return _use(
        TFLM,
        network,
        there if ends else system,
        placed=sum(round_up(one.size, ALIGNMENT) for one in ends),
        own=own_share(network),
        cycles=quick_cycles(network, there, timing) if moved and cycles is not None else cycles,
    )


def executorch(network: CompiledNetwork, system: MemorySystem, cycles: int | None) -> RuntimeUse:
    """The placement by ExecuTorch, whose delegate runs one program in a scratch and copies inputs and outputs into it and out of it."""
    method = network.method
    if method is None and (any(isinstance(step, CpuOperator) for step in network.steps) or len(network.programs) != 1):
        return RuntimeUse(EXECUTORCH, refused="a delegate is one NPU program, and this network has operators on the CPU")
    if home_sizes(network):
        return RuntimeUse(EXECUTORCH, refused="its delegate knows no tensor outside the scratch: leave --home out")
    if network.variables:
        return RuntimeUse(EXECUTORCH, refused="its delegate keeps no states")
    ends = dict.fromkeys((*network.inputs, *network.outputs))
    placed = sum(round_up(one.size, ALIGNMENT) for one in ends) if method is None else method.planned
    return _use(EXECUTORCH, network, system, placed=placed, own=method_share(network), cycles=cycles)


def bare(network: CompiledNetwork, system: MemorySystem, cycles: int | None) -> RuntimeUse:
    """The placement by your own firmware, which binds every region itself."""
    return _use(BARE, network, system, outside=tuple(home_sizes(network).items()), cycles=cycles)


def placements(
    network: CompiledNetwork, system: MemorySystem, cycles: int | None, timing: TimingParameters = DEFAULT_TIMING
) -> tuple[RuntimeUse, ...]:
    """The placements of a network by all runtimes; ``cycles`` is the cycles of its replay on ``system``."""
    return tflm(network, system, cycles, timing), executorch(network, system, cycles), bare(network, system, cycles)


def of_file(network: CompiledNetwork, plan: Schedule | None) -> tuple[RuntimeUse, ...]:
    """The placements of a file's content. A compiled file names no memory system, so it has no cycles."""
    if plan is None or plan.provenance.memory_system is None:
        return placements(network, profile("off").memory_system(), None)
    cycles = quick_cycles(network, plan.provenance.memory_system, plan.provenance.timing)
    return of_schedule(plan, network, cycles)


def of_schedule(plan: Schedule, network: CompiledNetwork, cycles: int) -> tuple[RuntimeUse, ...]:
    """The placements of a schedule, whose lowered ``network`` takes ``cycles``, with the regions of its file in Dedicated_Sram."""
    system = plan.provenance.memory_system
    assert system is not None  # noqa: S101  # a schedule that was replayed has one
    if is_scheduled_in_fast_scratch(system):
        try:
            parted = in_fast_scratch(network)
        except InputError:
            return placements(network, system, cycles, plan.provenance.timing)
        constants, fast, _, outer, *others = system.region_ports
        system = replace(system, region_ports=(constants, outer, fast, outer, *others))
        return placements(parted, system, cycles, plan.provenance.timing)
    return placements(network, system, cycles, plan.provenance.timing)
