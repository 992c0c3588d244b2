"""The compiled .tflite file: custom operators ``ethos-u`` with their payloads, the memory plan and the network's CPU operators.

The layout is that of Vela 5.2.0's C++ core, for TFLite Micro's Ethos-U kernel and the Linux driver stack. Inputs 0 to 3 of a custom
operator are command stream, read-only data, scratch (the arena) and fast scratch (the arena again). The IFMs follow.
"""

from __future__ import annotations

import struct

from msgspec.structs import replace

from npu_model.accelerator import accelerator
from npu_model.command_stream import COP_FORMATS, build_payload, build_second, encode_operations
from npu_model.compiled.cpu_operators import are_placed
from npu_model.compiled.layouts import LAYOUTS, layouts_data
from npu_model.compiled.network import CUSTOM_CODE, OFFLINE_ALLOCATION, CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.export.original import NoOriginal, Original
from npu_model.export.regions import ARENA, FAST_SCRATCH, check_handed, check_network, constants_of, has_own_fast_scratch, size_of
from npu_model.program import Binding, Program, RegionRole, in_order
from npu_model.tflite.records import ModelRecord, OperatorRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.schema import tflite
from npu_model.tflite.writer import write_tflite

DESCRIPTION = "npu-testbed"
CUSTOM_OPTIONS = bytes((1, 4, 1))
"""Custom options that TFLite Micro's Ethos-U kernel reads: a FlexBuffer of the integer 1, the operator's kind (Vela 5.2.0)."""

_UNPLANNED = -1
"""Offset that stands for a tensor outside the arena (OfflineMemoryAllocation of TFLite Micro)."""

_ALLOCATION_VERSION = 0
"""Format version of the plan; the number of subgraphs and of tensors follow, as Vela 5.2.0 writes them."""

_MAX_OFFSET = (1 << 31) - 1


def payload_of(program: Program, cop_format: str = COP_FORMATS[0], arena_size: int = 0) -> bytes:
    """The driver payload of a program, encoded from its operations. COP2 also needs the bytes of its arena.

    InputError if the format is unknown.
    """
    if cop_format not in COP_FORMATS:
        raise InputError(f"Driver payloads of format {cop_format!r} are unknown: choose {' or '.join(COP_FORMATS)}.")
    words = encode_operations(program.operations, accelerator(program.accelerator).commands)[0]
    if cop_format == COP_FORMATS[0]:
        return build_payload(words, program.accelerator)
    separate = any(region.role is RegionRole.HOME for region in program.regions)
    return build_second(words, program.accelerator, arena_size, separate=separate)


class _Layout:
    """Tensors of the new file in order of first use, and the arena offset of each."""

    def __init__(self, original: NoOriginal, variables: tuple[Binding, ...]) -> None:
        self.original = original
        self._variables = variables
        self.records: list[TensorRecord] = []
        self.offsets: list[int] = []
        self._first: dict[Binding, int] = {}
        self._latest: dict[Binding, int] = {}
        self._states: dict[TensorRecord, int] = {}
        self._memories: dict[tuple[str, int | bytes], int] = {}

    def _offset(self, binding: Binding) -> int:
        """The arena offset of an array. The runtime places arrays that live outside the arena."""
        return binding.address if binding.region == ARENA else _UNPLANNED

    def add(self, record: TensorRecord, offset: int = _UNPLANNED) -> int:
        """Append a tensor and return its index."""
        self.records.append(record)
        self.offsets.append(offset)
        return len(self.records) - 1

    def read(self, binding: Binding) -> int:
        """The tensor that holds an array now."""
        if binding not in self._latest:
            record = self.original.tensor(binding)
            record = replace(record, is_variable=True) if binding in self._variables else record
            self._latest[binding] = self.add(record, self._offset(binding))
            self._first[binding] = self._latest[binding]
        return self._latest[binding]

    def written(self, binding: Binding) -> int:
        """The tensor to which an operator writes an array: a new one, because a tensor has one producer, unless it is a variable."""
        if binding in self._latest and not self.records[self._latest[binding]].is_variable:
            self._latest[binding] = self.add(self.original.tensor(binding), self._offset(binding))
        return self.read(binding)

    def input(self, binding: Binding) -> int:
        """The tensor that held an array first."""
        self.read(binding)
        return self._first[binding]

    def state(self, record: TensorRecord) -> int:
        """The tensor of a state that the runtime keeps outside the arena; operators may share it."""
        if record not in self._states:
            self._states[record] = self.add(record)
        return self._states[record]

    def memory(self, name: str, content: int | bytes) -> int:
        """A tensor of bytes that all operators share: the read-only data, or ``content`` bytes at the start of the arena."""
        key = (name, content)
        if key not in self._memories:
            constant = isinstance(content, bytes)
            record = _bytes(name, content) if isinstance(content, bytes) else TensorRecord(name, (content,), tflite.TensorType.UINT8)
            self._memories[key] = self.add(record, _UNPLANNED if constant else 0)
        return self._memories[key]


def _bytes(name: str, data: bytes) -> TensorRecord:
    return TensorRecord(name, (len(data),), tflite.TensorType.UINT8, data=data)


