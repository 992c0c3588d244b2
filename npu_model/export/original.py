"""The model that a network was compiled from: it gives facts that a compiled network does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.compiled.cpu_operators import OperatorFinder
from npu_model.compiled.folded import constants
from npu_model.compiled.layouts import LAYOUTS
from npu_model.compiled.network import DATA_TYPES, OFFLINE_ALLOCATION, CompiledNetwork, CpuOperator, require_programs_in_first
from npu_model.compiled.resources import HANDLE, ONCE, handles
from npu_model.errors import InputError
from npu_model.program import Binding, ConstantOutput, Quantisation
from npu_model.tflite.model import TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.records import OperatorRecord, SignatureRecord, SubgraphRecord, TensorRecord
from npu_model.tflite.schema import tflite

_COMPILERS_OWN = (OFFLINE_ALLOCATION, "vela_version", LAYOUTS)
"""Metadata of one compilation (Vela 5.2.0), and the layouts, which the export writes itself."""

_NAME = "main"
"""Name of the subgraph if there is no model to take it from."""


def _is(tensor: TfliteTensor, binding: Binding) -> bool:
    """Whether the model's tensor and the compiled network's array are the same."""
    scale = Quantisation(tensor.scales[0], tensor.zero_points[0]) if tensor.scales and tensor.zero_points else None
    known = (tensor.shape, DATA_TYPES.get(tensor.dtype), scale)
    return known == (binding.shape, binding.dtype, binding.quantisation) and not tensor.data


def _record(binding: Binding | ConstantOutput) -> TensorRecord:
    """A tensor made from the binding or the constant alone."""
    dtype = next(name for name, dtype in DATA_TYPES.items() if dtype == binding.dtype)
    scale = binding.quantisation
    scales, zero_points = ((scale.scale,), (scale.zero_point,)) if scale else ((), ())
    data = binding.content if isinstance(binding, ConstantOutput) else b""
    return TensorRecord(binding.name, binding.shape, getattr(tflite.TensorType, dtype), scales, zero_points, data=data)


class NoOriginal:
    """Stands for a missing model: the bindings of a network are then the only source."""

    name = _NAME

    def tensor(self, binding: Binding) -> TensorRecord:
        """The tensor of an array."""
        return _record(binding)

    def constant(self, output: ConstantOutput) -> TensorRecord:
        """The tensor of a constant output."""
        return _record(output)

    def operator(self, step: CpuOperator) -> OperatorRecord:
        """InputError, because only the model knows the options of a CPU operator."""
        raise InputError(f"The network runs {step.code} on the CPU, whose options are in the model it was compiled from: give that model.")

    def constants(self, operator: OperatorRecord, _given: Sequence[str]) -> tuple[TensorRecord | None, ...]:
        """None for each of the operator's inputs."""
        return (None,) * len(operator.inputs)

    def state(self, _index: int) -> TensorRecord | None:
        """None."""
        return None

    def intermediates(self, _operator: OperatorRecord) -> tuple[TensorRecord, ...]:
        """None."""
        return ()

    def once(self) -> tuple[OperatorRecord, ...]:
        """None."""
        return ()

    def handles(self) -> dict[str, tuple[OperatorRecord, TensorRecord]]:
        """None."""
        return {}

    def others(self, network: CompiledNetwork) -> tuple[SubgraphRecord, ...]:
        """None; InputError if the network has other subgraphs, which would be lost."""
        if network.others:
            raise InputError(
                f"The network has subgraphs besides the first ({network.others}), which only the model holds that it was compiled from: "
                "give that model."
            )
        return ()

    def metadata(self) -> tuple[tuple[str, bytes], ...]:
        """None."""
        return ()

    def signatures(self, _inputs: Sequence[tuple[str, int]], _outputs: Sequence[tuple[str, int]]) -> tuple[SignatureRecord, ...]:
        """None."""
        return ()


def _until_nul(name: str) -> str:
    """A tensor's name up to a NUL, at which Vela 5.2's C++ core ends names."""
    return name.partition("\0")[0]


