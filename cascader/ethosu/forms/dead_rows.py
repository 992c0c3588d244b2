"""Dead rows: depthwise convolutions that write each row over the row of their input that no later row reads, slice by slice of channels.

Row y of a window of three reads rows y - 1 to y + 1, and row y - 1 for the last time. A slice of channels of it is dead once the same slice
of the result is made. So the next slice of the result may lie there. The result needs one slice of bytes beside each row, and no row.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.brick_tensors import Bricks, bricks_by_tensor, first_element
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.graph.cascader_graph import TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, OperationKind, Strides, Upscale
from npu_model.shapes import ceil_div, round_up
from npu_model.weight_stream.streams import has_streams

MOST_SLICES = 18
"""Slices of a depthwise convolution at most: they run in one group with the parts before and after them."""
FEW_CHANNELS = 96
"""Channels up to which a convolution takes dense pixels, whose slices may be half a brick: a slice counts three times."""


class _Shared(Struct, frozen=True):
    """The common grid of an input and a result: ``height`` rows of ``pitch`` bytes, the input ``lead`` rows and ``gap`` bytes behind.

    Dense pixels are ``pixel`` bytes apart; 0 stands for bricks.
    """

    height: int
    pitch: int
    pixel: int
    lead: int
    gap: int

    @property
    def size(self) -> int:
        """Bytes of each of the two tensors."""
        return self.height * self.pitch

    def feature_map(self, feature_map: FeatureMap, *, read: bool) -> FeatureMap:
        """A map of all rows in bricks where its channels lie in the grid: in the input if ``read``, else in the result."""
        size, first, shape = feature_map.dtype.bytes, first_element(feature_map).channel, feature_map.shape
        plane = shape.width * BRICK * size
        begin = self.lead * self.pitch + self.gap if read else 0
        unused = feature_map.tiles.bases[1:]
        if self.pixel:
            base, layout, strides = begin + first * size, Layout.NHWC, Strides(self.pitch, self.pixel, size)
        else:
            base, layout, strides = begin + first // BRICK * plane, Layout.NHCWB16, replace(feature_map.strides, y=self.pitch, c=plane)
        return replace(feature_map, layout=layout, strides=strides, tiles=replace(feature_map.tiles, bases=(base, *unused)))


class Depthwise(Struct, frozen=True):
    """A depthwise convolution that may write over dead rows: its part's name, its kernel, its tensors, and the channels of a slice."""

    name: str
    kernel: EthosuPart
    source: Bricks
    target: Bricks
    depth: int
    dense: bool

    @property
    def slices(self) -> list[tuple[int, int]]:
        """First and last (exclusive) channel of each slice."""
        whole = self.target.depth
        return [(first, min(whole, first + self.depth)) for first in range(0, whole, self.depth)]

    @property
    def shared(self) -> _Shared:
        """The grid of its tensors."""
        source, lead, gap = self.source, self.kernel.operation.padding.top, self.depth * self.source.element
        height = max(source.height + lead, self.target.height)
        pixel = (source.depth * source.element + gap) if self.dense else 0
        wide = pixel * source.width if pixel else (source.bricks * BRICK * source.element + gap) * source.width
        return _Shared(height, wide, pixel, lead, gap if pixel else gap * source.width)

    @property
    def saved(self) -> int:
        """Bytes that a rolling buffer of input and result together has less than two of their own, about."""
        taps, depth = self.kernel.operation.kernel.dilated_height, self.source.depth * self.source.element
        return self.target.width * self.target.depth * self.target.element - taps * (self.shared.pitch - self.source.width * depth)


def _may_share(kernel: EthosuPart) -> bool:
    operation = kernel.operation
    plain = kernel.axis is Axis.ROWS and not kernel.transfer and operation.upscale is Upscale.NONE and operation.kernel.stride_y == 1
    return plain and operation.kind is OperationKind.DEPTHWISE and operation.ifm2 is None and has_streams(operation)


def _is_whole(feature_map: FeatureMap, bricks: Bricks) -> bool:
    """Whether a map has all rows and columns of a tensor, and channels from the first one of a brick on."""
    first, shape = first_element(feature_map), feature_map.shape
    whole = (shape.height, shape.width) == (bricks.height, bricks.width)
    return whole and first.row == first.column == 0 and first.channel % BRICK == 0 and feature_map.region == ARENA


