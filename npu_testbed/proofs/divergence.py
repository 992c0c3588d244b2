"""The first layer whose tensor differs from the reference's, and the size of the difference.

A compiled file names no layers, and its kernels make parts of tensors. So tensors are found by content: a tensor is right if the kernels
have made it, whole or in parts, at any address. The difference begins at the first of the reference's tensors that was made differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.program import KernelOperation, Operation, Program
from npu_testbed.documents.verify import DivergenceEntry
from sim.functional import FilterCache, NetworkState, RegionBytes, run
from validation.litert.cpu_kernels import CpuKernels
from validation.litert.judge import Arrays

Array = NDArray[Any]

Tensor = tuple[str, Array]
"""A layer's name ("" if unknown) and its tensor."""

_SLICE = 8
"""A part of a tensor's channels begins at a multiple of this number of channels."""


class Divergence(DivergenceEntry, frozen=True):
    """The first layer whose tensor differs: ``differing`` of ``size`` elements, by ``largest`` at most (-1: unknown)."""

    @property
    def text(self) -> str:
        """The difference in a sentence."""
        by = f", by {self.largest:,} at most" if self.largest >= 0 else ""
        return f"The first layer that differs from {self.reference} is {self.layer!r}: {self.differing:,} of {self.size:,} elements{by}."


def made_tensors(network: CompiledNetwork, inputs: Sequence[Arrays], kernels: CpuKernels | None) -> list[Tensor]:
    """All tensors that kernels and CPU operators make in the last of several inferences, in order."""
    filters, state, made = FilterCache(), NetworkState(network), list[Tensor]()
    on_cpu = None if kernels is None else kernels.executor(network)
    begun: list[Program] = []

    def kernel(index: int, op: Operation, memory: RegionBytes) -> None:
        if index == 0:
            begun.append(network.programs[len(begun)])
        if isinstance(op, KernelOperation):
            made.append((begun[-1].name(index), memory.gather(op.ofm, "")))

    def operator(index: int, step: CpuOperator, arrays: tuple[Array, ...]) -> Sequence[Array]:
        found = on_cpu(index, step, arrays) if on_cpu is not None else ()
        made.extend((binding.name, array) for binding, array in zip(step.outputs, found, strict=False))
        return found

    for arrays in inputs:
        made.clear()
        begun.clear()
        run(network, arrays, kernel, filters=filters, on_cpu=None if on_cpu is None else operator, state=state)
    return made


def _is_alike(array: Array, tensor: Array) -> bool:
    """Whether an array may be a part of a tensor: some rows, some channels, or all of it."""
    if array.dtype != tensor.dtype or array.size > tensor.size:
        return False
    if array.size == tensor.size:
        return True
    depth, width = tensor.shape[-1], tensor.shape[-2] if tensor.ndim > 1 else 1
    return bool(array.shape[-1] <= depth and array.shape[-2] == width)


def _places(array: Array, tensor: Array) -> Iterator[tuple[int, int]]:
    """First position and first channel at which a tensor contains an array. Positions and channels belong to its last axis."""
    depth = tensor.shape[-1] if tensor.ndim else 1
    own = array.shape[-1] if array.ndim else 1
    if array.size == tensor.size:
        if array.tobytes() == tensor.tobytes():
            yield 0, 0
        return
    flat, content = tensor.reshape(-1, depth), array.tobytes()
    step = own * array.dtype.itemsize
    for channel in range(0, depth - own + 1, _SLICE):
        among = np.ascontiguousarray(flat[:, channel : channel + own]).tobytes()
        at = among.find(content)
        while at >= 0 and at % step:
            at = among.find(content, at + 1)
        if at >= 0:
            yield at // step, channel


def _covered(tensor: Array, made: Sequence[Tensor]) -> tuple[int, list[int]]:
    """Elements of a tensor that were made correctly, and the numbers of the arrays that hold them."""
    depth = tensor.shape[-1] if tensor.ndim else 1
    marks, hits = np.zeros((tensor.size // max(depth, 1), depth), np.bool_), []
    for number, (_, array) in enumerate(made):
        if not _is_alike(array, tensor):
            continue
        for row, channel in _places(array, tensor):
            if array.size == tensor.size:
                return tensor.size, [number]
            own = array.shape[-1]
            marks[row : row + array.size // own, channel : channel + own] = True
            hits.append(number)
    return int(marks.sum()), hits


def _difference(tensor: Array, made: Sequence[Tensor], numbers: Sequence[int], covered: int) -> tuple[int, int]:
    """The number of differing elements and the largest difference, for the most similar candidate of a tensor."""
    found = []
    whole = [made[number][1] for number in numbers if made[number][1].size == tensor.size]
    parts = [made[number][1] for number in numbers if made[number][1].size < tensor.size and made[number][1].shape[-1] == tensor.shape[-1]]
    if parts and sum(part.size for part in parts) == tensor.size:
        whole.append(np.concatenate([part.reshape(-1) for part in parts]))
    for array in whole:
        apart = np.abs(array.reshape(-1).astype(np.int64) - tensor.reshape(-1).astype(np.int64))
        found.append((int(np.count_nonzero(apart)), int(apart.max(initial=0))))
    return min(found, default=(tensor.size - covered, -1))


def divergence(reference: str, tensors: Sequence[Tensor], made: Sequence[Tensor]) -> Divergence | None:
    """The first of a reference's ``tensors``, in the order of its layers, that was ``made`` differently; None if none is known.

    A tensor that no kernel has made, because it was fused with the next, does not count.
    """
    wanted = [(name, array) for name, array in tensors if array.dtype.kind in "iu" and array.size]
    known = [_covered(array, made) for _, array in wanted]
    taken = {hit for (count, hits), (_, array) in zip(known, wanted, strict=True) if count == array.size for hit in hits}
    named = {name for name, _ in made if name}
    for (count, hits), (name, array) in zip(known, wanted, strict=True):
        if count == array.size:
            continue
        free = [number for number, (_, one) in enumerate(made) if number not in taken and _is_alike(one, array)]
        if named:
            free = [number for number in free if made[number][0] == name]
        if not free:
            continue
        differing, largest = _difference(array, made, sorted({*free, *hits}), count)
        if differing:
            return Divergence(reference, name, differing, array.size, largest)
    return None
