"""Cuts of pools: a window over all rows of a map becomes windows over a few rows each, and one window over their results."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA
from npu_model.program import LONGEST_STRIDE, FeatureMap, Kernel, KernelOperation, Layout, Padding, Upscale
from npu_model.shapes import Shape3D, ceil_div


def whole_axis(operation: KernelOperation) -> Axis | None:
    """The axis that the operation's one window spans without any padding; None if there is none."""
    ifm, kernel = operation.ifm, operation.kernel
    axis = Axis.ROWS if ifm.shape.height > 1 else Axis.COLUMNS
    whole = axis.extent(ifm.shape) == axis.window(operation).taps > 1 and axis.extent(operation.ofm.shape) == 1
    plain = kernel.dilation_y == kernel.dilation_x == 1 and operation.padding == Padding() and operation.upscale is Upscale.NONE
    maps = (ifm, operation.ofm)
    inside = all(one.region == ARENA and one.is_single_tile for one in maps) and ifm.shape.depth == operation.ofm.shape.depth
    return axis if whole and plain and inside and not operation.decompose else None


def times_in_channels(operation: KernelOperation, axis: Axis, most: int) -> list[int]:
    """The numbers of adjacent pixels that can be viewed as one pixel with at most ``most`` channels; 1 first."""
    ifm = operation.ifm
    depth, size = ifm.shape.depth, ifm.dtype.bytes
    dense = ifm.layout is Layout.NHWC and ifm.strides.x == depth * size and operation.ofm.shape.width == 1 and axis is Axis.ROWS
    return [times for times in range(1, most // depth + 1) if ifm.shape.width % times == 0] if dense and 2 * depth <= most else [1]


def in_channels(operation: KernelOperation, times: int) -> KernelOperation:
    """The operation on ``times`` pixels viewed as one with as many channels. It writes as many results; their addresses are not set yet."""
    if times == 1:
        return operation
    ifm, ofm, kernel = operation.ifm, operation.ofm, operation.kernel
    shape = Shape3D(ifm.shape.height, ifm.shape.width // times, ifm.shape.depth * times)
    seen = replace(ifm.at(ifm.base, shape), strides=replace(ifm.strides, x=ifm.strides.x * times))
    return operation.having(
        ifm=seen,
        ofm=dense_map(ofm, Shape3D(1, 1, ofm.shape.depth * times)),
        kernel=replace(kernel, width=kernel.width // times),
    )


class PoolCut(Struct, frozen=True):
    """A pool that is cut along an axis: a window of ``taps`` elements gives one of ``count`` intermediate elements."""

    axis: Axis
    taps: int
    count: int

    def held(self, ifm: FeatureMap) -> int:
        """Bytes of the map that a window reads."""
        return self.taps * (ifm.shape.elements // self.axis.extent(ifm.shape)) * ifm.dtype.bytes

    def between(self, ofm: Shape3D) -> Shape3D:
        """The shape of the intermediate map of a pool that writes ``ofm``."""
        return self.axis.cut(ofm, self.count)

    def first(self, operation: KernelOperation, ofm: FeatureMap) -> KernelOperation:
        """The operation that writes an intermediate map. Its last window may reach into padding.

        The zeros of padding add nothing to a sum, and no maximum is one of them.
        """
        lacking = self.count * self.taps - self.axis.extent(operation.ifm.shape)
        along = {"height": self.taps, "stride_y": self.taps} if self.axis is Axis.ROWS else {"width": self.taps, "stride_x": self.taps}
        return operation.having(ofm=ofm, kernel=replace(operation.kernel, **along), padding=self.axis.padding(Padding(), 0, lacking))

    def stripe(self, first: KernelOperation, count: int) -> KernelOperation:
        """The first kernel for some elements of the intermediate map, if they are whole, adjacent windows."""
        some = min(count, self.count) if self.taps <= LONGEST_STRIDE else 1
        step = self.taps if some > 1 else 1
        along = {"stride_y": step} if self.axis is Axis.ROWS else {"stride_x": step}
        ifm, ofm = self.axis.cut(first.ifm.shape, some * self.taps), self.axis.cut(first.ofm.shape, some)
        return first.having(
            ifm=first.ifm.at(first.ifm.base, ifm),
            ofm=first.ofm.at(first.ofm.base, ofm),
            kernel=replace(first.kernel, **along),
            padding=Padding(),
        )

    def rest(self, operation: KernelOperation, ifm: FeatureMap, times: int = 1) -> KernelOperation:
        """The operation that reads an intermediate map with ``times`` its channels.

        The first operation has done all work across the axis.
        """
        if self.axis is Axis.COLUMNS:
            return operation.having(ifm=ifm, kernel=Kernel(width=self.count))
        if times == 1:
            return operation.having(ifm=ifm, kernel=Kernel(height=self.count))
        shape = Shape3D(self.count, times, operation.ifm.shape.depth)
        return operation.having(ifm=dense_map(ifm, shape, ifm.base), kernel=Kernel(self.count, times))

    def part(self, feature_map: FeatureMap, first: int, last: int) -> FeatureMap:
        """The elements of a map along the axis from ``first`` to ``last`` (exclusive)."""
        shape = feature_map.shape
        if self.axis is Axis.ROWS:
            return feature_map.part((first, last), (0, shape.width))
        return feature_map.part((0, shape.height), (first, last))


def pool_cut(axis: Axis, operation: KernelOperation, tallest: int, element: int) -> PoolCut | None:
    """The cut that holds the fewest bytes: the elements that a window reads, and the intermediate map, at ``element`` bytes each.

    A window has at most ``tallest`` elements along the axis; over columns it has the NPU's longest step. None if no cut saves any bytes.
    """
    ifm, ofm = operation.ifm, operation.ofm.shape
    extent = axis.extent(ifm.shape)
    beside = ifm.shape.elements // extent * ifm.dtype.bytes

    def held(taps: int) -> int:
        return taps * beside + ceil_div(extent, taps) * ofm.elements * element

    most = min(tallest if axis is Axis.ROWS else LONGEST_STRIDE, extent - 1)
    taps = min(range(1, most + 1), key=held, default=0)
    return PoolCut(axis, taps, ceil_div(extent, taps)) if taps and held(taps) < extent * beside else None
