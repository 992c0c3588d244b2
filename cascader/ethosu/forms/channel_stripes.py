"""Channel stripes: inverted bottlenecks without a whole expanded tensor. Its channels are computed slice by slice for a few rows.

An expansion (1x1), a depthwise convolution and a projection (1x1) run in stripes of the projection's rows. For each stripe the first two
compute one slice of channels after the other, and each slice is exact. The projection then reads the whole rows that the depthwise one
wrote. The expanded rows at the border of a stripe are recomputed for the next stripe, with the same factors, so the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.job.feature_maps import channels, dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, part_of
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import FeatureMap, Kernel, KernelOperation, OperationKind, Padding, Upscale
from npu_model.shapes import Shape3D
from npu_model.weight_stream.streams import has_streams


class Stripes(Struct, frozen=True, order=True):
    """Sizes of a block's cuts: rows of the projection in a stripe, and channels of a slice, a multiple of 16."""

    rows: int
    depth: int


class Block(Struct, frozen=True):
    """The parts of an inverted bottleneck in order: the expansion, the depthwise convolution, and the projection."""

    expansion: Part
    depthwise: Part
    projection: Part

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """The parts in their order."""
        return self.expansion, self.depthwise, self.projection

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(part.name for part in self.parts)

    @property
    def kernels(self) -> tuple[EthosuPart, EthosuPart, EthosuPart]:
        """Their kernels."""
        found = [part.payload for part in self.parts if isinstance(part.payload, EthosuPart)]
        expansion, depthwise, projection = found
        return expansion, depthwise, projection

    @property
    def rows(self) -> int:
        """Rows of the projection's result."""
        return self.kernels[2].operation.ofm.shape.height

    def count(self, cut: Stripes) -> int:
        """Parts of the block in stripes."""
        stripes = -(-self.rows // cut.rows)
        return stripes * (1 + 2 * -(-self.kernels[0].operation.ofm.shape.depth // cut.depth))

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


def blocks(network: Network) -> Iterator[Block]:
    """The inverted bottlenecks of a network, whose inner tensors no other part uses."""
    graph = network.graph
    for first in range(len(graph.parts) - 2):
        parts = graph.parts[first : first + 3]
        kernels = [part.payload for part in parts if isinstance(part.payload, EthosuPart)]
        if len(kernels) < len(parts) or not all(map(_is_plain, kernels)):
            continue
        expansion, depthwise, projection = kernels
        window = depthwise.operation.kind is OperationKind.DEPTHWISE and _is_pointwise(expansion.operation)
        if not window or not _is_pointwise(projection.operation):
            continue
        inside = [graph.tensor(kernel.ofm) for kernel in (expansion, depthwise)]
        alone = all(len(graph.producers(one.name)) == len(graph.consumers(one.name)) == 1 for one in inside)
        chained = depthwise.ifm == expansion.ofm and projection.ifm == depthwise.ofm
        kept = any(one.kind is not TensorKind.INTERMEDIATE or one.name in network.bound for one in inside)
        whole = all(a.operation.ofm.shape == b.operation.ifm.shape for a, b in ((expansion, depthwise), (depthwise, projection)))
        if alone and chained and whole and not kept:
            yield Block(*parts)


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
        (expansion, depthwise, projection), found = block.kernels, list[Part]()
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
            last_one = projection.operation
            ifm = replace(whole, zero_point=last_one.ifm.zero_point)
            ofm = last_one.ofm.part((low, high), (0, last_one.ofm.shape.width))
            fitting = self._maker.in_block(replace(last_one, ifm=ifm, ofm=ofm))
            if fitting is None:
                return None
            made_rows = replace(projection, ifm=name, operation=fitting)
            found.append(part_of(block.projection, made_rows, f"{block.projection.name}/stripe{number}"))
        return found

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
        made |= {block.expansion.name: parts, block.depthwise.name: [], block.projection.name: []}
        gone |= {kernel.ofm for kernel in block.kernels[:2]}
    return cutter.finished(made, gone) if made else network
