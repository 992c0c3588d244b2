"""Compiled networks: the Programs inside a ``*_vela.tflite`` and the operators that stay on the CPU."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod

from msgspec import Struct

from npu_model.accelerator import accelerator
from npu_model.brief import Noted
from npu_model.command_stream import decode_words, parse_payload
from npu_model.compiled.cpu_reason import CpuReason
from npu_model.compiled.handed_on import check_handed_on
from npu_model.compiled.layouts import read_layouts
from npu_model.compiled.method_plan import MethodPlan
from npu_model.compiled.resource_variable import COPIES_OF_STATE, ResourceVariable
from npu_model.compiled.resources import HANDLE, ONCE, resource_variables, uses_resources
from npu_model.errors import InputError, LimitError
from npu_model.printable import printable
from npu_model.program import (
    Binding,
    ConstantOutput,
    DataType,
    DmaOperation,
    KernelOperation,
    Operation,
    Program,
    Quantisation,
    Region,
    RegionRole,
)
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.check import check_program
from npu_model.program.region_numbers import ARENA, FIRST_HOME
from npu_model.shapes import round_up
from npu_model.tflite.kernel_bytes import KernelBytes
from npu_model.tflite.macs import operator_macs
from npu_model.tflite.micro_kernels import WITH_OPTIONS, kernel_bytes
from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor, read_tflite
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import ModelRecord

CUSTOM_CODE = "ethos-u"
OFFLINE_ALLOCATION = "OfflineMemoryAllocation"

COPIES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""Operators that do not change bytes."""

_STREAM, _CONSTANTS, _SCRATCH, _FAST_SCRATCH, _FIRST_IFM = range(5)
_MAX_RANK = 8
"""Dimensions of a LiteRT tensor (its runtime shapes hold up to 8)."""

DATA_TYPES = {
    "INT8": DataType(8, signed=True),
    "UINT8": DataType(8, signed=False),
    "BOOL": DataType(8, signed=False),
    "INT16": DataType(16, signed=True),
    "UINT16": DataType(16, signed=False),
    "INT32": DataType(32, signed=True),
    "UINT32": DataType(32, signed=False),
    "INT64": DataType(64, signed=True),
    "UINT64": DataType(64, signed=False),
    "FLOAT16": DataType(16, signed=True, floating=True),
    "FLOAT32": DataType(32, signed=True, floating=True),
    "FLOAT64": DataType(64, signed=True, floating=True),
}
"""Element types of the arrays in an arena, by their names in the .tflite schema; only the CPU uses ``floating`` ones.

The NPU writes 64 bits as two words of 32, as in an ARG_MAX of Vela 5.2's Python core.
"""


STATE_TYPES = ("RESOURCE", "VARIANT")
"""Types of handles to objects that a runtime keeps outside all tensors (VAR_HANDLE, READ_VARIABLE and so on)."""


class CpuOperator(Noted, frozen=True):
    """An operator that runs on the CPU: its name, and the arena bindings of its non-constant operands.

    A state outside the arena does not count, because the runtime keeps it elsewhere. ``reason`` says why it is on the CPU, if a compiler
    was asked; a compiled file does not hold it. ``resource`` is the name of the resource variable that it reads or assigns, "" for other
    operators. ``macs`` is its multiply-accumulates and ``kernel`` the bytes of TFLite Micro's kernel (None: not known), which the bindings
    do not show.
    """

    notes = ("reason",)

    code: str
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    reason: CpuReason | None = None
    resource: str = ""
    macs: int = 0
    kernel: KernelBytes | None = None


