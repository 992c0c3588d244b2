"""Kernels that only move data: transpositions and copies that another form of the network would not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from npu_model.program import ActivationKind, ByteRange, FeatureMap, KernelOperation, OperationKind, PoolKind, Program, Upscale
from npu_testbed.findings.edits import network_without
from npu_testbed.findings.finding import Finding, count, part, percent
from npu_testbed.replays.simulation import Simulation
from sim import quick_cycles

KIND = "moves"

EXACT = 2.0**-24
"""Distance from 1 of a scale that changes no 16-bit value: Vela writes 1 as 2147483649 / 2^31."""


def only_moves(op: KernelOperation) -> bool:
    """Whether the kernel only copies elements that it reads, unchanged."""
    if op.kind is not OperationKind.POOL or op.pool is PoolKind.REDUCE_SUM or op.upscale is not Upscale.NONE:
        return False
    window, maps, clamp = op.kernel, (op.ifm, op.ofm), op.activation
    one_to_one = (window.elements, window.stride_y, window.stride_x) == (1, 1, 1) and op.ifm.shape == op.ofm.shape
    same_values = maps[0].dtype == maps[1].dtype and maps[0].zero_point == maps[1].zero_point
    unclamped = clamp.kind is ActivationKind.NONE and (clamp.minimum, clamp.maximum) == (op.ofm.dtype.minimum, op.ofm.dtype.maximum)
    return one_to_one and same_values and unclamped and abs(op.ofm_scale.scale / 2**op.ofm_scale.shift - 1) < EXACT


def transposes(op: KernelOperation) -> bool:
    """Whether the kernel writes its axes in another order of addresses than it reads them."""
    return _axes(op.ifm) != _axes(op.ofm)


def _axes(fm: FeatureMap) -> list[int]:
    """The axes that have more than one element, by falling stride."""
    steps = (fm.strides.y, fm.strides.x, fm.dtype.bytes)
    extents = (fm.shape.height, fm.shape.width, fm.shape.depth)
    return sorted((axis for axis in range(3) if extents[axis] > 1), key=lambda axis: -steps[axis])


@dataclass(slots=True)
class _Moves:
    """Kernels that move data in one way, by step of the network, and whether one of them transposes."""

    kernels: dict[int, set[int]]
    transposed: bool = False

    def add(self, step: int, index: int, op: KernelOperation) -> None:
        self.kernels.setdefault(step, set()).add(index)
        self.transposed = self.transposed or transposes(op)

    @property
    def number(self) -> int:
        return sum(map(len, self.kernels.values()))


def _overlaps(ranges: Iterable[ByteRange], others: Iterable[ByteRange]) -> bool:
    others = list(others)
    return any(one.overlaps(other) for one in ranges for other in others)


def _program_moves(program: Program, inputs: Iterable[ByteRange], outputs: Iterable[ByteRange]) -> dict[int, str]:
    """The kernels that only move data, with the kind of tensor that they move, directly or through others."""
    kernels = {index: op for index, op in enumerate(program.operations) if isinstance(op, KernelOperation)}
    found: dict[int, str] = {}
    held = list(inputs)
    for index, op in kernels.items():
        if only_moves(op) and _overlaps(op.ifm.byte_ranges(), held):
            found[index] = "input"
            held += op.writes()
        else:
            held = [one for one in held if not _overlaps([one], op.writes())]
    wanted = list(outputs)
    for index, op in reversed(kernels.items()):
        if index not in found and only_moves(op) and _overlaps(op.writes(), wanted):
            found[index] = "output"
            wanted += op.ifm.byte_ranges()
        elif index not in found:
            wanted = [one for one in wanted if not _overlaps([one], op.writes())]
    return {index: found.get(index, "between") for index, op in kernels.items() if only_moves(op)}


def _groups(simulation: Simulation) -> dict[str, _Moves]:
    network = simulation.network
    inputs = [binding.byte_range for binding in network.inputs]
    outputs = [binding.byte_range for binding in network.outputs]
    groups: dict[str, _Moves] = {}
    for number, step in enumerate(network.steps):
        if isinstance(step, Program):
            for index, where in _program_moves(step, inputs, outputs).items():
                op = step.operations[index]
                assert isinstance(op, KernelOperation)  # noqa: S101  # as it was found
                groups.setdefault(where, _Moves({})).add(number, index, op)
    return groups


_REMEDY = {
    ("input", True): "transpose the input, as of a network exported in NCHW: feeding NHWC",
    ("input", False): "copy the input: feeding it as the first layer reads it",
    ("output", True): "transpose the output, as of a network exported in NCHW: taking NHWC",
    ("output", False): "copy the output: taking it as the last layer writes it",
    ("between", True): "transpose tensors between layers: exporting the network in one order of axes, NHWC,",
    ("between", False): "copy tensors between layers: a form of the network without such copies",
}
"""Work of kernels that only move data, with its remedy, by position and by whether they transpose."""


def moves(simulation: Simulation) -> Iterator[Finding]:
    """Yield the cost of each group of kernels that only move data: a replay without them."""
    for where, group in _groups(simulation).items():
        without = quick_cycles(network_without(simulation.network, group.kernels), simulation.system, simulation.timing)
        saved = simulation.replay.cycles - without
        share = part(saved, simulation.replay.cycles)
        text = f"{count(group.number, 'pool')} only {_REMEDY[where, group.transposed]} saves {saved:,} cycles ({percent(share)})."
        yield Finding(KIND, text, f"left out {count(group.number, 'kernel')}", saved, 0, simulation.planned_bytes, share)
