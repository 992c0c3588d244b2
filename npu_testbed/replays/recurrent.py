"""The kernels of a recurrent layer by gate and step: an LSTM, which Vela unrolls into some twenty kernels a step under one name.

Gates are recognised by the use of their values, because the compiler chooses the order of kernels. The cell gate is a TANH of the sum of
two products. It is multiplied with the input gate; the forget gate multiplies the state, the output gate the TANH of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from npu_model.program import ActivationKind, KernelOperation
from sim.replay import NetworkReplay, OperationReplay
from sim.views.layers import Layer, LayerRow, layer_cycles, layer_row, layers

GATES = ("input gate", "forget gate", "cell gate", "output gate")
STATES = "states"
"""The name for kernels of no gate: products and sums of the cell state, and copies of the output."""

_INPUT, _FORGET, _CELL, _OUTPUT = GATES


class RecurrentLayer(Struct, frozen=True):
    """A layer's rows by gate, each over all steps and named ``LAYER: GATE``, and the cycles of each step."""

    layer: str
    gates: tuple[LayerRow, ...]
    steps: tuple[int, ...]


class _Kernels:
    """The kernels of a layer, with the number of the kernel that wrote each operand (-1: outside the layer)."""

    def __init__(self, operations: Sequence[OperationReplay]) -> None:
        self.kernels = [one.op for one in operations if isinstance(one.op, KernelOperation)]
        self.reads: list[tuple[int, ...]] = []
        wrote: dict[tuple[int, int], int] = {}
        for number, op in enumerate(self.kernels):
            maps = (op.ifm,) if op.ifm2 is None else (op.ifm, op.ifm2)
            self.reads.append(tuple(wrote.get((fm.region, fm.tiles.bases[0]), -1) for fm in maps))
            wrote[op.ofm.region, op.ofm.tiles.bases[0]] = number

    def is_gate(self, number: int) -> bool:
        """Whether a kernel adds two products and applies SIGMOID or TANH."""
        op, reads = self.kernels[number], self.reads[number]
        curved = op.activation.kind in (ActivationKind.SIGMOID, ActivationKind.TANH)
        return op.mnemonic == "ELEMENTWISE.ADD" and curved and all(one >= 0 and self.kernels[one].weights for one in reads)

    def curve(self, number: int) -> ActivationKind | None:
        """The function that a kernel applies; None for a kernel outside the layer."""
        return self.kernels[number].activation.kind if number >= 0 else None


def _families(kernels: _Kernels) -> dict[int, int]:
    """The kernels of gates, each with the number of the sum that makes its gate."""
    family: dict[int, int] = {}
    for number in range(len(kernels.kernels)):
        if kernels.is_gate(number):
            family |= dict.fromkeys((number, *kernels.reads[number]), number)
        elif len(kernels.reads[number]) == 1 and (one := family.get(kernels.reads[number][0])) is not None:
            # A pool may replace the clip of a gate.
            family[number] = one
    return family


def _gates(kernels: _Kernels, family: dict[int, int]) -> dict[int, str] | None:
    """The gate of each kernel that belongs to one; None for a layer that is not an LSTM."""
    names = {one: _CELL for one in set(family.values()) if kernels.curve(one) is ActivationKind.TANH}
    for number, op in enumerate(kernels.kernels):
        if op.mnemonic != "ELEMENTWISE.MUL":
            continue
        reads = kernels.reads[number]
        gates = [family[one] for one in reads if one in family and names.get(family[one]) is not _CELL]
        if len(gates) != 1:
            return None
        if any(family.get(one) in names and names[family[one]] is _CELL for one in reads):
            name = _INPUT
        elif any(kernels.curve(one) is ActivationKind.TANH for one in reads if one not in family):
            name = _OUTPUT
        else:
            name = _FORGET
        if names.setdefault(gates[0], name) is not name:
            return None
    counts = Counter(names.values())
    if set(family.values()) != names.keys() or any(counts[name] != counts[_CELL] for name in GATES) or not counts[_CELL]:
        return None
    return {number: names[one] for number, one in family.items()}


def _steps(gates: dict[int, str], family: dict[int, int], count: int) -> list[int]:
    """The step of each of ``count`` kernels: its rank among the kernels of its gate.

    Other kernels belong to the step of the last cell gate.
    """
    sums = {name: sorted({family[one] for one, gate in gates.items() if gate is name}) for name in GATES}
    begun, found = 0, []
    for number in range(count):
        name = gates.get(number)
        step = begun if name is None else sums[name].index(family[number])
        begun = max(begun, step) if name is _CELL else begun
        found.append(step)
    return found


def _recurrent(network: NetworkReplay, layer: Layer) -> RecurrentLayer | None:
    kernels = _Kernels(layer.operations)
    family = _families(kernels)
    gates = _gates(kernels, family)
    if gates is None:
        return None
    parts: dict[str, list[OperationReplay]] = {name: [] for name in (*GATES, STATES)}
    cycles: Counter[str] = Counter()
    attributed, number = layer_cycles(network.replays[layer.number]), 0
    steps = _steps(gates, family, len(kernels.kernels))
    taken = [0] * (max(steps) + 1)
    for one in layer.operations:
        part = gates.get(number, STATES)
        parts[part].append(one)
        if isinstance(one.op, KernelOperation):
            cycles[part] += attributed[one.index]
            taken[steps[number]] += attributed[one.index]
            number += 1
    every = (Layer(layer.number, f"{layer.label}: {name}", cycles[name], tuple(own)) for name, own in parts.items())
    return RecurrentLayer(layer.label, tuple(layer_row(network, one) for one in every), tuple(taken))


def recurrent_layers(network: NetworkReplay) -> tuple[RecurrentLayer, ...]:
    """The layers of a replay that are LSTMs, in order."""
    return tuple(found for layer in layers(network) if (found := _recurrent(network, layer)) is not None)


def with_gates(rows: Sequence[LayerRow], found: Sequence[RecurrentLayer]) -> tuple[LayerRow, ...]:
    """The rows of layers, with the gates of recurrent layers in place of the layers."""
    gates = {one.layer: one.gates for one in found}
    return tuple(row for layer in rows for row in gates.get(layer.layer, (layer,)))


def steps_text(one: RecurrentLayer, short: str) -> str:
    """A sentence on the steps of a layer, under its short name."""
    least, most = min(one.steps), max(one.steps)
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{short} takes {len(one.steps)} steps of {each} cycles; the row of a gate is all of its steps."
