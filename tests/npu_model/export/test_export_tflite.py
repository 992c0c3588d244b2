"""The exported .tflite: what Vela writes for the same Programs, and what stock software reads of it."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest
from few_examples import few_cases
from kernel_driver_check import region_sizes
from msgspec.structs import replace
from scheduling import model_bytes, schedule

from cascader.ethosu.codegen.lowering import lower
from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.accelerator import accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator, read_compiled
from npu_model.errors import InputError
from npu_model.export import export_tflite
from npu_model.program import Program, Quantisation, Region, RegionRole
from npu_model.tflite.model import read_tflite
from npu_model.tflite.record_reader import read_records
from npu_model.tflite.records import ModelRecord, TensorRecord
from npu_model.tflite.writer import write_tflite
from npu_testbed.devices.configs import load_memory_system
from sim import replay_network
from sim.functional import run
from validation.builder import NetworkBuilder

SMALL = ("tiny_conv", "tiny_residual", "ds_cnn", "cpu")
REAL = ("kws_micronet_m", "rnnoise_INT8", "ds_cnn_s_i16", "deeplabv3_mnv3_256_i8")
"""One input and output, nine of them, 16-bit activations, and signatures."""


@cache
def velas(name: str, *, legacy: bool = False) -> bytes:
    return compile_network(model_bytes(name), CompilerOptions(optimise="Performance", legacy=legacy, debug_database=False)).compiled


@cache
def lowered(name: str) -> CompiledNetwork:
    return lower(schedule(name))


def exported(name: str) -> bytes:
    return export_tflite(lowered(name), model_bytes(name))


def without_fast_scratch(network: CompiledNetwork) -> CompiledNetwork:
    steps = [replace(s, regions=tuple(r for r in s.regions if r.index < 2)) if isinstance(s, Program) else s for s in network.steps]
    return replace(network, steps=tuple(steps))


def without_payloads(model: ModelRecord) -> ModelRecord:
    tensors = tuple(replace(t, data=b"") if t.data.startswith(b"COP1") else t for t in model.tensors)
    return replace(model, tensors=tensors, description="")


def random_inputs(network: CompiledNetwork, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    arrays = {}
    for binding in network.inputs:
        dtype = np.dtype(str(binding.dtype))
        arrays[binding.name] = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, binding.shape, dtype)
    return arrays


# What is read again is what was lowered.


@pytest.mark.parametrize("name", [*SMALL, "kws_micronet_m", "rnnoise_INT8"])
def test_a_lowered_schedule_reads_back_with_the_same_operations_words_regions_and_bindings(name: str) -> None:
    again = read_compiled(exported(name))
    assert without_fast_scratch(again) == lowered(name)
    for program in again.programs:
        arena = program.region(1)
        assert program.region(2) == Region(2, RegionRole.FAST_SCRATCH, arena.size)


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "cpu"])
def test_a_schedules_cycles_beats_and_peak_are_those_of_its_exported_file(name: str) -> None:
    system = load_memory_system()
    before, after = replay_network(lowered(name), system), replay_network(read_compiled(exported(name)), system)
    assert (after.cycles, after.beats, after.footprint) == (before.cycles, before.beats, before.footprint)
    assert after.footprint.peak <= lowered(name).arena_size == read_compiled(exported(name)).arena_size


@pytest.mark.parametrize("name", ["tiny_residual", "ds_cnn", "rnnoise_INT8"])
def test_the_exported_file_computes_what_the_reference_kernels_compute(name: str) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    interpreter = litert.Interpreter(model_content=model_bytes(name), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    network = read_compiled(exported(name))
    inputs = random_inputs(network, seed=11)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    found = run(network, inputs)
    for detail in interpreter.get_output_details():
        np.testing.assert_array_equal(found[detail["name"]], interpreter.get_tensor(detail["index"]))


# An unchanged Vela program.


@pytest.mark.law
@pytest.mark.parametrize(("name", "core"), few_cases([*SMALL, *REAL], ["regor", "legacy"]))
def test_velas_programs_exported_unchanged_are_the_same_programs_to_the_word(name: str, core: str) -> None:
    compiled = velas(name, legacy=core == "legacy")
    network = read_compiled(compiled)
    assert read_compiled(export_tflite(network, model_bytes(name))) == network
    assert read_compiled(export_tflite(network, compiled)) == network


def test_a_vela_program_exported_unchanged_keeps_its_cycles_and_traffic() -> None:
    network, system = read_compiled(velas("ds_cnn")), load_memory_system()
    before, after = replay_network(network, system), replay_network(read_compiled(export_tflite(network)), system)
    assert before.cycles > 0
    assert (after.cycles, after.beats, after.footprint) == (before.cycles, before.beats, before.footprint)


@pytest.mark.parametrize("name", [*SMALL, *REAL])
def test_the_file_has_the_tensors_operators_metadata_and_signatures_of_regors(name: str) -> None:
    compiled = velas(name)
    ours, theirs = (read_records(data) for data in (export_tflite(read_compiled(compiled), model_bytes(name)), compiled))
    assert without_payloads(ours) == without_payloads(theirs)
    payloads = [(a.data, b.data) for a, b in zip(ours.tensors, theirs.tensors, strict=True) if b.data.startswith(b"COP1")]
    assert payloads
    assert all(len(a) == len(b) and a[:12] == b[:12] for a, b in payloads)


@pytest.mark.parametrize("name", ["tiny_residual", "cpu", "rnnoise_INT8"])
def test_the_file_differs_from_the_python_cores_in_tensor_order_a_second_scratch_and_its_version_only(name: str) -> None:
    compiled = velas(name, legacy=True)
    ours, theirs = (read_records(data) for data in (export_tflite(read_compiled(compiled), model_bytes(name)), compiled))

    def named(model: ModelRecord) -> list[TensorRecord]:
        memories = {index for op in model.operators if op.custom_code for index in op.inputs[:4]}
        return sorted((t for i, t in enumerate(model.tensors) if i not in memories), key=lambda t: t.name)

    def memories(model: ModelRecord) -> list[list[tuple[int, ...]]]:
        return [[model.tensors[i].shape for i in op.inputs[:4]] for op in model.operators if op.custom_code]

    def ports(model: ModelRecord, indices: tuple[int, ...]) -> list[str]:
        return [model.tensors[index].name for index in indices]

    assert named(ours) == named(theirs)
    assert memories(ours) == memories(theirs)
    assert [op.kind for op in ours.operators] == [op.kind for op in theirs.operators]
    assert ports(ours, ours.inputs) == ports(theirs, theirs.inputs)
    assert ports(ours, ours.outputs) == ports(theirs, theirs.outputs)
    kept = {"vela_version", "OfflineMemoryAllocation"}
    assert [entry for entry in theirs.metadata if entry[0] not in kept] == [entry for entry in ours.metadata if entry[0] not in kept]


# What TFLite Micro and the drivers expect.


def schema_model(data: bytes) -> Any:
    """The file through LiteRT's own schema code."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="LiteRT is not installed")
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


