"""Transfers within the arena, which Vela's C++ core emits for an operator that reads one tensor in two shapes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.network.network import ethosu_part
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from cascader.frontends.vela import CompilerOptions, compile_network, import_network, legalised
from cascader.frontends.vela.arena_copies import copied_map, is_arena_copy, without_arena_copies
from cascader.frontends.vela.debug_database import named_network
from npu_model.compiled.network import CompiledNetwork
from npu_model.errors import InputError
from npu_model.program import Binding, ByteRange, DataType, DmaOperation, Program
from npu_model.shapes import Shape3D
from sim.functional import run
from validation.builder import NetworkBuilder
from validation.portfolio import build


@cache
def attention() -> CompiledNetwork:
    return named_network(compile_network(build("conv_attention_conv"), CompilerOptions(legalise=True)))


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


def kernels(network: CompiledNetwork) -> int:
    return sum(len(program.kernels) for program in network.programs)


def copied(network: CompiledNetwork) -> tuple[int, int]:
    """Addresses of the source and the copy."""
    (transfer,) = (t for program in network.programs for t in program.transfers if is_arena_copy(t))
    return transfer.source.start, transfer.destination


def outputs_of(network: CompiledNetwork | Program, image: NDArray[np.int8]) -> list[NDArray[np.generic]]:
    return list(run(network, [image]).values())


def image_for(network: CompiledNetwork) -> NDArray[np.int8]:
    (binding,) = network.inputs
    return np.random.default_rng(7).integers(-128, 128, binding.shape, dtype=np.int8)


def test_a_copy_that_the_application_reads_is_made_by_a_kernel() -> None:
    _, destination = copied(attention())
    read = with_output_at(attention(), destination)
    ours = without_arena_copies(read)
    assert (copies(ours), kernels(ours) - kernels(read)) == (0, 1)
    image = image_for(read)
    assert all(np.array_equal(a, b) for a, b in zip(outputs_of(read, image), outputs_of(ours, image), strict=True))


def test_a_copy_that_a_kernel_reads_with_its_neighbour_is_made_by_a_kernel() -> None:
    """A reader that wants 8 bytes more than were copied cannot read the source in their place."""
    (program,) = attention().steps
    assert isinstance(program, Program)
    index, transfer = next((i, op) for i, op in enumerate(program.operations) if isinstance(op, DmaOperation) and is_arena_copy(op))
    short = replace(transfer, source=replace(transfer.source, end=transfer.source.end - 8))
    shortened = replace(program, operations=(*program.operations[:index], short, *program.operations[index + 1 :]))
    network = replace(attention(), steps=(shortened,))
    assert kernels(without_arena_copies(network)) == kernels(network) + 1


def reshaped_output() -> bytes:
    """An output that is another output in another shape, in a network that the Python core legalises."""
    net = NetworkBuilder("reshaped_output")
    x = net.strided_slice(net.input((1, 16, 16, 8), "image"), (0, 0, 0, 0), (1, 16, 16, 8), (1, 2, 1, 1))
    y = net.tanh(x)
    return net.finish([y, net.reshape(y, (1, 4, 32, 8))])


def test_an_output_that_is_another_one_in_another_shape_is_copied_by_the_writers_rows() -> None:
    found = legalised(reshaped_output())
    network = found.network()
    copy = next(payload for part in network.graph.parts if (payload := ethosu_part(part)) and part.name == "copy")
    assert (copies(found.stream), copy.operation.ifm.shape, copy.operation.ofm.shape) == (1, Shape3D(8, 16, 8), Shape3D(8, 16, 8))
    first, second = outputs_of(lower(schedule_layer_by_layer(network, "ethos-u55-128")), image_for(found.stream))
    assert np.array_equal(first.reshape(second.shape), second)


def test_bytes_that_nobody_writes_as_they_are_copied_are_copied_by_sixteens() -> None:
    found = copied_map(ByteRange(1, 64, 160), (), ())
    assert (found.shape, found.byte_ranges()) == (Shape3D(1, 6, 16), (ByteRange(1, 64, 160),))


def test_wide_elements_are_copied_byte_by_byte() -> None:
    binding = Binding("sums", 1, 64, (1, 4, 6), DataType(32, signed=True))
    found = copied_map(ByteRange(1, 64, 160), (), (binding,))
    assert (found.shape, found.dtype.bits, found.byte_ranges()) == (Shape3D(1, 4, 24), 8, (ByteRange(1, 64, 160),))


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
