"""Schedules of drafts: a draft of a form with the names of its parts and tensors."""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from cascader.draft.draft import BUFFER, COPY, GROUP, JOB, OUTSIDE, PLACE, WHOLE, Draft, lines, table
from cascader.ethosu.job.schedule import UNKNOWN, Provenance, Schedule
from cascader.ethosu.network.network import Network, ethosu_part
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.errors import InputError
from npu_model.shapes import Shape3D

Sizes = tuple[int, int, int]
"""Height, width and depth of a block, 0 where there is none."""


def _sizes(block: Shape3D | None) -> Sizes:
    return (block.height, block.width, block.depth) if block is not None else (0, 0, 0)


def own_blocks(network: Network) -> list[Sizes]:
    """The block of each part in the given network."""
    parts = map(ethosu_part, network.graph.parts)
    return [_sizes(part.operation.block if part is not None else None) for part in parts]


def in_own_blocks(draft: Draft, network: Network) -> Draft:
    """The draft with each job in its part's own block."""
    own, jobs = own_blocks(network), lines(draft.jobs, JOB).tolist()
    return replace(draft, jobs=table([(*job[:3], *own[job[0]]) for job in jobs], JOB))


def schedule_of(draft: Draft, network: Network, accelerator: str, provenance: Provenance = UNKNOWN) -> Schedule:
    """The Schedule of a draft of a network, not checked. A job without a chosen block gets its part's block."""
    names, own, found = [part.name for part in network.graph.parts], own_blocks(network), list[Job]()
    for part, start, end, *block in lines(draft.jobs, JOB).tolist():
        sizes = block if any(block) else own[part]
        found.append(Job(names[part], Shape3D(*sizes) if any(sizes) else None, None if end == WHOLE else (start, end)))
    return Schedule(accelerator, network, tuple(found), _buffers(draft, network), draft.memory, provenance, _copies(draft, names))


def _buffers(draft: Draft, network: Network) -> tuple[Buffer, ...]:
    """The buffers by their numbers."""
    places = lines(draft.places, PLACE).tolist()
    held = sorted((place[BUFFER:], tensor) for tensor, place in enumerate(places) if place[BUFFER] != OUTSIDE)
    found, named = [], network.placed_tensors
    for _, members in groupby(held, key=lambda one: one[0][0]):
        tensors = [tensor for _, tensor in members]
        address, rows, _, size, start, end, *_ = places[tensors[0]]
        names = tuple(named[tensor].name for tensor in tensors)
        found.append(Buffer(names, address, size, start, end, rows or None))
    return tuple(found)


def _copies(draft: Draft, names: list[str]) -> tuple[Copy, ...]:
    found = list[Copy]()
    for step, address, part, reader in lines(draft.copies, COPY).tolist():
        if reader == part:
            found.append(Copy(names[part], step, address))
        else:
            found[-1] = replace(found[-1], sharing=(*found[-1].sharing, names[reader]))
    return tuple(found)


def require_draft_of(draft: Draft, network: Network) -> None:
    """InputError for a foreign draft, such as one from a file, whose parts and tensors are not the network's."""
    parts, tensors = len(network.graph.parts), len(network.placed_tensors)
    tables = (draft.groups, GROUP), (draft.jobs, JOB), (draft.places, PLACE), (draft.copies, COPY)
    if any(len(given) % (8 * width) for given, width in tables) or len(draft.places) != 8 * PLACE * tensors:
        raise InputError(f"A draft is not of the {parts} parts and {tensors} tensors of its network: remove the file that holds it.")
    used = (lines(draft.jobs, JOB)[:, :1], lines(draft.copies, COPY)[:, 2:])
    if any(some.size and not 0 <= some.min() <= some.max() < parts for some in used):
        raise InputError(f"A draft has jobs of other parts than the {parts} of its network: remove the file that holds it.")
