"""Overwriting: operands that a result may overwrite, and parts that write again bytes that others use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cascader.ethosu.network.network import ARENA, CpuPart, Network, ethosu_part, tensor_reads, tensor_writes
from cascader.ethosu.network.overlaps import Access, Hulls, Run, hull, overlap
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.program import Kernel, KernelOperation, OperationKind, Padding, PoolKind, Upscale


def _is_element_by_element(operation: KernelOperation) -> bool:
    """Whether each element of a result depends only on elements at its own position.

    Such a result comes from an elementwise kernel, or from a pool over a single element.
    """
    if operation.kind is OperationKind.ELEMENTWISE:
        return True
    alone = operation.kernel == Kernel() and operation.padding == Padding() and operation.upscale is Upscale.NONE
    return operation.pool in (PoolKind.MAX, PoolKind.AVERAGE) and alone


def overwritable_operands(part: Part) -> tuple[str, ...]:
    """Names of the tensors that the part's output may overwrite, in operand order; empty if there is none.

    An elementwise kernel reads a block before it writes the same block. A pool over one element does the same; a lone activation is such a
    pool. An operand qualifies if it has the output's shape, layout, strides, element size and offset, and if the other operand does not
    read the same tensor differently. (By the same argument, Vela 5.2 reuses the storage of the inputs of elementwise kernels and of pools
    over one element.)
    """
    payload = ethosu_part(part)
    if payload is None or not _is_element_by_element(payload.operation):
        return ()
    operands, ofm = payload.operands, payload.operation.ofm
    names = dict.fromkeys(name for name, _ in operands if name is not None and ofm.region == ARENA)
    return tuple(name for name in names if all(m.same_places(ofm) for other, m in operands if other == name))


def _used(part: Part, tensor: str, *, written: bool) -> tuple[Access, ...]:
    """The accesses with which the part reads a tensor (with ``written``: writes it)."""
    payload = ethosu_part(part)
    if payload is not None:
        return tuple(fm for name, fm in (tensor_writes(payload) if written else tensor_reads(payload)) if name == tensor)
    if isinstance(part.payload, CpuPart):
        ports = part.payload.outputs if written else part.payload.inputs
        return tuple((port.offset, port.offset + port.size) for port in ports if port.tensor == tensor)
    return ()


class _Meetings:
    """Whether parts share bytes of a tensor. Parts with equal accesses are one kind: 1,000 parts of a recurrent network have few kinds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[Access, ...], int] = {}
        self._accesses: list[tuple[Access, ...]] = []
        self.hulls: list[Run] = []
        """From the first byte that each kind of part uses to the end of its last one."""
        self._known: dict[tuple[int, int], bool] = {}

    def kind(self, accesses: tuple[Access, ...]) -> int:
        """The number of the kind of part that uses a tensor in this way."""
        found = self._kinds.setdefault(accesses, len(self._accesses))
        if found == len(self._accesses):
            self._accesses.append(accesses)
            runs = [hull(access) for access in accesses]
            self.hulls.append((min([first for first, _ in runs], default=0), max([end for _, end in runs], default=0)))
        return found

    def meet(self, one: int, two: int) -> bool:
        """Whether a part of one kind shares a byte with one of the other."""
        known = self._known.get((one, two))
        if known is None:
            known = any(overlap(access, other) for access in self._accesses[one] for other in self._accesses[two])
            self._known[one, two] = known
        return known


def overwriting_parts(network: Network) -> Iterator[tuple[str, str, str]]:
    """(earlier part, later part, tensor) where the later one writes bytes that the earlier one uses, in the order of the graph.

    For a variable, readers after a writer count too. A part that reads and writes the same bytes is its own partner. The operands of a
    concatenation are disjoint and make no pair; plain producers and consumers are no pairs either.
    """
    graph = network.graph
    for tensor in graph.tensors:
        if tensor.kind is TensorKind.CONSTANT:
            continue
        writers, readers = graph.producers(tensor.name), graph.consumers(tensor.name)
        variable = tensor.kind is TensorKind.VARIABLE
        last = max((graph.index(part.name) for part in writers), default=-1)
        if len(writers) > 1 or (variable and writers) or any(graph.index(part.name) <= last for part in readers):
            yield from _pairs(network, tensor, variable=variable)


class _Uses:
    """The parts that use a tensor in one way, in order, with their positions in the graph and the kinds of their accesses."""

    def __init__(self, graph: CascaderGraph, parts: Iterable[Part], kinds: Iterable[int], meetings: _Meetings) -> None:
        self.meetings = meetings
        self.uses = [(part.name, graph.index(part.name), kind) for part, kind in zip(parts, kinds, strict=True)]
        self.hulls = Hulls(meetings.hulls[kind] for _, _, kind in self.uses)

    def meeting(self, kind: int) -> Iterator[tuple[str, int]]:
        """The parts that share a byte with a kind of part, by name and position."""
        for place in self.hulls.near(self.meetings.hulls[kind]):
            name, index, other = self.uses[place]
            if self.meetings.meet(kind, other):
                yield name, index


def _pairs(network: Network, tensor: Tensor, *, variable: bool) -> Iterator[tuple[str, str, str]]:
    graph, meetings, name = network.graph, _Meetings(), tensor.name
    producers, consumers = graph.producers(name), graph.consumers(name)
    writers = _Uses(graph, producers, [meetings.kind(_used(part, name, written=True)) for part in producers], meetings)
    readers = _Uses(graph, consumers, [meetings.kind(_used(part, name, written=False)) for part in consumers], meetings)
    for second, step, kind in writers.uses:
        yield from ((first, second, name) for first, before in writers.meeting(kind) if before < step)
        yield from ((first, second, name) for first, before in readers.meeting(kind) if before <= step)
    if variable:
        for first, before, kind in writers.uses:
            yield from ((first, second, name) for second, step in readers.meeting(kind) if before < step)
