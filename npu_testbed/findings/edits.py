"""Edits of a Program for a replay that asks "what if": operations left out, put in and replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from npu_model.command_stream.encode import encode_operations
from npu_model.compiled.network import CompiledNetwork
from npu_model.program import DmaOperation, DmaWait, Operation, Program
from npu_model.program.check import MAX_WAIT
from npu_testbed.replays.simulation import Simulation
from sim import quick_cycles


def cycles_with(simulation: Simulation, program: Program, edited: Program) -> int:
    """NPU cycles of the network with one of its Programs replaced."""
    steps = tuple(edited if step is program else step for step in simulation.network.steps)
    return quick_cycles(replace(simulation.network, steps=steps), simulation.system, simulation.timing)


def without(program: Program, left_out: Collection[int]) -> Program:
    """The Program without the operations of some indices."""
    kept = [index for index in range(len(program.operations)) if index not in left_out]
    return program.keeping(kept, (program.operations[index] for index in kept))


def network_without(network: CompiledNetwork, left_out: Mapping[int, Collection[int]]) -> CompiledNetwork:
    """The network without some operations of some Programs, counted among the steps."""
    return replace(
        network,
        steps=tuple(
            without(step, left_out[number]) if isinstance(step, Program) and number in left_out else step
            for number, step in enumerate(network.steps)
        ),
    )


def _waits(operations: Sequence[Operation], change: Callable[[int, int], int], at: int) -> list[Operation]:
    """The operations with each DMA wait after index ``at`` changed, by its count and the transfers issued between."""
    found: list[Operation] = list(operations[:at])
    later = 0
    for op in operations[at:]:
        later += isinstance(op, DmaOperation)
        found.append(_wait(change(op.outstanding, later)) if isinstance(op, DmaWait) else op)
    return found


def _wait(outstanding: int) -> DmaWait:
    """A wait that leaves at most ``outstanding`` transfers. If no command can say that many, it waits for more of them."""
    return DmaWait(min(outstanding, MAX_WAIT))


def without_transfer(program: Program, index: int) -> Program:
    """The Program without a transfer; waits ask for the same number of the other transfers."""
    operations = _waits(program.operations, lambda outstanding, later: outstanding - (outstanding > later), index + 1)
    kept = [number for number in range(len(operations)) if number != index]
    return program.keeping(kept, (operations[number] for number in kept))


def with_transfers(program: Program, transfers: Sequence[DmaOperation], at: int, wait: int, name: str) -> Program:
    """The Program with transfers issued before operation ``at``, and a wait for them before operation ``wait``.

    Later waits still leave the same transfers outstanding, and the new ones on top. If that number exceeds what a command can say, the wait
    is for more transfers.
    """
    count = len(transfers)
    operations = _waits(program.operations, lambda outstanding, later: outstanding + (count if outstanding >= later else 0), at)
    later = sum(isinstance(op, DmaOperation) for op in operations[at:wait])
    own = _wait(later)
    new = [*operations[:at], *transfers, *operations[at:wait], own, *operations[wait:]]
    *added, last = encode_operations((*transfers, own))[1]
    words = [*program.words[:at], *added, *program.words[at:wait], last, *program.words[wait:]]
    names = program.names and (*program.names[:at], *[name] * count, *program.names[at:wait], name, *program.names[wait:])
    return replace(program, operations=tuple(new), words=tuple(words), names=names)
