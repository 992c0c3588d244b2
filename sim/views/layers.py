"""Per-layer table: cycles, bound, traffic per port and MAC utilisation of every layer of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from npu_model.program import DmaOperation, KernelOperation
from sim.events import Cause, Unit
from sim.replay import Beats, NetworkReplay, OperationReplay, Replay

OUTSIDE_CAUSES = (
    *(Cause.BLOCKDEP, Cause.SHRAM, Cause.START, Cause.DMA_WAIT, Cause.KERNEL_WAIT, Cause.COMMANDS, Cause.DMA_QUEUE),
    Cause.SCALES,
)
"""Waits for something outside a layer's own pipeline. Other waits mirror the work of a neighbouring unit."""

FILL = "pipeline fill"
"""Bound of a layer whose units are mostly idle without an outside wait: it has too few blocks to overlap."""


class LayerRow(Struct, frozen=True):
    """One layer: the operations of one name, or one operation without a name ("#12 CONV_2D").

    ``operator`` holds the mnemonics of its kernels, "DMA" if it has none. ``cycles`` says by how much its kernels delayed the end of the
    Program: each kernel's completion minus the previous kernel's. Transfers in parallel to kernels cost nothing extra. Remaining cycles at
    the end go to the Program's last layer, so the column sums to NPU ACTIVE. ``share`` is the layer's share of the sum.

    ``binding`` is the unit with the most busy cycles on the layer's behalf (with its port, if it moves data; of equals the first of MAC
    array, output unit, input load, weights, write-back). If that unit was busy for less than half of ``cycles``, it is the largest of
    :data:`OUTSIDE_CAUSES` instead, or :data:`FILL` if no such wait took longer than that unit's work. Transfers run while kernels do. They
    bind a layer that waits for them (``DMA_WAIT``); only a layer without a kernel is bound by the unit (``DMA``).

    Bytes are whole data beats, without the command fetch. ``mac_utilisation`` is the share of the accelerator's multiply-accumulates during
    ``cycles`` that the layer's mathematics needs. It exceeds 1 if the layer began to multiply before the previous layer was done. ``share``
    is from 0 to 1.
    """

    layer: str
    operator: str
    cycles: int
    share: float
    binding: str
    axi0_read_bytes: int
    axi0_write_bytes: int
    axi1_read_bytes: int
    mac_utilisation: float
    kernels: int
    transfers: int
    axi1_write_bytes: int = 0


def layer_cycles(replay: Replay) -> dict[int, int]:
    """Cycles by which each operation (by index) delays the end. They sum to the replay's cycles if there is an operation."""
    timed = [one for one in replay.operations if isinstance(one.op, KernelOperation)] or list(replay.operations)
    cycles: dict[int, int] = {}
    done = 0
    for one in timed:
        cycles[one.index] = one.finished - done
        done = one.finished
    if timed:
        cycles[timed[-1].index] += replay.cycles - done
    return cycles


def label(one: OperationReplay, prefix: str = "") -> str:
    """The name of an operation's layer, or the number and the kind of an operation without one."""
    kind = one.op.mnemonic if isinstance(one.op, KernelOperation) else "DMA"
    return one.name or f"{prefix}#{one.index} {kind}"


def _port(replay: Replay, region: int, direction: str) -> str:
    return f"AXI{replay.system.port_of(region)} {direction}"


def _unit_name(replay: Replay, unit: Unit, operations: list[OperationReplay]) -> str:
    """The unit with the port that it uses, from the layer's first kernel."""
    kernel = next((one.op for one in operations if isinstance(one.op, KernelOperation)), None)
    if kernel is not None and unit is Unit.IFM:
        return f"{unit.value} ({_port(replay, kernel.ifm.region, 'read')})"
    if kernel is not None and unit is Unit.WD:
        streams = kernel.weights + kernel.scales
        return f"weights ({_port(replay, streams[0].region, 'read')})" if streams else "weights"
    if kernel is not None and unit is Unit.OFM:
        return f"{unit.value} ({_port(replay, kernel.ofm.region, 'write')})"
    return unit.value


_UNITS = (Unit.MAC, Unit.AO, Unit.IFM, Unit.WD, Unit.OFM)