class Original(NoOriginal):
    """The model's records, found by the names of tensors, which compilation keeps."""

    def __init__(self, data: bytes, network: CompiledNetwork) -> None:
        """InputError if the .tflite file ``data`` is damaged or does not have the network's inputs and outputs."""
        self._reader = RecordReader(data)
        self._model = self._reader.model
        self.name = self._reader.name() or _NAME
        self._finder = OperatorFinder(self._model)
        self._named: dict[str, int] = {}
        for index, tensor in enumerate(self._model.tensors):
            self._named.setdefault(_until_nul(tensor.name), index)
        self._check("input", network.inputs, self._model.inputs)
        self._check("output", network.outputs, self._model.outputs)

    def _check(self, side: str, bindings: tuple[Binding, ...], indices: tuple[int, ...]) -> None:
        names = self._names(indices)
        known = set(map(_until_nul, names))
        for binding in bindings:
            if _until_nul(binding.name) not in known:
                raise InputError(
                    f"The network has {side} {binding.name!r} but the model {', '.join(map(repr, names))}: "
                    "give the model that it was compiled from."
                )

    def _names(self, indices: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self._model.tensors[index].name for index in indices if index >= 0)

    def tensor(self, binding: Binding) -> TensorRecord:
        """The model's tensor of that name, if it is the same array; otherwise a tensor made from the binding."""
        index = self._named.get(_until_nul(binding.name))
        if index is not None and _is(self._model.tensors[index], binding):
            return self._reader.tensor(index)
        return _record(binding)

    def constant(self, output: ConstantOutput) -> TensorRecord:
        """The model's output at that position, if it is the same constant; otherwise a tensor made from the output."""
        index = self._model.outputs[output.place] if output.place < len(self._model.outputs) else -1
        same = index >= 0 and (self._model.tensors[index].name, bytes(self._model.tensors[index].data)) == (output.name, output.content)
        return self._reader.tensor(index) if same else _record(output)

    def operator(self, step: CpuOperator) -> OperatorRecord:
        """The model's next operator with this code and these outputs; each operator is found once."""
        return self._reader.operator(self._finder.find(step))

    def constants(self, operator: OperatorRecord, given: Sequence[str]) -> tuple[TensorRecord | None, ...]:
        """The constant at each of the operator's inputs.

        It is None for an input that the network names, for a state and for a missing input.
        """
        return constants(self._reader, operator.inputs, given)

    def state(self, index: int) -> TensorRecord | None:
        """The model's tensor of that index if it keeps its content between inferences."""
        return self._reader.tensor(index) if self._model.tensors[index].is_variable else None

    def intermediates(self, operator: OperatorRecord) -> tuple[TensorRecord, ...]:
        """The operator's intermediate tensors."""
        return tuple(self._reader.tensor(index) for index in operator.intermediates)

    def once(self) -> tuple[OperatorRecord, ...]:
        """The operators that run a subgraph before the first inference."""
        numbers = (number for number, operator in enumerate(self._model.operators) if operator.code == ONCE)
        return tuple(self._reader.operator(number) for number in numbers)

    def handles(self) -> dict[str, tuple[OperatorRecord, TensorRecord]]:
        """The operators that make handles of resource variables, each with the handle's tensor, by the variable's name."""
        names = handles(self._reader)
        made = {one.outputs[0]: number for number, one in enumerate(self._model.operators) if one.code == HANDLE and one.outputs}
        return {name: (self._reader.operator(made[index]), self._reader.tensor(index)) for index, name in names.items()}

    def others(self, network: CompiledNetwork) -> tuple[SubgraphRecord, ...]:
        """The model's other subgraphs, unchanged; InputError if the network has a different number of subgraphs."""
        found = self._model.others
        if len(found) != network.others:
            raise InputError(
                f"The network has {network.others} subgraphs besides the first but the model {len(found)}: "
                "give the model that the network was compiled from."
            )
        require_programs_in_first(self._model)
        return self._reader.others()

    def metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Metadata of the network itself, such as ``min_runtime_version``."""
        return tuple((name, data) for name, data in self._model.metadata.items() if name not in _COMPILERS_OWN)

    def signatures(self, inputs: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]]) -> tuple[SignatureRecord, ...]:
        """The model's signatures, on the new file's tensors by name and number, without lost tensors."""
        result = []
        for signature in self._reader.signatures():
            if signature.subgraph:
                result.append(signature)
                continue
            new_inputs, new_outputs = self._moved(signature.inputs, inputs), self._moved(signature.outputs, outputs)
            if (len(new_inputs), len(new_outputs)) == (len(signature.inputs), len(signature.outputs)):
                result.append(SignatureRecord(signature.key, new_inputs, new_outputs))
        return tuple(result)

    def _moved(self, entries: Sequence[tuple[str, int]], side: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        places = dict(side)
        named = ((name, self._model.tensors[index].name) for name, index in entries if 0 <= index < len(self._model.tensors))
        return tuple((name, places[tensor]) for name, tensor in named if tensor in places)
