"""Plans of stripes applied to a network of the NPU: each box that a part computes becomes a kernel of its own.

A tensor that a group recomputes becomes another tensor at each of its fills, with just that box. A rolling tensor becomes one tensor of all
used elements, and its buffer rolls along its rows or columns. Whole tensors stay. The kernels run in the plans' order. So the network layer
by layer executes the plans: stripe after stripe, and in each stripe all parts of its group. Recomputed elements come from the same factors,
so the bytes are equal.

A box is some rows, columns and channels of a kernel's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.job.feature_maps import channels, placed
from cascader.ethosu.job.staging import weight_ranges
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, part_of
from cascader.ethosu.network.operators import NHWC_AXES
from cascader.ethosu.network.propagators import affine_graph, stored_tensors
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from cascader.graph.intervals import Box, Interval, hull, is_empty, lengths, whole
from cascader.graph.stored_axes import StoredAxes
from cascader.plan.plan import BufferMode, StripeBuffer
from cascader.plan.stripe_plans import StripePlan
from cascader.plan.stripe_trace import StripedGroup, StripeTrace, trace
from npu_model.accelerator import Accelerator
from npu_model.cost.traversal import reduces_depth
from npu_model.errors import InputError
from npu_model.program import BRICK, ByteRange, FeatureMap, KernelOperation, Layout, Padding, PoolKind, Strides, Tiles
from npu_model.shapes import Shape3D
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import RECORD_BYTES

_ANYWHERE = BufferPlace(0, 1, 1 << 62)
"""A tensor at its address: bases of feature maps count from its start."""


class Ranges(Struct, frozen=True):
    """Rows, columns and channels of a kernel's result, each from its first to its end (exclusive)."""

    rows: Interval
    columns: Interval
    channels: Interval

    @classmethod
    def of(cls, box: Box, shape: Shape3D) -> Ranges:
        """The rows, columns and channels of a box.

        A box has batch, rows, columns and channels, or batch, rows, bricks, columns and a brick's channels.
        """
        if len(box) == _BRICK_AXES:
            _, rows, (first, last), columns, _ = box
            return cls(rows, columns, (first * BRICK, min(shape.depth, last * BRICK)))
        _, rows, columns, channels = box
        return cls(rows, columns, channels)


_BRICK_AXES = 5


class BoxMaker(KernelMaker):
    """Makes kernels for boxes of the results of a network's kernels."""

    def __init__(self, network: Network, accelerator: Accelerator, sources: Sources) -> None:
        super().__init__(network, accelerator, sources)
        self._streams: dict[tuple[object, ...], tuple[tuple[ByteRange, ...], tuple[ByteRange, ...]]] = {}

    def box(self, name: str, kernel: EthosuPart, ranges: Ranges) -> EthosuPart:
        """The kernel of part ``name`` for a part of its result, in its best block; its maps lie in its own tensors.

        InputError if the NPU cannot compute them separately from the rest.
        """
        operation, shape = kernel.operation, kernel.operation.ofm.shape
        if ranges == Ranges((0, shape.height), (0, shape.width), (0, shape.depth)):
            return kernel
        if not all(one.is_single_tile for _, one in kernel.maps):
            raise InputError(f"Part {name!r} has a feature map of several tiles, which is not cut: keep it whole.")
        places = dict.fromkeys([used for used, _ in kernel.maps if used is not None], _ANYWHERE)
        for axis, span in ((Axis.ROWS, ranges.rows), (Axis.COLUMNS, ranges.columns)):
            operation = stripe(replace(kernel, operation=operation, axis=axis), *span, places)
        if operation.pool is PoolKind.AVERAGE and kernel.operation.padding != Padding() == operation.padding:
            raise InputError(f"Part {name!r} averages over its padding, which an inner box does not have: cut only one axis.")
        if ranges.channels != (0, shape.depth):
            return replace(kernel, operation=self._of_channels(name, operation, ranges.channels))
        made = self.in_block(operation)
        if made is None:
            raise InputError(f"Part {name!r} fits into no block in stripes of {operation.ofm.shape}: cut it less.")
        return replace(kernel, operation=made)

    def _of_channels(self, name: str, operation: KernelOperation, span: Interval) -> KernelOperation:
        """The operation for some channels of its result, with weights and scales of its own."""
        depth, second = operation.ofm.shape.depth, operation.ifm2
        follows = [one for one in (operation.ifm, second) if one is not None and one.shape.depth == depth and not reduces_depth(operation)]
        if span[0] % BRICK and any(one.layout is Layout.NHCWB16 for one in (*follows, operation.ofm)):
            raise InputError(
                f"Part {name!r} begins at channel {span[0]}, inside a brick: cut channels at multiples of {BRICK}, or dense maps."
            )
        ifm, ifm2 = (channels(one, *span) if one in follows else one for one in (operation.ifm, second))
        cut = self.in_any_block(operation.having(ifm=ifm, ifm2=ifm2, ofm=channels(operation.ofm, *span)))
        if cut is None:
            raise InputError(f"Part {name!r} is not cut into channels {span[0]} to {span[1]}: keep them whole.")
        key = (name, span, WeightFormat.of(cut)) if cut.weights else (name, span)
        if key not in self._streams:
            self._streams[key] = self._constants_of(operation, cut, span)
        weights, scales = self._streams[key]
        return replace(cut, weights=weights, scales=scales)

    def _constants_of(
        self, before: KernelOperation, cut: KernelOperation, span: Interval
    ) -> tuple[tuple[ByteRange, ...], tuple[ByteRange, ...]]:
        first, last = span
        made = self.with_weights(cut, self.weights(before)[first:last]) if before.weights else cut
        if before.scales:
            made = self.with_records(made, self.records(before)[first * RECORD_BYTES : last * RECORD_BYTES])
        return made.weights, made.scales


