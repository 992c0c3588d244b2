"""Names in deployed networks: those of several command streams, and names for inputs and outputs.

Most deployed forms do not name inputs and outputs, so the names come from the model, matched by size.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from npu_model.compiled.deployed import stream_names
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.compiled.payload_network import with_ends
from npu_model.errors import InputError
from npu_model.program import Binding
from npu_testbed.ground.endings import say

_MOST_NAMES = 8


def say_streams(path: str | Path, data: bytes) -> None:
    """Print a note with the names of a deployed form's command streams, if it has several."""
    names = stream_names(data)
    if len(names) > 1:
        several = f"{', '.join(names[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}"
        say(
            "note",
            f"{Path(path).name} holds {len(names)} command streams ({several}), which run one after the other: for one alone, give a file "
            "with its arrays.",
        )


def named_alike(network: CompiledNetwork, model: CompiledNetwork, name: str) -> CompiledNetwork:
    """The network with the names, shapes and types of its ``model``; InputError if the sizes differ."""
    if any(isinstance(step, CpuOperator) for step in network.steps):
        raise InputError(f"{name} has {len(network.programs)} command streams: leave --model out, or verify them one by one.")
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
                f"{name} has {what} of {sizes[0]} bytes, but the model's have {sizes[1]}: give the model that it was made from, or "
                "verify without a model, which checks only the order of the bytes."
            )
        paired.append(replace(one, region=same[0].region, address=same[0].address))
        left.remove(same[0])
    return tuple(paired)