class CompiledNetwork(Struct, frozen=True):
    """The steps that a compiled file runs, in order, in one arena of ``arena_size`` bytes (region 1).

    ``inputs`` and ``outputs`` are the network's. A Program's bindings are those of its custom operator. ``variables`` are the arrays that
    keep their content from one inference to the next (states of LSTM or SVDF operators); :func:`initial_byte` gives their content before
    the first inference. ``others`` counts the model's other subgraphs: the CPU runs them, and only the model has them. ``constant_outputs``
    are those that no step writes; ``outputs`` are the others. ``resources`` are states that a runtime keeps outside the arena: steps on the
    CPU copy them into it and out of it. ``nhwc`` names the inputs and outputs that are NHWC but NCHW in the user's model. ``method`` is the
    plan of a ``.pte``.
    """

    steps: tuple[Program | CpuOperator, ...]
    arena_size: int
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    variables: tuple[Binding, ...] = ()
    others: int = 0
    constant_outputs: tuple[ConstantOutput, ...] = ()
    resources: tuple[ResourceVariable, ...] = ()
    nhwc: tuple[str, ...] = ()
    method: MethodPlan | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The NPU's part of the steps."""
        return tuple(step for step in self.steps if isinstance(step, Program))


def _arena_offsets(model: TfliteModel) -> dict[int, int]:
    """Arena offset per tensor index, from the OfflineMemoryAllocation metadata (version, subgraph, n, offsets)."""
    blob = model.metadata.get(OFFLINE_ALLOCATION, b"")
    if len(blob) < 12 or len(blob) % 4:
        return {}
    values = struct.unpack(f"<{len(blob) // 4}i", blob)
    if values[2] != len(values) - 3:
        raise InputError(f"The {OFFLINE_ALLOCATION} metadata claims {values[2]} offsets but holds {len(values) - 3}: the file is damaged.")
    return {index: offset for index, offset in enumerate(values[3:]) if offset >= 0}


_Places = dict[int, tuple[int, int]]
"""Region and address per tensor index."""


def _placed_by_runtime(model: TfliteModel, offsets: dict[int, int], end: int) -> dict[int, int]:
    """Offsets after the arena's ``end`` for arrays of CPU operators that the file leaves to the runtime.

    TFLite Micro places arrays with offset -1 next to the planned ones; Vela 5.2's C++ core leaves scalars to it. They do not overlap the
    arena of the NPU's operators, so they enlarge the arena here.
    """
    if not offsets:
        return {}
    used = {index for op in model.operators if op.custom_code != CUSTOM_CODE for index in op.inputs + op.outputs if index >= 0}
    found = {}
    for index in sorted(used - offsets.keys()):
        tensor = model.tensors[index]
        if tensor.data or tensor.is_variable or tensor.dtype not in DATA_TYPES or min(tensor.shape, default=1) < 1:
            continue
        found[index] = end = round_up(end, ALIGNMENT)
        end += prod(tensor.shape) * DATA_TYPES[tensor.dtype].bytes
    return found


def _end(model: TfliteModel, offsets: dict[int, int]) -> int:
    """Bytes of arrays on the CPU: the end of the last one."""
    tensors = ((offset, model.tensors[index]) for index, offset in offsets.items())
    return max((at + prod(one.shape) * DATA_TYPES[one.dtype].bytes for at, one in tensors if one.dtype in DATA_TYPES), default=0)


def _binding(model: TfliteModel, index: int, places: _Places) -> Binding:
    tensor = model.tensors[index]
    dtype = DATA_TYPES.get(tensor.dtype)
    if tensor.dtype in STATE_TYPES:
        raise InputError(
            f"Tensor {tensor.name!r} has type {tensor.dtype}: of what a runtime keeps outside all tensors, resource variables alone are "
            "run here; pass the state as inputs and outputs."
        )
    if dtype is None:
        raise InputError(f"Tensor {tensor.name!r} has type {tensor.dtype}: an arena holds {', '.join(DATA_TYPES)}; change the network.")
    if index not in places:
        raise InputError(f"Tensor {tensor.name!r} has no arena offset in {OFFLINE_ALLOCATION}: compile with Vela's .tflite output.")
    if len(tensor.shape) > _MAX_RANK:
        raise InputError(f"Tensor {tensor.name!r} has {len(tensor.shape)} dimensions: up to {_MAX_RANK} are known; the file is damaged.")
    if any(extent < 1 for extent in tensor.shape):
        raise InputError(f"Tensor {tensor.name!r} has shape {tensor.shape}: every extent must be at least 1; the file is damaged.")
    return Binding(tensor.name, *places[index], tensor.shape, dtype, _quantisation(tensor))


