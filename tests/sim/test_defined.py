"""Refusals of a replay, which computes nothing: bytes that nobody wrote, operations on their own input, wrong numbers of weights."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refusal
from cpu_networks import cpu_split_network
from damage import MAGIC, SYSTEM, damaged, executed, exported
from msgspec.structs import replace
from scheduling import schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.program import ByteRange, KernelOperation, Program
from npu_model.weight_stream import kernels as weights_of
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.streams import coded
from npu_model.weight_stream.weights import weight_shape
from sim import replay_network
from sim.functional import require_defined
from validation.zoo import build

VALUES = re.compile(r"accumulates|is not public|16-bit scales|only Scale|rounding|not verified|clamps|looks up|32 bits|shift")
"""Refusals that depend on values, or on what is known of the NPU's arithmetic: a matter for `verify`."""


def first_kernel(program: Program) -> int:
    return next(index for index, op in enumerate(program.operations) if isinstance(op, KernelOperation))


def changed(network: CompiledNetwork, **changes: object) -> CompiledNetwork:
    """The network with its first kernel changed."""
    (program,) = network.programs
    index = first_kernel(program)
    operations = list(program.operations)
    operations[index] = replace(operations[index], **changes)  # type: ignore[arg-type]  # the caller names fields of a kernel
    return replace(network, steps=(replace(program, operations=tuple(operations)),))


def kernel(network: CompiledNetwork) -> KernelOperation:
    (program,) = network.programs
    found = program.operations[first_kernel(program)]
    assert isinstance(found, KernelOperation)
    return found


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_residual", "ds_cnn", "resnet8", "unet"])
def test_networks_as_vela_compiles_them_read_only_what_was_written(name: str) -> None:
    for optimise in ("Size", "Performance"):
        require_defined(read_compiled(compile_network(build(name), CompilerOptions(optimise=optimise, debug_database=False)).compiled))


def test_what_an_operator_on_the_cpu_makes_counts_as_written() -> None:
    network = read_compiled(compile_network(cpu_split_network(), CompilerOptions(debug_database=False)).compiled)
    assert any(isinstance(step, CpuOperator) for step in network.steps)
    require_defined(network)
    alone = replace(network, steps=tuple(step for step in network.steps if isinstance(step, Program)))
    with pytest.raises(InputError, match="was never written"):
        require_defined(alone)


def test_a_kernel_that_reads_what_nobody_wrote_is_named() -> None:
    network = lower(schedule("tiny_residual"))
    ifm = kernel(network).ifm
    elsewhere = replace(ifm, tiles=replace(ifm.tiles, bases=(ifm.tiles.bases[0] + 4096, *ifm.tiles.bases[1:])))
    with pytest.raises(InputError, match=r"Operation \d+ \(.*\) reads element .* which was never written"):
        require_defined(changed(network, ifm=elsewhere))


def test_an_output_that_nobody_writes_is_named() -> None:
    network = lower(schedule("tiny_conv"))
    (program,) = network.programs
    idle = replace(program, operations=program.operations[-1:], words=program.words[-1:], names=program.names[-1:])
    with pytest.raises(InputError, match=r"Output .* reads byte .* which was never written"):
        require_defined(replace(network, inputs=(), steps=(idle,)))


def test_a_kernel_that_overwrites_its_own_input_is_named() -> None:
    network = lower(schedule("tiny_residual"))
    op = kernel(network)
    with pytest.raises(InputError, match="overwrites elements of its own input"):
        require_defined(changed(network, ofm=replace(op.ofm, tiles=replace(op.ofm.tiles, bases=op.ifm.tiles.bases))))


def test_a_stream_that_this_process_has_coded_is_not_decoded_and_each_other_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    op, device = kernel(lower(schedule("tiny_conv"))), accelerator("ethos-u55-128")
    decoded = list[bytes]()
    monkeypatch.setattr(weights_of, "weights_from_stream", lambda _op, stream, *_: decoded.append(stream))
    (stream,) = coded(np.full(weight_shape(op), 3, np.int16), WeightFormat.of(op), device)
    weights_of.require_weights(op, [stream], device)
    assert decoded == []
    other = bytes([stream[0] ^ 8]) + stream[1:]
    deeper = op.having(block=replace(op.block, depth=2 * op.block.depth))
    for one, some in ((op, other), (deeper, stream)):
        weights_of.require_weights(one, [some], device)
        assert decoded.pop() == some


