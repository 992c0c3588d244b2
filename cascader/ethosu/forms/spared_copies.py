"""Spared copies: a tensor and its copy become one tensor if they need not both exist, or the DMA copies in place of a kernel.

A compiler also copies a tensor that is an output in another shape: the same bytes. The previous kernel can write them at the output's
address, and later readers can read them there. That takes no more bytes: the shared tensor is no larger than either tensor, and lives while
either did.

If both must exist, as for an output that is another output in another shape, a transfer within the arena copies while kernels run: eight
bytes a cycle, as in Vela's Python core. Kernels that read the copy of an output read the output itself, so they need not wait for the
transfer.

A move gives the feature maps of a tensor's elements after a kernel has copied them to another tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.wide_copies import copy_cycles, is_copy
from cascader.ethosu.job.transfers import copied_bytes, transfers
from cascader.ethosu.network.network import ARENA, CpuPart, EthosuPart, Network, Port, ethosu_part, part_of
from cascader.graph.cascader_graph import CascaderGraph, Part, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, FeatureMap, Layout, Strides
from npu_model.program.alignment import ALIGNMENT

_Bytes = NDArray[np.int64]
_NOWHERE = -1


def _bytes(feature_map: FeatureMap) -> _Bytes:
    """The bytes of a map of one tile: by row, column, channel, and byte of the element."""
    shape, strides, size = feature_map.shape, feature_map.strides, feature_map.dtype.bytes
    rows, columns, channels = (np.arange(extent, dtype=np.int64) for extent in (shape.height, shape.width, shape.depth))
    if feature_map.layout is Layout.NHWC:
        across, deep = columns * strides.x, channels * size
    else:
        across, deep = columns * BRICK * size, channels // BRICK * strides.c + channels % BRICK * size
    elements = feature_map.base + rows[:, None, None] * strides.y + across[:, None] + deep
    return elements[..., None] + np.arange(size, dtype=np.int64)


def _step(places: _Bytes, unless: int) -> int:
    """Bytes from the first of some addresses to the next one, or ``unless`` if there is only one."""
    return int(places[1] - places[0]) if len(places) > 1 else unless


class Move(Struct, frozen=True, dict=True):
    """The move of the elements of a tensor of ``size`` bytes, from the map ``before`` to the map ``after`` of another tensor."""

    before: FeatureMap
    after: FeatureMap
    size: int

    @cached_property
    def _goal(self) -> _Bytes:
        """The target of each byte of the tensor."""
        goal = np.full(self.size, _NOWHERE, dtype=np.int64)
        goal[_bytes(self.before)] = _bytes(self.after)
        return goal

    @property
    def shifts(self) -> bool:
        """Whether all elements move by the same distance."""
        ways = _bytes(self.after) - _bytes(self.before)
        return bool((ways == ways.flat[0]).all())

    def _start(self, first: int, end: int) -> int | None:
        """The target of byte ``first`` if all bytes from there to ``end`` (exclusive) move together, else None."""
        goal = self._goal[first:end]
        together = goal[0] != _NOWHERE and np.array_equal(goal - goal[0], np.arange(len(goal)))
        return int(goal[0]) if together else None

    def feature_map(self, feature_map: FeatureMap) -> FeatureMap | None:
        """The map of the same elements at their targets; None if there is none."""
        spans = feature_map.byte_ranges()
        first = min(span.start for span in spans)
        start = self._start(first, max(span.end for span in spans))
        if start is not None:
            return feature_map.moved(start - first)
        if not feature_map.is_single_tile:
            return None
        goal = self._goal[_bytes(feature_map)]
        made = self._through(feature_map, goal[..., 0])
        aligned = made.layout is Layout.NHWC or made.base % BRICK == 0
        return made if aligned and np.array_equal(_bytes(made), goal) else None

    def _through(self, feature_map: FeatureMap, goal: _Bytes) -> FeatureMap:
        """The map with the layout of the target and the steps between its first elements there."""
        layout, old = self.after.layout, self.after.strides
        down, across = _step(goal[:, 0, 0], old.y), _step(goal[0, :, 0], old.x)
        if layout is Layout.NHWC:
            strides = Strides(down, across, feature_map.dtype.bytes)
        else:
            strides = Strides(down, old.x, _step(goal[0, 0, ::BRICK], old.c))
        return replace(feature_map.at(int(goal[0, 0, 0])), layout=layout, strides=strides)


class CopyKernel(Struct, frozen=True):
    """A part that copies tensor ``source`` to ``target``, by its kernel's maps."""

    part: str
    source: str
    target: str
    ifm: FeatureMap
    ofm: FeatureMap