def _quantisation(tensor: TfliteTensor) -> Quantisation | None:
    return Quantisation(tensor.scales[0], tensor.zero_points[0]) if tensor.scales and tensor.zero_points else None


def constant_outputs(model: TfliteModel) -> tuple[ConstantOutput, ...]:
    """The outputs of the model that are constants of known types."""
    known = ((place, model.tensors[index]) for place, index in enumerate(model.outputs) if index >= 0)
    return tuple(
        ConstantOutput(place, tensor.name, tensor.shape, DATA_TYPES[tensor.dtype], bytes(tensor.data), _quantisation(tensor))
        for place, tensor in known
        if tensor.data and tensor.dtype in DATA_TYPES
    )


def _require_values(model: TfliteModel, offsets: dict[int, int]) -> None:
    """InputError if an output has no content: no operator writes it, and it is neither an input nor a constant."""
    written = {index for operator in model.operators for index in operator.outputs}
    for index in model.outputs:
        tensor = model.tensors[index]
        if index not in written and index not in model.inputs and index not in offsets and not tensor.data and not tensor.is_variable:
            raise InputError(
                f"Output {tensor.name!r} has no values in the compiled file: Vela 5.2's C++ core loses those of a constant; "
                "compile the network with `npu-testbed compile`, which keeps them."
            )


def _size(tensor: TfliteTensor) -> int:
    """Bytes of a scratch tensor: its (one-dimensional uint8) shape."""
    size = tensor.shape[0] if tensor.shape else 0
    if size < 0:
        raise InputError(f"The scratch tensor {tensor.name!r} has {size} bytes: 0 or more are needed; the file is damaged.")
    return size


def _regions(model: TfliteModel, operator: TfliteOperator) -> tuple[Region, ...]:
    constants = model.tensors[operator.inputs[_CONSTANTS]].data
    arena = _size(model.tensors[operator.inputs[_SCRATCH]])
    fast = _size(model.tensors[operator.inputs[_FAST_SCRATCH]])
    return (
        Region(0, RegionRole.CONSTANTS, len(constants), constants),
        Region(1, RegionRole.ARENA, arena),
        Region(2, RegionRole.FAST_SCRATCH, fast),
    )


def _bindings(model: TfliteModel, indices: tuple[int, ...], places: _Places) -> tuple[Binding, ...]:
    return tuple(_binding(model, index, places) for index in indices if index >= 0 and not model.tensors[index].data)


def _require_integers(model: TfliteModel, indices: tuple[int, ...]) -> None:
    for index in indices:
        dtype = DATA_TYPES.get(model.tensors[index].dtype)
        if dtype is not None and dtype.floating:
            raise InputError(
                f"Tensor {model.tensors[index].name!r} has type {model.tensors[index].dtype}: the NPU works on integers; "
                "quantise the network."
            )


class _Stream(Struct, frozen=True):
    """The decoded stream of an NPU operator, and the addresses of tensors that it reaches through their own base pointers."""

    accelerator: str
    operations: tuple[Operation, ...]
    words: tuple[int, ...]
    homes: _Places


