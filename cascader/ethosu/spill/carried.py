"""Carried tensors: a tensor whose later readers find it in a buffer of their own, which a DMA fills from an outer memory.

One transfer takes the tensor away as it is made, and another one brings it back as it is read. Both are parts of the network that copy
rows, so they have groups, stripes and buffers like any other part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from cascader.ethosu.network.network import ARENA, CpuPart, EthosuPart, Network, part_of
from cascader.ethosu.network.overwriting import overwriting_parts
from cascader.ethosu.network.rows import row_graph
from cascader.graph.cascader_graph import Part, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    DataType,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    PoolKind,
    Shram,
    Strides,
    Tiles,
)
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D, round_up

_BYTE = DataType(8, signed=True)
_WIDEST = 1 << 16
"""The most elements along an axis in the registers of a feature map."""


class CarriedCut(NamedTuple):
    """A tensor of a network, and the first part that reads it from the transfer's buffer; all later readers do so, too."""

    tensor: str
    reader: str


class Carried(Struct, frozen=True):
    """A network with all tensors in the arena, the tensors that are to live outside, and the bytes of the transfers.

    ``outside`` names, for each such or carried tensor, the tensor outside. ``brought`` names, for each tensor that transfers brought into
    the arena, the tensor of the network before its ``cuts``. Transfers run ``ahead`` rows early.
    """

    network: Network
    outside: Mapping[str, str]
    brought: Mapping[str, str] = field(default_factory=dict)
    moved: int = 0
    cuts: tuple[CarriedCut, ...] = ()
    ahead: int = 0

    def root(self, tensor: str) -> str:
        """The tensor of the network before its cuts that has the bytes of ``tensor``."""
        return self.brought.get(tensor, tensor)

    def moves(self, tensor: str) -> int:
        """Number of times that one cut more moves the bytes of a tensor: out and in, or only in if the tensor is outside already."""
        return 1 if self.root(tensor) in self.outside else 2


def movable(network: Network, inputs: Collection[str] = ()) -> frozenset[str]:
    """The tensors between layers that may leave the arena: made once, and used only by kernels. ``inputs`` outside the arena may, too."""
    graph = network.graph
    bound = network.bound - set(inputs)
    bound |= {tensor for _, _, tensor in overwriting_parts(network)}
    bound |= {name for part in graph.parts if isinstance(part.payload, CpuPart) for name in (*part.inputs, *part.outputs)}
    kinds = (TensorKind.INTERMEDIATE,)
    return frozenset(one.name for one in graph.tensors if one.name not in bound and (one.kind in kinds or one.name in inputs))


def is_dense(network: Network, tensor: str) -> bool:
    """Whether kernels write every byte of a tensor. Otherwise a transfer would read bytes that another tensor left between its elements."""
    made = [part.payload.operation.ofm for part in network.graph.producers(tensor) if isinstance(part.payload, EthosuPart)]
    depths = [round_up(ofm.shape.depth, BRICK) if ofm.layout is Layout.NHCWB16 else ofm.shape.depth for ofm in made]
    written = sum(ofm.shape.height * ofm.shape.width * deep * ofm.dtype.bytes for ofm, deep in zip(made, depths, strict=True))
    return written >= network.graph.tensor(tensor).size


