"""Origins: whether another network of the same mathematics, from another legaliser, is worth a search in addition to the first one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from msgspec import Struct

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms import is_flat, is_small
from cascader.ethosu.forms.workbench import kernel_cycles
from cascader.ethosu.judge.replay import Replay
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.ethosu.search.bound import least_cycles
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.program import PoolKind
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_model.timing import TimingParameters

QUICKER = Fraction(992, 1000)
"""Largest part of the first network's cycles with which another one is searched, too.

Cycles are layer by layer, or the bound that no schedule undercuts, because copies may hide the slowness of a core's kernels. Vela's figures
are those of its better core, so a skipped network is within the 1 % that the portfolio permits.
"""

_QUICKER = "The kernels of Vela's Python core take fewer cycles here than those of its C++ core."
_SMALLER = "The tensors of Vela's Python core take fewer bytes here than those of its C++ core."


def has_time_for_another(network: Network) -> bool:
    """Whether a second network is considered at all: the search of a large one takes long."""
    return is_small(network) or is_flat(network)


def holds_most_for_copies(network: Network) -> bool:
    """Whether a network, layer by layer, holds its most bytes only while kernels copy or write pieces of a concatenated tensor.

    Otherwise it holds them for a kernel that any legaliser makes, so that another network of it hardly takes fewer.
    """
    graph = row_graph(network)
    first, last, writers = dict[int, int](), dict[int, int](), Counter[int]()
    for number, part in enumerate(graph.parts):
        for tensor in [one for one, _ in part.inputs]:
            first.setdefault(tensor, 0)
            last[tensor] = number
        for tensor in part.outputs:
            first.setdefault(tensor, number)
            last[tensor] = max(number, last.get(tensor, 0))
            writers[tensor] += 1
    bytes_of = {tensor: round_up(graph.tensors[tensor].size, ALIGNMENT) for tensor in first}
    held = [sum(bytes_of[one] for one in first if first[one] <= number <= last[one]) for number in range(len(graph.parts))]

    def copies(number: int) -> bool:
        part = graph.parts[number]
        kernel = network.kernels.get(part.name)
        is_pool = kernel is not None and kernel.operation.pool is PoolKind.AVERAGE
        return is_pool or any(writers[tensor] > 1 for tensor in part.outputs)

    return all(copies(number) for number, size in enumerate(held) if size == max(held))


class Measure(Struct, frozen=True):
    """Cycles and bytes of networks on one device, for comparing two networks."""

    accelerator: str
    system: MemorySystem
    timing: TimingParameters
    replay: Replay

    def layer_by_layer(self, network: Network) -> int:
        """Replayed cycles of a network layer by layer."""
        return self.replay(lower(schedule_layer_by_layer(network, self.accelerator), checked=False))

    def bound(self, network: Network) -> int:
        """Cycles that no schedule of the network undercuts."""
        return least_cycles(network, DepthFirstScheduler(row_graph(network)), self.accelerator, self.system, self.timing)

    def may_gain(self, network: Network, is_same: Callable[[EthosuPart], bool]) -> bool:
        """Whether other kernels could save enough cycles of a network, even if they took none, in place of those that are not the same.

        Cycles are estimates with constants at home.
        """
        device = accelerator(self.accelerator)
        cycles = kernel_cycles(network.kernels, device, Sources.direct(self.system, self.timing, device=device))
        others = sum(cycles[name] for name, kernel in network.kernels.items() if not is_same(kernel))
        return others >= (1 - QUICKER) * sum(cycles.values())

    def bytes(self, network: Network) -> int:
        """Bytes of the network layer by layer."""
        return schedule_layer_by_layer(network, self.accelerator).arena_size


def reason(network: Network, other: Network, measure: Measure) -> str:
    """Why the other network should be searched, too, as a sentence; "" if it should not.

    It is or may be quicker, or it takes fewer bytes layer by layer and hardly a row in it dies early enough for a cascade.
    """
    if any(cycles(other) <= QUICKER * cycles(network) for cycles in (measure.layer_by_layer, measure.bound)):
        return _QUICKER
    return _SMALLER if is_flat(network) and measure.bytes(other) < measure.bytes(network) else ""