def _npu_operator(layout: _Layout, program: Program, arena_size: int, cop_format: str) -> OperatorRecord:
    check_handed(program, "a .tflite file")
    stream = layout.add(_bytes("ethos_u_command_stream", payload_of(program, cop_format, arena_size)))
    constants = layout.memory("read_only", constants_of(program))
    scratch = layout.memory("scratch", arena_size)
    own = size_of(program, FAST_SCRATCH) if has_own_fast_scratch(program) else None
    fast = scratch if own is None else layout.memory("scratch_fast", own)
    return OperatorRecord(
        code=tflite.BuiltinOperator.CUSTOM,
        version=1,
        inputs=(stream, constants, scratch, fast, *(layout.read(binding) for binding in program.inputs)),
        outputs=tuple(layout.written(binding) for binding in program.outputs),
        custom_code=CUSTOM_CODE,
        custom_options=CUSTOM_OPTIONS,
    )


def _resource_operators(layout: _Layout, network: CompiledNetwork) -> tuple[tuple[OperatorRecord, ...], dict[str, int]]:
    """Operators before all steps of a network with resource variables, and the tensors of the variables' handles by name.

    CALL_ONCE comes first. Vela 5.2's C++ core puts it after the operators that read the values it assigns.
    """
    known, operators, handles = layout.original.handles(), list(layout.original.once()), dict[str, int]()
    for variable in network.resources:
        if variable.name not in known:
            raise InputError(
                f"The network keeps the resource variable {variable.name!r}, which the model does not have: "
                "give the model that it was compiled from."
            )
        operator, tensor = known[variable.name]
        handles[variable.name] = layout.add(tensor)
        operators.append(replace(operator, outputs=(handles[variable.name],)))
    return tuple(operators) if network.resources else (), handles


def _copy_of_state(layout: _Layout, step: CpuOperator, handle: int) -> OperatorRecord:
    """The operator that reads or assigns the resource variable of a handle."""
    inputs = tuple(layout.read(binding) for binding in step.inputs)
    outputs = tuple(layout.written(binding) for binding in step.outputs)
    return replace(layout.original.operator(step), inputs=(handle, *inputs), outputs=outputs)


def _cpu_operator(layout: _Layout, step: CpuOperator, handles: dict[str, int]) -> OperatorRecord:
    if step.resource:
        return _copy_of_state(layout, step, handles[step.resource])
    operator = layout.original.operator(step)
    constants = layout.original.constants(operator, [binding.name for binding in step.inputs])
    states = [
        layout.original.state(index) for index, constant in zip(operator.inputs, constants, strict=True) if index >= 0 and not constant
    ]
    bindings = iter(step.inputs)
    placed = are_placed(step, [state is not None for state in states])
    variable = iter([layout.read(next(bindings)) if placed or state is None else layout.state(state) for state in states])
    inputs = tuple(
        -1 if index < 0 else next(variable) if constant is None else layout.add(constant)
        for index, constant in zip(operator.inputs, constants, strict=True)
    )
    outputs = tuple(layout.written(binding) for binding in step.outputs)
    intermediates = tuple(layout.add(record) for record in layout.original.intermediates(operator))
    return replace(operator, inputs=inputs, outputs=outputs, intermediates=intermediates)


def _allocation(layout: _Layout, others: tuple[SubgraphRecord, ...]) -> bytes:
    """The offset of each tensor, subgraph after subgraph. The runtime places the tensors of ``others``."""
    if max(layout.offsets) > _MAX_OFFSET:
        raise InputError(f"A tensor lies at byte {max(layout.offsets)} of the arena: the file's plan counts to {_MAX_OFFSET}.")
    offsets = [*layout.offsets, *(_UNPLANNED for graph in others for _ in graph.tensors)]
    values = (_ALLOCATION_VERSION, 1 + len(others), len(offsets), *offsets)
    return struct.pack(f"<{len(values)}i", *values)


def export_tflite(network: CompiledNetwork, model: bytes | None = None, cop_format: str = COP_FORMATS[0]) -> bytes:
    """A .tflite file that runs ``network``, with the names, shapes and quantisation of its inputs and outputs.

    ``model`` is the .tflite file that the network was compiled from (or any compilation of it). It gives the options and constants of CPU
    operators, and the file's metadata, signatures and other subgraphs. It may be left out if everything runs on the NPU. ``cop_format`` is
    the format of the driver payloads. The file's plan has no offset for a tensor outside the arena: the runtime places it.

    Re-reading the file gives the same Programs, with region 2 added if they had none. InputError if the network breaks a rule of its
    accelerator, has arrays outside the arena that no runtime passes on, or does not belong to the model.
    """
    check_network(network)
    original = NoOriginal() if model is None else Original(model, network)
    layout = _Layout(original, network.variables)
    first, handles = _resource_operators(layout, network)
    operators = first + tuple(
        _cpu_operator(layout, step, handles)
        if isinstance(step, CpuOperator)
        else _npu_operator(layout, step, network.arena_size, cop_format)
        for step in network.steps
    )
    inputs = tuple(layout.input(binding) for binding in network.inputs)
    written = [(binding.name, layout.read(binding)) for binding in network.outputs]
    constants = [(one.name, layout.add(original.constant(one))) for one in network.constant_outputs]
    outputs = in_order(written, network.constant_outputs, constants)
    metadata, others = original.metadata(), original.others(network)
    metadata += ((LAYOUTS, layouts_data(network.nhwc)),) if network.nhwc else ()
    return write_tflite(
        ModelRecord(
            name=original.name,
            description=DESCRIPTION,
            tensors=tuple(layout.records),
            operators=operators,
            inputs=inputs,
            outputs=tuple(index for _, index in outputs),
            metadata=(*metadata, (OFFLINE_ALLOCATION, _allocation(layout, others))),
            signatures=original.signatures([(one.name, index) for one, index in zip(network.inputs, inputs, strict=True)], outputs),
            others=others,
        )
    )
