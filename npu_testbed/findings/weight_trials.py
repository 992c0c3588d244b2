"""Other ways to read the weights that a layer waits for: in place, or copied into SRAM ahead, each in a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.staging import weight_ranges
from npu_model.memory.outer_arena import ARENA, CONSTANTS
from npu_model.program import ByteRange, DmaOperation, KernelOperation, Program
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import round_up
from npu_testbed.findings.edits import cycles_with, with_transfers, without_transfer
from npu_testbed.findings.finding import count
from npu_testbed.replays.simulation import Simulation
from sim import Cause, Replay, Unit
from sim.views.layers import layer_cycles

AHEAD = (1, 2, 4)
"""Leads, in kernels, that are tried for a copy before its layer."""


class WaitingLayer(Struct, frozen=True):
    """A layer that waits for its weights: its kernels by index, its waiting cycles and its cycles."""

    name: str
    replay: Replay
    kernels: tuple[int, ...]
    waits: int
    cycles: int

    @property
    def program(self) -> Program:
        """The Program of the layer."""
        return self.replay.program


def waiting(replay: Replay) -> Iterator[WaitingLayer]:
    """The layers of a Program with weights, with the time that their MAC array waits for weights or their kernel waits for the copy."""
    kernels: dict[str, list[int]] = {}
    waits: Counter[str] = Counter()
    for one in replay.operations:
        if isinstance(one.op, KernelOperation) and one.op.weights:
            kernels.setdefault(one.name or f"#{one.index}", []).append(one.index)
            waits[one.name or f"#{one.index}"] += one.waits.get((Unit.MAC, Cause.WEIGHTS), 0) + one.waits.get((Unit.CC, Cause.DMA_WAIT), 0)
    cycles = layer_cycles(replay)
    for name, indices in kernels.items():
        yield WaitingLayer(name, replay, tuple(indices), waits[name], sum(cycles.get(index, 0) for index in indices))


def _kernel(program: Program, index: int) -> KernelOperation:
    op = program.operations[index]
    assert isinstance(op, KernelOperation)  # noqa: S101  # the index of a kernel
    return op


def copies_of(program: Program, layer: WaitingLayer) -> dict[int, DmaOperation] | None:
    """The transfers that bring the layer's weights. Empty if the layer reads constants; None if transfers are shared or not found."""
    found: dict[int, DmaOperation] = {}
    newest: dict[int, DmaOperation] = {}
    others: set[int] = set()
    for index, op in enumerate(program.operations):
        if isinstance(op, DmaOperation) and not op.to_shram and op.source.region == CONSTANTS:
            newest[index] = op
        elif isinstance(op, KernelOperation):
            for where in (*op.weights, *op.scales):
                at = max((i for i, copy in newest.items() if _holds(copy, where)), default=None)
                if index in layer.kernels and where.region != CONSTANTS and at is None:
                    return None
                if at is not None and index in layer.kernels:
                    found[at] = newest[at]
                elif at is not None:
                    others.add(at)
    return None if others & found.keys() else found


def _holds(copy: DmaOperation, where: ByteRange) -> bool:
    return copy.destination_region == where.region and copy.destination <= where.start and where.end <= copy.destination + copy.length


def _direct(layer: WaitingLayer, copies: dict[int, DmaOperation]) -> Program:
    """The Program with the layer's weights read from the constants. Its kernels keep their order, but not their indices."""
    program = layer.program

    def moved(where: ByteRange, before: int) -> ByteRange:
        at = max((i for i, copy in copies.items() if i < before and _holds(copy, where)), default=None)
        if at is None:
            return where
        shift = copies[at].source.start - copies[at].destination
        return ByteRange(copies[at].source.region, where.start + shift, where.end + shift)

    operations = list(program.operations)
    for index in layer.kernels:
        op = _kernel(program, index)
        weights, scales = (tuple(moved(where, index) for where in ranges) for ranges in (op.weights, op.scales))
        operations[index] = replace(op, weights=weights, scales=scales)
    edited = replace(program, operations=tuple(operations))
    for index in sorted(copies, reverse=True):
        edited = without_transfer(edited, index)
    return edited


def staged(program: Program, kernels: Sequence[int], ahead: int, name: str) -> Program | None:
    """Return the Program with the constants of these kernels copied to the end of the arena, ``ahead`` kernels before.

    None if fewer kernels come before.
    """
    address = round_up(max(region.size for region in program.regions if region.index == ARENA), ALIGNMENT)
    places: list[tuple[ByteRange, int]] = []
    transfers = []
    for span in _spans(program, kernels):
        transfers.append(DmaOperation(span, address, ARENA))
        places.append((span, address - span.start))
        address += span.length

    def moved(where: ByteRange) -> ByteRange:
        shift = next(shift for span, shift in places if span.start <= where.start and where.end <= span.end)
        return ByteRange(ARENA, where.start + shift, where.end + shift)

    operations = list(program.operations)
    for index in kernels:
        op = _kernel(program, index)
        operations[index] = replace(op, weights=tuple(map(moved, op.weights)), scales=tuple(map(moved, op.scales)))
    before = [index for index, op in enumerate(operations[: kernels[0]]) if isinstance(op, KernelOperation)]
    if len(before) < ahead:
        return None
    regions = tuple(replace(r, size=address) if r.index == ARENA else r for r in program.regions)
    edited = replace(program, operations=tuple(operations), regions=regions)
    return with_transfers(edited, transfers, before[-ahead], kernels[0], name)


def _all(ranges: Iterable[tuple[ByteRange, ...]]) -> tuple[ByteRange, ...]:
    return tuple(dict.fromkeys(where for each in ranges for where in each))


class Trial(Struct, frozen=True):
    """Another way to read a layer's weights, with the network's cycles and a description.

    ``copied`` bytes go into SRAM in addition to the plan's. ``ahead`` is the lead of the copy in kernels, 0 if the layer has such a copy
    already.
    """

    cycles: int
    words: str
    changed: str
    ahead: int = 0
    copied: int = 0


def trials(simulation: Simulation, layer: WaitingLayer, copies: dict[int, DmaOperation]) -> Iterator[Trial]:
    """Yield each way that the NPU accepts; ``copies`` are those of :func:`copies_of`."""
    direct = _direct(layer, copies)
    port = simulation.system.port_of(CONSTANTS)
    if copies:
        yield Trial(
            cycles_with(simulation, layer.program, direct),
            f"reading them through AXI{port} as the kernel runs, without a copy,",
            "weights read from the constants",
        )
    shift = [sum(copy < index for copy in copies) for index in layer.kernels]
    kernels = [index - less for index, less in zip(layer.kernels, shift, strict=True)]
    size = sum(span.length for span in _spans(direct, kernels))
    for ahead in AHEAD:
        edited = staged(direct, kernels, ahead, layer.name)
        if edited is not None:
            kernels_ahead = count(ahead, "kernel")
            words = f"copying the {size:,} bytes into SRAM of their own {kernels_ahead} ahead"
            cycles, changed = cycles_with(simulation, layer.program, edited), f"weights copied {kernels_ahead} ahead"
            yield Trial(cycles, words, changed, 0 if copies else ahead, size)


def _spans(program: Program, kernels: Sequence[int]) -> tuple[ByteRange, ...]:
    every = [_kernel(program, index) for index in kernels]
    return weight_ranges(replace(every[0], weights=_all(op.weights for op in every), scales=_all(op.scales for op in every)))
