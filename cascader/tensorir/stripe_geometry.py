"""Elements of every tensor of a cascade that each stripe of its output needs, axis by axis, before any clipping at the borders."""

from __future__ import annotations

from collections.abc import Sequence

from cascader.graph.cascader_graph import CascaderGraph, Part
from cascader.graph.intervals import Box, Interval
from cascader.graph.propagator import Propagator
from cascader.graph.stripe_config import StripeConfig
from npu_model.errors import InputError
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class AxisStripes:
    """One axis of a tensor: the interval that each stripe needs, and the axis of the cascade's output that cuts it.

    ``loop`` is None for an axis that is not cut; its one interval lies inside the tensor.
    """

    loop: int | None
    intervals: tuple[Interval, ...]

    @property
    def length(self) -> int:
        """Elements of the longest stripe."""
        return max(last - first for first, last in self.intervals)

    @property
    def is_even(self) -> bool:
        """Whether all stripes are equally long and each begins by the same step behind the one before."""
        steps = {(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in zip(self.intervals, self.intervals[1:], strict=False)}
        return len(steps) <= 1 and all(first == last for first, last in steps)

    @property
    def domain(self) -> Interval:
        """All that some stripe needs."""
        return min(first for first, _ in self.intervals), max(last for _, last in self.intervals)


@dataclass(frozen=True, slots=True)
class TensorStripes:
    """The axes of a tensor in a cascade."""

    axes: tuple[AxisStripes, ...]

    @property
    def domain(self) -> Box:
        """All that some stripe needs, which may reach beyond the tensor on axes that are cut."""
        return tuple(axis.domain for axis in self.axes)

    def recomputed_shape(self) -> tuple[int, ...]:
        """Shape of the buffer that holds one stripe."""
        return tuple(axis.length for axis in self.axes)


def stripes_of(graph: CascaderGraph, parts: Sequence[Part], config: StripeConfig) -> dict[str, TensorStripes]:
    """The stripes of every tensor that ``parts``, in order, make for stripes of the last one's output.

    What several parts read is the smallest interval that covers them all. InputError if a tensor's axis follows two axes
    that are cut, or different ones for different readers.
    """
    output = parts[-1]
    found = {output.output: TensorStripes(tuple(_cut(config, axis) for axis in range(len(output.shape))))}
    for part in reversed(parts[:-1]):
        readers = [(reader, operand.propagator) for reader in parts for operand in reader.operands if operand.tensor == part.output]
        needed = [_needed(propagator, found[reader.output]) for reader, propagator in readers if reader.output in found]
        if not needed:
            raise InputError(f"Part {part.name!r} is in a cascade that does not read {part.output!r}: leave it out.")
        found[part.output] = _hull(part, needed, graph.tensor(part.output).shape)
    return found


def _cut(config: StripeConfig, axis: int) -> AxisStripes:
    step, size, count = config.strides[axis], config.shape[axis], config.stripes[axis]
    if count == 1:
        return AxisStripes(None, ((0, config.extent[axis]),))
    starts = [int(config.offset[axis] + index * step) for index in range(count)]
    return AxisStripes(axis, tuple((start, start + size) for start in starts))


def _needed(propagator: Propagator, output: TensorStripes) -> list[AxisStripes]:
    """The intervals of an operand that a reader's stripes need, axis by axis."""
    needed = []
    for axis in range(propagator.inputs):
        cut = [follows for follows in propagator.follows(axis) if output.axes[follows].loop is not None]
        if len({output.axes[follows].loop for follows in cut}) > 1:
            raise InputError(f"An operand's axis {axis} follows the axes {cut}, which are all cut: cut one of them.")
        count = max((len(output.axes[follows].intervals) for follows in cut), default=1)
        boxes = [
            tuple(stripes.intervals[index if place in cut else 0] for place, stripes in enumerate(output.axes)) for index in range(count)
        ]
        needed.append(AxisStripes(output.axes[cut[0]].loop if cut else None, tuple(propagator.reach(box)[axis] for box in boxes)))
    return needed


def _hull(part: Part, needed: Sequence[Sequence[AxisStripes]], shape: Sequence[int]) -> TensorStripes:
    axes = []
    for axis, extent in enumerate(shape):
        readers = [stripes[axis] for stripes in needed]
        loops = {reader.loop for reader in readers}
        if len(loops) > 1:
            # One reader needs all of the axis for every stripe.
            axes.append(AxisStripes(None, ((0, extent),)))
            continue
        intervals = tuple(
            (min(first for first, _ in stripes), max(last for _, last in stripes))
            for stripes in zip(*(reader.intervals for reader in readers), strict=True)
        )
        loop = loops.pop()
        if loop is None:
            (low, high), *_ = intervals
            intervals = ((max(low, 0), min(high, extent)),)
        axes.append(AxisStripes(loop, intervals))
    _check_reached(part, axes, shape)
    return TensorStripes(tuple(axes))


def _check_reached(part: Part, axes: Sequence[AxisStripes], shape: Sequence[int]) -> None:
    for axis, stripes in enumerate(axes):
        if stripes.loop is None and stripes.intervals[0][0] >= stripes.intervals[0][1]:
            raise InputError(
                f"Part {part.name!r} makes axis {axis} of {part.output!r} of {shape[axis]} elements, and nothing reads them: drop it."
            )