def depthwise_over_dead_rows(network: Network, accelerator: Accelerator) -> Iterator[Depthwise]:
    """The depthwise convolutions of a network that may write over dead rows and would save bytes by it."""
    graph, found, accesses = network.graph, bricks_by_tensor(network), network.accesses()
    handed = {port.tensor for port in network.ports} | network.bound
    for name, kernel in network.kernels.items():
        if not _may_share(kernel) or not {kernel.ifm, kernel.ofm} <= found.keys():
            continue
        ends = kernel.ifm, kernel.ofm
        source, target = (found[end] for end in ends)
        inside = all(graph.tensor(end).kind is TensorKind.INTERMEDIATE and end not in handed for end in ends)
        alone = [part.name for part in graph.consumers(kernel.ifm)] == [name] == [part.name for part in graph.producers(kernel.ofm)]
        whole = all(_is_whole(fm, bricks) for end, bricks in zip(ends, (source, target), strict=True) for _, fm in accesses[end])
        rows = all(user.axis is Axis.ROWS for end in ends for user, _ in accesses[end])
        taps = kernel.operation.kernel.dilated_height
        if not (inside and alone and whole and rows) or source.height <= taps or source.depth != target.depth:
            continue
        dense = target.depth % BRICK > 0 or target.depth <= FEW_CHANNELS
        depth = round_up(ceil_div(target.depth, MOST_SLICES), accelerator.ofm_ublock.depth if dense else BRICK)
        one = Depthwise(name, kernel, source, target, depth, dense)
        if len(one.slices) > 1 and one.saved > 0:
            yield one


def _moved(kernel: EthosuPart, read: Mapping[str, _Shared], written: Mapping[str, _Shared]) -> KernelOperation:
    """The operation of a kernel with its maps of some tensors where these lie over dead rows, or are these rows."""

    def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        if name is not None and name in read:
            return read[name].feature_map(feature_map, read=True)
        return written[name].feature_map(feature_map, read=False) if name is not None and name in written else feature_map

    return kernel.on_maps(stored)


class _Sharer:
    """Lets depthwise convolutions of one network write over dead rows."""

    def __init__(self, network: Network, accelerator: Accelerator, sources: Sources) -> None:
        self._maker, self._network = KernelMaker(network, accelerator, sources), network
        self._slices: dict[str, list[EthosuPart]] = {}
        self._read: dict[str, _Shared] = {}
        self._written: dict[str, _Shared] = {}

    def take(self, one: Depthwise) -> None:
        """Cut a convolution into slices; it stays as it is if one of them fits into no block."""
        ifm, ofm = one.kernel.ifm, one.kernel.ofm
        if ifm in self._written:
            return
        read, written = {ifm: one.shared}, {ofm: one.shared}
        operation = _moved(one.kernel, read, written)
        found = [self._maker.channel_slice(operation, *some) for some in one.slices]
        if all(found):
            self._slices[one.name] = [replace(one.kernel, operation=piece) for piece in found if piece is not None]
            self._read |= read
            self._written |= written

    def finished(self) -> Network:
        """The network with what was taken."""
        shared = self._read | self._written
        kernels = self._network.kernels.items()
        users = [(name, kernel) for name, kernel in kernels if any(tensor in shared for tensor, _ in kernel.maps)]
        moved = {
            name: self._slices.get(name) or [replace(kernel, operation=_moved(kernel, self._read, self._written))] for name, kernel in users
        }
        network = self._maker.replaced(moved)
        tensors = tuple(replace(one, size=shared[one.name].size) if one.name in shared else one for one in network.graph.tensors)
        return replace(network, graph=replace(network.graph, tensors=tensors)) if shared else network


def over_dead_rows(network: Network, names: Container[str], accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with the named depthwise convolutions over dead rows, where they may be; itself if none is.

    A tensor between two of them is the result of the first alone.
    """
    sharer = _Sharer(network, accelerator, sources)
    for one in depthwise_over_dead_rows(network, accelerator):
        if one.name in names:
            sharer.take(one)
    return sharer.finished()