class Held(Struct, frozen=True):
    """Tensor ``name``, which holds a ``box`` of a tensor with some ``axes``, densely; axis ``outer`` is the outermost one in memory."""

    name: str
    box: Box
    axes: StoredAxes
    outer: int = 1

    def tensor(self, element_size: int) -> Tensor:
        """The tensor as a row of bytes: only the axes of images are known."""
        return Tensor.dense(self.name, TensorKind.INTERMEDIATE, (self._size // element_size,), element_size)

    @property
    def _steps(self) -> tuple[int, ...]:
        """Bytes from one element of each axis to the next."""
        shape = lengths(self.box)
        order = [self.outer, *(axis for axis in range(len(shape)) if axis != self.outer)]
        inner = accumulate((shape[axis] for axis in reversed(order[1:])), lambda step, size: step * size, initial=self.axes.steps[-1])
        found = dict(zip(reversed(order), inner, strict=True))
        return tuple(found[axis] for axis in range(len(shape)))

    @property
    def _size(self) -> int:
        return self._steps[self.outer] * lengths(self.box)[self.outer]

    def moved(self, feature_map: FeatureMap) -> FeatureMap:
        """A map of one tile that lies inside the box, at the addresses of this tensor."""
        base, rest = 0, feature_map.base
        for old, new, (low, _) in zip(self.axes.steps, self._steps, self.box, strict=True):
            at, rest = divmod(rest, old)
            base += (at - low) * new
        made = placed(feature_map, feature_map.shape, Tiles.single(feature_map.shape, base))
        return replace(made, strides=self._strides(feature_map))

    def _strides(self, feature_map: FeatureMap) -> Strides:
        """The strides of a map: the same number of elements on each axis of the tensor as before."""
        old, new, given = self.axes.steps, self._steps, feature_map.strides
        if feature_map.layout is Layout.NHCWB16:
            return Strides(given.y // old[1] * new[1] or new[1], given.x, new[2])
        return Strides(given.y // old[1] * new[1] or new[1], given.x // old[2] * new[2] or new[2], given.c)


_ROWS = 1
"""The axis of rows, in bricks and without."""


class Unrolled(Struct, frozen=True):
    """A network whose kernels are the boxes of plans; ``groups`` holds the numbers of kernels of each plan, one plan after the other.

    ``units`` holds the bytes of a row, or a column, of the rolling tensors. ``staged`` holds the kernels that read the constants that each
    plan stages, grouped by constants.
    """

    network: Network
    groups: tuple[int, ...]
    units: Mapping[str, int]
    staged: tuple[tuple[tuple[str, ...], ...], ...]


def unrolled(network: Network, plans: Sequence[StripePlan], accelerator: Accelerator, sources: Sources) -> Unrolled:
    """``network`` in the stripes of plans of its affine graph that cover it.

    InputError, with the part or the tensor, if the NPU cannot execute a plan.
    """
    unroller = _Unroller(network, accelerator, sources)
    made = [tuple(unroller.group(plan.group)) for plan in plans]
    parts = tuple(part for group in made for part in group)
    used = {name for part in parts for name in (*part.inputs, *part.outputs)}
    tensors = (*(tensor for tensor in network.graph.tensors if tensor.name in used | network.bound), *unroller.tensors.values())
    of: dict[str, list[str]] = {}
    for part in parts:
        of.setdefault(unroller.origin[part.name], []).append(part.name)
    segments, order = [], {part.name: number for number, part in enumerate(parts)}
    for segment in network.segments:
        names = sorted((new for old in segment.parts for new in of.get(old, ())), key=order.__getitem__)
        segments.append(replace(segment, parts=tuple(names)))
    built = replace(network, graph=CascaderGraph(parts, tensors), segments=tuple(segments))
    finished = unroller.maker.finished(built)
    kernels = finished.kernels
    staged = []
    for plan, own in zip(plans, made, strict=True):
        wanted = {unroller.graph.parts[index].name for index in plan.staged}
        readers: dict[tuple[ByteRange, ...], list[str]] = {}
        for part in own:
            if unroller.origin[part.name] in wanted and (ranges := weight_ranges(kernels[part.name].operation)):
                readers.setdefault(ranges, []).append(part.name)
        staged.append(tuple(map(tuple, readers.values())))
    return Unrolled(finished.repeating(network), tuple(map(len, made)), unroller.units, tuple(staged))


class _Unroller:
    """A network under construction: the tensors that hold boxes, and the original part of each new part."""

    def __init__(self, network: Network, accelerator: Accelerator, sources: Sources) -> None:
        self.network, self.graph, self.stored = network, affine_graph(network), stored_tensors(network)
        self.maker = BoxMaker(network, accelerator, sources)
        self.tensors: dict[str, Tensor] = {}
        self.origin: dict[str, str] = {}
        self.units: dict[str, int] = {}
        self._rolls: dict[str, Axis] = {}
        self._parts = {part.name: part for part in network.graph.parts}

    def group(self, group: StripedGroup) -> Iterator[Part]:
        """The parts of a group, stripe by stripe."""
        if group.external:
            raise InputError(
                f"Tensor {min(group.external)!r} is external in a plan for the NPU, whose stripes are not copied: leave it out."
            )
        traced = trace(self.graph, group)
        rolling = {one.tensor: self._rolling(one, traced) for one in traced.buffers if one.mode is BufferMode.ROLLING}
        held: dict[str, Held | None] = dict(rolling)
        for step in range(group.stripes.count):
            for name in group.modes:
                if name not in rolling and not is_empty(traced.filled[name][step]):
                    box = hull(traced.filled[name][step], self._written(name, traced, step))
                    held[name] = self._held(f"{name}/stripe{step}", name, box)
            for index in range(group.first, group.last + 1):
                if not is_empty(traced.made[index][step]):
                    suffix = f"/stripe{step}" if group.stripes.count > 1 else ""
                    yield from self._made(self.graph.parts[index], traced.made[index][step], held, suffix)

    def _written(self, name: str, traced: StripeTrace, step: int) -> Box:
        boxes = (self.graph.parts[index].written(traced.made[index][step]) for index in self.graph.writers(name) if index in traced.made)
        return reduce(hull, boxes)

    def _held(self, new: str, name: str, box: Box, outer: int = _ROWS) -> Held | None:
        """The tensor that holds a box of another one; None if the box is all of it, unmoved."""
        tensor, axes = self.graph.tensor(name), self.stored.axes(name)
        if axes is None or (box == whole(tensor.shape) and outer == _ROWS):
            return None
        made = Held(new, box, axes, outer)
        self.tensors[new] = made.tensor(self.network.graph.tensor(name).element_size)
        return made

    def _rolling(self, buffer: StripeBuffer, traced: StripeTrace) -> Held | None:
        """The tensor of all used elements, whose buffer rolls along its outermost axis."""
        used = [self._written(buffer.tensor, traced, step) for step in range(len(traced.work))]
        box = reduce(hull, [*used, *traced.needed[buffer.tensor]])
        axis = buffer.axis or 0
        if buffer.shape == lengths(box):
            return self._held(f"{buffer.tensor}/rolling", buffer.tensor, box)
        if axis not in (_ROWS, Axis.COLUMNS.number) or (axis != _ROWS and len(box) != NHWC_AXES):
            raise InputError(f"Tensor {buffer.tensor!r} rolls along axis {axis} of {len(box)}: the NPU rolls rows, and columns of NHWC.")
        self._rolls[buffer.tensor] = Axis.ROWS if axis == _ROWS else Axis.COLUMNS
        made = self._held(f"{buffer.tensor}/rolling", buffer.tensor, box, axis)
        name = buffer.tensor if made is None else made.name
        self.units[name] = (self.tensors.get(name) or self.network.graph.tensor(name)).size // (box[axis][1] - box[axis][0])
        return made

    def _axis(self, name: str, kernel: EthosuPart) -> Axis:
        """The axis along which the tensor of a kernel rolls."""
        axes = {self._rolls[one] for one, _ in kernel.maps if one in self._rolls}
        if len(axes) > 1:
            raise InputError(f"Part {name!r} has a tensor that rolls along rows and one along columns: recompute one of them.")
        return axes.pop() if axes else kernel.axis

    def _made(self, seen: Part, box: Box, held: Mapping[str, Held | None], suffix: str) -> Iterator[Part]:
        """The part for a box of its result. A CPU operator is several parts of the graph; the first one represents it."""
        part = self._parts.get(seen.name)
        if part is None:
            return
        self.origin[part.name + suffix] = part.name
        kernel = part.payload
        if not isinstance(kernel, EthosuPart):
            yield part
            return
        made = kernel if box == seen.whole else self.maker.box(part.name, kernel, Ranges.of(box, kernel.operation.ofm.shape))
        own = {name: found for name in (kernel.ifm, kernel.ifm2, kernel.ofm) if name is not None and (found := held.get(name))}

        def moved(name: str | None, feature_map: FeatureMap) -> FeatureMap:
            return feature_map if name not in own or feature_map.region != ARENA else own[name].moved(feature_map)

        payload = replace(made, operation=made.on_maps(moved), axis=self._axis(part.name, kernel))
        yield part_of(part, payload.renamed({name: one.name for name, one in own.items()}), part.name + suffix)
