"""Transferred copies: tensors that must be there twice are copied by the DMA, beside the kernels, where that is expected to be faster.

An output that is another output in another shape needs bytes of its own. A kernel that copies them takes its turn among the others; a
transfer within the arena moves eight bytes a cycle while others run, as Vela's Python core has it. Kernels that read the copy of an
output read the output itself, so that they need not wait for the transfer.
"""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.codegen.transfers import copied_bytes, transfers
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.network.network import EthosuPart, Network, ethosu_part
from cascader.ethosu.rewrites.moved_maps import Move
from cascader.ethosu.rewrites.spared_copies import Copy, Union, found_copy, is_steady
from cascader.ethosu.rewrites.wide_copies import copy_cycles
from npu_model.accelerator import Accelerator
from npu_model.program.alignment import ALIGNMENT


def _is_faster(kernel: EthosuPart, accelerator: Accelerator, sources: Sources) -> bool:
    """Whether the DMA can copy any of its rows, and is expected to take fewer cycles for all of them than the fastest kernel."""
    operation = kernel.operation
    size, rows = copied_bytes(operation), operation.ofm.shape.height
    if not transfers(operation) or (rows > 1 and size // rows % ALIGNMENT):
        return False
    least = copy_cycles(operation, accelerator, sources)
    return least is not None and sources.maps.moving(size) + sources.maps.latency < least


def _read_at_home(network: Network, copy: Copy) -> Network:
    """``network`` with the kernels that read a copy on what was copied, if that stays to the end anyway."""
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