def found_copy(network: Network, name: str) -> CopyKernel | None:
    """The part as a copy from one tensor to another; None if it does something else, or does all the work of its NPU job."""
    kernel = ethosu_part(network.graph.parts[network.graph.index(name)])
    if kernel is None or any(segment.parts == (name,) for segment in network.segments) or kernel.ifm == kernel.ofm:
        return None
    ifm, ofm = kernel.operation.ifm, kernel.operation.ofm
    inside = ifm.region == ofm.region == ARENA and ifm.is_single_tile and ofm.is_single_tile
    return CopyKernel(name, kernel.ifm, kernel.ofm, ifm, ofm) if inside and is_copy(kernel.operation) else None


def is_steady(graph: CascaderGraph, copy: CopyKernel) -> bool:
    """Whether the tensor and its copy hold the same bytes from the copy on: no other part writes the copy, or the tensor later."""
    at = graph.index(copy.part)
    alone = graph.writers(copy.target) == (at,) and all(writer < at for writer in graph.writers(copy.source))
    return alone and TensorKind.VARIABLE not in {graph.tensor(name).kind for name in (copy.source, copy.target)}


class Union(Struct, frozen=True):
    """Tensor ``gone`` becomes a part of tensor ``kept``: its elements move there."""

    gone: str
    kept: str
    move: Move

    def part(self, part: Part) -> Part | None:
        """The part of a kernel on the remaining tensors; None if one of its maps has no equivalent there."""
        kernel = part.payload
        assert isinstance(kernel, EthosuPart)  # noqa: S101  # the tensors of CPU operators stay
        moved = {m: self.move.feature_map(m) for name, m in kernel.maps if name == self.gone}
        if None in moved.values():
            return None
        operation = kernel.on_maps(lambda name, feature_map: (moved[feature_map] or feature_map) if name == self.gone else feature_map)
        return part_of(part, replace(kernel, operation=operation).renamed({self.gone: self.kept}))


def _unions(graph: CascaderGraph, copy: CopyKernel, bound: Collection[str]) -> Iterator[Union]:
    """The ways to keep only one of the copy's two tensors. The kept one is no larger, and no outside reader needs the other."""
    source, target = graph.tensor(copy.source), graph.tensor(copy.target)
    if source.name not in bound and target.size <= source.size:
        yield Union(source.name, target.name, Move(copy.ifm, copy.ofm, source.size))
    if target.name not in bound and source.size <= target.size:
        yield Union(target.name, source.name, Move(copy.ofm, copy.ifm, target.size))


def _joined(network: Network, copy: str, union: Union) -> Network | None:
    """``network`` without the part ``copy`` and without one of its tensors; None if a kernel needs that tensor."""
    graph = network.graph
    made = {part.name: union.part(part) for part in graph.parts if union.gone in (*part.inputs, *part.outputs) and part.name != copy}
    moved = {name: [part] for name, part in made.items() if part is not None}
    if len(moved) < len(made):
        return None
    return network.with_parts({copy: (), **moved}, [tensor for tensor in graph.tensors if tensor.name != union.gone])


def without_copies(network: Network, *, shifted: bool = False) -> Network:
    """``network`` without the kernels that copy a tensor to another one, if one tensor can serve as both.

    It is unchanged if there are none.

    ``shifted`` limits this to copies that keep all bytes next to each other; a transposition or another layout does not.
    """
    network = without_idle_copies(network)
    bound = network.bound
    for name in network.kernels:
        copy = found_copy(network, name)
        if copy is not None and is_steady(network.graph, copy):
            joined = (_joined(network, name, union) for union in _unions(network.graph, copy, bound) if union.move.shifts or not shifted)
            network = next((one for one in joined if one is not None), network)
    return network


def _is_idle(network: Network, name: str) -> CopyKernel | None:
    """The part as a copy of a whole tensor to one of its size, byte by byte, that is the whole NPU job; None for any other part."""
    kernel = ethosu_part(network.graph.parts[network.graph.index(name)])
    if kernel is None or kernel.ifm == kernel.ofm or kernel.ifm2 is not None or not is_copy(kernel.operation):
        return None
    graph, ifm, ofm = network.graph, kernel.operation.ifm, kernel.operation.ofm
    sizes = {graph.tensor(kernel.ifm).size, graph.tensor(kernel.ofm).size, copied_bytes(kernel.operation)}
    inside = ifm.region == ofm.region == ARENA and ifm.is_single_tile and ofm.is_single_tile and ifm.base == ofm.base == 0
    alone = any(segment.parts == (name,) for segment in network.segments)
    alike = (ifm.layout, ifm.strides) == (ofm.layout, ofm.strides) and len(sizes) == 1
    return CopyKernel(name, kernel.ifm, kernel.ofm, ifm, ofm) if inside and alone and alike else None


