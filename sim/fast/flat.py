"""Flat replays: the compiled replay of kernels that somebody else has made flat, beside that of networks."""

from __future__ import annotations

from array import array

from msgspec import Struct

from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.weight_stream.work import work_of
from sim.fast.compiled import CompiledCache, compiled_cache
from sim.fast.quick import quick_replay
from sim.replay import MAX_BLOCKS


class FlatReplay:
    """The compiled replay of rows of operations, as :meth:`sim.fast.compiled.CompiledCache.rows` has them, and of the works of kernels."""

    most_blocks = MAX_BLOCKS
    """Blocks of a Program up to which it is replayed."""

    def __init__(self, device: Accelerator, system: MemorySystem, timing: TimingParameters, compiled: CompiledCache) -> None:
        self._device, self._timing, self._compiled = device, timing, compiled
        self.ports = system.region_ports
        """The port of each region."""
        self.word = device.port_bytes_per_cycle
        """Bytes of a data word."""
        self.is_aligned = timing.aligned_bursts
        """Whether the addresses of transfers count."""

    def work(self, operation: KernelOperation, home: KernelOperation, constants: bytes) -> memoryview:
        """The work of a kernel: its weights are those that ``home`` reads in ``constants``, copied to where ``operation`` reads them.

        Kernels whose addresses differ by multiples of 16 bytes, and those of weights by multiples of 1024, have the same.
        """
        decoding = work_of(home, constants, self._device) if self._timing.decodes_streams and home.weights else ()
        return self._compiled.work(operation, decoding)

    def cycles(self, rows: array[int], works: list[memoryview]) -> int:
        """Cycles of one Program."""
        return self._compiled.run(rows, works)[0]


class QuickCycles(Struct, frozen=True):
    """NPU ACTIVE of all Programs of a network, one after the other: the cycles of :func:`sim.replay_network`."""

    def __call__(self, network: CompiledNetwork, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING) -> int:
        """NPU cycles on the memories of ``system``, with the NPU's ``timing``."""
        return sum(quick_replay(program, system, timing).cycles for program in network.programs)

    def flat(self, device: str, system: MemorySystem, timing: TimingParameters) -> FlatReplay | None:
        """The compiled replay on a device; None if the core is not built, or if the memories' numbers do not fit into it."""
        found = accelerator(device)
        compiled = compiled_cache(found, system, timing)
        return FlatReplay(found, system, timing, compiled) if compiled.is_usable else None


quick_cycles = QuickCycles()