@pytest.mark.parametrize("name", SMALL)
def test_custom_operators_have_stream_constants_arena_and_arena_again_before_their_inputs(name: str) -> None:
    model = schema_model(exported(name))
    graph = model.subgraphs[0]
    (allocation,) = [m for m in model.metadata if m.name == b"OfflineMemoryAllocation"]
    plan = struct.unpack(f"<{3 + len(graph.tensors)}i", bytes(model.buffers[allocation.buffer].data))
    assert plan[:3] == (0, 1, len(graph.tensors))
    npu = [op for op in graph.operators if model.operatorCodes[op.opcodeIndex].customCode == b"ethos-u"]
    assert len(npu) == len(lowered(name).programs)
    for operator, program in zip(npu, lowered(name).programs, strict=True):
        assert bytes(operator.customOptions) == b"\x01\x04\x01"
        stream, constants, scratch, fast = operator.inputs[:4]
        assert (plan[3 + stream], plan[3 + constants], plan[3 + scratch]) == (-1, -1, 0)
        assert fast == scratch
        assert list(graph.tensors[scratch].shape) == [lowered(name).arena_size]
        assert bytes(model.buffers[graph.tensors[constants].buffer].data) == program.region(0).content
        bound = [(graph.tensors[i].name.decode(), plan[3 + i]) for i in (*operator.inputs[4:], *operator.outputs)]
        assert bound == [(b.name, b.address) for b in program.inputs + program.outputs]