@pytest.mark.parametrize(("depth", "message"), [(8, "holds 512 weights: 256 are needed"), (32, "holds 512 weights: 1024 are needed")])
def test_a_stream_with_more_or_fewer_weights_than_the_operation_has_is_refused(depth: int, message: str) -> None:
    network = lower(schedule("tiny_conv"))
    op = kernel(network)
    assert op.ofm.shape.depth == 16
    with pytest.raises(InputError, match=message):
        replay_network(changed(network, ofm=replace(op.ofm, shape=replace(op.ofm.shape, depth=depth))), SYSTEM)


def refused_values(network: CompiledNetwork) -> str:
    """Why the network cannot be computed; what :data:`VALUES` finds if it can."""
    try:
        executed(network, 0xA5)
    except InputError as error:
        return str(error)
    return "accumulates"


def test_of_damaged_files_a_replay_accepts_only_what_reads_what_was_written() -> None:
    found = {"refused": 0, "accepted": 0}
    for seed in range(200):
        rng = random.Random(seed)
        data = bytearray(exported(rng.randrange(2)))
        start = data.index(MAGIC.to_bytes(4, "little"))
        damaged(rng, data, start, start + int.from_bytes(data[start - 4 : start], "little"), 4)
        try:
            network = read_compiled(bytes(data))
            replay_network(network, SYSTEM)
        except InputError:
            continue
        try:
            require_defined(network)
        except InputError:
            found["refused"] += 1
            with pytest.raises(InputError):
                executed(network, 0xA5)
            continue
        found["accepted"] += 1
        assert VALUES.search(refused_values(network)), seed
    assert min(found.values()) > 10


def test_the_command_line_refuses_and_its_help_says_what_it_does_not_check(tmp_path: Path) -> None:
    data = bytearray(compile_network(build("tiny_residual"), CompilerOptions(debug_database=False)).compiled)
    path = tmp_path / "net_vela.tflite"
    refused = 0
    for seed in range(60):
        rng, copy = random.Random(seed), bytearray(data)
        start = copy.index(MAGIC.to_bytes(4, "little"))
        damaged(rng, copy, start, start + int.from_bytes(copy[start - 4 : start], "little"), 4)
        path.write_bytes(copy)
        if call("simulate", "vela", path).status == 2:
            refused += "never written" in refusal("simulate", "vela", path)
    assert refused > 0
    for words in ((), ("schedule",), ("vela",)):
        assert "Values are not checked: use `npu-testbed verify`." in " ".join(call("simulate", *words, "--help").output.split())


def test_weights_that_were_computed_cannot_be_decoded() -> None:
    """A stream is a constant, or a copy of one: what a kernel or an input wrote is none, whatever its bytes."""
    network = lower(schedule("tiny_conv"))
    (own,) = kernel(network).weights
    start = network.inputs[0].address // 16 * 16
    with pytest.raises(InputError, match=r"Operation \d+ \(CONV_2D.*\) reads weights at bytes .* was computed"):
        require_defined(changed(network, weights=(ByteRange(1, start, start + own.length),)))


def test_weights_that_are_no_stream_are_refused_with_the_operation() -> None:
    network = lower(schedule("tiny_conv"))
    (program,) = network.programs
    (own,) = kernel(network).weights
    constants = program.regions[0]
    content = constants.content[: own.start] + bytes(own.length) + constants.content[own.end :]
    regions = (replace(constants, content=content), *program.regions[1:])
    with pytest.raises(InputError, match=r"Operation \d+ \(CONV_2D.*\) has weights that cannot be decoded"):
        require_defined(replace(network, steps=(replace(program, regions=regions),)))
