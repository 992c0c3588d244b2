"""Writers: a check that every job reads the bytes of the same writer as if all parts ran whole, in order.

The order of its parts gives a network its meaning. If several parts write one tensor, or a part writes an input or a variable, another
order of the jobs may change the meaning. So both runs are followed, byte by byte, and compared at each read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.network.network import CpuPart, EthosuPart, Network, Port
from cascader.ethosu.verify.windows import Rows, Span, rows_of, rows_read, spans, tensor_operands
from cascader.graph.cascader_graph import Part, Tensor
from cascader.plan.jobs import Job
from npu_model.errors import InputError

_Writers = NDArray[np.signedinteger]
"""For every byte of a tensor the number of the part that wrote it last; -1 before any has."""


def _ports(ports: Sequence[Port], tensor: str) -> Iterator[Span]:
    return (Span.run(port.offset, port.size) for port in ports if port.tensor == tensor)


def _read(part: Part, tensor: str, rows: Rows | None) -> Iterator[Span]:
    """The bytes of a tensor that a part reads for some rows of its result (None: all)."""
    if isinstance(part.payload, CpuPart):
        yield from _ports(part.payload.inputs, tensor)
    elif isinstance(part.payload, EthosuPart):
        operation, axis = part.payload.operation, part.payload.axis
        for name, operand in tensor_operands(part.payload):
            if name == tensor:
                yield from spans(operand, rows_read(operation, operand, rows, axis), 0, axis)


def _written(part: Part, tensor: str, rows: Rows | None) -> Iterator[Span]:
    """The bytes of a tensor that a part writes with some rows of its result (None: all)."""
    if isinstance(part.payload, CpuPart):
        yield from _ports(part.payload.outputs, tensor)
    elif isinstance(part.payload, EthosuPart) and part.payload.ofm == tensor:
        ofm, axis = part.payload.operation.ofm, part.payload.axis
        yield from spans(ofm, rows or (0, rows_of(ofm, axis)), 0, axis)


def _refuse(part: str, tensor: str, found: int, parts: Sequence[Part]) -> InputError:
    """The error of a part that reads the bytes of another writer than the network means."""
    if 0 <= found < len(parts) and parts[found].name == part:
        return InputError(f"Part {part!r} reads and overwrites tensor {tensor!r} but has several jobs: run it once, whole.")
    other = parts[found].name if found >= 0 else "the start"
    return InputError(
        f"Part {part!r} reads bytes of tensor {tensor!r} as {other!r} left them, where the network means other ones: "
        "order the jobs as the network orders their parts."
    )


class _Meant(Struct, frozen=True):
    """The writers of the bytes from ``first`` on that a part finds when all parts run whole, in order."""

    first: int
    writers: _Writers

    @classmethod
    def of(cls, read: Sequence[Span], writers: _Writers) -> _Meant:
        """The writers of the bytes that the part reads, from the first to the last byte: a tensor may have tens of thousands of readers."""
        first, end = min((span.start for span in read), default=0), max((span.end for span in read), default=0)
        return cls(first, writers[first:end].copy())

    def at(self, span: Span) -> _Writers:
        """The writers of the bytes of a span."""
        return Span(span.start - self.first, span.counts, span.strides, span.width, span.row).of(self.writers)


_Steps = Mapping[int, Sequence[tuple[int, Job]]]
"""The jobs of each part, by its number, each with its step."""


def _check_tensor(network: Network, steps: _Steps, tensor: Tensor) -> None:
    parts = network.graph.parts
    users = sorted({*network.graph.writers(tensor.name), *network.graph.readers(tensor.name)})
    meant: dict[int, _Meant] = {}
    kind = np.min_scalar_type(-1 - len(parts))
    whole = np.full(tensor.size, -1, kind)
    for number in users:
        meant[number] = _Meant.of([*_read(parts[number], tensor.name, None)], whole)
        for span in _written(parts[number], tensor.name, None):
            span.of(whole)[...] = number
    found = np.full(tensor.size, -1, kind)
    own = sorted((step, user, job) for user in users for step, job in steps.get(user, ()))
    for _, number, job in own:
        for span in _read(parts[number], tensor.name, job.rows):
            there = span.of(found)
            wrong = there != meant[number].at(span)
            if wrong.any():
                raise _refuse(job.part, tensor.name, int(there[wrong].flat[0]), parts)
        for span in _written(parts[number], tensor.name, job.rows):
            span.of(found)[...] = number
    if tensor.kind.stays_to_the_end and (found != whole).any():
        last = parts[int(whole[found != whole].flat[0])].name
        raise InputError(f"Tensor {tensor.name!r} ends with other bytes than part {last!r} leaves in it: let that part run last.")


def check_writers(network: Network, jobs: Sequence[Job]) -> None:
    """InputError at the first job that reads bytes of another writer than the network means, or if a tensor ends with such bytes."""
    steps: dict[int, list[tuple[int, Job]]] = {}
    for step, job in enumerate(jobs):
        steps.setdefault(network.graph.index(job.part), []).append((step, job))
    for tensor in network.graph.tensors:
        writers = len(network.graph.producers(tensor.name))
        if writers > (0 if tensor.kind.is_there_at_first else 1):
            _check_tensor(network, steps, tensor)
