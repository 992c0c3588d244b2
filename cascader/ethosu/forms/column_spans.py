"""Column spans: the columns of every tensor that some columns of a segment's results need, and the kernels that compute only these.

A grid is a tensor as rows of columns of bytes. Every kernel's map has its own columns, with any first column and any step. A column of a
map may be several columns of the grid (a reshaped view: four pixels of 4 channels as one of 16). It may be every other column (a phase of
an upscaled image), or begin further on (a border of a padded image).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.axis import Axis, upscaling
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.program import BRICK, FeatureMap, Layout, OperationKind, Padding, PoolKind, Strides, Tiles, Upscale
from npu_model.shapes import Shape3D, ceil_div

Span = tuple[int, int]
"""First column and last one (exclusive)."""


def _step(feature_map: FeatureMap) -> int:
    """Bytes from one column of a map to the next: the bytes of a pixel, or of one of its bricks."""
    return BRICK * feature_map.dtype.bytes if feature_map.layout is Layout.NHCWB16 else feature_map.strides.x


def _reach(feature_map: FeatureMap) -> int:
    """Bytes of a map's column that lie next to each other."""
    size = feature_map.dtype.bytes
    return (BRICK if feature_map.layout is Layout.NHCWB16 else feature_map.shape.depth) * size


class Grid(Struct, frozen=True):
    """A tensor of rows (in NHCWB16: rows of bricks) of ``line`` bytes, in ``width`` columns of ``unit`` bytes each."""

    width: int
    unit: int

    @property
    def line(self) -> int:
        """Bytes of the columns that lie next to each other."""
        return self.width * self.unit

    def size(self, tensor: int, columns: int) -> int:
        """Bytes of a tensor of ``size`` bytes once it has fewer columns."""
        return tensor // self.line * columns * self.unit

    def _place(self, feature_map: FeatureMap) -> tuple[int, int, int]:
        """The grid columns of a map: its first column, the step between columns, and the number of grid columns that each one touches."""
        first, within = divmod(feature_map.base % self.line, self.unit)
        return first, max(1, _step(feature_map) // self.unit), ceil_div(within + _reach(feature_map), self.unit)

    def span(self, feature_map: FeatureMap, columns: Span) -> Span:
        """The columns of the tensor that some columns of a map touch."""
        first, step, reach = self._place(feature_map)
        return first + columns[0] * step, first + (columns[1] - 1) * step + reach

    def columns(self, feature_map: FeatureMap, span: Span) -> Span:
        """The columns of a map that touch some columns of the tensor. If none do, the last one comes before the first."""
        first, step, reach = self._place(feature_map)
        low, high = ceil_div(span[0] - first - reach + 1, step), (span[1] - 1 - first) // step + 1
        low = min(max(0, low), feature_map.shape.width)
        return low, max(low, min(feature_map.shape.width, high))

    def moved(self, feature_map: FeatureMap, columns: Span, held: Span) -> FeatureMap:
        """Some columns of a map in a tensor that holds only the columns ``held`` of the grid."""
        line = (held[1] - held[0]) * self.unit
        at, within = divmod(feature_map.base, self.line)
        shape = Shape3D(feature_map.shape.height, columns[1] - columns[0], feature_map.shape.depth)
        strides = feature_map.strides
        c = line if feature_map.layout is Layout.NHCWB16 else strides.c
        base = at * line + within + columns[0] * _step(feature_map) - held[0] * self.unit
        return replace(
            feature_map, shape=shape, strides=Strides(strides.y // self.line * line, strides.x, c), tiles=Tiles.single(shape, base)
        )


def grid_of(tensor: Tensor, maps: Sequence[FeatureMap]) -> Grid | None:
    """The grid of the columns of all maps of a tensor; None if a row holds more than columns."""
    if not maps or not all(one.is_single_tile for one in maps):
        return None
    lines = {one.strides.c if one.layout is Layout.NHCWB16 else one.strides.y for one in maps}
    line = min(lines)
    steps = [_step(one) for one in maps if one.shape.width > 1 or one.layout is Layout.NHCWB16]
    unit = gcd(*steps) if steps else line
    strides = (*lines, *(one.strides.y for one in maps), tensor.size)
    if min(line, unit) < 1 or line % unit or any(stride < 1 or stride % line for stride in strides):
        return None
    inside = all(one.base % line + (one.shape.width - 1) * _step(one) + _reach(one) <= line for one in maps)
    return Grid(line // unit, unit) if inside else None


_BORDERS = 8
"""The most columns by which a border between tiles moves to a column where all kernels of a result may part."""


def may_be_cut(kernel: EthosuPart) -> bool:
    """Whether kernels of the same kind can compute the columns of a kernel's result separately.

    An average with padding counts the elements inside its map only where it has padding: inside a tile it would divide by another number.
    The upscaler makes two columns of each column. A window with a larger step would begin with the second of the two.
    """
    operation = kernel.operation
    if operation.pool is PoolKind.AVERAGE and operation.padding != Padding():
        return False
    steps = operation.upscale is not Upscale.NONE and Axis.COLUMNS.window(operation).stride > 1
    return not kernel.transfer and kernel.axis is Axis.ROWS and not steps and operation.ofm.region == ARENA


def for_columns(
    kernel: EthosuPart, span: Span, grids: Mapping[str, Grid], held: Mapping[str, Span], names: Mapping[str, str]
) -> EthosuPart:
    """The kernel for some columns of its result, before its block is chosen.

    A tensor in ``held`` becomes the tensor that ``names`` gives, which has only these columns of its grid. The other tensors keep their
    addresses.
    """
    operation = kernel.operation

    def moved(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        columns = span if feature_map is operation.ofm else Axis.COLUMNS.read(operation, feature_map, *span)[:2]
        if name is not None and name in held and feature_map.region == ARENA:
            return grids[name].moved(feature_map, columns, held[name])
        whole = columns == (0, feature_map.shape.width)
        return feature_map if whole else feature_map.part((0, feature_map.shape.height), columns)

    *_, before, after = Axis.COLUMNS.read(operation, operation.ifm, *span)
    padding = replace(operation.padding, left=before, right=after) if operation.kind is not OperationKind.ELEMENTWISE else operation.padding
    made = replace(kernel.on_maps(moved), padding=padding)
    return replace(
        kernel,
        operation=made,
        ifm=names.get(kernel.ifm, kernel.ifm),
        ofm=names.get(kernel.ofm, kernel.ofm),
        ifm2=None if kernel.ifm2 is None else names.get(kernel.ifm2, kernel.ifm2),
    )


class Tiling(Struct, frozen=True):
    """A number of tiles, and the shares of the width that the first and the last one have; the others are equally wide.

    >>> [[tiling.border(22, at) for at in range(5)] for tiling in (Tiling(4), Tiling(4, Fraction(1, 3), Fraction(3, 8)))]
    [[0, 5, 11, 16, 22], [0, 7, 10, 13, 22]]
    """

    count: int
    first: Fraction | None = None
    last: Fraction | None = None

    def border(self, width: int, at: int) -> int:
        """The first column of tile ``at`` in a result of some width."""
        if at in (0, self.count):
            return width * at // self.count
        # A search asks for thousands of borders, and fractions take long.
        first, of_first = (self.first or Fraction(1, self.count)).as_integer_ratio()
        last, of_last = (self.last or Fraction(1, self.count)).as_integer_ratio()
        if at == 1:
            return width * first // of_first
        inside, others = of_first * of_last - first * of_last - last * of_first, self.count - 2
        return width * (first * of_last * others + inside * (at - 1)) // (of_first * of_last * others)


class TileSpans(Struct, frozen=True):
    """Columns of a tile: for each tensor of the segment the columns of its grid, and for each part the columns of its result.

    Tensors and parts that the tile does not need are left out.
    """

    tensors: dict[str, Span]
    parts: dict[str, Span]


class ColumnSpan(Struct, frozen=True):
    """Parts ``first`` to ``last`` of a network that can be computed in columns: their grids, and the tensors that others read or see."""

    first: int
    last: int
    grids: dict[str, Grid]
    results: tuple[str, ...]
    inside: tuple[str, ...]
    """The tensors that only this segment reads or writes."""

    def kernels(self, network: Network) -> Iterator[tuple[str, EthosuPart]]:
        """The segment's parts by their names, the last one first."""
        for part in reversed(network.graph.parts[self.first : self.last + 1]):
            assert isinstance(part.payload, EthosuPart)  # noqa: S101  # a segment has no other parts
            yield part.name, part.payload

    def reads(self, network: Network) -> set[str]:
        """The tensors that the segment reads and does not write."""
        return {name for _, kernel in self.kernels(network) for name, _ in kernel.operands if name} - {*self.results, *self.inside}

    def _made(self, kernel: EthosuPart, span: Span) -> Span:
        """The columns of a kernel's result that some columns of its tensor need.

        After the upscaler they begin with the first of two, or with padding.
        """
        low, high = self.grids[kernel.ofm].columns(kernel.operation.ofm, span)
        begin = low - Axis.COLUMNS.window(kernel.operation).pad
        return (low - 1 if low < high and begin > 0 and begin % upscaling(kernel.operation) else low), high

    def _border(self, network: Network, name: str, wanted: int) -> int | None:
        """The nearest column of a result, before the wanted one, at which all its kernels may part; None if there is none."""
        width = self.grids[name].width
        makers = [kernel for _, kernel in self.kernels(network) if kernel.ofm == name]
        if wanted in (0, width):
            return wanted

        def parts_at(border: int) -> bool:
            for kernel in makers:
                before, after = self._made(kernel, (0, border)), self._made(kernel, (border, width))
                if before[1] > after[0]:
                    return False
            return True

        return next((border for border in range(wanted, max(0, wanted - _BORDERS), -1) if parts_at(border)), None)

    def needs(self, network: Network, tiling: Tiling, number: int) -> TileSpans | None:
        """The columns that tile ``number`` computes; None if the tile has no column of a result."""
        spans: dict[str, Span] = {}
        parts: dict[str, Span] = {}

        def ask(name: str, span: Span) -> None:
            low, high = spans.get(name, span)
            spans[name] = min(low, span[0]), max(high, span[1])

        for name in self.results:
            width = self.grids[name].width
            low, high = (self._border(network, name, tiling.border(width, at)) for at in (number, number + 1))
            if low is None or high is None or low >= high:
                return None
            ask(name, (low, high))
        written = {*self.results, *self.inside}
        for part, kernel in self.kernels(network):
            made = self._made(kernel, spans[kernel.ofm]) if kernel.ofm in spans else (0, 0)
            if made[0] >= made[1]:
                continue
            parts[part] = made
            if kernel.ofm in self.inside:
                ask(kernel.ofm, self.grids[kernel.ofm].span(kernel.operation.ofm, made))
            for read, operand in kernel.operands:
                if read is not None and read in written:
                    ask(read, self.grids[read].span(operand, Axis.COLUMNS.read(kernel.operation, operand, *made)[:2]))
        return TileSpans(spans, parts)

    def macs(self, network: Network, tiling: Tiling) -> int | None:
        """The multiply-accumulates of the segment in tiles; None if it cannot be cut like this."""
        total = 0
        for number in range(tiling.count):
            spans = self.needs(network, tiling, number)
            if spans is None:
                return None
            for part, kernel in self.kernels(network):
                low, high = spans.parts.get(part, (0, 0))
                total += kernel.operation.macs * (high - low) // kernel.operation.ofm.shape.width
        return total


def _has_all_columns(kernel: EthosuPart, grids: Mapping[str, Grid]) -> bool:
    """Whether each operand in the arena has a grid, or is one column that all tiles share."""
    return all(
        name in grids or (operand.shape.width == 1 and kernel.operation.kind is OperationKind.ELEMENTWISE)
        for name, operand in kernel.operands
        if name is not None and operand.region == ARENA
    )


def segment(network: Network, first: int, last: int) -> ColumnSpan | None:
    """The parts from ``first`` to ``last`` as a segment.

    None if one cannot be computed in columns, or if they belong to several NPU jobs.
    """
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
    if variable or any(kernel.ofm not in grids or grids[kernel.ofm].width < 2 for kernel in made):
        return None
    if not all(_has_all_columns(kernel, grids) for kernel in made):
        return None
    return ColumnSpan(first, last, grids, tuple(results), tuple(name for name in written if name not in results))


def _users(network: Network, tensor: str) -> Iterator[Part]:
    """The parts that write or read a tensor."""
    yield from network.graph.producers(tensor)
    yield from network.graph.consumers(tensor)