def _bytes_map(size: int, rows: int) -> FeatureMap | None:
    """A tensor as bytes that transfers can carry, in groups of ``rows`` that begin at multiples of 16; None if none do."""
    unit = size // rows
    together = next((count for count in range(1, rows + 1) if rows % count == 0 and unit * count % ALIGNMENT == 0), None)
    if together is None or rows * unit != size or unit * together // ALIGNMENT > _WIDEST or rows // together > _WIDEST:
        return None
    shape = Shape3D(rows // together, unit * together // ALIGNMENT, ALIGNMENT)
    return FeatureMap(ARENA, shape, _BYTE, Layout.NHWC, Tiles.single(shape, 0), Strides(unit * together, ALIGNMENT, 1))


def _copying(feature_map: FeatureMap, device: Accelerator) -> KernelOperation:
    """The kernel that copies a map, such as the bytes of a transfer, in the smallest block."""
    activation = Activation(ActivationKind.NONE, feature_map.dtype.minimum, feature_map.dtype.maximum)
    block = device.ofm_ublock
    operation = KernelOperation(OperationKind.POOL, feature_map, feature_map, block, Shram(0, 0), activation, pool=PoolKind.MAX)
    shram = shram_partition(BlockQuery.of(operation), block, device)
    assert shram is not None  # noqa: S101  # the smallest block of a copy fits into any shared buffer
    return replace(operation, shram=shram)


def _part(name: str, layer: str, source: str, target: str, operation: KernelOperation, ahead: int) -> Part:
    kernel = EthosuPart(operation, source, target, layer=layer, transfer=True, ahead=ahead)
    return Part(name, (source,), (target,), kernel)


def _layer(part: Part) -> str:
    return part.payload.layer if isinstance(part.payload, EthosuPart) else ""


def _on(part: Part, old: str, new: str) -> Part:
    """The part with another tensor, wherever it reads or writes it."""
    kernel = part.payload
    assert isinstance(kernel, EthosuPart)  # noqa: S101  # movable tensors are used by kernels alone
    return part_of(part, kernel.renamed({old: new}))


def carried(before: Carried, cut: CarriedCut, device: Accelerator, ahead: int = 0) -> Carried | None:
    """``before`` with one more cut, whose transfers run ``ahead`` rows early.

    None if the rows of the tensor do not begin at multiples of 16, or the reader comes before all of the tensor's bytes are made.
    """
    network, graph = before.network, before.network.graph
    at = graph.index(cut.reader)
    tensor = next(name for name in graph.parts[at].inputs if before.root(name) == cut.tensor)
    old, home = graph.tensor(tensor), before.outside.get(cut.tensor)
    last = max(graph.writers(tensor), default=-1)
    rows = next(one.rows for one in row_graph(network).tensors if one.name == tensor)
    bytes_map = _bytes_map(old.size, rows)
    if bytes_map is None or at <= last:
        return None
    operation = _copying(bytes_map, device)
    made, tensors, moved, outside = dict[str, list[Part]](), [*graph.tensors], before.moved + old.size, dict(before.outside)
    if home is None:
        home = outside[cut.tensor] = f"{cut.tensor}/outside"
        tensors.append(replace(old, name=home, kind=TensorKind.INTERMEDIATE))
        maker = graph.parts[last]
        made[maker.name] = [maker, _part(f"{home}/away", _layer(maker), tensor, home, operation, ahead)]
        moved += old.size
    number_of = sum(other.tensor == cut.tensor for other in before.cuts)
    back = f"{home}/{number_of}"
    tensors.append(replace(old, name=back, kind=TensorKind.INTERMEDIATE))
    for number in graph.readers(tensor):
        part = graph.parts[number]
        if number >= at and home not in part.outputs:
            brings = [_part(f"{back}/back", _layer(part), home, back, operation, ahead)] if number == at else []
            own = made.get(part.name, [part])
            made[part.name] = [*brings, *(_on(one, tensor, back) if one is part else one for one in own)]
    brought = {**before.brought, back: cut.tensor}
    return Carried(network.with_parts(made, tensors), outside, brought, moved, (*before.cuts, cut), ahead)


def _whole_map(part: Part, tensor: str, size: int) -> FeatureMap | None:
    """The map by which a kernel reads every byte of a tensor; None if it reads some of them, or by several maps."""
    kernel = part.payload
    assert isinstance(kernel, EthosuPart)  # noqa: S101  # movable tensors are used by kernels alone
    maps = [one for name, one in kernel.maps if name == tensor]
    if len(maps) != 1 or maps[0].layout is not Layout.NHWC or maps[0].base or maps[0].dtype.bits > _BYTE.bits:
        return None
    shape = maps[0].shape
    return maps[0] if shape.height * shape.width * shape.depth == size else None


def read_once(before: Carried, tensor: str, device: Accelerator) -> Carried | None:
    """``before`` with an input outside that several kernels read: it is brought into the arena once, and all of them read it there.

    A transfer brings it, or a kernel if its rows do not begin at multiples of 16. None if one kernel reads it, or by another map.
    """
    graph = before.network.graph
    readers, size = graph.consumers(tensor), graph.tensor(tensor).size
    if len(readers) < 2:  # a single kernel reads it once anyway
        return None
    made = carried(before, CarriedCut(tensor, readers[0].name), device)
    if made is not None:
        return made
    whole = _whole_map(readers[0], tensor, size)
    if whole is None:
        return None
    inside = f"{tensor}/inside"
    copy = EthosuPart(_copying(whole, device), tensor, inside, layer=_layer(readers[0]))
    parts = {part.name: [_on(part, tensor, inside)] for part in readers}
    parts[readers[0].name].insert(0, Part(f"{inside}/back", (tensor,), (inside,), copy))
    tensors = (*graph.tensors, replace(graph.tensor(tensor), name=inside, kind=TensorKind.INTERMEDIATE))
    brought, moved = {**before.brought, inside: tensor}, before.moved + size
    return replace(before, network=before.network.with_parts(parts, tensors), brought=brought, moved=moved)


def taken(before: Carried, tensor: str, device: Accelerator, ahead: int = 0) -> Carried | None:
    """``before`` with an output that is made in the arena and taken outside by a transfer; None as for :func:`carried`."""
    network, graph = before.network, before.network.graph
    old, writers = graph.tensor(tensor), graph.writers(tensor)
    rows = next(one.rows for one in row_graph(network).tensors if one.name == tensor)
    bytes_map = _bytes_map(old.size, rows)
    if bytes_map is None or not writers:
        return None
    inside = f"{tensor}/inside"
    made = {part.name: [_on(part, tensor, inside)] for part in (*graph.producers(tensor), *graph.consumers(tensor))}
    last = graph.parts[writers[-1]]
    made[last.name].append(_part(f"{tensor}/away", _layer(last), inside, tensor, _copying(bytes_map, device), ahead))
    tensors = (*graph.tensors, replace(old, name=inside, kind=TensorKind.INTERMEDIATE))
    moved = before.moved + old.size
    return Carried(network.with_parts(made, tensors), before.outside, before.brought, moved, before.cuts, ahead)