def test_streams_and_constants_begin_at_multiples_of_16_bytes_of_the_file() -> None:
    data = exported("tiny_residual")
    contents = [t.data for t in read_tflite(data).tensors if t.data]
    assert len(contents) == 2
    assert all(data.index(content) % 16 == 0 for content in contents)
    stream = next(content for content in contents if content.startswith(b"COP1"))
    assert words_of(stream)  # from byte 32 on, which words_of asserts


SHRAM = accelerator("ethos-u55-128").shram_banks * 1024


def words_of(payload: bytes) -> tuple[int, ...]:
    """The command stream, which begins at byte 32 of a payload."""
    words = struct.unpack(f"<{len(payload) // 4}I", payload)
    assert words[7] == (len(words) - 8) << 16 | 2
    return words[8:]


@pytest.mark.parametrize("name", [*SMALL, "kws_micronet_m", "rnnoise_INT8", "ds_cnn_s_i16", "yolo_fastest_192_face_i8"])
def test_every_access_lies_in_the_region_that_the_kernel_driver_is_given(name: str) -> None:
    model = read_tflite(exported(name))
    operators = [operator for operator in model.operators if operator.custom_code]
    assert len(operators) == len(lowered(name).programs)
    for operator in operators:
        stream, constants, scratch, fast = (model.tensors[index] for index in operator.inputs[:4])
        bound = {0: len(constants.data), 1: scratch.shape[0], 2: fast.shape[0]}
        used = region_sizes(words_of(stream.data), SHRAM)
        assert used[1] > 0
        assert {region: size for region, size in used.items() if size > bound[region]} == {}


def test_rolling_buffers_and_weights_copied_to_the_arena_survive_the_export() -> None:
    network = read_compiled(compile_network(model_bytes("resnet8"), CompilerOptions(optimise="Size", debug_database=False)).compiled)
    (program,) = network.programs
    assert any(op.ifm.tiles.height0 < op.ifm.shape.height for op in program.kernels)
    assert any(not op.to_shram for op in program.transfers)
    data = export_tflite(network)
    assert read_compiled(data) == network
    used = region_sizes(words_of(read_tflite(data).tensors[0].data), SHRAM)
    assert {index: size for index, size in used.items() if size > program.region(index).size} == {}
    inputs = random_inputs(network, seed=4)
    (before,), (after,) = run(network, inputs).values(), run(read_compiled(data), inputs).values()
    np.testing.assert_array_equal(before, after)


def test_the_kernel_drivers_sizes_are_exact_and_grow_with_an_address() -> None:
    (program,) = lowered("tiny_conv").programs
    words = list(words_of(read_tflite(exported("tiny_conv")).tensors[0].data))
    assert region_sizes(words, SHRAM) == {0: program.region(0).size, 1: program.region(1).size}
    highest = max(op.ofm.tiles.bases[0] for op in program.kernels)
    place = next(i for i, word in enumerate(words) if word == 0x4010 and words[i + 1] == highest)
    words[place + 1] += program.region(1).size
    assert region_sizes(words, SHRAM)[1] > program.region(1).size


