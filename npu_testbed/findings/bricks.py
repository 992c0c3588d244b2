"""Channels just beyond a multiple of 16, which cost one more brick for every pixel in NHCWB16."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, Operation, Program
from npu_model.shapes import ceil_div
from npu_testbed.findings.finding import Finding, part, percent
from npu_testbed.replays.simulation import Simulation
from sim import footprint

KIND = "bricks"

FEW = 4
"""Channels of the last brick up to which a network may well do without the brick."""

Key = tuple[int, int, int, int]
"""Tensors of one kind: region, bytes from row to row and from brick to brick, and bytes of an element."""


class _MisplacedError(Exception):
    """A feature map that is not the expected part of a tensor."""


def _wasteful(fm: FeatureMap) -> bool:
    """Whether the feature map is a whole row of a tensor in NHCWB16 with few channels in its last brick."""
    bricks = ceil_div(fm.shape.depth, BRICK)
    whole = fm.strides.y == bricks * fm.strides.c
    return fm.layout is Layout.NHCWB16 and whole and bricks > 1 and 0 < fm.shape.depth % BRICK <= FEW


def _maps(op: KernelOperation) -> list[FeatureMap]:
    return [fm for fm in (op.ifm, op.ifm2, op.ofm) if fm is not None]


def _key(fm: FeatureMap) -> Key:
    return fm.region, fm.strides.y, fm.strides.c, fm.dtype.bytes


def _places(program: Program, depth: int) -> dict[Key, list[tuple[int, int]]]:
    """The stretches of addresses of all tensors with a number of channels, by kind."""
    found: dict[Key, list[tuple[int, int]]] = {}
    for op in program.kernels:
        for fm in _maps(op):
            if _wasteful(fm) and fm.shape.depth == depth:
                for where in fm.byte_ranges():
                    found.setdefault(_key(fm), []).append((where.start, where.end))
    return {key: _joined(sorted(ranges)) for key, ranges in found.items()}


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in ranges:
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _narrow(fm: FeatureMap, places: dict[Key, list[tuple[int, int]]], channels: int) -> FeatureMap | None:
    """Return the feature map without its tensor's last brick: None if nothing is left, unchanged if the map belongs to another tensor."""
    stretches = places.get(_key(fm), ()) if fm.layout is Layout.NHCWB16 else ()
    boxes = list(fm.tile_boxes())
    low = next((low for low, high in stretches if low <= boxes[0][0] < high), None)
    if low is None:
        return fm
    row, brick = fm.strides.y, fm.strides.c
    kept = row // brick - 1
    first = {(base - low) % row // brick for base, *_ in boxes}
    if len(first) != 1 or BRICK * min(first) + fm.shape.depth > channels:
        raise _MisplacedError
    depth = min(fm.shape.depth, BRICK * (kept - min(first)))
    if depth <= 0:
        return None
    used = {base for base, *_ in boxes}
    bases = tuple(base - (base - low) // row * brick if base in used else base for base in fm.tiles.bases)
    assert len(bases) == 4  # noqa: S101  # as many as there were
    return replace(
        fm,
        shape=replace(fm.shape, depth=depth),
        tiles=replace(fm.tiles, bases=bases),
        strides=replace(fm.strides, y=kept * brick),
    )


def _narrowed(program: Program, depth: int) -> Program:
    """The Program with the tensors of a number of channels one brick narrower.

    Only its accesses count, because its weights stay unchanged.
    """
    places = _places(program, depth)
    operations: list[Operation] = []
    kept: list[int] = []
    for index, op in enumerate(program.operations):
        if not isinstance(op, KernelOperation):
            operations.append(op)
        else:
            ifm, ofm, ifm2 = (fm and _narrow(fm, places, depth) for fm in (op.ifm, op.ofm, op.ifm2))
            if ofm is None:
                continue
            operations.append(replace(op, ifm=ifm or op.ifm, ofm=ofm, ifm2=ifm2))
        kept.append(index)
    return program.keeping(kept, operations)


def _live_peak(network: CompiledNetwork, depth: int) -> int:
    return footprint([_narrowed(program, depth) for program in network.programs], network.inputs, network.outputs).live_peak


def bricks(simulation: Simulation) -> Iterator[Finding]:
    """Yield the fall of the peak of live bytes if all tensors of a number of channels lose their last, nearly empty brick."""
    if simulation.fast_scratch:
        return
    maps = [fm for program in simulation.network.programs for op in program.kernels for fm in _maps(op)]
    now = simulation.replay.footprint.live_peak
    for depth in sorted({fm.shape.depth for fm in maps if _wasteful(fm)}):
        try:
            then = _live_peak(simulation.network, depth)
        except _MisplacedError:
            continue
        kept = depth // BRICK * BRICK
        share = part(now - then, now)
        text = (
            f"{depth} channels take {ceil_div(depth, BRICK)} bricks of {BRICK}: with {kept} the peak of live bytes falls by {now - then:,} "
            f"({percent(share)}), to {then:,}."
        )
        yield Finding(KIND, text, f"tensors of {depth} channels with {kept}", 0, now - then, simulation.planned_bytes, share)
