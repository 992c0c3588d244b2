"""Small graphs of every kind of part over (height, width, channels), made by hand and at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from msgspec.structs import replace

from cascader.graph.cascader_graph import CascaderGraph, Operand, Part, Tensor, TensorKind
from cascader.graph.propagator import InputAxis, Propagator, upscaled, window

Shape = tuple[int, int, int]


def convolution(channels: int, *, taps: int = 3, stride: int = 1, pad: int = 0, dilation: int = 1) -> Propagator:
    """A square window over rows and columns, of all ``channels``."""
    own = {"taps": taps, "stride": stride, "pad": pad, "dilation": dilation}
    return Propagator.of_axes((window(0, **own), window(1, **own), InputAxis(None, 0, channels)), 3)


def pooling(*, taps: int = 2, stride: int = 1, pad: int = 0) -> Propagator:
    """A square window, channel by channel."""
    return Propagator.of_axes((window(0, taps=taps, stride=stride, pad=pad), window(1, taps=taps, stride=stride, pad=pad), InputAxis(2)), 3)


def two_convolutions() -> CascaderGraph:
    """The RFC's example: (1, 26, 26, 3), a 3 x 3 convolution to (1, 24, 24, 32), a 1 x 1 one to (1, 24, 24, 8)."""
    tensors = (
        Tensor.dense("in", TensorKind.INPUT, (1, 26, 26, 3)),
        Tensor.dense("middle", TensorKind.INTERMEDIATE, (1, 24, 24, 32)),
        Tensor.dense("out", TensorKind.OUTPUT, (1, 24, 24, 8)),
    )

    def of(channels: int, taps: int) -> Propagator:
        return Propagator.of_axes((InputAxis(0), window(1, taps=taps), window(2, taps=taps), InputAxis(None, 0, channels)), 4)

    parts = (
        Part.striped("conv1", (Operand("in", of(3, 3)),), "middle", (1, 24, 24, 32), work=27),
        Part.striped("conv2", (Operand("middle", of(32, 1)),), "out", (1, 24, 24, 8), work=32),
    )
    return CascaderGraph(parts, tensors)