@pytest.mark.parametrize("name", ["tiny_conv", "cpu", "rnnoise_INT8"])
def test_litert_takes_the_file_and_lacks_nothing_but_the_custom_operator(name: str) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    interpreter = litert.Interpreter(model_content=exported(name))
    original = litert.Interpreter(model_content=model_bytes(name))

    def ports(details: Any) -> list[Any]:
        return [(d["name"], d["shape"].tolist(), d["shape_signature"].tolist(), d["dtype"], d["quantization"]) for d in details]

    assert ports(interpreter.get_input_details()) == ports(original.get_input_details())
    assert ports(interpreter.get_output_details()) == ports(original.get_output_details())
    with pytest.raises(RuntimeError, match="unresolved custom op: ethos-u"):
        interpreter.allocate_tensors()


# Operators that stay on the CPU.


def run_on_cpu(model: ModelRecord, index: int, arrays: dict[int, np.ndarray]) -> None:
    """Run one operator of the file by LiteRT's reference kernels, on the arrays of the tensors."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    operator = model.operators[index]
    inputs = tuple(i for i in operator.inputs if i >= 0 and not model.tensors[i].data)
    data = write_tflite(replace(model, operators=(operator,), inputs=inputs, outputs=operator.outputs, metadata=(), signatures=()))
    interpreter = litert.Interpreter(model_content=data, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, tensor in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], arrays[tensor])
    interpreter.invoke()
    for detail, tensor in zip(interpreter.get_output_details(), operator.outputs, strict=True):
        arrays[tensor] = interpreter.get_tensor(detail["index"])


def run_file(data: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All operators of an exported file in turn: Programs by the functional executor, the others by LiteRT."""
    model, network = read_records(data), read_compiled(data)
    arrays = {index: inputs[model.tensors[index].name] for index in model.inputs}
    for index, (operator, step) in enumerate(zip(model.operators, network.steps, strict=True)):
        if isinstance(step, CpuOperator):
            run_on_cpu(model, index, arrays)
        else:
            part = CompiledNetwork((step,), network.arena_size, step.inputs, step.outputs)
            found = run(part, [arrays[i] for i in operator.inputs[4:]])
            arrays.update({i: found[b.name] for i, b in zip(operator.outputs, step.outputs, strict=True)})
    return {model.tensors[index].name: arrays[index] for index in model.outputs}


def cpu_network() -> bytes:
    """Operators with vector, enumeration and no options, constants of one and of many scales, and one tensor used twice."""
    net = NetworkBuilder("cpu_operators")
    x = net.conv2d(net.input((1, 8, 8, 8), "image"), 16, activation="RELU", name="first")
    y = net.depthwise(x, (3, 3), name="on_cpu")
    z = net.pad(net.add(x, y, name="sum"), 1, 1, 2, 0, name="pad")
    return net.finish([net.reshape(net.max_pool(z, (2, 2), name="pool"), (1, 25, 16), name="flat")])