def _stream(model: TfliteModel, operator: TfliteOperator, planned: Mapping[int, int]) -> _Stream:
    """The stream of an operator.

    Its inputs and then its outputs become regions from 3 on, used or not. Such a tensor has no offset in the file's plan. If it has one,
    Vela had ``--separate-io-regions``: all inputs are then in region 3 and all outputs in region 4, each at its ``planned`` offset.
    """
    if len(operator.inputs) < _FIRST_IFM or min(operator.inputs[:_FIRST_IFM]) < 0:
        raise InputError(f"The {CUSTOM_CODE} operator has {len(operator.inputs)} inputs: {_FIRST_IFM} or more are needed; compile again.")
    payload = parse_payload(model.tensors[operator.inputs[_STREAM]].data)
    operations, words = decode_words(payload.words, accelerator(payload.accelerator).commands)
    moving = [one for one in operations if isinstance(one, (KernelOperation, DmaOperation))]
    used = {span.region for one in moving for span in (*one.reads(), *one.writes())}
    handed = enumerate((*operator.inputs[_FIRST_IFM:], *operator.outputs), FIRST_HOME)
    places = {index: (region, 0) for region, index in handed if region in used and index >= 0}
    if not planned.keys().isdisjoint(places):
        ends = ((FIRST_HOME, operator.inputs[_FIRST_IFM:]), (FIRST_HOME + 1, operator.outputs))
        places = {index: (region, planned.get(index, 0)) for region, indices in ends for index in indices if index >= 0}
    return _Stream(payload.accelerator, operations, words, places)


def _program(model: TfliteModel, operator: TfliteOperator, stream: _Stream, places: _Places) -> Program:
    _require_integers(model, operator.inputs[_FIRST_IFM:] + operator.outputs)
    inputs, outputs = (_bindings(model, indices, places) for indices in (operator.inputs[_FIRST_IFM:], operator.outputs))
    sizes: dict[int, int] = {}
    for one in (*inputs, *outputs):
        if one.region >= FIRST_HOME:
            sizes[one.region] = max(sizes.get(one.region, 0), one.byte_range.end)
    homes = (Region(region, RegionRole.HOME, round_up(size, ALIGNMENT)) for region, size in sorted(sizes.items()))
    program = Program(
        accelerator=stream.accelerator,
        operations=stream.operations,
        words=stream.words,
        regions=(*_regions(model, operator), *homes),
        inputs=inputs,
        outputs=outputs,
    )
    check_program(program, accelerator(program.accelerator))
    return program


def _cpu_operator(data: bytes, model: TfliteModel, number: int, places: _Places, resources: Mapping[int, ResourceVariable]) -> CpuOperator:
    operator = model.operators[number]
    held = next((resources[index].name for index in operator.inputs if index in resources), "")
    if held and operator.code not in COPIES_OF_STATE:
        raise LimitError(
            f"{operator.name} works on the resource variable {printable(held)!r}: it is read and assigned here, nothing else; "
            "pass the state as inputs and outputs."
        )
    given = (i for i in operator.inputs if i not in resources and (i in places or not model.tensors[i].is_variable))
    inputs, outputs = _bindings(model, tuple(given), places), _bindings(model, operator.outputs, places)
    options = dict(RecordReader(data).operator(number).fields) if operator.name in WITH_OPTIONS else {}
    macs, kernel = operator_macs(operator, model.tensors), kernel_bytes(operator, model.tensors, options)
    return CpuOperator(operator.name, inputs, outputs, resource=held, macs=macs, kernel=kernel)


def _resources(data: bytes, model: TfliteModel) -> dict[int, ResourceVariable]:
    """The resource variables by the tensors that are handles of them."""
    if not uses_resources(operator.code for operator in model.operators):
        return {}
    tensors = enumerate(model.tensors)
    first = {index: initial_byte(DATA_TYPES.get(one.dtype), (*one.zero_points, 0)[0]) for index, one in tensors}
    return resource_variables(RecordReader(data), DATA_TYPES, first)