@dataclass
class _Draft:
    """A graph in the making; tensors are INTERMEDIATE until it is known who reads them."""

    draw: st.DrawFn
    tensors: list[Tensor] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)

    def tensor(self, kind: TensorKind, shape: Shape) -> str:
        self.tensors.append(Tensor.dense(f"t{len(self.tensors)}", kind, shape, self.draw(st.integers(1, 2))))
        return self.tensors[-1].name

    def part(self, inputs: list[tuple[str, Propagator]], output: str, shape: Shape, **fields: tuple[int, ...]) -> None:
        operands = tuple(Operand(name, propagator) for name, propagator in inputs)
        self.parts.append(Part.striped(f"p{len(self.parts)}", operands, output, shape, work=self.draw(st.integers(1, 4)), **fields))

    def source(self) -> Tensor:
        """A tensor to read, mostly the newest one."""
        return self.tensors[-1] if self.draw(st.integers(0, 3)) else self.draw(st.sampled_from(self.tensors))

    def convolve(self) -> None:
        source = self.source()
        taps, stride, pad, dilation = (self.draw(st.integers(*bounds)) for bounds in ((1, 3), (1, 2), (0, 1), (1, 2)))
        height, width, channels = source.shape
        dilated = (taps - 1) * dilation + 1
        shape = tuple((size + 2 * pad - dilated) // stride + 1 for size in (height, width))
        if min(shape) < 1 or pad >= dilated:
            return
        made = (*shape, self.draw(st.integers(1, 3)))
        propagator = convolution(channels, taps=taps, stride=stride, pad=pad, dilation=dilation)
        self.part([(source.name, propagator)], self.tensor(TensorKind.INTERMEDIATE, made), made)

    def pool(self) -> None:
        source = self.source()
        taps, pad = self.draw(st.integers(2, 3)), self.draw(st.integers(0, 1))
        height, width, channels = source.shape
        made = (height + 2 * pad - taps + 1, width + 2 * pad - taps + 1, channels)
        if min(made) >= 1:
            self.part([(source.name, pooling(taps=taps, pad=pad))], self.tensor(TensorKind.INTERMEDIATE, made), made)

    def join(self) -> None:
        first = self.source()
        fitting = [tensor for tensor in self.tensors if tensor.shape == first.shape]
        second = self.draw(st.sampled_from(fitting))
        inputs = [(name, Propagator.identity(3)) for name in dict.fromkeys((first.name, second.name))]
        self.part(inputs, self.tensor(TensorKind.INTERMEDIATE, first.shape), first.shape)

    def concatenate(self) -> None:
        """Two pieces side by side along the channels or the rows."""
        first = self.source()
        axis = self.draw(st.sampled_from((0, 2)))
        fitting = [
            t for t in self.tensors if all(a == b for own, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if own != axis)
        ]
        second = self.draw(st.sampled_from(fitting))
        whole = tuple(a + b if own == axis else a for own, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)))
        output = self.tensor(TensorKind.INTERMEDIATE, (whole[0], whole[1], whole[2]))
        start = tuple(first.shape[axis] if own == axis else 0 for own in range(3))
        self.part([(first.name, Propagator.identity(3))], output, first.shape)
        self.part([(second.name, Propagator.identity(3))], output, second.shape, offset=start)

    def upscale(self) -> None:
        source = self.source()
        height, width, channels = source.shape
        if max(height, width) > 3:
            return
        made = (2 * height, 2 * width, channels)
        propagator = Propagator.of_axes((upscaled(window(0), 2), upscaled(window(1), 2), InputAxis(2)), 3)
        self.part([(source.name, propagator)], self.tensor(TensorKind.INTERMEDIATE, made), made, align=(2, 1, 1))

    def cut(self) -> None:
        """A slice that leaves out the first row and column."""
        source = self.source()
        height, width, channels = source.shape
        if min(height, width) > 1:
            made = (height - 1, width - 1, channels)
            propagator = Propagator.of_axes((InputAxis(0, offset=1), InputAxis(1, offset=1), InputAxis(2)), 3)
            self.part([(source.name, propagator)], self.tensor(TensorKind.INTERMEDIATE, made), made)

    def opaque(self) -> None:
        source = self.source()
        made = (self.draw(st.integers(1, 3)), self.draw(st.integers(1, 3)), 1)
        self.part([(source.name, Propagator.opaque(source.shape, 3))], self.tensor(TensorKind.INTERMEDIATE, made), made, align=made)

    def finish(self) -> CascaderGraph:
        read = {operand.tensor for part in self.parts for operand in part.operands}
        for index, tensor in enumerate(self.tensors):
            kept = tensor.name not in read or self.draw(st.integers(0, 9)) == 0
            if tensor.kind is TensorKind.INTERMEDIATE and kept:
                self.tensors[index] = replace(tensor, kind=TensorKind.OUTPUT)
        return CascaderGraph(tuple(self.parts), tuple(self.tensors))


@st.composite
def affine_graphs(draw: st.DrawFn, max_parts: int = 5, max_size: int = 6) -> CascaderGraph:
    """Graphs of one to ``max_parts`` parts: convolutions with strides, dilations and pads, poolings, joins of forks,
    concatenations, upscalings, slices, parts that cannot be cut."""
    draft = _Draft(draw)
    size = st.integers(2, max_size)
    draft.tensor(TensorKind.INPUT, (draw(size), draw(size), draw(st.integers(1, 2))))
    kinds: list[Callable[[], None]] = [draft.convolve] * 4 + [draft.join] * 3 + [draft.pool, draft.concatenate, draft.concatenate]
    kinds += [draft.upscale, draft.cut, draft.opaque]
    while len(draft.parts) < draw(st.integers(1, max_parts)):
        before = len(draft.parts)
        draw(st.sampled_from(kinds))()
        if len(draft.parts) > max_parts:
            del draft.parts[before:], draft.tensors[-1]
            break
    if not draft.parts:
        draft.join()
    return draft.finish()
