"""Elements of every tensor of a cascade that each stripe of its output needs, before any clipping at the borders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from cascader.graph.cascader_graph import CascaderGraph, Part
from cascader.graph.intervals import Box, Interval
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import StripeConfig
from npu_model.errors import InputError
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class TensorStripes:
    """The ``boxes`` of a tensor that the stripes need, in their order, and for each axis the axis of the output that cuts it.

    An axis that is not cut (None) has the same interval in all of them, which lies inside the tensor.
    """

    boxes: tuple[Box, ...]
    loops: tuple[int | None, ...]

    def intervals(self, axis: int) -> list[Interval]:
        """The interval of an axis that each stripe needs."""
        return [box[axis] for box in self.boxes]

    @property
    def domain(self) -> Box:
        """All that some stripe needs, which may reach beyond the tensor on axes that are cut."""
        every = (self.intervals(axis) for axis in range(len(self.loops)))
        return tuple((min(first for first, _ in own), max(last for _, last in own)) for own in every)

    @property
    def longest(self) -> tuple[int, ...]:
        """Shape of the buffer that holds one stripe."""
        return tuple(max(last - first for first, last in self.intervals(axis)) for axis in range(len(self.loops)))

    def is_even(self, numbers: Sequence[Sequence[int]]) -> bool:
        """Whether on every axis stripes are equally long, and each begins by the same step behind the one before.

        ``numbers`` are those of each stripe along the axes of the output.
        """
        for axis, loop in enumerate(self.loops):
            places = [0 if loop is None else own[loop] for own in numbers]
            own = [interval for _, interval in sorted(dict(zip(places, self.intervals(axis), strict=True)).items())]
            steps = {(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in pairwise(own)}
            if len(steps) > 1 or any(first != last for first, last in steps):
                return False
        return True


def stripes_of(graph: CascaderGraph, parts: Sequence[Part], config: StripeConfig) -> dict[str, TensorStripes]:
    """The stripes of every tensor that ``parts``, in order, make for stripes of the last one's output.

    What several parts read is the smallest box that covers them all. InputError if a tensor's axis follows two axes that are cut.
    """
    loops = tuple(axis if count > 1 else None for axis, count in enumerate(config.stripes))
    boxes = tuple(tuple(_cut(config, axis, number) for axis, number in enumerate(numbers)) for numbers in config.indices())
    found = {parts[-1].output: TensorStripes(boxes, loops)}
    for part in reversed(parts[:-1]):
        readers = [(reader.output, operand.propagator) for reader in parts for operand in reader.operands if operand.tensor == part.output]
        needed = [_needed(propagator, found[output]) for output, propagator in readers if output in found]
        if not needed:
            raise InputError(f"Part {part.name!r} is in a cascade that does not read {part.output!r}: leave it out.")
        found[part.output] = _hull(part, needed, graph.tensor(part.output).shape)
    return found


def _cut(config: StripeConfig, axis: int, number: int) -> Interval:
    if config.stripes[axis] == 1:
        return 0, config.extent[axis]
    start = int(config.offset[axis] + number * config.strides[axis])
    return start, start + config.shape[axis]


def _needed(propagator: Propagator, output: TensorStripes) -> TensorStripes:
    """The stripes of an operand that a reader's stripes need."""
    loops = []
    for axis in range(propagator.inputs):
        cut = {output.loops[follows] for follows in propagator.follows(axis)} - {None}
        if len(cut) > 1:
            raise InputError(f"An operand's axis {axis} follows the axes {propagator.follows(axis)}, which are all cut: cut one of them.")
        loops.append(cut.pop() if cut else None)
    return TensorStripes(tuple(propagator.reach(box) for box in output.boxes), tuple(loops))


def _hull(part: Part, needed: Sequence[TensorStripes], shape: Sequence[int]) -> TensorStripes:
    """The stripes of the part's output that all readers together need."""
    loops: list[int | None] = []
    columns: list[list[Interval]] = []
    for axis, extent in enumerate(shape):
        cuts = {stripes.loops[axis] for stripes in needed}
        several = zip(*(stripes.intervals(axis) for stripes in needed), strict=True)
        intervals = [(min(low for low, _ in own), max(high for _, high in own)) for own in several]
        loop = cuts.pop() if len(cuts) == 1 else None
        if cuts:
            # One reader needs all of the axis for every stripe.
            intervals = [(0, extent)] * len(intervals)
        elif loop is None:
            intervals = [(max(low, 0), min(high, extent)) for low, high in intervals]
            if intervals[0][0] >= intervals[0][1]:
                raise InputError(
                    f"Part {part.name!r} makes axis {axis} of {part.output!r} of {extent} elements, and nothing reads them: drop it."
                )
        loops.append(loop)
        columns.append(intervals)
    return TensorStripes(tuple(zip(*columns, strict=True)), tuple(loops))