@pytest.mark.parametrize("left_on_cpu", [("DEPTHWISE_CONV_2D",), ("PAD", "CONV_2D"), ("MAX_POOL_2D", "RESHAPE", "ADD")])
def test_operators_left_on_the_cpu_keep_their_options_and_constants(left_on_cpu: tuple[str, ...]) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    model = cpu_network()
    compiled = compile_network(model, CompilerOptions(cpu_operators=left_on_cpu, debug_database=False)).compiled
    network = read_compiled(compiled)
    assert set(left_on_cpu) <= {step.code for step in network.steps if isinstance(step, CpuOperator)}
    data = export_tflite(network, model)
    assert read_compiled(data) == network
    assert without_payloads(read_records(data)) == without_payloads(read_records(compiled))
    inputs = random_inputs(network, seed=5)
    interpreter = litert.Interpreter(model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs["image"])
    interpreter.invoke()
    np.testing.assert_array_equal(run_file(data, inputs)["flat"], interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def test_a_network_on_npu_and_cpu_computes_the_same_from_its_exported_file_as_from_the_original() -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT's reference kernels are not installed")
    interpreter = litert.Interpreter(model_content=model_bytes("cpu"), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    inputs = random_inputs(lowered("cpu"), seed=6)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs["image"])
    interpreter.invoke()
    found = run_file(exported("cpu"), inputs)
    np.testing.assert_array_equal(found["after"], interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


# Tensors.


def test_an_array_written_twice_is_two_tensors_at_one_address() -> None:
    network = lowered("tiny_conv")
    (program,) = network.programs
    twice = replace(network, steps=(program, program))
    model = read_tflite(export_tflite(twice))
    outputs = [operator.outputs for operator in model.operators]
    assert len(set(outputs)) == 2
    assert model.outputs == outputs[-1]
    assert read_compiled(export_tflite(twice)).programs[0].operations == program.operations


def test_fast_scratch_of_its_own_size_gets_a_tensor_of_its_own() -> None:
    network = lowered("tiny_conv")
    (program,) = network.programs
    apart = replace(program, regions=(*program.regions, Region(2, RegionRole.FAST_SCRATCH, 64)))
    again = read_compiled(export_tflite(replace(network, steps=(apart,))))
    assert again.steps == (apart,)


def test_a_tensor_that_the_model_describes_otherwise_is_written_as_the_network_has_it() -> None:
    network = lowered("tiny_conv")
    (binding,) = network.inputs
    other = replace(binding, quantisation=Quantisation(0.25, 3))
    changed = replace(network, inputs=(other,), steps=tuple(replace(p, inputs=(other,)) for p in network.programs))
    assert read_compiled(export_tflite(changed, model_bytes("tiny_conv"))).inputs == (other,)


def test_the_same_network_gives_the_same_bytes() -> None:
    assert exported("cpu") == exported("cpu")


# Refusals.


def moved(network: CompiledNetwork, address: int, region: int = 1) -> CompiledNetwork:
    return replace(network, outputs=(replace(network.outputs[0], address=address, region=region),))


@pytest.mark.parametrize(
    ("network", "model", "pattern"),
    [
        ("cpu", None, "runs DEPTH_TO_SPACE on the CPU"),
        ("cpu", "tiny_conv", "has output 'after' but the model 'strided'"),
        ("tiny_conv", "cpu", "has output 'strided' but the model 'after'"),
    ],
)
def test_a_missing_or_foreign_model_is_refused(network: str, model: str | None, pattern: str) -> None:
    with pytest.raises(InputError, match=pattern):
        export_tflite(lowered(network), model_bytes(model) if model else None)


def test_a_model_cut_off_is_refused() -> None:
    data = model_bytes("cpu")
    for percent in range(0, 100, 7):
        with pytest.raises(InputError):
            export_tflite(lowered("cpu"), data[: len(data) * percent // 100])


def test_a_model_whose_cpu_operator_has_another_output_is_refused() -> None:
    model = read_records(model_bytes("cpu"))
    renamed = replace(model, tensors=tuple(replace(t, name="else") if t.name == "on_cpu" else t for t in model.tensors))
    with pytest.raises(InputError, match="no DEPTH_TO_SPACE with output 'on_cpu'"):
        export_tflite(lowered("cpu"), write_tflite(renamed))


def test_arrays_outside_the_arena_and_regions_that_no_driver_binds_are_refused() -> None:
    network = lowered("tiny_conv")
    (program,) = network.programs
    stray = replace(program, regions=(*program.regions, Region(3, RegionRole.ARENA, 64)))
    short = replace(program, regions=(replace(program.regions[0], content=b"\0"), program.regions[1]))
    for broken, pattern in [
        (moved(network, network.arena_size), "lies at bytes"),
        (moved(network, -16), "lies at bytes -16"),
        (moved(network, 0, region=0), "of region 0: the arena is region 1"),
        (replace(network, steps=(stray,)), "Region 3 holds the program's arena"),
        (replace(network, steps=(short,)), "have 1 of"),
        (replace(network, arena_size=16), "of an arena of 16"),
        (replace(network, steps=()), "no NPU program"),
        (replace(network, outputs=(replace(network.outputs[0], quantisation=Quantisation(float("nan"), 0)),)), "scale nan"),
    ]:
        with pytest.raises(InputError, match=pattern):
            export_tflite(broken)
