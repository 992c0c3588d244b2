"""Removes transfers within the arena: a kernel that reads a copy reads its source instead, and a copy that must stay becomes a kernel.

Vela's C++ core copies a whole tensor where one operator reads the same bytes in two shapes (a product of two batched matrices). Its Python
core copies a tensor where an output is another tensor in another shape. No byte of a legalised compilation is written twice, so the copy
and its source hold the same bytes until the end. A kernel can take part in a cascade, a transfer cannot: an average over single elements
copies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA
from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    Binding,
    ByteRange,
    DataType,
    DmaOperation,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    PoolKind,
    Program,
    Scale,
    Strides,
    Tiles,
)
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.operations import Shram
from npu_model.shapes import Shape3D, round_up

_UNIT = Scale((1 << 31) + 1, 31)
"""The factor 1 of an average pooling over one element, as in Vela 5.2's own copies."""

_BYTE = DataType(8, signed=False)
_WIDEST = 16
"""Bits of the widest elements that a pooling reads."""


def _flat(region: int, start: int, shape: Shape3D, dtype: DataType) -> FeatureMap:
    """An array without gaps. An element that is too wide for a pooling becomes several channels of one byte."""
    if dtype.bits > _WIDEST or dtype.floating:
        shape, dtype = Shape3D(shape.height, shape.width, shape.depth * dtype.bytes), _BYTE
    column = shape.depth * dtype.bytes
    strides = Strides(shape.width * column, column, dtype.bytes)
    return FeatureMap(region, shape, dtype, Layout.NHWC, Tiles.single(shape, start), strides)


def _is_whole(found: FeatureMap, copied: ByteRange) -> bool:
    """Whether the map is the copied bytes as an array without gaps, apart from bytes that round up the length.

    The length of a transfer is a multiple of 16, so the copy may be up to 15 bytes longer than the tensor.
    """
    flat = _flat(found.region, copied.start, found.shape, found.dtype)
    size = found.shape.elements * found.dtype.bytes
    return round_up(size, ALIGNMENT) == round_up(copied.length, ALIGNMENT) and found.same_places(flat)


def _of_binding(binding: Binding, start: int) -> FeatureMap:
    width, depth = (1, 1, *binding.shape)[-2:]
    return _flat(binding.region, start, Shape3D(prod(binding.shape[:-2]), width, depth), binding.dtype)


