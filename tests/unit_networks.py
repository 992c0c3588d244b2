"""Networks of one operator, written with LiteRT's schema, and the same run by LiteRT's reference kernels and by Vela's stream."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from msgspec import Struct

from cascader.frontends.vela import CompilerOptions, compile_network
from npu_model.compiled.network import CompiledNetwork, read_compiled
from sim.functional import FilterCache, run

TYPES = {"int8": 9, "uint8": 3, "int16": 7, "int32": 2, "int64": 4}
"""TensorType values of the .tflite schema."""


class Tensor(Struct, frozen=True):
    """A tensor of a unit network; ``data`` makes it constant, ``axis`` is the quantised dimension of several scales."""

    shape: tuple[int, ...]
    dtype: str = "int8"
    scale: float | tuple[float, ...] = 0.05
    zero_point: int = 0
    data: Any = None
    axis: int = 0


def _tensor(spec: Tensor, name: str, buffer: int) -> Any:
    scales = list(spec.scale) if isinstance(spec.scale, tuple) else [spec.scale]
    quantisation = schema.QuantizationParametersT()
    quantisation.scale, quantisation.zeroPoint = scales, [spec.zero_point] * len(scales)
    quantisation.quantizedDimension = spec.axis
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), list(spec.shape), TYPES[spec.dtype], buffer
    tensor.quantization = quantisation if spec.dtype != "int32" or spec.data is None or scales != [0.05] else None
    return tensor


def unit_network(code: str, inputs: list[Tensor], output: Tensor, options: str = "", **fields: Any) -> bytes:
    """A .tflite of one builtin operator; inputs without data are the network's, ``fields`` go into ``options`` (a schema class)."""
    model, graph = schema.ModelT(), schema.SubGraphT()
    empty = schema.BufferT()
    model.version, model.subgraphs, model.buffers, graph.tensors = 3, [graph], [empty], []
    for index, spec in enumerate([*inputs, output]):
        buffer = 0
        if spec.data is not None:
            constant = schema.BufferT()
            constant.data = np.frombuffer(np.asarray(spec.data, spec.dtype).tobytes(), np.uint8)
            model.buffers.append(constant)
            buffer = len(model.buffers) - 1
        graph.tensors.append(_tensor(spec, f"tensor{index}", buffer))
    operator, opcode = schema.OperatorT(), schema.OperatorCodeT()
    opcode.builtinCode = getattr(schema.BuiltinOperator, code)
    opcode.deprecatedBuiltinCode, opcode.version = min(opcode.builtinCode, 127), 1
    operator.inputs, operator.outputs = list(range(len(inputs))), [len(inputs)]
    if options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        operator.builtinOptions = getattr(schema, options + "T")()
        for field, value in fields.items():
            setattr(operator.builtinOptions, field, value)
    model.operatorCodes, graph.operators = [opcode], [operator]
    graph.inputs = [index for index, spec in enumerate(inputs) if spec.data is None]
    graph.outputs = [len(inputs)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def compiled_network(
    model: bytes, optimise: str = "Performance", *, legacy: bool = False, accelerator: str = "ethos-u55-128"
) -> CompiledNetwork:
    """A network compiled with Vela, with its Python core if ``legacy``, and read."""
    return read_compiled(
        compile_network(model, CompilerOptions(accelerator, optimise=optimise, legacy=legacy, debug_database=False)).compiled
    )


class Reference:
    """LiteRT's reference kernels on one network."""

    def __init__(self, model: bytes) -> None:
        self._interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
        self._interpreter.allocate_tensors()

    def inputs(self, seed: int, *, extreme: bool = False) -> dict[str, np.ndarray]:
        """Random arrays by input name: any value, or only the smallest and the largest of the type."""
        random = np.random.default_rng(seed)
        arrays = {}
        for detail in self._interpreter.get_input_details():
            low, high = np.iinfo(detail["dtype"]).min, np.iinfo(detail["dtype"]).max
            values = random.choice([low, high], detail["shape"]) if extreme else random.integers(low, high + 1, detail["shape"])
            arrays[detail["name"]] = values.astype(detail["dtype"])
        return arrays

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name."""
        for detail in self._interpreter.get_input_details():
            self._interpreter.set_tensor(detail["index"], inputs[detail["name"]])
        self._interpreter.invoke()
        return {detail["name"]: self._interpreter.get_tensor(detail["index"]) for detail in self._interpreter.get_output_details()}


def differing_bytes(
    network: CompiledNetwork, reference: Reference, seed: int, *, extreme: bool = False, filters: FilterCache | None = None
) -> int:
    """Output bytes in which the functional run of ``network`` and the reference differ, on one seeded input."""
    inputs = reference.inputs(seed, extreme=extreme)
    expected, found = reference.run(inputs), run(network, inputs, filters=filters)
    assert expected.keys() == found.keys()
    pairs = ((expected[name].tobytes(), found[name].tobytes()) for name in expected)
    return sum(int(np.count_nonzero(np.frombuffer(a, np.uint8) != np.frombuffer(b, np.uint8))) for a, b in pairs)
