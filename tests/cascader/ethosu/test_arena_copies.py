"""Transfers within the arena, which Vela's C++ core emits for an operator that reads one tensor in two shapes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import compile_network, import_network
from cascader.frontends.vela.arena_copies import is_arena_copy, without_arena_copies
from cascader.frontends.vela.naming import named_network
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import Binding, Program
from sim.functional import run
from validation.portfolio import build


@cache
def attention() -> CompiledNetwork:
    return named_network(compile_network(build("conv_attention_conv"), legalise=True))


def copies(network: CompiledNetwork) -> int:
    return sum(is_arena_copy(transfer) for program in network.programs for transfer in program.transfers)


def test_a_network_without_its_copies_computes_the_same() -> None:
    ours = without_arena_copies(attention())
    assert (copies(attention()), copies(ours)) == (1, 0)
    (binding,) = attention().inputs
    image = np.random.default_rng(7).integers(-128, 128, binding.shape, dtype=np.int8)
    scheduled = lower(schedule_layer_by_layer(import_network(build("conv_attention_conv")), "ethos-u55-128"))
    expected, *found = (list(run(network, [image]).values()) for network in (attention(), ours, scheduled))
    for outputs in found:
        assert all(np.array_equal(a, b) for a, b in zip(expected, outputs, strict=True))


def with_output_at(network: CompiledNetwork, address: int) -> CompiledNetwork:
    (output,) = network.outputs
    return replace(network, outputs=(replace(output, address=address),))


def copied(network: CompiledNetwork) -> tuple[int, int]:
    """Addresses of the source and the copy."""
    (transfer,) = (t for program in network.programs for t in program.transfers if is_arena_copy(t))
    return transfer.source.start, transfer.destination


def test_a_copy_that_the_application_reads_is_needed() -> None:
    _, destination = copied(attention())
    with pytest.raises(InputError, match="within the arena, and the application reads it there"):
        without_arena_copies(with_output_at(attention(), destination))


@pytest.mark.parametrize(("which", "pattern"), [(0, "its source is overwritten later"), (1, "another operation writes there, too")])
def test_a_copy_of_bytes_that_change_is_needed(which: int, pattern: str) -> None:
    (program,) = attention().steps
    assert isinstance(program, Program)
    last = max(i for i, op in enumerate(program.operations) if op in program.kernels)
    kernel = program.operations[last]
    ofm = kernel.ofm
    moved = replace(kernel, ofm=replace(ofm, tiles=replace(ofm.tiles, bases=(copied(attention())[which], 0, 0, 0))))
    damaged = replace(program, operations=(*program.operations[:last], moved, *program.operations[last + 1 :]))
    outputs: tuple[Binding, ...] = ()
    with pytest.raises(InputError, match=pattern):
        without_arena_copies(replace(attention(), steps=(damaged,), outputs=outputs))
