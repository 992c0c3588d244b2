"""Channel stripes: inverted bottlenecks without a whole expanded tensor. Its channels are computed slice by slice for a few rows.

An expansion (1x1), a depthwise convolution and a projection (1x1) run in stripes of the projection's rows. For each stripe the first two
compute one slice of channels after the other, and each slice is exact. The projection then reads the whole rows that the depthwise one
wrote. The expanded rows at the border of a stripe are recomputed for the next stripe, with the same factors, so the bytes are the same.
If a sum with a skip follows, it adds the rows of each stripe at once. Then the projection's result never exists as a whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.job.feature_maps import channels, dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, part_of
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import ElementwiseKind, FeatureMap, Kernel, KernelOperation, OperationKind, Padding, Upscale
from npu_model.shapes import Shape3D
from npu_model.weight_stream.streams import has_streams

_ADDED = 3
"""Feature maps of a sum: two operands and the result."""


class Stripes(Struct, frozen=True, order=True):
    """Sizes of a block's cuts: rows of the projection in a stripe, and channels of a slice, a multiple of 16."""

    rows: int
    depth: int


class Block(Struct, frozen=True):
    """The parts of an inverted bottleneck in order: the expansion, the depthwise convolution, and the projection.

    The ``sum`` is the next part, if it adds a skip to the projection's result, and no other part reads that result.
    """

    expansion: Part
    depthwise: Part
    projection: Part
    sum: Part | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in their order."""
        return self.expansion, self.depthwise, self.projection, *(() if self.sum is None else (self.sum,))

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(part.name for part in self.parts)

    @property
    def kernels(self) -> tuple[EthosuPart, ...]:
        """Their kernels."""
        return tuple(part.payload for part in self.parts if isinstance(part.payload, EthosuPart))

    @property
    def ends(self) -> tuple[str, str]:
        """The tensors that the block reads and makes."""
        return self.kernels[0].ifm, self.kernels[-1].ofm

    @property
    def rows(self) -> int:
        """Rows of the projection's result."""
        return self.kernels[2].operation.ofm.shape.height

    def count(self, cut: Stripes) -> int:
        """Parts of the block in stripes."""
        stripes = -(-self.rows // cut.rows)
        return stripes * (len(self.parts) - 2 + 2 * -(-self.kernels[0].operation.ofm.shape.depth // cut.depth))

    def stripes(self, cut: Stripes) -> Iterator[tuple[int, int]]:
        """The first and the last row (exclusive) of each stripe."""
        return ((first, min(self.rows, first + cut.rows)) for first in range(0, self.rows, cut.rows))

    def macs(self, cut: Stripes) -> int:
        """Multiply-accumulates that the block recomputes in stripes."""
        expansion, depthwise = (kernel.operation for kernel in self.kernels[:2])
        made = [Axis.ROWS.read(depthwise, depthwise.ifm, *rows)[:2] for rows in self.stripes(cut)]
        height = expansion.ofm.shape.height
        return expansion.macs * sum(last - first for first, last in made) // height - expansion.macs

    def between(self, cut: Stripes) -> int:
        """Approximate bytes of the tensors of one stripe."""
        expansion, depthwise = (kernel.operation for kernel in self.kernels[:2])
        rows = max(last - first for first, last, *_ in (Axis.ROWS.read(depthwise, depthwise.ifm, *some) for some in self.stripes(cut)))
        row, made = expansion.ofm.shape, depthwise.ofm.shape
        elements = rows * row.width * min(cut.depth, row.depth) + min(cut.rows, made.height) * made.width * made.depth
        return elements * depthwise.ofm.dtype.bytes


def _is_plain(kernel: EthosuPart) -> bool:
    operation = kernel.operation
    maps = all(one.region == ARENA and one.is_single_tile for _, one in kernel.maps)
    plain = kernel.axis is Axis.ROWS and not kernel.transfer and kernel.lut is None and operation.upscale is Upscale.NONE
    return plain and maps and operation.ifm2 is None and has_streams(operation) and not operation.decompose


def _is_pointwise(operation: KernelOperation) -> bool:
    return operation.kind is OperationKind.CONV_2D and operation.kernel == Kernel() and operation.padding == Padding()


def _is_inner(network: Network, name: str, bound: Container[str]) -> bool:
    """Whether one part alone makes a tensor, one part alone reads it, and no user of the network does: it is not ``bound``."""
    graph, tensor = network.graph, network.graph.tensor(name)
    alone = len(graph.producers(name)) == len(graph.consumers(name)) == 1
    return alone and tensor.kind is TensorKind.INTERMEDIATE and name not in bound


def _sum(network: Network, index: int, made: str, bound: Container[str]) -> Part | None:
    """The part at ``index`` if it adds a skip to the tensor ``made``, and no other part uses that tensor."""
    part = next(iter(network.graph.parts[index : index + 1]), None)
    kernel = part.payload if part is not None else None
    if not isinstance(kernel, EthosuPart) or made not in (kernel.ifm, kernel.ifm2) or kernel.ifm == kernel.ifm2:
        return None
    operation, maps = kernel.operation, [one for _, one in kernel.maps]
    adds = operation.elementwise is ElementwiseKind.ADD and kernel.axis is Axis.ROWS and not kernel.transfer and kernel.lut is None
    whole = len(maps) == _ADDED and all(one.shape == operation.ofm.shape and one.region == ARENA for one in maps)
    return part if adds and whole and all(one.is_single_tile for one in maps) and _is_inner(network, made, bound) else None


def blocks(network: Network) -> Iterator[Block]:
    """The inverted bottlenecks of a network, whose inner tensors no other part uses."""
    graph, bound = network.graph, network.bound
    for first in range(len(graph.parts) - 2):
        parts = graph.parts[first : first + 3]
        kernels = [part.payload for part in parts if isinstance(part.payload, EthosuPart)]
        if len(kernels) < len(parts) or not all(map(_is_plain, kernels)):
            continue
        expansion, depthwise, projection = kernels
        window = depthwise.operation.kind is OperationKind.DEPTHWISE and _is_pointwise(expansion.operation)
        if not window or not _is_pointwise(projection.operation):
            continue
        alone = all(_is_inner(network, kernel.ofm, bound) for kernel in (expansion, depthwise))
        chained = depthwise.ifm == expansion.ofm and projection.ifm == depthwise.ofm
        whole = all(a.operation.ofm.shape == b.operation.ifm.shape for a, b in ((expansion, depthwise), (depthwise, projection)))
        if alone and chained and whole:
            begin, middle, end = parts
            yield Block(begin, middle, end, _sum(network, first + 3, projection.ofm, bound))


class _Cutter:
    """Cuts blocks of one network."""

    def __init__(self, network: Network, accelerator: Accelerator, sources: Sources) -> None:
        self._maker = KernelMaker(network, accelerator, sources)
        self._network = network
        self._tensors: list[Tensor] = []

    def _stored(self, name: str, like: FeatureMap, shape: Shape3D) -> FeatureMap:
        """The map of a new tensor of a shape."""
        element = like.dtype.bytes
        self._tensors.append(Tensor.dense(name, TensorKind.INTERMEDIATE, (shape.height, shape.width, shape.depth), element))
        return dense_map(like, shape)

    def cut(self, block: Block, cut: Stripes) -> list[Part] | None:
        """The parts of a block in stripes; None if one of their kernels fits no block."""
        (expansion, depthwise, *_), found = block.kernels, list[Part]()
        depth = expansion.operation.ofm.shape.depth
        spans = [(first, min(depth, first + cut.depth)) for first in range(0, depth, cut.depth)]
        made = [
            (self._maker.channel_slice(expansion.operation, *span), self._maker.channel_slice(depthwise.operation, *span)) for span in spans
        ]
        for number, (low, high) in enumerate(block.stripes(cut)):
            first, last, above, below = Axis.ROWS.read(depthwise.operation, depthwise.operation.ifm, low, high)
            name = f"{depthwise.ofm}/stripe{number}"
            width = depthwise.operation.ofm.shape.width
            whole = self._stored(name, depthwise.operation.ofm, Shape3D(high - low, width, depth))
            for at, ((begin, end), (one, two)) in enumerate(zip(spans, made, strict=True)):
                if one is None or two is None:
                    return None
                inner = f"{expansion.ofm}/stripe{number}.{at}"
                rows = self._stored(inner, expansion.operation.ofm, Shape3D(last - first, one.ofm.shape.width, end - begin))
                columns = 0, one.ifm.shape.width
                padding = Axis.ROWS.padding(two.padding, above, below)
                pieces = (
                    (block.expansion, replace(expansion, ofm=inner), replace(one, ifm=one.ifm.part((first, last), columns), ofm=rows)),
                    (
                        block.depthwise,
                        replace(depthwise, ifm=inner, ofm=name),
                        replace(two, ifm=replace(rows, zero_point=two.ifm.zero_point), ofm=channels(whole, begin, end), padding=padding),
                    ),
                )
                for part, kernel, operation in pieces:
                    fitting = self._maker.in_block(operation)
                    if fitting is None:
                        return None
                    found.append(part_of(part, replace(kernel, operation=fitting), f"{part.name}/stripe{number}.{at}"))
            ended = self._ended(block, number, (low, high), (name, whole))
            if ended is None:
                return None
            found += ended
        return found

    def _ended(self, block: Block, number: int, rows: tuple[int, int], made: tuple[str, FeatureMap]) -> list[Part] | None:
        """The projection of a stripe, and its sum with the skip; None if one of them fits no block.

        ``made`` is the depthwise convolution's tensor of the stripe and its map.
        """
        projection, columns = block.kernels[2], (0, block.kernels[2].operation.ofm.shape.width)
        ifm, ofm, target = made[1], projection.operation.ofm.part(rows, columns), projection.ofm
        if block.sum is not None:
            target = f"{target}/stripe{number}"
            ofm = self._stored(target, ofm, ofm.shape)
        ifm = replace(ifm, zero_point=projection.operation.ifm.zero_point)
        projected = replace(projection, ifm=made[0], ofm=target, operation=replace(projection.operation, ifm=ifm, ofm=ofm))
        pieces = [(block.projection, projected)]
        if block.sum is not None:

            def stored(name: str | None, feature_map: FeatureMap) -> FeatureMap:
                inside = name == projection.ofm
                return replace(ofm, zero_point=feature_map.zero_point) if inside else feature_map.part(rows, columns)

            added = block.kernels[-1]
            pieces.append((block.sum, replace(added, operation=added.on_maps(stored)).renamed({projection.ofm: target})))
        found = [(part, kernel, self._maker.in_block(kernel.operation)) for part, kernel in pieces]
        if any(fitting is None for *_, fitting in found):
            return None
        return [part_of(part, replace(kernel, operation=one), f"{part.name}/stripe{number}") for part, kernel, one in found if one]

    def finished(self, made: dict[str, list[Part]], gone: set[str]) -> Network:
        """The network with some parts replaced by others, without the tensors that no part uses any more."""
        kept = [tensor for tensor in self._network.graph.tensors if tensor.name not in gone]
        return self._maker.finished(self._network.with_parts(made, (*kept, *self._tensors))).repeating(self._network)


def in_channel_stripes(network: Network, cuts: dict[str, Stripes], accelerator: Accelerator, sources: Sources) -> Network | None:
    """``network`` with the blocks that begin with the named parts in stripes of channels; None if one cannot be cut like this.

    Two blocks that share a part cannot both be cut.
    """
    cutter, made, gone = _Cutter(network, accelerator, sources), dict[str, list[Part]](), set[str]()
    for block in blocks(network):
        cut = cuts.get(block.expansion.name)
        if cut is None:
            continue
        if block.names & made.keys():
            return None
        parts = cutter.cut(block, cut)
        if parts is None:
            return None
        made |= {name: [] for name in block.names} | {block.expansion.name: parts}
        gone |= {kernel.ofm for kernel in block.kernels[:-1]}
    return cutter.finished(made, gone) if made else network
