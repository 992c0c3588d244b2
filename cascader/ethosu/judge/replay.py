"""Replays of networks, and flat replays, which take kernels as rows of integers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from npu_model.compiled.network import CompiledNetwork
from npu_model.memory.system import MemorySystem
from npu_model.program import KernelOperation
from npu_model.timing import DEFAULT_TIMING, TimingParameters

Replay = Callable[[CompiledNetwork], int]
"""Cycles of the Programs of a network. It can be pickled, because it is sent to other processes."""


class FlatReplay(Protocol):
    """A replay of rows of integers: each row is an operation of a Program. The works of kernels are separate.

    A row has seven integers; the second one counts the words of the command stream up to the operation's end. The first number is 0 for a
    kernel. BLOCKDEP follows, then whether the SHRAM partition differs from the previous kernel's, and the port that it writes to. It is 1
    for a transfer, with the port of its source, the word there, the port of its target (-1: SHRAM), the word there, and its length in
    words. It is 2 or 3 for a wait, with the kernels or transfers that may be outstanding, and 4 for any other operation.
    """

    ports: Sequence[int]
    word: int
    is_aligned: bool

    def work(self, operation: KernelOperation, unstaged: KernelOperation, constants: bytes) -> memoryview:
        """The work of a kernel. Its weights are the bytes of ``constants`` that ``unstaged`` reads; ``operation`` reads their copy.

        The work is the same if addresses differ by multiples of 16 bytes, and addresses of weights by multiples of 1024.
        """

    def cycles(self, rows: array[int], works: list[memoryview]) -> int:
        """Cycles of one Program from its rows, and the works of its kernels."""

    def known(self) -> object:
        """A known replay that is still empty: the next replay with it fills it, and all later ones run beside that one."""

    def timed(self, rows: array[int], works: list[memoryview], known: object = None) -> tuple[int, array[int]]:
        """Cycles of one Program, and a line for each operation that ends, in order: its index, its issue and its end; the rest is 0.

        Beside a ``known`` replay the cycles are -1 if the operations that are the same at the end of both are found to end no sooner here.
        """


class Cycles(Protocol):
    """A replay that judges the drafts of a search. It can be pickled, because other processes call it."""

    def __call__(self, network: CompiledNetwork, /, system: MemorySystem, timing: TimingParameters) -> int:
        """Cycles of a lowered network on the memories of a system, in a timing of the NPU."""


@runtime_checkable
class FlatCycles(Protocol):
    """Cycles for which a flat replay may exist."""

    def flat(self, device: str, system: MemorySystem, timing: TimingParameters) -> FlatReplay | None:
        """The flat replay; None if there is none on this machine."""


class Replayer(Struct, frozen=True):
    """The ``cycles`` of networks on the memories of one ``system``, in one ``timing`` of the NPU."""

    cycles: Cycles
    system: MemorySystem
    timing: TimingParameters = DEFAULT_TIMING

    def __call__(self, network: CompiledNetwork) -> int:
        """NPU cycles of a lowered network."""
        return self.cycles(network, system=self.system, timing=self.timing)


def flat_replay(replay: Replay, device: str) -> FlatReplay | None:
    """The flat replay of a replay on a device; None if it has none."""
    if isinstance(replay, Replayer) and isinstance(replay.cycles, FlatCycles):
        return replay.cycles.flat(device, replay.system, replay.timing)
    return None


def decides(replay: Replay, device: str) -> bool:
    """Whether a replay judges all drafts of a search.

    A flat replay is quick enough, and a caller's own function is meant for that. A replay without its compiled core judges the answer
    alone; the search then decides by estimates.
    """
    is_slow = isinstance(replay, Replayer) and isinstance(replay.cycles, FlatCycles) and flat_replay(replay, device) is None
    return not is_slow
