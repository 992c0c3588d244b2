"""Sliding windows of kernels: the taps that lie inside the IFM, and the loops over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cascader.tensorir.writer import Writer
from npu_model.program import KernelOperation, Upscale
from npu_model.values import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a window: OFM extent, taps, stride, dilation, elements of padding before it, and where the IFM ends.

    Positions count from the first IFM element, or from the first one of the upscaled IFM.
    """

    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int
    limit: int
    upscale: Upscale

    def conditions(self, position: Any) -> list[Any]:
        """Conditions for ``position`` to be an IFM element, without those that always hold."""
        last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.before
        found = []
        if self.before > 0:
            found.append(position >= 0)
        if last >= self.limit:
            found.append(position < self.limit)
        return found

    def source(self, position: Any) -> Any:
        """The IFM index behind a position."""
        return position if self.upscale is Upscale.NONE else position // 2


def axes(operation: KernelOperation) -> tuple[Axis, Axis]:
    """The rows and the columns of an operation's window.

    An upscaled map of an odd extent has one element more than the windows need: the limit leaves it out.
    """
    kernel, padding, ifm, ofm = operation.kernel, operation.padding, operation.ifm.shape, operation.ofm.shape
    factor = 1 if operation.upscale is Upscale.NONE else 2
    made = []
    for outputs, taps, stride, dilation, before, after, extent in (
        (ofm.height, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top, padding.bottom, ifm.height),
        (ofm.width, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left, padding.right, ifm.width),
    ):
        covered = (outputs - 1) * stride + (taps - 1) * dilation + 1
        limit = min(extent * factor, covered - before - after)
        made.append(Axis(outputs, taps, stride, dilation, before, limit, operation.upscale))
    return made[0], made[1]


@contextmanager
def inside(writer: Writer, name: str, axis: Axis, output: Any) -> Iterator[tuple[Any, Any]]:
    """A loop over the taps of ``axis`` that lie inside the IFM for one ``output`` index; gives (tap, IFM index).

    Between the elements of a map that is upscaled with zeros there is nothing to add, and such taps are skipped.
    """
    with writer.loop(name, axis.taps) as tap:
        position = writer.bind("position", output * axis.stride + tap * axis.dilation - axis.before, "int32")
        conditions = axis.conditions(position)
        if axis.upscale is Upscale.ZEROS:
            conditions.append(writer.tvm.tirx.truncmod(position, writer.constant(2, "int32")) == 0)
        with writer.when(conditions):
            yield tap, axis.source(position)


def inside_count(writer: Writer, axis: Axis, output: Any) -> Any:
    """Number of taps of an undilated ``axis`` that lie inside the IFM for one ``output`` index, an int32 expression."""
    tirx = writer.tvm.tirx
    first = writer.bind("first_tap", output * axis.stride - axis.before, "int32")
    low = tirx.max(first, writer.constant(0, "int32"))
    return tirx.min(first + axis.taps, writer.constant(axis.limit, "int32")) - low
