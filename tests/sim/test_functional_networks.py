"""Whole networks, as Vela compiles them: the functional run equals LiteRT's reference kernels, byte for byte."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")

from reference_data import shared_data
from unit_networks import Reference, compile_network, differing_bytes

import sim.functional.filters
from npu_model.accelerator import Accelerator
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.program import DmaOperation, KernelOperation, Operation, OperationKind, PoolKind, Program, Rounding
from sim.functional import FilterCache, Memory, run

LEGACY = "--debug-force-legacy-core"
COMPILATIONS = [
    ("ds_cnn_kws_i8", ("--optimise", "Size")),
    ("ds_cnn_kws_i8", ("--optimise", "Performance")),
    ("ds_cnn_s_i16", ("--optimise", "Size")),
    ("ds_cnn_s_i16", ("--optimise", "Performance", LEGACY)),
    ("vww_mnv1_0.25_96_i8", ("--optimise", "Size")),
    ("yolo_fastest_192_face_i8", ("--optimise", "Size")),
    ("deeplabv3_mnv3_256_i8", ("--optimise", "Performance")),
]


def model(name: str) -> bytes:
    return (shared_data() / "models" / f"{name}.tflite").read_bytes()


def without_waiting_transfers(program: Program) -> Program:
    """The program less its DMA transfers to SHRAM and memory."""
    kept = [index for index, op in enumerate(program.operations) if not isinstance(op, DmaOperation)]
    operations = tuple(program.operations[index] for index in kept)
    return replace(program, operations=operations, words=tuple(program.words[index] for index in kept), names=())


@pytest.mark.parametrize(("name", "options"), COMPILATIONS)
def test_a_network_equals_the_reference_kernels(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    data = model(name)
    network, reference = compile_network(data, tmp_path, *options), Reference(data)
    assert [differing_bytes(network, reference, seed, extreme=seed == 1) for seed in range(2)] == [0, 0]


def test_every_accelerator_computes_the_same_network(tmp_path: Path) -> None:
    data = model("ds_cnn_kws_i8")
    reference = Reference(data)
    for macs in (32, 64, 256):
        network = compile_network(data, tmp_path, accelerator=f"ethos-u55-{macs}")
        assert differing_bytes(network, reference, 5) == 0


def test_an_earlier_velas_stream_with_a_stale_scale_in_its_maximum_equals_the_reference_kernels() -> None:
    stream = (shared_data() / "fvp" / "streams" / "yolo-fastest_192_face_v4.ethos-u55-128.vela500.tflite").read_bytes()
    assert any(op.pool is PoolKind.MAX and op.ofm_scale.scale == 3817748709 for op in read_compiled(stream).programs[0].kernels)
    assert differing_bytes(read_compiled(stream), Reference(model("yolo_fastest_192_face_i8")), 3) == 0


def with_natural_rounding(network: CompiledNetwork) -> CompiledNetwork:
    """The network with each FullyConnected (a convolution of one output position) rounded once instead of twice."""
    program = network.programs[0]
    operations = tuple(
        replace(op, rounding=Rounding.NATURAL)
        if isinstance(op, KernelOperation) and op.kind is OperationKind.CONV_2D and op.ofm.shape.height * op.ofm.shape.width == 1
        else op
        for op in program.operations
    )
    assert operations != program.operations
    return replace(network, steps=(replace(program, operations=operations),))


@pytest.mark.parametrize("name", ["resnet8_i8", "rnnoise_INT8"])
@pytest.mark.parametrize("options", [(), (LEGACY,)], ids=["regor", "legacy"])
def test_vela_rounds_a_fully_connected_twice_where_litert_rounds_once(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    data = model(name)
    network, reference = compile_network(data, tmp_path, *options), Reference(data)
    filters = FilterCache()
    as_compiled = [differing_bytes(network, reference, seed, extreme=True, filters=filters) for seed in range(30)]
    once = with_natural_rounding(network)
    corrected = [differing_bytes(once, reference, seed, extreme=True, filters=filters) for seed in range(30)]
    assert any(as_compiled)
    assert not any(corrected)


def test_a_program_without_its_transfers_reads_memory_that_was_never_written(tmp_path: Path) -> None:
    network = compile_network(model("ds_cnn_kws_i8"), tmp_path)
    broken = replace(network, steps=(without_waiting_transfers(network.programs[0]),))
    with pytest.raises(InputError, match=r"Operation \d+ \(.*\) reads byte 0x[0-9a-f]+ .*never written"):
        run(broken, [np.zeros(network.inputs[0].shape, np.int8)])


def test_the_stripes_of_one_layer_share_their_decoded_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = compile_network(model("vww_mnv1_0.25_96_i8"), tmp_path, "--optimise", "Size")
    decoded: Counter[bytes] = Counter()
    original = sim.functional.filters.weights_from_stream

    def counted(op: KernelOperation, stream: bytes, device: Accelerator, core: int = 0) -> object:
        decoded[stream] += 1
        return original(op, stream, device, core)

    monkeypatch.setattr(sim.functional.filters, "weights_from_stream", counted)
    run(network, [np.zeros(network.inputs[0].shape, np.int8)])
    convolutions = [op for op in network.programs[0].kernels if op.weights]
    assert set(decoded.values()) == {1}
    assert len(decoded) < len(convolutions)


def test_intermediate_feature_maps_are_seen_after_each_operation(tmp_path: Path) -> None:
    network = compile_network(model("ds_cnn_kws_i8"), tmp_path, "--optimise", "Performance")
    seen: list[np.ndarray] = []

    def look(index: int, op: Operation, memory: Memory) -> None:
        if isinstance(op, KernelOperation):
            seen.append(memory.gather(op.ofm, f"look {index}"))

    outputs = run(network, [np.ones(network.inputs[0].shape, np.int8)], look)
    assert len(seen) == len(network.programs[0].kernels)
    np.testing.assert_array_equal(seen[-1].reshape(-1), outputs[network.outputs[0].name].reshape(-1))
