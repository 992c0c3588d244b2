"""A graph of Tensor Expressions as a Network of the NPU: each Part becomes a kernel operation with encoded constants and a chosen block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.constants import StreamEditor, repacked
from cascader.ethosu.network.network import LUT_SLOT, EthosuPart, LutLoad, Network, Port, Segment
from cascader.ethosu.network.operators import operand_propagator, scale_propagator, weight_propagator
from cascader.frontends.te.attributes import CONCATENATE, CONV2D, DEPTHWISE, IDENTITY, POOLING, Attributes
from cascader.frontends.te.blocks import BlockMaker
from cascader.frontends.te.bounds import require_sums
from cascader.frontends.te.graph import Graph, operator_at, operators_of
from cascader.frontends.te.matchers import MOVES, Operator
from cascader.frontends.te.pointwise import elementwise_operation
from cascader.frontends.te.registers import RegisterOperand, data_type, image
from cascader.frontends.te.tensors import Stored, TensorView, Views, stored, written_in_place
from cascader.frontends.te.windowed import filter_operation, pool_operation
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from cascader.tensorir.compat import shape_of
from cascader.tensorir.te_frontend import TeGraph
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, require_use
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import FeatureMap, KernelOperation, Quantisation
from npu_model.program.region_numbers import CONSTANTS
from npu_model.timing import DEFAULT_TIMING, TimingParameters

Array = npt.NDArray[Any]

_SLOTS = 8
"""Slots of a look-up table in SHRAM (core driver)."""

_DEFAULT_MEMORY = "u55_high_end"
"""The timing adapter for which blocks are chosen if no memory system is given: the default of the command line."""


def import_graph(
    graph: Graph | TeGraph,
    accelerator_name: str = DEFAULT_ACCELERATOR,
    system: MemorySystem | None = None,
    timing: TimingParameters = DEFAULT_TIMING,
) -> Network:
    """The Network of Tensor Expressions, with blocks and weight streams for an accelerator and its memories.

    InputError if a stage is not an operator of the Ethos-U, if the NPU does not have an attribute, or if sums may overflow.
    """
    require_use(accelerator_name, "schedule")
    device = find_accelerator(accelerator_name)
    read = graph if isinstance(graph, TeGraph) else operators_of(graph)
    memory = system or profile(_DEFAULT_MEMORY).memory_system()
    return _Importer(read, device, BlockMaker(device, Sources.staged(memory, timing, device=device))).network()


class _Importer:
    """A network under construction."""

    def __init__(self, read: TeGraph, accelerator: Accelerator, blocks: BlockMaker) -> None:
        self._read, self._accelerator, self._blocks = read, accelerator, blocks
        self._operators = {part.name: operator_at(read, part) for part in read.affine.parts}
        buffers = {name: buffer for buffer, name in read.stages.names.items()}
        self._shapes = {name: shape_of(buffer) for name, buffer in buffers.items()}
        self._dtypes = {name: str(buffer.dtype) for name, buffer in buffers.items()}
        self._constants = StreamEditor(b"")
        self._tables: dict[bytes, LutLoad] = {}
        outputs = read.stages.outputs
        self._views = Views(self._shapes, outputs)
        self._in_place = written_in_place(self._operators, outputs, read.inputs)
        self._kernels: list[tuple[str, KernelOperation, tuple[TensorView | None, TensorView | None, TensorView]]] = []
        self._luts: dict[str, LutLoad] = {}
        self._maps: dict[str, int] = {}

    def network(self) -> Network:
        """The finished network of all operators."""
        self._concatenations()
        for name, one in self._operators.items():
            if one.op == CONCATENATE:
                self._copies(name, one)
            elif one.op in MOVES:
                self._views.move(name, one)
            else:
                self._kernel(name, one)
        return self._finished()

    def _concatenations(self) -> None:
        """Give each tensor that is written into a concatenation its part there."""
        for name, one in self._operators.items():
            if one.op != CONCATENATE:
                continue
            at = one.axis + 4 - len(self._shapes[name])
            if at == 0:
                raise InputError(f"Concatenation {name!r} is along the axis of images: one image is scheduled; join rows or channels.")
            start = 0
            for piece in one.pieces:
                shape, first = image(CONCATENATE, piece, self._shapes[piece]), [0, 0, 0]
                first[at - 1] = start
                if self._in_place.get(piece) == name:
                    self._views.place(piece, replace(self._views[name], shape=shape, first=(first[0], first[1], first[2])))
                start += (shape.height, shape.width, shape.depth)[at - 1]

    def _copies(self, name: str, one: Operator) -> None:
        """Add a copy kernel for each operand that is not written into its concatenation."""
        whole, at, start = self._views[name], one.axis + 3 - len(self._shapes[name]), 0
        copied = [piece for piece in one.pieces if self._in_place.get(piece) != name]
        for piece in one.pieces:
            shape, first = image(CONCATENATE, piece, self._shapes[piece]), [0, 0, 0]
            first[at] = start
            start += (shape.height, shape.width, shape.depth)[at]
            if piece in copied:
                into = replace(whole, shape=shape, first=(first[0], first[1], first[2]))
                zero = self._zero_point(piece)
                copy = Attributes(IDENTITY, ifm_zero_point=zero, ofm_zero_point=zero, rounding_mode="NATURAL")
                operation = pool_operation(copy, self._operand(piece))
                label = name if len(copied) == 1 else f"{name}#{1 + sum(own.startswith(f'{name}#') for own, _, _ in self._kernels)}"
                self._kernels.append((label, self._blocks.blocked(operation), (self._views[piece], None, into)))

    def _zero_point(self, tensor: str) -> int:
        """The zero point of a tensor's producer, or of its reader.

        A copy with the same zero point as its neighbours sets fewer registers.
        """
        maker = self._operators.get(tensor)
        if maker is not None and maker.made is not None:
            return maker.made.ofm_zero_point
        read = (one.made for one in self._operators.values() if one.made is not None and one.tensors.get("ifm") == tensor)
        return next((made.ifm_zero_point for made in read), 0)

    def _operand(self, tensor: str) -> RegisterOperand:
        values = self._read.constants.get(tensor)
        scalar = int(values.ravel()[0]) if values is not None and values.size == 1 else None
        return RegisterOperand(self._shapes[tensor], self._dtypes[tensor], scalar)

    def _kernel(self, name: str, one: Operator) -> None:
        """The kernel of an operator, with its constants."""
        made = one.made
        assert made is not None  # noqa: S101  # the matcher gives every operator that is no move its attributes
        ifm, ifm2 = one.tensors["ifm"], one.tensors.get("ifm2")
        if ifm in self._read.constants:
            raise InputError(f"{one.op} {name!r} reads the constant {ifm!r} as ifm: only ifm2 may be one; exchange them.")
        if one.op in (CONV2D, DEPTHWISE):
            operation = self._filter(name, one, made)
        elif one.op in (POOLING, IDENTITY):
            operation = self._blocks.blocked(pool_operation(made, self._operand(ifm)))
        else:
            operation = self._blocks.blocked(elementwise_operation(made, self._operand(ifm), None if ifm2 is None else self._operand(ifm2)))
        self._require_propagators(name, one, operation)
        if "lut" in one.tensors:
            self._luts[name] = self._table(one.tensors["lut"])
            slot = (self._luts[name].destination - self._accelerator.lut_address) // LUT_SLOT
            operation = replace(operation, activation=replace(operation.activation, lut=slot))
        second = self._views[ifm2] if operation.ifm2 is not None and ifm2 is not None else None
        if second is not None and second.tensor in self._read.constants and operation.ifm2 is not None:
            operation = replace(operation, ifm2=self._constant(second.tensor, operation.ifm2))
        self._kernels.append((name, operation, (self._views[ifm], second, self._views[name])))

    def _filter(self, name: str, one: Operator, made: Attributes) -> KernelOperation:
        weight, records = (self._value(name, one, role) for role in ("weight", "scale_bias"))
        operation = filter_operation(made, self._operand(one.tensors["ifm"]), self._operand(one.tensors["weight"]))
        weights = weight.astype(np.int32) - made.weight_zero_point
        require_sums(name, operation, weights, records)
        return self._blocks.encoded(operation, weights, records.tobytes(), self._constants)

    def _value(self, name: str, one: Operator, role: str) -> Array:
        tensor = one.tensors[role]
        if tensor not in self._read.constants:
            raise InputError(
                f"{one.op} {name!r} has {role} {tensor!r}, which is not a constant: give its value in the dictionary of constants."
            )
        return self._read.constants[tensor]

    def _table(self, tensor: str) -> LutLoad:
        if tensor not in self._read.constants:
            raise InputError(f"The table {tensor!r} is not a constant: give its value in the dictionary of constants.")
        content = self._read.constants[tensor].tobytes()
        if content not in self._tables:
            slot = len(self._tables) % _SLOTS
            self._tables[content] = LutLoad(self._constants.append(content), self._accelerator.lut_address + slot * LUT_SLOT)
        return self._tables[content]

    def _constant(self, tensor: str, like: FeatureMap) -> FeatureMap:
        """A constant feature map."""
        if tensor not in self._maps:
            self._maps[tensor] = self._constants.append(np.ascontiguousarray(self._read.constants[tensor]).tobytes()).start
        return replace(like.at(self._maps[tensor]), region=CONSTANTS)

    def _require_propagators(self, name: str, one: Operator, operation: KernelOperation) -> None:
        """Check a kernel; InputError unless it has the Propagators of the expressions."""
        expected = {"ifm": operand_propagator(operation, operation.ifm)}
        if operation.ifm2 is not None:
            expected["ifm2"] = operand_propagator(operation, operation.ifm2)
        if one.op in (CONV2D, DEPTHWISE):
            bare = replace(operation, weights=operation.weights)
            expected |= {"weight": weight_propagator(bare), "scale_bias": scale_propagator()}
        derived = {operand.tensor: operand.propagator for operand in self._read.affine.parts[self._read.affine.index(name)].operands}
        shared = len(set(one.tensors.values())) < len(one.tensors)
        for role, wanted in expected.items():
            found = derived[one.tensors[role]]
            if len(self._shapes[one.tensors[role]]) == found.inputs == wanted.inputs and not shared and found != wanted:
                raise InputError(f"{one.op} {name!r} has the Propagator {found} of {role} where its kernel has {wanted}: report this.")

    def _finished(self) -> Network:
        outputs, inputs = self._read.stages.outputs, self._read.inputs
        used: dict[str, list[TensorView]] = {self._views[name].tensor: [] for name in inputs}
        for _, _, views in self._kernels:
            for view in views:
                if view is not None and view.tensor not in self._maps:
                    used.setdefault(view.tensor, []).append(view)
        kinds = {self._views[name].tensor: TensorKind.INPUT for name in inputs}
        for name in outputs:
            tensor = self._views[name].tensor
            if tensor in kinds:
                what = "an input" if kinds[tensor] is TensorKind.INPUT else "another output"
                raise InputError(f"Output {name!r} is {what}, or the same bytes in another shape: copy it with ethosu_identity.")
            kinds[tensor] = TensorKind.OUTPUT
        tensors = {
            name: stored(
                name,
                kinds.get(name, TensorKind.INTERMEDIATE),
                image("The graph", name, self._shapes[name]),
                data_type("The graph", name, self._dtypes[name]),
                views,
            )
            for name, views in used.items()
        }
        parts = tuple(self._part(name, operation, views, tensors) for name, operation, views in self._kernels)
        constant = (
            Tensor.dense(name, TensorKind.CONSTANT, self._shapes[name], np.dtype(self._dtypes[name]).itemsize) for name in self._maps
        )
        graph = CascaderGraph(parts, (*(one.tensor for one in tensors.values()), *constant))
        ports = [tuple(self._port(name, first) for name in names) for names, first in ((inputs, True), (outputs, False))]
        segment = Segment(tuple(part.name for part in parts), ports[0], ports[1])
        return repacked(Network(graph, (segment,), ports[0], ports[1], self._constants.content()), self._constants)

    def _part(
        self,
        name: str,
        operation: KernelOperation,
        views: tuple[TensorView | None, TensorView | None, TensorView],
        tensors: Mapping[str, Stored],
    ) -> Part:
        first, second, made = views
        assert first is not None  # noqa: S101  # every kernel reads a tensor of the arena

        def placed(view: TensorView, like: FeatureMap) -> FeatureMap:
            return tensors[view.tensor].feature_map(view, like.shape, like.zero_point)

        # A constant is where it is.
        is_made = second is not None and second.tensor in tensors
        ifm2 = placed(second, operation.ifm2) if second is not None and operation.ifm2 is not None and is_made else operation.ifm2
        own = replace(operation, ifm=placed(first, operation.ifm), ofm=placed(made, operation.ofm), ifm2=ifm2)
        payload = EthosuPart(own, first.tensor, made.tensor, None if second is None else second.tensor, self._luts.get(name), name)
        read = dict.fromkeys([first.tensor] if second is None else [first.tensor, second.tensor])
        return Part(name, tuple(read), (made.tensor,), payload)

    def _port(self, name: str, is_input: bool) -> Port:  # noqa: FBT001  # one of two ends
        dtype = data_type("The graph", name, self._dtypes[name])
        return Port(name, self._views[name].tensor, 0, self._shapes[name], dtype, self._quantisation(name, is_input=is_input))

    def _quantisation(self, name: str, *, is_input: bool) -> Quantisation | None:
        """The quantisation of an input or output, taken from the operators next to it; None if they give no scale."""
        for made, one in self._operators.items():
            if one.made is None:
                continue
            if is_input and name in one.tensors.values():
                role = next(role for role, tensor in one.tensors.items() if tensor == name)
                scale, zero_point = getattr(one.made, f"{role}_scale"), getattr(one.made, f"{role}_zero_point")
            elif not is_input and made == name:
                scale, zero_point = one.made.ofm_scale, one.made.ofm_zero_point
            else:
                continue
            return Quantisation(scale, zero_point) if scale else None
        return None
