"""Split sums: a compiler splits a mean over many elements into sums of parts of its map, or flattens it.

This module makes it one sum again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.network import EthosuPart, Network
from cascader.graph.cascader_graph import TensorKind
from npu_model.program import ActivationKind, ElementwiseKind, Kernel, KernelOperation, Layout, Scale
from npu_model.shapes import Shape3D

_ONE = Scale(1, 0)


class WholeSum(Struct, frozen=True):
    """A sum of a whole map: the names of its parts, and one kernel in their place, whose window may be larger than any NPU's."""

    names: tuple[str, ...]
    kernel: EthosuPart


class _Sum(Struct, frozen=True):
    """A sum of some parts of a map: the kernels that sum them, the names of all its kernels, and the last kernel."""

    pieces: tuple[EthosuPart, ...]
    names: tuple[str, ...]
    last: EthosuPart


def _adds(operation: KernelOperation) -> bool:
    """Whether the operation adds two maps of its result's shape without scaling."""
    ifm, ifm2, ofm = operation.ifm, operation.ifm2, operation.ofm
    if operation.elementwise is not ElementwiseKind.ADD or ifm2 is None or operation.activation.kind is not ActivationKind.NONE:
        return False
    alike = ifm.shape == ifm2.shape == ofm.shape and ifm.dtype == ifm2.dtype == ofm.dtype
    return alike and operation.global_scale and operation.opa_scale == operation.opb_scale == operation.ofm_scale == _ONE


def _joined(one: _Sum) -> EthosuPart | None:
    """A kernel that sums all pieces at once; None unless the pieces are rows of one map, one after the other."""
    pieces = sorted(one.pieces, key=lambda piece: piece.operation.ifm.base)
    first, maps = pieces[0], [piece.operation.ifm for piece in pieces]
    whole = maps[0]
    rows = all(after.base == before.base + before.shape.height * before.strides.y for before, after in pairwise(maps))
    alike = all(
        piece.ifm == first.ifm
        and piece.operation.ifm.at(whole.base, whole.shape) == whole
        and piece.operation.ifm.shape.width == whole.shape.width
        and piece.operation.kernel == Kernel(piece.operation.ifm.shape.height, whole.shape.width)
        for piece in pieces
    )
    if not (rows and alike and whole.is_single_tile):
        return None
    shape = Shape3D(sum(piece.shape.height for piece in maps), whole.shape.width, whole.shape.depth)
    ifm, ofm = whole.at(whole.base, shape), one.last.operation.ofm
    return replace(first, operation=first.operation.having(ifm=ifm, ofm=ofm, kernel=Kernel(shape.height, shape.width)), ofm=one.last.ofm)


def _in_rows(network: Network, kernel: EthosuPart) -> EthosuPart | None:
    """The sum of a flattened map as a sum over the rows that all other kernels see; None if it is not flat, or if they disagree."""
    operation = kernel.operation
    ifm, shape = operation.ifm, operation.ifm.shape
    pixel = shape.depth * ifm.dtype.bytes
    others = {one.strides.y for other, one in network.accesses()[kernel.ifm] if other is not kernel and one.shape.height > 1}
    flat = shape.height == 1 and operation.kernel == Kernel(1, shape.width) and ifm.layout is Layout.NHWC and ifm.strides.x == pixel
    if not flat or len(others) != 1 or ifm.base or min(others) % pixel or shape.width % (width := min(others) // pixel):
        return None
    rows = Shape3D(shape.width // width, width, shape.depth)
    seen = operation.having(ifm=dense_map(ifm, rows), kernel=Kernel(rows.height, rows.width))
    return replace(kernel, operation=seen)


def _of_both(sums: dict[str, _Sum], kernel: EthosuPart, alone: Callable[[str], bool]) -> Sequence[str]:
    """The tensors of the two sums that the kernel adds and that only it reads (``alone``); none if it does anything else."""
    reads = [
        name for name, operand in kernel.operands if name in sums and alone(name) and operand.same_places(sums[name].last.operation.ofm)
    ]
    return reads if len(set(reads)) == len(reads) == 2 and _adds(kernel.operation) else ()


def whole_sums(network: Network, is_sum: Callable[[KernelOperation], bool]) -> list[WholeSum]:
    """The sums of flattened maps, and of maps whose rows some kernels sum (``is_sum`` knows them) and other kernels add."""
    readers = Counter(name for part in network.graph.parts for name in part.inputs)
    kinds = {tensor.name: tensor.kind for tensor in network.graph.tensors}
    sums: dict[str, _Sum] = {}
    for name, kernel in network.kernels.items():
        if is_sum(kernel.operation) and kinds[kernel.ifm] is not TensorKind.VARIABLE:
            sums[kernel.ofm] = _Sum((kernel,), (name,), kernel)
        elif reads := _of_both(sums, kernel, lambda tensor: kinds[tensor] is TensorKind.INTERMEDIATE and readers[tensor] == 1):
            first, second = (sums.pop(tensor) for tensor in reads)
            sums[kernel.ofm] = _Sum(first.pieces + second.pieces, (*first.names, *second.names, name), kernel)
    joined = ((one.names, _joined(one) if len(one.pieces) > 1 else _in_rows(network, one.last)) for one in sums.values())
    return [WholeSum(names, kernel) for names, kernel in joined if kernel is not None]