def _places(model: TfliteModel, offsets: dict[int, int], streams: dict[int, _Stream]) -> _Places:
    """The address of each tensor: its offset in the arena, or its own region in the NPU operators that use it."""
    found: _Places = {index: (ARENA, offset) for index, offset in offsets.items()}
    if len(model.operators) > 1:
        on_cpu = [operator for number, operator in enumerate(model.operators) if number not in streams]
        check_handed_on(model, offsets, [stream.homes for stream in streams.values()], on_cpu)
    return found | {index: place for stream in streams.values() for index, place in stream.homes.items()}


def initial_byte(dtype: DataType | None, zero_point: int) -> int:
    """Content of every byte of a variable tensor before the first inference: the zero point if it is int8, else 0.

    LiteRT does the same (``ResetVariableTensors``), although 0 is not the real zero of a uint8 tensor.
    """
    return zero_point & 0xFF if dtype == DATA_TYPES["INT8"] else 0


def _variables(model: TfliteModel, steps: tuple[Program | CpuOperator, ...], places: _Places) -> tuple[Binding, ...]:
    """The variable tensors of a step, each array once: Vela writes one tensor for every access to a state."""
    used = {binding for step in steps for binding in step.inputs + step.outputs}
    found = (_binding(model, index, places) for index, tensor in enumerate(model.tensors) if tensor.is_variable and index in places)
    return tuple(dict.fromkeys(binding for binding in found if binding in used))


def is_compiled(model: TfliteModel | ModelRecord) -> bool:
    """Whether the model holds at least one ``ethos-u`` custom operator, in any of its subgraphs."""
    every = (model.operators, *(graph.operators for graph in model.others))
    return any(op.custom_code == CUSTOM_CODE for operators in every for op in operators)


def require_programs_in_first(model: TfliteModel) -> None:
    """InputError if another subgraph than the first has an ``ethos-u`` operator, which would be lost, because only the first one runs."""
    for number, graph in enumerate(model.others, start=1):
        programs = sum(op.custom_code == CUSTOM_CODE for op in graph.operators)
        if programs:
            raise LimitError(
                f"Subgraph {number} ({graph.name!r}) of {1 + len(model.others)} has NPU programs ({programs}): only those of subgraph 0 "
                "are scheduled and simulated; make each signature or branch a model of its own."
            )


def read_compiled(data: bytes) -> CompiledNetwork:
    """Decode every Program of a ``*_vela.tflite``.

    InputError if the file is damaged, was not compiled for an Ethos-U that :func:`accelerator` knows, or breaks a
    rule of :func:`check_program`.
    """
    model = read_tflite(data)
    if not is_compiled(model):
        raise InputError(f"The .tflite file has no {CUSTOM_CODE} operator: make a schedule of it, or compile it with Vela, and give that.")
    require_programs_in_first(model)
    planned = _arena_offsets(model)
    streams = {number: _stream(model, op, planned) for number, op in enumerate(model.operators) if op.custom_code == CUSTOM_CODE}
    arena = max((_size(model.tensors[model.operators[number].inputs[_SCRATCH]]) for number in streams), default=0)
    left = _placed_by_runtime(model, planned, arena)
    arena, offsets = max(arena, _end(model, left)), planned | left
    places = _places(model, offsets, streams)
    resources = _resources(data, model)
    steps = tuple(
        _program(model, op, streams[number], places) if number in streams else _cpu_operator(data, model, number, places, resources)
        for number, op in enumerate(model.operators)
        if op.code not in (HANDLE, ONCE)
    )
    read = {index for operator in model.operators for index in operator.inputs}
    # A runtime is free to place an input that nothing reads: it is not part of the arena.
    needed = tuple(index for index in model.inputs if index in offsets or index in read or index in model.outputs)
    _require_values(model, offsets)
    inputs, outputs = (_bindings(model, indices, places) for indices in (needed, model.outputs))
    variables, kept = _variables(model, steps, places), tuple(dict.fromkeys(resources.values()))
    nhwc = read_layouts(model.metadata)
    return CompiledNetwork(steps, arena, inputs, outputs, variables, len(model.others), constant_outputs(model), kept, nhwc)