def copied_map(copied: ByteRange, written: Iterable[FeatureMap], bindings: Iterable[Binding]) -> FeatureMap:
    """The copied bytes as a feature map in the shape of their writer, so that the copy can be made stripe by stripe, or bound to them.

    ``written`` holds the OFMs in the arena, ``bindings`` the tensors at the source or the destination.
    """
    for ofm in written:
        if ofm.dtype.bits <= _WIDEST and _is_whole(ofm, copied):
            return replace(ofm, zero_point=0)
    for binding in bindings:
        found = _of_binding(binding, copied.start)
        if _is_whole(found, copied):
            return found
    return _flat(copied.region, copied.start, Shape3D(1, copied.length // ALIGNMENT, ALIGNMENT), _BYTE)


def copy_kernel(source: FeatureMap, destination: int, device: Accelerator) -> KernelOperation:
    """The kernel that writes ``source`` to the address ``destination`` of the same region."""
    ofm = source.at(destination)
    operation = KernelOperation(
        OperationKind.POOL,
        source,
        ofm,
        device.ofm_ublock,
        Shram(0, 0),
        Activation(ActivationKind.NONE, ofm.dtype.minimum, ofm.dtype.maximum),
        pool=PoolKind.AVERAGE,
        global_scale=True,
        ofm_scale=_UNIT,
    )
    return _with_block(operation, device)


def _with_block(operation: KernelOperation, device: Accelerator) -> KernelOperation:
    """The operation with the largest block that fits, halved until one does. The search tries other blocks."""
    ublock, limit, ofm = device.ofm_ublock, device.max_block, operation.ofm.shape
    query = BlockQuery.of(operation)
    height = min(limit.height, round_up(ofm.height, ublock.height))
    width = min(limit.width, round_up(ofm.width, ublock.width))
    depth = min(BRICK, round_up(ofm.depth, ublock.depth))
    while (shram := shram_partition(query, Shape3D(height, width, depth), device)) is None:
        if width >= height:
            width = round_up(width // 2, ublock.width)
        else:
            height = round_up(height // 2, ublock.height)
    return replace(operation, block=Shape3D(height, width, depth), shram=shram)


_COPY = "copy"
"""The layer's name for a copy kernel that Vela does not name."""

_Place = tuple[int, int]
"""An operation, as the number of its step and its number in that step's Program."""


class _Copy(Struct, frozen=True):
    """A transfer from ``source`` to ``destination``, both in the arena."""

    place: _Place
    source: ByteRange
    destination: ByteRange


def is_arena_copy(operation: DmaOperation) -> bool:
    """Whether the transfer stays within the arena."""
    return not operation.to_shram and operation.source.region == operation.destination_region == ARENA


class _Accesses:
    """Kernels and copies of a network, and the tensors that the application or a CPU operator binds to an address."""

    def __init__(self, network: CompiledNetwork) -> None:
        self.kernels: dict[_Place, KernelOperation] = {}
        self.copies: list[_Copy] = []
        self.bound = [*network.inputs, *network.outputs, *network.variables]
        for number, step in enumerate(network.steps):
            if isinstance(step, CpuOperator):
                self.bound += (*step.inputs, *step.outputs)
                continue
            for index, operation in enumerate(step.operations):
                if isinstance(operation, KernelOperation):
                    self.kernels[number, index] = operation
                elif isinstance(operation, DmaOperation) and is_arena_copy(operation):
                    written = ByteRange(ARENA, operation.destination, operation.destination + operation.length)
                    self.copies.append(_Copy((number, index), operation.source, written))

    def is_needed(self, copy: _Copy) -> bool:
        """Whether something must lie at the copy's address: a bound tensor, or a map that a kernel reads together with other bytes."""
        copied = copy.destination
        maps = (m for kernel in self.kernels.values() for m in (kernel.ifm, kernel.ifm2) if m is not None and m.region == ARENA)
        read = [r for m in maps for r in m.byte_ranges() if r.overlaps(copied)]
        return any(b.byte_range.overlaps(copied) for b in self.bound) or any(r.start < copied.start or r.end > copied.end for r in read)

    def fault(self, copy: _Copy) -> str:
        """The reason why the copy and its source may hold different bytes, as a clause; "" if there is none."""
        writes = [(at, r) for at, kernel in self.kernels.items() if kernel.ofm.region == ARENA for r in kernel.ofm.byte_ranges()]
        for at, written in [*writes, *((other.place, other.destination) for other in self.copies)]:
            if at != copy.place and written.overlaps(copy.destination):
                return "another operation writes there, too"
            if at > copy.place and written.overlaps(copy.source):
                return "its source is overwritten later"
        return ""

    def as_kernel(self, copy: _Copy, device: Accelerator) -> KernelOperation:
        """The kernel that copies. Its map has the shape in which the source is written or bound."""
        written = (kernel.ofm for kernel in self.kernels.values() if kernel.ofm.region == ARENA)
        bound = (b for b in self.bound if b.region == ARENA and b.address in (copy.source.start, copy.destination.start))
        return copy_kernel(copied_map(copy.source, written, bound), copy.destination.start, device)


def _redirected(feature_map: FeatureMap, copies: Sequence[_Copy]) -> FeatureMap:
    """The map in the source, if it lay in a copy; a copy of a copy is followed back."""
    for copy in reversed(copies):
        ranges = feature_map.byte_ranges() if feature_map.region == ARENA else ()
        if any(r.overlaps(copy.destination) for r in ranges):
            feature_map = feature_map.moved(copy.source.start - copy.destination.start)
    return feature_map


def without_arena_copies(network: CompiledNetwork) -> CompiledNetwork:
    """The legalised ``network`` with no transfer within the arena: the readers of a copy read its source, or a kernel copies.

    InputError if the copy or its source is written again.
    """
    accesses = _Accesses(network)
    for copy in accesses.copies:
        fault = accesses.fault(copy)
        if fault:
            size = f"{copy.source.length} bytes within the arena"
            raise InputError(f"Operation {copy.place[1]} copies {size}, and {fault}: compile with the legalising options.")
    if not accesses.copies:
        return network
    device = accelerator(network.programs[0].accelerator)
    kernels = {copy.place: accesses.as_kernel(copy, device) for copy in accesses.copies if accesses.is_needed(copy)}
    left_out = [copy for copy in accesses.copies if copy.place not in kernels]
    places = {copy.place for copy in left_out}

    def changed(number: int, program: Program) -> Program:
        """The program without its dropped copies, and with kernels for the other copies."""
        kept = [index for index in range(len(program.operations)) if (number, index) not in places]
        operations = (kernels.get((number, index), program.operations[index]) for index in kept)
        made = program.keeping(kept, (_reading(op, left_out) if isinstance(op, KernelOperation) else op for op in operations))
        names = zip(made.names, kept, strict=True) if made.names else ()
        return replace(made, names=tuple(name or (_COPY if (number, index) in kernels else "") for name, index in names))

    steps = tuple(changed(number, step) if isinstance(step, Program) else step for number, step in enumerate(network.steps))
    return replace(network, steps=steps)


def _reading(operation: KernelOperation, copies: Sequence[_Copy]) -> KernelOperation:
    """The kernel with its maps moved from copies to their sources."""
    ifm2 = operation.ifm2
    return replace(operation, ifm=_redirected(operation.ifm, copies), ifm2=None if ifm2 is None else _redirected(ifm2, copies))
