"""Boxes: the kernel that makes some rows, columns and channels of another kernel's result."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.job.feature_maps import channels
from cascader.ethosu.job.stripes import BufferPlace, stripe
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.graph.intervals import Box, Interval
from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program import BRICK, ByteRange, KernelOperation, Layout, OperationKind, Padding, PoolKind
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


def _mixes(operation: KernelOperation) -> bool:
    """Whether a channel of the result needs all channels of the IFM."""
    return operation.kind is OperationKind.CONV_2D or operation.pool is PoolKind.REDUCE_SUM


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
        follows = [one for one in (operation.ifm, second) if one is not None and one.shape.depth == depth and not _mixes(operation)]
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
