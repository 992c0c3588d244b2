"""Overwriting: operands that a result may be stored over, and parts that write again what others use."""

from __future__ import annotations

from collections.abc import Iterator

from cascader.ethosu.network.network import ARENA, CpuPart, Network, ethosu_part, tensor_reads, tensor_writes
from cascader.ethosu.network.overlaps import Access, overlap
from cascader.graph.cascader_graph import Part, Tensor, TensorKind
from npu_model.program import OperationKind


def overwritable_operands(part: Part) -> tuple[str, ...]:
    """Names of the tensors that the part's output may be stored over, in operand order; empty if there is none.

    An elementwise kernel reads a block before it writes it, and no other element of the block's place; so an operand with
    the output's shape, layout, strides, element size and offset qualifies, if the other operand does not read the same
    tensor differently. (Vela reuses the storage of elementwise inputs by the same argument.)
    """
    payload = ethosu_part(part)
    if payload is None or payload.operation.kind is not OperationKind.ELEMENTWISE:
        return ()
    operands, ofm = payload.operands, payload.operation.ofm
    names = dict.fromkeys(name for name, _ in operands if name is not None and ofm.region == ARENA)
    return tuple(name for name in names if all(m.same_places(ofm) for other, m in operands if other == name))


def _used(part: Part, tensor: str, *, written: bool) -> list[Access]:
    """The accesses with which the part reads a tensor (with ``written``: writes it)."""
    payload = ethosu_part(part)
    if payload is not None:
        return [fm for name, fm in (tensor_writes(payload) if written else tensor_reads(payload)) if name == tensor]
    if isinstance(part.payload, CpuPart):
        ports = part.payload.outputs if written else part.payload.inputs
        return [(port.offset, port.offset + port.size) for port in ports if port.tensor == tensor]
    return []


def _meet(some: list[Access], others: list[Access]) -> bool:
    return any(overlap(one, two) for one in some for two in others)


def overwriting_parts(network: Network) -> Iterator[tuple[str, str, str]]:
    """(earlier part, later part, tensor) where the later one writes bytes that the earlier one uses, in the order of the graph.

    Of a variable also readers that come after a writer. A part that reads and writes the same bytes is its own partner. The
    pieces of a concatenation are apart and make no pair; plain producers and consumers are no pairs either.
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


def _pairs(network: Network, tensor: Tensor, *, variable: bool) -> Iterator[tuple[str, str, str]]:
    graph = network.graph
    writers, readers = graph.producers(tensor.name), graph.consumers(tensor.name)
    writes = {part.name: _used(part, tensor.name, written=True) for part in writers}
    reads = {part.name: _used(part, tensor.name, written=False) for part in readers}
    at = {name: graph.index(name) for name in (*writes, *reads)}
    used = [(name, at[name], others) for name, others in (*writes.items(), *reads.items())]
    for second, marks in writes.items():
        step = at[second]
        for first, before, others in used:
            if (before < step or (before == step and others is not marks)) and _meet(marks, others):
                yield first, second, tensor.name
    if variable:
        for first, marks in writes.items():
            for second, others in reads.items():
                if at[first] < at[second] and _meet(marks, others):
                    yield first, second, tensor.name