def _renamed_port(port: Port, gone: str, kept: str) -> Port:
    return replace(port, tensor=kept) if port.tensor == gone else port


def _on_one_tensor(network: Network, copy: CopyKernel) -> Network:
    """``network`` with both tensors of a copy as one. The copy's NPU job has no work left."""
    graph, kinds = network.graph, {name: network.graph.tensor(name).kind for name in (copy.source, copy.target)}
    kept, gone = (copy.target, copy.source) if kinds[copy.target].stays_to_the_end else (copy.source, copy.target)

    def ports(some: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(_renamed_port(port, gone, kept) for port in some)

    def part(old: Part) -> Part:
        payload = old.payload
        if isinstance(payload, EthosuPart):
            return part_of(old, payload.renamed({gone: kept}))
        assert isinstance(payload, CpuPart)  # noqa: S101  # there is no other kind
        inputs, outputs = (tuple(kept if name == gone else name for name in names) for names in (old.inputs, old.outputs))
        return replace(
            old, inputs=inputs, outputs=outputs, payload=replace(payload, inputs=ports(payload.inputs), outputs=ports(payload.outputs))
        )

    users = {one.name: (part(one),) for one in graph.parts if gone in (*one.inputs, *one.outputs) and one.name != copy.part}
    made = network.with_parts({copy.part: (), **users}, [tensor for tensor in graph.tensors if tensor.name != gone])
    segments = tuple(replace(one, inputs=ports(one.inputs), outputs=ports(one.outputs)) for one in made.segments)
    return replace(made, segments=segments, inputs=ports(made.inputs), outputs=ports(made.outputs))


def without_idle_copies(network: Network) -> Network:
    """``network`` without NPU jobs that only copy a whole tensor, between operators on the CPU.

    Such a job is a RESHAPE: both tensors become one, and the remaining job runs no kernel.
    """
    for name in network.kernels if len(network.segments) > 1 else ():
        copy = _is_idle(network, name)
        if copy is None or not is_steady(network.graph, copy):
            continue
        kinds = [network.graph.tensor(tensor).kind for tensor in (copy.source, copy.target)]
        later = [at for tensor in (copy.source, copy.target) for at in network.graph.writers(tensor)]
        if kinds != [TensorKind.INPUT, TensorKind.OUTPUT] and len(later) <= 2:  # one writer of each
            network = _on_one_tensor(network, copy)
    return network


def _is_faster(kernel: EthosuPart, accelerator: Accelerator, sources: Sources) -> bool:
    """Whether the DMA can copy any of the copy's rows, and is expected to copy all of them in fewer cycles than the fastest kernel."""
    operation = kernel.operation
    size, rows = copied_bytes(operation), operation.ofm.shape.height
    if not transfers(operation) or (rows > 1 and size // rows % ALIGNMENT):
        return False
    least = copy_cycles(operation, accelerator, sources)
    return least is not None and sources.maps.moving(size) + sources.maps.latency < least


def _read_at_home(network: Network, copy: CopyKernel) -> Network:
    """``network`` with kernels that read the original in place of a copy, if the original stays to the end anyway."""
    graph = network.graph
    source, target = graph.tensor(copy.source), graph.tensor(copy.target)
    if not (source.kind.stays_to_the_end and is_steady(graph, copy)):
        return network
    union = Union(target.name, source.name, Move(copy.ofm, copy.ifm, target.size))
    readers = (part for part in graph.consumers(target.name) if isinstance(part.payload, EthosuPart))
    return network.with_parts({part.name: [union.part(part) or part] for part in readers})


def with_transfers(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with each kernel that only copies whole rows within the arena as a transfer, if that is expected to be faster."""
    for name in network.kernels:
        copy, kernel = found_copy(network, name), ethosu_part(network.graph.parts[network.graph.index(name)])
        if copy is not None and kernel is not None and _is_faster(kernel, accelerator, sources):
            network = _read_at_home(network.with_kernels({name: replace(kernel, transfer=True)}), copy)
    return network