def _binding(replay: Replay, operations: list[OperationReplay], cycles: int) -> str:
    busy: Counter[Unit] = Counter()
    waits: Counter[Cause] = Counter()
    for one in operations:
        busy.update(one.busy)
        for (_, cause), amount in one.waits.items():
            waits[cause] += amount
    if not any(isinstance(one.op, KernelOperation) for one in operations):
        return Unit.DMA.value
    unit = max(_UNITS, key=lambda unit: busy[unit])
    if 2 * busy[unit] >= cycles:
        return _unit_name(replay, unit, operations)
    cause = max(OUTSIDE_CAUSES, key=lambda cause: waits[cause])
    return cause.value if waits[cause] > busy[unit] else FILL


def _row(replay: Replay, label: str, operations: list[OperationReplay], cycles: int, total: int) -> LayerRow:
    beats = sum((one.beats for one in operations), Beats())
    kernels = [one.op for one in operations if isinstance(one.op, KernelOperation)]
    macs = sum(op.macs for op in kernels)
    return LayerRow(
        layer=label,
        operator="+".join(dict.fromkeys(op.mnemonic for op in kernels)) or "DMA",
        cycles=cycles,
        share=cycles / total if total else 0.0,
        binding=_binding(replay, operations, cycles),
        axi0_read_bytes=beats.axi0_read * replay.accelerator.port_bytes_per_cycle,
        axi0_write_bytes=beats.axi0_write * replay.accelerator.port_bytes_per_cycle,
        axi1_read_bytes=beats.axi1_read * replay.accelerator.port_bytes_per_cycle,
        mac_utilisation=macs / (cycles * replay.accelerator.macs_per_cycle) if cycles else 0.0,
        kernels=len(kernels),
        transfers=sum(isinstance(one.op, DmaOperation) for one in operations),
        axi1_write_bytes=beats.axi1_write * replay.accelerator.port_bytes_per_cycle,
    )


def _first_run(operations: list[OperationReplay]) -> int:
    """The position at which a layer first runs: its first kernel, because its constants may have been copied long before."""
    return next((one.index for one in operations if isinstance(one.op, KernelOperation)), operations[0].index)


class Layer(Struct, frozen=True):
    """A layer of the Program ``number``: its operations, and ``cycles`` as :class:`LayerRow` has them."""

    number: int
    label: str
    cycles: int
    operations: tuple[OperationReplay, ...]


def _program_layers(replay: Replay, number: int, prefix: str) -> Iterator[Layer]:
    if not replay.operations:
        yield Layer(number, f"{prefix}command stream", replay.cycles, ())
        return
    attributed = layer_cycles(replay)
    layers: dict[str, list[OperationReplay]] = {}
    for one in replay.operations:
        layers.setdefault(label(one, prefix), []).append(one)
    for name, operations in sorted(layers.items(), key=lambda entry: _first_run(entry[1])):
        yield Layer(number, name, sum(attributed.get(one.index, 0) for one in operations), tuple(operations))


def layers(network: NetworkReplay) -> tuple[Layer, ...]:
    """The layers of every Program, in the order in which they first run. A layer in two Programs appears once for each."""
    several = len(network.replays) > 1
    numbered = enumerate(network.replays)
    return tuple(layer for number, replay in numbered for layer in _program_layers(replay, number, f"{number}:" if several else ""))


def layer_row(network: NetworkReplay, layer: Layer) -> LayerRow:
    """The row of a layer, or of some of its operations."""
    return _row(network.replays[layer.number], layer.label, list(layer.operations), layer.cycles, network.cycles)


def layer_rows(network: NetworkReplay) -> tuple[LayerRow, ...]:
    """The rows of :func:`layers`."""
    return tuple(layer_row(network, layer) for layer in layers(network))


_SUMS = ("cycles", "axi0_read_bytes", "axi0_write_bytes", "axi1_read_bytes", "axi1_write_bytes", "kernels", "transfers")


def joined_row(name: str, rows: Sequence[LayerRow], share: float, mac_utilisation: float) -> LayerRow:
    """A row with the sums of the cycles, bytes and operations of ``rows``."""
    sums = {column: sum(getattr(row, column) for row in rows) for column in _SUMS}
    return LayerRow(layer=name, operator="", share=share, binding="", mac_utilisation=mac_utilisation, **sums)


def total_row(rows: tuple[LayerRow, ...], network: NetworkReplay) -> LayerRow:
    """The sums of ``rows`` under the name "total"; the utilisation is the network's."""
    macs = sum(one.op.macs for replay in network.replays for one in replay.operations if isinstance(one.op, KernelOperation))
    offered = sum(replay.cycles * replay.accelerator.macs_per_cycle for replay in network.replays)
    return joined_row("total", rows, 1.0 if network.cycles else 0.0, macs / offered if offered else 0.0)
