"""Lasting inputs: inputs of a network that keep their bytes until a run ends, so that no other tensor lies there."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cascader.ethosu.network.homes import with_homes
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.graph.cascader_graph import Tensor, TensorKind
from npu_model.errors import InputError
from npu_model.printable import printable


def with_lasting_inputs(network: Network, homes: Sequence[Wanted] = ()) -> Network:
    """``network`` with each input in the arena as a tensor that lives from the first job to the last.

    Inputs in other ``homes`` keep their bytes anyway. InputError for an input that a part of the network itself writes.
    """
    outside = {home.tensor for home in with_homes(network, homes).homes}
    ports = {port.tensor: port.name for port in network.inputs if port.tensor not in outside}
    written = next((name for part in network.graph.parts for name in part.outputs if name in ports), None)
    if written is not None:
        raise InputError(f"Input {printable(ports[written])!r} is also written by the network, so --keep input cannot hold: drop it.")

    def kept(tensor: Tensor) -> Tensor:
        keeps = tensor.name in ports and tensor.kind is TensorKind.INPUT
        return replace(tensor, kind=TensorKind.VARIABLE) if keeps else tensor

    return replace(network, graph=replace(network.graph, tensors=tuple(map(kept, network.graph.tensors))))
