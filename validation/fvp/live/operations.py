"""Operation by operation: the cycles between two kernels' commands, in the FVP's trace and in our replay.

The trace shows when the NPU read a command, but not when the kernel ended. So both sides are cut in the same way: an operation lasts from
the issue of its command to the issue of the next kernel's, the last one to the end. A kernel is issued while the previous one still runs
(two may be outstanding), so a row is the time that the front end spent on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.program import KernelOperation
from sim import NetworkReplay, Replay
from validation.fvp.live.pmu_trace import StreamTrace
from validation.fvp.scores import relative


class OperationRow(Struct, frozen=True):
    """One kernel: the index of its operation in its program, its layer, and the cycles of both.

    ``offset`` is the byte offset of its command in the stream, as in Vela's debug database.
    """

    program: int
    index: int
    layer: str
    operator: str
    offset: int
    fvp: int
    ours: int

    @property
    def error(self) -> float | None:
        """Relative error; None where the FVP took no time."""
        return relative(self.ours, self.fvp) if self.fvp else None


def durations(starts: Sequence[float], end: float) -> list[float]:
    """From each start to the next one; for the last, to the end."""
    return [after - before for before, after in zip(starts, [*starts[1:], end], strict=True)]


def _rows(number: int, replay: Replay, stream: StreamTrace, cycles_per_tick: float) -> list[OperationRow]:
    program = replay.program
    kernels = [
        (operation.index, operation.op, operation.issued) for operation in replay.operations if isinstance(operation.op, KernelOperation)
    ]
    offsets = list(program.kernel_offsets.values())
    if offsets and stream.offsets[-1] < offsets[-1]:
        raise InputError(
            f"The PMU trace ends at byte {stream.offsets[-1]} of a command stream whose last kernel is at byte {offsets[-1]}: "
            "let the FVP run to the end, on the network that was compiled here."
        )
    theirs = durations([stream.passed(offset) for offset in offsets], stream.end)
    ours = durations([issued for _, _, issued in kernels], replay.cycles)
    return [
        OperationRow(number, index, program.name(index), op.mnemonic, offset, round(ticks * cycles_per_tick), round(cycles))
        for (index, op, _), offset, ticks, cycles in zip(kernels, offsets, theirs, ours, strict=True)
    ]


def cycles_per_tick(streams: Sequence[StreamTrace], active: int) -> float:
    """Cycles of one unit of the trace's time, so that the streams last ``active`` cycles in all; InputError if they last no time."""
    span = sum(stream.end - stream.start for stream in streams)
    if span <= 0:
        raise InputError(f"The PMU trace lasts {span:g} units of time: let the FVP write one of a whole inference.")
    return active / span


def compare_operations(replay: NetworkReplay, streams: Sequence[StreamTrace], active: int) -> tuple[OperationRow, ...]:
    """A row for every kernel of every Program; ``active`` is the FVP's NPU ACTIVE, which sets the unit of the trace's time.

    InputError if the trace has another number of streams than the network, or ends too early.
    """
    if len(streams) != len(replay.replays):
        raise InputError(
            f"The PMU trace has {len(streams)} command streams and the network {len(replay.replays)}: "
            "let the firmware run one inference of this network."
        )
    tick = cycles_per_tick(streams, active)
    pairs = enumerate(zip(replay.replays, streams, strict=True))
    return tuple(row for number, (one, stream) in pairs for row in _rows(number, one, stream, tick))
