"""Homes of a compiled network: the memories of its inputs and outputs that have regions of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cascader.ethosu.network.homes import INPUT, OUTPUT
from cascader.ethosu.network.network import Home
from cascader.ethosu.network.wanted_homes import wanted_home
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.printable import shown
from npu_model.program import Binding
from npu_model.program.region_numbers import FIRST_HOME


def homes_of(network: CompiledNetwork, homes: tuple[str, ...], system: MemorySystem) -> tuple[Home, ...]:
    """The homes in pairs WHAT=MEMORY; InputError for an unknown tensor, or one in the arena of the compiled file."""
    found = []
    for text in homes:
        wanted = wanted_home(text, system)
        for binding in _bindings(network, wanted.what):
            if binding.region < FIRST_HOME:
                raise InputError(
                    f"--home {shown(text)} moves {shown(binding.name)}, which lies in the arena of the compiled file: compile with "
                    "--separate-io-regions, or leave it out."
                )
            found.append(Home(binding.name, binding.region, wanted.memory, wanted.port))
    return tuple(found)


def unsaid_homes(network: CompiledNetwork, homes: Sequence[Home]) -> tuple[str, ...]:
    """Return the inputs and outputs that have their own region but no known home. They are taken to lie in the arena's memory."""
    known = {home.tensor for home in homes}
    return tuple(one.name for one in (*network.inputs, *network.outputs) if one.region >= FIRST_HOME and one.name not in known)


def _bindings(network: CompiledNetwork, what: str) -> Iterator[Binding]:
    """The inputs and outputs that a name means."""
    ends = {INPUT: network.inputs, OUTPUT: network.outputs}
    every = (*network.inputs, *network.outputs)
    found = ends.get(what) or [binding for binding in every if binding.name == what]
    if not found:
        names = ", ".join(shown(binding.name) for binding in every)
        raise InputError(f"--home names {shown(what)}, which the network does not have: write input, output, or one of {names}.")
    yield from found
