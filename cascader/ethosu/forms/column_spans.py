"""Column spans: which columns of every tensor some columns of a segment's results need, and the kernels that make just these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, KernelOperation, Layout, OperationKind, Padding, PoolKind, Strides, Tiles, Upscale
from npu_model.shapes import Shape3D

Span = tuple[int, int]
"""First column and last one (exclusive)."""


class Grid(Struct, frozen=True):
    """A tensor of rows of ``width`` pixels, as all of its accesses see it: each map has the columns from the first on, not always all."""

    width: int
    layout: Layout
    strides: Strides
    element: int

    def _pixel(self) -> int:
        """Bytes from column to column: of a pixel, or of one brick of it."""
        return BRICK * self.element if self.layout is Layout.NHCWB16 else self.strides.x

    def _line(self) -> int:
        """Bytes of the columns that lie side by side: of a row, or of a row of bricks."""
        return self.strides.c if self.layout is Layout.NHCWB16 else self.strides.y

    def narrowed(self, columns: int) -> Grid:
        """The same rows of fewer columns."""
        line = columns * self._pixel()
        y = self.strides.y // self._line() * line
        c = line if self.layout is Layout.NHCWB16 else self.strides.c
        return Grid(columns, self.layout, Strides(y, self.strides.x, c), self.element)

    def size(self, tensor: int, columns: int) -> int:
        """Bytes of a tensor of so many bytes with fewer columns."""
        return tensor // self._line() * columns * self._pixel()

    def part(self, feature_map: FeatureMap, span: Span) -> FeatureMap:
        """Some columns of a map of the tensor, where it lies."""
        shape = Shape3D(feature_map.shape.height, span[1] - span[0], feature_map.shape.depth)
        return feature_map.at(feature_map.base + span[0] * self._pixel(), shape)

    def moved(self, feature_map: FeatureMap, span: Span, held: Span) -> FeatureMap:
        """Some columns of a map in a tensor that holds the columns ``held`` alone."""
        other = self.narrowed(held[1] - held[0])
        line, within = divmod(feature_map.base, self._line())
        shape = Shape3D(feature_map.shape.height, span[1] - span[0], feature_map.shape.depth)
        base = line * other._line() + within + (span[0] - held[0]) * self._pixel()  # noqa: SLF001  # of its own class
        return replace(feature_map, shape=shape, strides=other.strides, tiles=Tiles.single(shape, base))


def grid_of(tensor: Tensor, maps: Sequence[FeatureMap]) -> Grid | None:
    """The grid that all of some maps of a tensor agree in, in which nothing but columns lies in a row; None if there is none."""
    if not maps:
        return None
    layout, strides, element = maps[0].layout, maps[0].strides, maps[0].dtype.bytes
    alike = all((one.layout, one.strides, one.dtype.bytes) == (layout, strides, element) and one.is_single_tile for one in maps)
    line, pixel = (strides.c, BRICK * element) if layout is Layout.NHCWB16 else (strides.y, strides.x)
    if not alike or min(line, pixel, strides.y) < 1 or line % pixel or strides.y % line or tensor.size % line:
        return None
    width = line // pixel
    inside = all(one.base % line < pixel and one.shape.width <= width for one in maps)
    return Grid(width, layout, strides, element) if inside else None


def read_span(operation: KernelOperation, operand: FeatureMap, span: Span) -> tuple[Span, int, int]:
    """The columns of an operand that some columns of the result need, and the padding before and after them."""
    if operation.kind is OperationKind.ELEMENTWISE:
        return (span if operand.shape.width == operation.ofm.shape.width else (0, operand.shape.width)), 0, 0
    window = Axis.COLUMNS.window(operation)
    low, high = span[0] * window.stride - window.pad, (span[1] - 1) * window.stride + window.taps - window.pad
    width = operand.shape.width
    return (max(0, low), min(width, high)), max(0, -low), max(0, high - width)


def may_be_cut(kernel: EthosuPart) -> bool:
    """Whether the columns of a kernel's result can be made apart from each other by kernels of the same kind.

    An average with padding counts the elements inside its map only where it has padding: inside a tile it would divide by one.
    """
    operation = kernel.operation
    if operation.pool is PoolKind.AVERAGE and operation.padding != Padding():
        return False
    return not kernel.transfer and kernel.axis is Axis.ROWS and operation.upscale is Upscale.NONE and operation.ofm.region == ARENA


def for_columns(
    kernel: EthosuPart, span: Span, grids: Mapping[str, Grid], held: Mapping[str, Span], names: Mapping[str, str]
) -> EthosuPart:
    """The kernel for some columns of its result; its block is still to be chosen.

    A tensor of ``held`` is another one, named by ``names``, that has these columns alone. Any other one stays where it is.
    """
    operation = kernel.operation

    def moved(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        columns = span if feature_map is operation.ofm else read_span(operation, feature_map, span)[0]
        if name is None or feature_map.region != ARENA:
            whole = columns == (0, feature_map.shape.width)
            return feature_map if whole else feature_map.part((0, feature_map.shape.height), columns)
        if feature_map.shape.width == 1 and name not in grids:
            return feature_map
        grid = grids[name]
        return grid.moved(feature_map, columns, held[name]) if name in held else grid.part(feature_map, columns)

    _, before, after = read_span(operation, operation.ifm, span)
    padding = replace(operation.padding, left=before, right=after) if operation.kind is not OperationKind.ELEMENTWISE else operation.padding
    made = replace(kernel.on_maps(moved), padding=padding)
    return replace(
        kernel,
        operation=made,
        ifm=names.get(kernel.ifm, kernel.ifm),
        ofm=names.get(kernel.ofm, kernel.ofm),
        ifm2=None if kernel.ifm2 is None else names.get(kernel.ifm2, kernel.ifm2),
    )


class ColumnSpan(Struct, frozen=True):
    """Parts ``first`` to ``last`` of a network that can be made in columns: their grids, and the tensors that others read or see."""

    first: int
    last: int
    grids: dict[str, Grid]
    results: tuple[str, ...]
    inside: tuple[str, ...]
    """The tensors that no other part reads or writes."""

    def needs(self, network: Network, count: int, number: int) -> dict[str, Span] | None:
        """The columns of the segment's tensors that one of ``count`` tiles makes; None if that is none of one of them."""
        spans: dict[str, Span] = {}

        def ask(name: str, span: Span) -> None:
            low, high = spans.get(name, span)
            spans[name] = min(low, span[0]), max(high, span[1])

        for name in self.results:
            width = self.grids[name].width
            ask(name, (width * number // count, width * (number + 1) // count))
        written = {*self.results, *self.inside}
        for part in reversed(network.graph.parts[self.first : self.last + 1]):
            kernel = part.payload
            assert isinstance(kernel, EthosuPart)  # noqa: S101  # a segment has no other parts
            span = spans.get(kernel.ofm)
            if span is None or span[0] >= span[1]:
                return None
            for read, operand in kernel.operands:
                if read is not None and read in written:
                    ask(read, read_span(kernel.operation, operand, span)[0])
        return spans

    def macs(self, network: Network, count: int) -> int | None:
        """The multiply-accumulates of the segment in so many tiles; None if it cannot be cut into as many."""
        total = 0
        for number in range(count):
            spans = self.needs(network, count, number)
            if spans is None:
                return None
            for part in network.graph.parts[self.first : self.last + 1]:
                kernel = part.payload
                assert isinstance(kernel, EthosuPart)  # noqa: S101  # a segment has no other parts
                low, high = spans[kernel.ofm]
                total += kernel.operation.macs * (high - low) // kernel.operation.ofm.shape.width
        return total


def _has_all_columns(kernel: EthosuPart, grids: Mapping[str, Grid]) -> bool:
    """Whether each operand in the arena is one column that all share, or of a grid."""
    return all(
        name in grids or (operand.shape.width == 1 and kernel.operation.kind is OperationKind.ELEMENTWISE)
        for name, operand in kernel.operands
        if name is not None and operand.region == ARENA
    )


def segment(network: Network, first: int, last: int) -> ColumnSpan | None:
    """The parts from ``first`` to ``last`` as a segment; None if one of them cannot be made in columns, or they are of several NPU jobs."""
    graph = network.graph
    parts = graph.parts[first : last + 1]
    kernels = [part.payload for part in parts]
    names = {part.name for part in parts}
    if not any(names <= set(one.parts) for one in network.segments):
        return None
    if any(not isinstance(kernel, EthosuPart) or not may_be_cut(kernel) for kernel in kernels):
        return None
    made = [kernel for kernel in kernels if isinstance(kernel, EthosuPart)]
    written = dict.fromkeys(kernel.ofm for kernel in made)
    seen = {port.tensor for port in (*network.inputs, *network.outputs, *network.variables, *network.handed_on)}
    results = [name for name in written if name in seen or any(part.name not in names for part in _users(network, name))]
    maps: dict[str, list[FeatureMap]] = {}
    for kernel in made:
        for used, one in kernel.maps:
            if used is not None:
                maps.setdefault(used, []).extend([one] if one.region == ARENA else ())
    grids: dict[str, Grid] = {}
    for name, found in maps.items():
        grid = grid_of(graph.tensor(name), found)
        if grid is not None:
            grids[name] = grid
    variable = any(graph.tensor(name).kind is TensorKind.VARIABLE for name in written)
    if variable or any(kernel.ofm not in grids or not 1 < grids[kernel.ofm].width == kernel.operation.ofm.shape.width for kernel in made):
        return None
    if not all(_has_all_columns(kernel, grids) for kernel in made):
        return None
    return ColumnSpan(first, last, grids, tuple(results), tuple(name for name in written if name not in results))


def _users(network: Network, tensor: str) -> Iterator[Part]:
    """The parts that write or read a tensor."""
    yield from network.graph.producers(tensor)
    yield from network.graph.consumers(tensor)
