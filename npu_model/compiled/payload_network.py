"""Networks of driver payloads: Programs with their constants, and the inputs and outputs found in the streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu_model.accelerator import accelerator
from npu_model.command_stream import decode_words, parse_payload
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.compiled.unwritten import unwritten_reads
from npu_model.errors import InputError
from npu_model.program import Binding, DataType, Program, Region, RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.check import check_program
from npu_model.program.extents import accesses, extents_of
from npu_model.program.region_numbers import ARENA, CONSTANTS
from npu_model.shapes import round_up

_MOST_JOBS, _MOST_ENDS = 1024, 256
_BYTE = DataType(8, signed=True)

APPLICATION = "APPLICATION"
"""Name of the step between two streams of a C source: kernels on the CPU, or a copy."""


def _bare_program(payload: bytes) -> Program:
    """The program of a payload, without regions."""
    read = parse_payload(payload)
    operations, words = decode_words(read.words, accelerator(read.accelerator).commands)
    return Program(read.accelerator, operations, words, ())


def constants_read(payload: bytes) -> int:
    """The bytes of constants, from their beginning, that a payload's command stream reads."""
    return extents_of(_bare_program(payload).operations).get(CONSTANTS, 0)


def _regions(extents: dict[int, int], constants: bytes, arena: int) -> tuple[Region, ...]:
    roles = {CONSTANTS: RegionRole.CONSTANTS, ARENA: RegionRole.ARENA, ARENA + 1: RegionRole.FAST_SCRATCH}
    others = (
        Region(index, roles.get(index, RegionRole.HOME), round_up(end, ALIGNMENT))
        for index, end in sorted(extents.items())
        if index > ARENA
    )
    return (Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants), Region(ARENA, RegionRole.ARENA, arena), *others)


def payload_network(
    payloads: Sequence[tuple[bytes, bytes]], inputs: Sequence[Binding], outputs: Sequence[Binding], arena: int, prefix: str = ""
) -> CompiledNetwork:
    """The network of payloads with their constants.

    Inputs and outputs are found in the streams if they are not given; their names then begin with ``prefix``.
    """
    if not payloads:
        raise InputError("The file holds no driver payload: give the source that has the command stream.")
    if len(payloads) > _MOST_JOBS:
        raise InputError(f"The file holds {len(payloads)} driver payloads: {_MOST_JOBS} are the most that are read.")
    programs = [(_bare_program(payload), constants) for payload, constants in payloads]
    extents = [extents_of(program.operations) for program, _ in programs]
    ends = [one.byte_range.end for one in (*inputs, *outputs) if one.region == ARENA]
    size = round_up(max([1, arena, *ends, *(found.get(ARENA, 0) for found in extents)]), ALIGNMENT)
    steps = []
    for (program, constants), found in zip(programs, extents, strict=True):
        if found.get(CONSTANTS, 0) > len(constants):
            raise InputError(
                f"The command stream reads {found[CONSTANTS]} bytes of constants and the array with them has {len(constants)}: give the "
                "source with the payload and its constants."
            )
        steps.append(Program(program.accelerator, program.operations, program.words, _regions(found, constants, size)))
    network = CompiledNetwork(tuple(steps), size, tuple(inputs), tuple(outputs))
    ended = network if inputs or outputs else _with_own_ends(network, prefix)
    return with_ends(ended, ended.inputs, ended.outputs)


def with_ends(network: CompiledNetwork, inputs: tuple[Binding, ...], outputs: tuple[Binding, ...]) -> CompiledNetwork:
    """A network of payloads with other inputs and outputs, its programs checked."""
    last = len(network.steps) - 1
    steps = []
    for number, one in enumerate(network.programs):
        program = Program(one.accelerator, one.operations, one.words, one.regions, inputs, outputs if number == last else ())
        check_program(program, accelerator(program.accelerator))
        steps.append(program)
    return CompiledNetwork(tuple(steps), network.arena_size, inputs, outputs)


def in_turn(networks: Sequence[CompiledNetwork], between: str = APPLICATION) -> CompiledNetwork:
    """Networks of one payload each, which run one after the other in the largest arena.

    An operator ``between`` on the CPU stands for whatever the application does between two of them.
    """
    steps: list[Program | CpuOperator] = []
    for before, network in zip((None, *networks), networks, strict=False):
        if before is not None:
            steps.append(CpuOperator(between, before.outputs, network.inputs))
        steps += network.programs
    arena = max(network.arena_size for network in networks)
    return CompiledNetwork(tuple(steps), arena, networks[0].inputs, networks[-1].outputs)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that meet or touch as one, in ascending order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _bindings(what: str, spans: Sequence[tuple[int, int]]) -> tuple[Binding, ...]:
    return tuple(Binding(f"{what}_{number}", ARENA, start, (end - start,), _BYTE) for number, (start, end) in enumerate(_merged(spans)))


def _with_own_ends(network: CompiledNetwork, prefix: str) -> CompiledNetwork:
    """The network with the inputs and outputs that its streams show."""
    spans: list[tuple[int, int]] = []
    for _ in range(_MOST_ENDS):
        seen = CompiledNetwork(network.steps, network.arena_size, _bindings(f"{prefix}input", spans), ())
        read = next(unwritten_reads(seen), None)
        if read is None:
            return CompiledNetwork(network.steps, network.arena_size, seen.inputs, _bindings(f"{prefix}output", _last_writes(network)))
        spans.append((read.reads.start, read.reads.end))
    raise InputError(f"The command streams read more than {_MOST_ENDS} ranges that nothing writes: the file is incomplete.")


def _last_writes(network: CompiledNetwork) -> list[tuple[int, int]]:
    """The ranges of the arena that are written and not read afterwards."""
    wanted = np.ones(network.arena_size, np.bool_)
    found = np.zeros(network.arena_size, np.bool_)
    for program in reversed(network.programs):
        for operation in reversed(program.operations):
            reads, writes = accesses(operation)
            for span in (one for one in writes if one.region == ARENA):
                found[span.start : span.end] |= wanted[span.start : span.end]
                wanted[span.start : span.end] = False
            for span in (one for one in reads if one.region == ARENA):
                wanted[span.start : span.end] = False
    edges = np.flatnonzero(np.diff(np.concatenate(([0], found.astype(np.int8), [0]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
