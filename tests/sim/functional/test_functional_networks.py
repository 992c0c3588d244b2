"""Whole networks, as Vela compiles them: the functional run equals LiteRT's reference kernels, byte for byte."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("ai_edge_litert", reason="LiteRT's reference kernels are not installed")

from reference_data import shared_data
from unit_networks import Reference, compiled_network, differing_bytes

import npu_model.weight_stream.kernels
from npu_model.accelerator import Accelerator
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.program import DmaOperation, KernelOperation, Operation, OperationKind, PoolKind, Program, Rounding
from sim.functional import FilterCache, RegionBytes, run

COMPILATIONS = [
    ("ds_cnn_kws_i8", "Size", False),
    ("ds_cnn_kws_i8", "Performance", False),
    ("ds_cnn_s_i16", "Size", False),
    ("ds_cnn_s_i16", "Performance", True),
    ("vww_mnv1_0.25_96_i8", "Size", False),
    ("yolo_fastest_192_face_i8", "Size", False),
    ("deeplabv3_mnv3_256_i8", "Performance", False),
]


def model(name: str) -> bytes:
    return (shared_data() / "models" / f"{name}.tflite").read_bytes()


def without_waiting_transfers(program: Program) -> Program:
    """The program less its DMA transfers to SHRAM and memory."""
    kept = [index for index, op in enumerate(program.operations) if not isinstance(op, DmaOperation)]
    operations = tuple(program.operations[index] for index in kept)
    return replace(program, operations=operations, words=tuple(program.words[index] for index in kept), names=())


@pytest.mark.parametrize(("name", "optimise", "legacy"), COMPILATIONS)
def test_a_network_equals_the_reference_kernels(name: str, optimise: str, *, legacy: bool) -> None:
    data = model(name)
    network, reference = compiled_network(data, optimise, legacy=legacy), Reference(data)
    assert [differing_bytes(network, reference, seed, extreme=seed == 1) for seed in range(2)] == [0, 0]


def test_every_accelerator_computes_the_same_network() -> None:
    data = model("ds_cnn_kws_i8")
    reference = Reference(data)
    for macs in (32, 64, 256):
        network = compiled_network(data, accelerator=f"ethos-u55-{macs}")
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
@pytest.mark.parametrize("legacy", [False, True], ids=["regor", "legacy"])
def test_vela_rounds_a_fully_connected_twice_where_litert_rounds_once(name: str, *, legacy: bool) -> None:
    data = model(name)
    network, reference = compiled_network(data, legacy=legacy), Reference(data)
    filters = FilterCache()

    def differs(one: CompiledNetwork, seed: int) -> bool:
        return differing_bytes(one, reference, seed, extreme=True, filters=filters) > 0

    seen = next(seed for seed in range(30) if differs(network, seed))
    once = with_natural_rounding(network)
    assert not any(differs(once, seed) for seed in {seen, *range(8)})


def test_a_program_without_its_transfers_reads_memory_that_was_never_written() -> None:
    network = compiled_network(model("ds_cnn_kws_i8"))
    broken = replace(network, steps=(without_waiting_transfers(network.programs[0]),))
    with pytest.raises(InputError, match=r"Operation \d+ \(.*\) reads byte 0x[0-9a-f]+ .*never written"):
        run(broken, [np.zeros(network.inputs[0].shape, np.int8)])


def test_the_stripes_of_one_layer_share_their_decoded_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    network = compiled_network(model("vww_mnv1_0.25_96_i8"), "Size")
    decoded: Counter[bytes] = Counter()
    original = npu_model.weight_stream.kernels.weights_from_stream

    def counted(op: KernelOperation, stream: bytes, device: Accelerator, core: int = 0) -> object:
        decoded[stream] += 1
        return original(op, stream, device, core)

    monkeypatch.setattr(npu_model.weight_stream.kernels, "weights_from_stream", counted)
    run(network, [np.zeros(network.inputs[0].shape, np.int8)])
    convolutions = [op for op in network.programs[0].kernels if op.weights]
    assert set(decoded.values()) == {1}
    assert len(decoded) < len(convolutions)


def test_intermediate_feature_maps_are_seen_after_each_operation() -> None:
    network = compiled_network(model("ds_cnn_kws_i8"), "Performance")
    seen: list[np.ndarray] = []

    def look(index: int, op: Operation, memory: RegionBytes) -> None:
        if isinstance(op, KernelOperation):
            seen.append(memory.gather(op.ofm, f"look {index}"))

    outputs = run(network, [np.ones(network.inputs[0].shape, np.int8)], look)
    assert len(seen) == len(network.programs[0].kernels)
    np.testing.assert_array_equal(seen[-1].reshape(-1), outputs[network.outputs[0].name].reshape(-1))
