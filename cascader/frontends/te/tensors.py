"""Tensors of a network of Tensor Expressions: which of them have bytes of their own, what their users see of them, and their layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cascader.frontends.te.attributes import CONCATENATE, FROM_BRICKS, RESHAPE, SLICE, TO_BRICKS
from cascader.frontends.te.matchers import MOVES, Operator
from cascader.frontends.te.registers import dense_map, image
from cascader.graph.cascader_graph import Tensor, TensorKind
from npu_model.errors import InputError
from npu_model.program import BRICK, DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.shapes import Shape3D, ceil_div


class TensorView(Struct, frozen=True):
    """An operator's view of a tensor: the tensor as an array of ``extent``, and the elements of ``shape`` that begin at ``first``.

    ``own`` says that the array has the tensor's own shape, not another shape with the same elements.
    """

    tensor: str
    extent: Shape3D
    shape: Shape3D
    first: tuple[int, int, int] = (0, 0, 0)
    own: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the view covers the whole tensor."""
        return self.shape == self.extent


class Views:
    """The views of every tensor of a graph. A move without a kernel gives a view of its operand."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], outputs: Iterable[str]) -> None:
        self._shapes = shapes
        self._outputs = frozenset(outputs)
        self._found: dict[str, TensorView] = {}
        self._bricks: set[str] = set()

    def __getitem__(self, tensor: str) -> TensorView:
        """The view for the tensor's name."""
        if tensor not in self._found:
            shape = image("The graph", tensor, self._shapes[tensor])
            self._found[tensor] = TensorView(tensor, shape, shape)
        return self._found[tensor]

    def move(self, name: str, operator: Operator) -> None:
        """Take a reshape, a slice or a change of layout for a view of its operand."""
        read = operator.pieces[0]
        if (read in self._bricks) != (operator.op == FROM_BRICKS):
            raise InputError(f"{operator.op} {name!r} reads {read!r} in another layout: write and read a tensor in one layout.")
        source = self[read]
        if operator.op == TO_BRICKS:
            if name in self._outputs:
                raise InputError(f"Output {name!r} is in layout NHCWB16: inputs and outputs are NHWC; give it ofm_layout NHWC.")
            self._bricks.add(name)
            self._found[name] = source
        elif operator.op == FROM_BRICKS:
            channels = self._shapes[name][-1]
            if channels != source.shape.depth:
                raise InputError(f"{name!r} reads {channels} channels of {read!r}, which has {source.shape.depth}: read all of them.")
            self._found[name] = source
        elif operator.op == RESHAPE:
            shape = image(RESHAPE, name, self._shapes[name])
            if not source.is_whole:
                raise InputError(f"reshape {name!r} reads a slice: copy it first, with ethosu_identity.")
            same = shape == source.extent
            self._found[name] = source if same else TensorView(source.tensor, shape, shape, own=False)
        else:
            begin = (0,) * (4 - len(operator.begin)) + operator.begin
            first = (source.first[0] + begin[1], source.first[1] + begin[2], source.first[2] + begin[3])
            self._found[name] = replace(source, shape=image(SLICE, name, self._shapes[name]), first=first)
        if name in self._outputs and not self._found[name].is_whole:
            raise InputError(f"Output {name!r} is a slice of tensor {source.tensor!r}: copy it with ethosu_identity.")

    def place(self, name: str, into: TensorView) -> None:
        """Make a tensor a part of another one."""
        self._found[name] = into


class Stored(Struct, frozen=True):
    """A tensor with bytes of its own."""

    tensor: Tensor
    dtype: DataType
    layout: Layout

    @property
    def extent(self) -> Shape3D:
        """Height, width and channels."""
        return Shape3D(*self.tensor.shape)

    def feature_map(self, view: TensorView, shape: Shape3D, zero_point: int) -> FeatureMap:
        """The first ``shape`` elements of a view, in the form that a kernel addresses."""
        dense = dense_map(view.extent, self.dtype, zero_point)
        if self.layout is Layout.NHWC:
            return dense.at(dense.address(*view.first), shape)
        brick, bricks = BRICK * self.dtype.bytes, ceil_div(view.extent.depth, BRICK)
        plane = view.extent.width * brick
        made = replace(dense, layout=self.layout, strides=Strides(bricks * plane, brick, plane))
        return replace(made, shape=shape, tiles=Tiles.single(shape, made.address(*view.first)))


def stored(name: str, kind: TensorKind, extent: Shape3D, dtype: DataType, views: Iterable[TensorView]) -> Stored:
    """The layout of a tensor: bricks if only kernels use it, each in the tensor's own shape and from a whole brick on; otherwise NHWC.

    Vela gives it the same layout. The search may take other layouts.
    """
    bricked = kind is TensorKind.INTERMEDIATE and all(view.own and view.first[2] % BRICK == 0 for view in views)
    layout = Layout.NHCWB16 if bricked else Layout.NHWC
    depth = ceil_div(extent.depth, BRICK) * BRICK if bricked else extent.depth
    size = extent.height * extent.width * depth * dtype.bytes
    return Stored(Tensor(name, kind, size, (extent.height, extent.width, extent.depth), dtype.bytes), dtype, layout)


def written_in_place(operators: Mapping[str, Operator], outputs: Iterable[str], inputs: Iterable[str]) -> dict[str, str]:
    """The tensors that kernels write directly into a concatenation, each with the name of its only reader, the concatenation."""
    readers: dict[str, list[str]] = {}
    for name, operator in operators.items():
        read = operator.pieces or tuple(operator.tensors.values())
        for tensor in read:
            readers.setdefault(tensor, []).append(name)
    ends = {*outputs, *inputs}
    return {
        tensor: users[0]
        for tensor, users in readers.items()
        if len(users) == 1 and tensor not in ends and tensor in operators and operators[users[0]].op == CONCATENATE
        if operators[tensor].op not in MOVES
    }
