"""ConstantOutput: an output of a network that no operator writes, as anchors that an exporter passes through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from npu_model.brief import Brief
from npu_model.program.feature_map import DataType
from npu_model.program.program import Quantisation

T = TypeVar("T")


class ConstantOutput(Brief, frozen=True):
    """An output with its values: ``place`` is its number among all outputs of the network, ``content`` its bytes, row-major."""

    unshown = ("content",)

    place: int
    name: str
    shape: tuple[int, ...]
    dtype: DataType
    content: bytes
    quantisation: Quantisation | None = None


def in_order(written: Sequence[T], constants: Sequence[ConstantOutput], made: Sequence[T]) -> list[T]:
    """Put the outputs of a network in their order: ``written`` are its operators' outputs, ``made`` the outputs of the ``constants``.

    >>> one = ConstantOutput(1, "anchors", (2,), DataType(8, signed=True), bytes(2))
    >>> in_order(["boxes", "scores"], [one], ["anchors"])
    ['boxes', 'anchors', 'scores']
    """
    result = list(written)
    for constant, item in sorted(zip(constants, made, strict=True), key=lambda pair: pair[0].place):
        result.insert(constant.place, item)
    return result
