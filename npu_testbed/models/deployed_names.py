"""Names for a deployed network's inputs and outputs. Most deployed forms hold no names, so they come from its model, matched by size."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from npu_model.compiled.network import CompiledNetwork
from npu_model.compiled.payload_network import with_ends
from npu_model.errors import InputError
from npu_model.program import Binding


def named_alike(network: CompiledNetwork, model: CompiledNetwork, name: str) -> CompiledNetwork:
    """The network with the names, shapes and types of its ``model``; InputError if the sizes differ."""
    inputs, outputs = _paired(network.inputs, model.inputs, "inputs", name), _paired(network.outputs, model.outputs, "outputs", name)
    return with_ends(network, inputs, outputs)


def _paired(found: Sequence[Binding], wanted: Sequence[Binding], what: str, name: str) -> tuple[Binding, ...]:
    """The wanted arrays at the positions of the found ones, matched by name or else by size."""
    left, paired = list(found), []
    for one in wanted:
        same = [other for other in left if other.name == one.name] or [other for other in left if other.size == one.size]
        if not same:
            sizes = [", ".join(f"{other.size:,}" for other in some) for some in (found, wanted)]
            raise InputError(
                f"{name} has {what} of {sizes[0]} bytes, and the model's have {sizes[1]}: give the model that it was made from, or verify "
                "without a model, which checks the order of the bytes alone."
            )
        paired.append(replace(one, region=same[0].region, address=same[0].address))
        left.remove(same[0])
    return tuple(paired)
