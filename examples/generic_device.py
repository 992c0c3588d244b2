"""A device that is no Ethos-U: an audio filter bank of float32 for a vector DSP with 8 KiB of local memory.

The whole way of RFC 0037 for a device of one's own: Tensor Expressions, a Part matcher with the device's cost, the plans of stripes and
buffers, the fastest proposal within the memory, its TensorIR, and a run that is compared with numpy.

    python -m examples.generic_device
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from cascader.plan.proposals import Proposal, frontier
from cascader.plan.stripe_plans import StripeOptions, StripeRates, all_plans
from cascader.plan.stripe_trace import StripedGroup
from cascader.tensorir.compat import load
from cascader.tensorir.prove import RunProof, prove
from cascader.tensorir.te_frontend import Match, TeGraph, WantedTensor, accumulation, read_graph
from examples import ended

Array = npt.NDArray[np.float32]

SAMPLES, CHANNELS, TAPS = 256, 8, 16
MEMORY = 8 * 1024
"""Bytes of the DSP's memory, in which the samples, the result and all buffers lie."""


class Dsp(Struct, frozen=True):
    """A vector unit: so many float32 multiply-accumulates per cycle, and a table lookup of so many cycles per element."""

    lanes: int = 4
    lookup: int = 6

    def filtering(self, wanted: WantedTensor) -> Match | None:
        """An accumulation as the DSP runs it; its cost is in cycles, rounded up per element."""
        match = accumulation(wanted)
        return match and Match("filtering", match.stages, -(-match.work // self.lanes), payload=self)

    def squashing(self, wanted: WantedTensor) -> Match | None:
        """The operator that other devices do not have: a hyperbolic tangent from a table, one element after the other."""
        if str(wanted.stage.attrs.get("op", "")) != "squash":
            return None
        return Match("squashing", (wanted.stage,), self.lookup, payload=self)


def filter_bank() -> tuple[list[Any], Any, dict[Any, Array]]:
    """Input, output and constants: two filters in a row with a table between them, and every second sample of the result."""
    te, tirx = load().te, load().tirx
    rng = np.random.default_rng(0)
    samples = te.placeholder((SAMPLES, 1), "float32", name="samples")
    constants: dict[Any, Array] = {}

    def filtered(signal: Any, name: str, channels: int) -> Any:
        length, own = (int(extent) for extent in signal.shape)
        taps = te.placeholder((TAPS, own, channels), "float32", name=f"{name}_taps")
        constants[taps] = (rng.normal(size=(TAPS, own, channels)) / TAPS).astype(np.float32)
        k, c = te.reduce_axis((0, TAPS), "k"), te.reduce_axis((0, own), "c")
        # Causal: before the first sample there is silence.
        padded = te.compute(
            (length + TAPS - 1, own),
            lambda t, i: tirx.if_then_else(t >= TAPS - 1, signal[t - TAPS + 1, i], tirx.const(0, "float32")),
            name=f"{name}_pad",
        )
        return te.compute((length, channels), lambda t, o: te.sum(padded[t + k, c] * taps[k, c, o], axis=[k, c]), name=name)

    bank = filtered(samples, "bank", CHANNELS)
    squashed = te.compute(bank.shape, lambda t, o: tirx.tanh(bank[t, o]), name="squashed", attrs={"op": "squash"})
    mixed = filtered(squashed, "mixed", CHANNELS)
    output = te.compute((SAMPLES // 2, CHANNELS), lambda t, o: mixed[2 * t, o], name="halved")
    return [samples], output, constants


def reference(samples: Array, taps: list[Array]) -> Array:
    """The same in numpy."""

    def filtered(signal: Array, own: Array) -> Array:
        padded = np.pad(signal, ((TAPS - 1, 0), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, TAPS, axis=0)
        result: Array = np.einsum("tck,kco->to", windows, own).astype(np.float32)
        return result

    return filtered(np.tanh(filtered(samples, taps[0])), taps[1])[::2]


def proposals(graph: TeGraph) -> tuple[Proposal[StripedGroup], ...]:
    """All that the device may choose from, by ascending memory; work is in cycles already."""
    return frontier(all_plans(graph.affine, StripeOptions(factors=6, stripes=64), StripeRates(work_per_cycle=1)))


def main() -> RunProof:
    """Print the frontier, choose the fastest proposal that fits, prove it; returns the proof."""
    dsp = Dsp()
    inputs, output, constants = filter_bank()
    graph = read_graph(inputs, [output], constants, [dsp.squashing, dsp.filtering])
    lines = [f"{part.name}: {graph.match(part).kind}, {part.work} cycles per element" for part in graph.affine.parts]
    found = proposals(graph)
    lines += [f"{proposal.memory:6,} bytes {proposal.cycles:8,} cycles in {len(proposal.plans)} groups" for proposal in found]
    chosen = [proposal for proposal in found if proposal.memory <= MEMORY][-1]
    samples = np.random.default_rng(1).normal(size=(SAMPLES, 1)).astype(np.float32)
    proof = prove(graph, chosen.plans, {"samples": samples})
    close = np.allclose(proof.outputs["halved"], reference(samples, list(constants.values())), atol=1e-5)
    lines += [f"{MEMORY:,} bytes: {chosen.memory:,} planned, {proof.resident:,} alive at once in what was compiled"]
    lines += [f"buffers {dict(proof.buffers)}, work {dict(proof.work)}"]
    lines += [*(proof.failures() or ("every claim holds",)), f"equal to numpy up to rounding: {close}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return proof


if __name__ == "__main__":
    raise SystemExit(ended(main))
