"""From a legalised compilation to a Network: the layer graph read back from the register command stream.

A tensor is an extent of addresses, from every range that a kernel touches. In a legalised compilation no two tensors share an address, so
overlapping ranges belong to one tensor. No other rule is needed. A concatenation is written in parts that only its reader joins. A slice
reads a part of another operator's output, and a strided kernel reads less than its tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.constants import Packing, constant_ranges
from cascader.ethosu.network.network import ARENA, CONSTANTS, LUT_SLOT, CpuPart, EthosuPart, LutLoad, Network, Port, Segment, ethosu_part
from cascader.frontends.vela.arena_copies import without_arena_copies
from cascader.frontends.vela.moves import forwards, merged
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.accelerator import Accelerator, accelerator
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import ActivationKind, Binding, DmaOperation, FeatureMap, KernelOperation, Program
from npu_model.program.alignment import ALIGNMENT


class AddressMap(Struct, frozen=True):
    """Disjoint extents (start, end) in address order, with the ``names`` of their tensors. Starts are multiples of 16."""

    extents: tuple[tuple[int, int], ...]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> AddressMap:
        """Unite overlapping ranges; ranges that only touch stay apart. No extent has a name yet."""
        extents: list[tuple[int, int]] = []
        for start, end in sorted((start // ALIGNMENT * ALIGNMENT, end) for start, end in ranges):
            if extents and start < extents[-1][1]:
                extents[-1] = (extents[-1][0], max(end, extents[-1][1]))
            else:
                extents.append((start, end))
        return cls(tuple(extents))

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each tensor."""
        return {name: end - start for name, (start, end) in zip(self.names, self.extents, strict=True)}

    def find(self, address: int) -> int:
        """Index of the extent that holds ``address``; InputError if none does."""
        index = bisect_right(self.extents, (address, 1 << 64)) - 1
        if index < 0 or address >= self.extents[index][1]:
            raise InputError(f"Arena address {address} belongs to no tensor of the compiled network: compile it again.")
        return index

    def place(self, address: int) -> tuple[str, int]:
        """The tensor that holds ``address``, and the offset of the address in it."""
        index = self.find(address)
        return self.names[index], address - self.extents[index][0]


def unique(labels: Sequence[str]) -> tuple[str, ...]:
    """Unique names from labels: a label gets a number if it appears several times, or if a numbered name equals it.

    >>> unique(["conv", "softmax", "softmax"])
    ('conv', 'softmax#1', 'softmax#2')
    """
    counts = Counter(labels)
    taken = {label for label, count in counts.items() if count == 1}
    numbers: Counter[str] = Counter()
    names = []
    for label in labels:
        name = label
        while counts[label] > 1 and (name == label or name in taken):
            numbers[label] += 1
            name = f"{label}#{numbers[label]}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def base_address(feature_map: FeatureMap) -> int:
    """Lowest address of the map's elements."""
    return feature_map.byte_ranges()[0].start


class TensorTable(Struct, frozen=True):
    """The extents of the arena and of the constant feature maps."""

    arena: AddressMap
    constants: AddressMap

    @classmethod
    def of(
        cls, arena: AddressMap, constants: AddressMap, bindings: Iterable[Binding], writes: Iterable[tuple[str, FeatureMap]]
    ) -> TensorTable:
        """Name the extents: each by its first binding, else by the part that writes it first ("+n": and n more)."""
        labels: dict[int, str] = {}
        for binding in bindings:
            labels.setdefault(arena.find(binding.address), binding.name)
        writers: dict[int, list[str]] = {}
        for part, feature_map in writes:
            writers.setdefault(arena.find(base_address(feature_map)), []).append(part)
        for index, parts in writers.items():
            labels.setdefault(index, f"{parts[0]}+{len(parts) - 1}" if len(parts) > 1 else parts[0])
        ordered = [labels.get(index, f"variable@{start}") for index, (start, _) in enumerate(arena.extents)]
        names = unique([*ordered, *(f"constant@{start}" for start, _ in constants.extents)])
        return cls(replace(arena, names=names[: len(ordered)]), replace(constants, names=names[len(ordered) :]))

    def name(self, feature_map: FeatureMap) -> str:
        """Name of the tensor that the map lies in."""
        extents = self.constants if feature_map.region == CONSTANTS else self.arena
        return extents.place(base_address(feature_map))[0]

    def relative(self, feature_map: FeatureMap) -> FeatureMap:
        """The map with addresses that count from its tensor's start; constant maps keep their addresses."""
        if feature_map.region == CONSTANTS:
            return feature_map
        base = base_address(feature_map)
        return feature_map.moved(self.arena.place(base)[1] - base)

    def port(self, binding: Binding) -> Port:
        """The binding as a location in its tensor."""
        return Port(binding.name, *self.arena.place(binding.address), binding.shape, binding.dtype, binding.quantisation)


class _Kernel(Struct, frozen=True):
    """A kernel operation with the name of its layer and the table that its LUT slot holds."""

    operation: KernelOperation
    layer: str
    lut: LutLoad | None

    @property
    def maps(self) -> tuple[FeatureMap, ...]:
        """The feature maps: IFM, IFM2 if there is one, and OFM."""
        return tuple(m for m in (self.operation.ifm, self.operation.ifm2, self.operation.ofm) if m is not None)

    @property
    def label(self) -> str:
        """The layer's name; without a debug database the operation's name."""
        return self.layer or self.operation.mnemonic


def _table(operation: KernelOperation, tables: dict[int, LutLoad], device: Accelerator) -> LutLoad | None:
    if operation.activation.kind is not ActivationKind.LUT:
        return None
    address = device.lut_address + operation.activation.lut * LUT_SLOT
    if address not in tables:
        raise InputError(f"A kernel uses LUT slot {operation.activation.lut}, which no transfer has filled: compile again.")
    return tables[address]


def _kernels(program: Program) -> Iterator[_Kernel]:
    """The kernel operations. One that writes backwards becomes several that write forwards.

    InputError if the program transfers anything but look-up tables, uses regions other than constants and arena, or steps backwards in
    anything but a copy.
    """
    device = accelerator(program.accelerator)
    tables: dict[int, LutLoad] = {}
    for index, operation in enumerate(program.operations):
        if isinstance(operation, DmaOperation):
            if not operation.to_shram or operation.source.region != CONSTANTS:
                raise InputError(f"Operation {index} copies {operation.length} bytes into the arena: compile with the legalising options.")
            tables[operation.destination] = LutLoad(operation.source, operation.destination)
        elif isinstance(operation, KernelOperation):
            kernel = _Kernel(operation, program.name(index), _table(operation, tables, device))
            if any(m.region not in (CONSTANTS, ARENA) for m in kernel.maps):
                raise InputError(f"Operation {index} uses a fast scratch region: compile with memory mode Shared_Sram.")
            yield from (replace(kernel, operation=piece) for piece in forwards(operation))


def _operators(step: Program | CpuOperator, *, merge: bool) -> list[_Kernel | CpuOperator]:
    """The kernels of a step, or its operator on the CPU. ``merge`` merges loops of kernels.

    A merged loop has the layer of its last kernel, because the database names only that kernel.
    """
    if isinstance(step, CpuOperator):
        return [step]
    every = list(_kernels(step))
    if not merge:
        return [*every]
    runs = merged([kernel.operation for kernel in every])
    return [replace(every[run[-1]], operation=operation) for run, operations in runs for operation in operations]


def _shared_constants(network: CompiledNetwork) -> bytes:
    """The constants, which all Programs of a compilation share; InputError if they do not."""
    contents = {program.region(CONSTANTS).content for program in network.programs}
    if len(contents) != 1:
        raise InputError(f"The compiled network has {len(contents)} different constant regions: compile it with Vela 5.2.")
    return contents.pop()


def _ranges(kernels: Iterable[_Kernel], region: int) -> list[tuple[int, int]]:
    """Every range of a region that a kernel reads or writes as a feature map."""
    return [(r.start, r.end) for kernel in kernels for m in kernel.maps if m.region == region for r in m.byte_ranges()]


def _npu_part(name: str, kernel: _Kernel, table: TensorTable) -> Part:
    operation = kernel.operation
    ifm2 = None if operation.ifm2 is None else table.name(operation.ifm2)
    absolute = EthosuPart(operation, table.name(operation.ifm), table.name(operation.ofm), ifm2, kernel.lut, kernel.layer)
    relative = absolute.on_maps(lambda _, feature_map: table.relative(feature_map))
    inputs = dict.fromkeys([absolute.ifm] if ifm2 is None else [absolute.ifm, ifm2])
    return Part(name, tuple(inputs), (absolute.ofm,), replace(absolute, operation=replace(relative, blockdep=0)))


def _cpu_part(name: str, operator: CpuOperator, table: TensorTable) -> Part:
    inputs, outputs = tuple(map(table.port, operator.inputs)), tuple(map(table.port, operator.outputs))
    read, written = (tuple(dict.fromkeys(port.tensor for port in ports)) for ports in (inputs, outputs))
    facts = operator.reason, operator.resource, operator.macs, operator.kernel
    return Part(name, read, written, CpuPart(operator.code, inputs, outputs, *facts))


def _kinds(parts: Sequence[Part], inputs: Iterable[Port], outputs: Iterable[Port]) -> dict[str, TensorKind]:
    """Kinds of the arena's tensors. A tensor that is read before it is written, and is not an input, keeps its bytes between inferences.

    So does a tensor that holds an input and an output of the network: it is needed before the first part and after the last.
    """
    kinds = {port.tensor: TensorKind.INPUT for port in inputs}
    for port in outputs:
        kinds[port.tensor] = TensorKind.VARIABLE if port.tensor in kinds else TensorKind.OUTPUT
    written = {name for name, kind in kinds.items() if kind is not TensorKind.OUTPUT}
    for part in parts:
        for name in part.inputs:
            if name not in written:
                kinds[name] = TensorKind.VARIABLE
        written.update(part.outputs)
    return kinds


def _shapes(parts: Sequence[Part], ports: Iterable[Port]) -> dict[str, tuple[tuple[int, ...], int]]:
    """Shape and element size per tensor, from the feature map or port with the most elements; the first one wins a tie."""
    seen: dict[str, tuple[tuple[int, ...], int]] = {}

    def see(name: str, shape: tuple[int, ...], element_size: int) -> None:
        if name not in seen or prod(shape) * element_size > prod(seen[name][0]) * seen[name][1]:
            seen[name] = (shape, element_size)

    for part in parts:
        payload = ethosu_part(part)
        if payload:
            operation = payload.operation
            for name, m in ((payload.ofm, operation.ofm), (payload.ifm, operation.ifm), (payload.ifm2, operation.ifm2)):
                if name is not None and m is not None:
                    see(name, (m.shape.height, m.shape.width, m.shape.depth), m.dtype.bytes)
    for port in ports:
        see(port.tensor, port.shape, port.dtype.bytes)
    return seen


def _tensors(table: TensorTable, parts: Sequence[Part], inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> tuple[Tensor, ...]:
    """All tensors: those of the arena in order of first use, then those of the constants."""
    cpu_ports = [port for part in parts if isinstance(part.payload, CpuPart) for port in part.payload.inputs + part.payload.outputs]
    shapes = _shapes(parts, (*inputs, *outputs, *cpu_ports))
    kinds = _kinds(parts, inputs, outputs)
    sizes = table.arena.sizes
    used = dict.fromkeys([port.tensor for port in inputs] + [name for part in parts for name in part.inputs + part.outputs])
    used |= dict.fromkeys(port.tensor for port in outputs)
    tensors = [Tensor(n, kinds.get(n, TensorKind.INTERMEDIATE), sizes[n], *shapes[n]) for n in used if n in sizes]
    return (*tensors, *(Tensor(n, TensorKind.CONSTANT, size, *shapes[n]) for n, size in table.constants.sizes.items()))


def lift(network: CompiledNetwork, *, merge: bool = False) -> Network:
    """The layer graph of a network that was compiled with ``legalise``: one Part per kernel or CPU operator.

    A kernel that writes backwards is one Part per row or column (:func:`forwards`), and a copy within the arena is none
    (:func:`without_arena_copies`). With ``merge`` a run of similar moves becomes a few kernels (:func:`merged`). InputError if a kernel or
    a copy cannot be changed like this, if the compilation buffers weights, or if it uses regions other than constants and arena. A
    compilation that reuses arena addresses cannot be told from one that does not: its tensors would be merged.
    """
    constants = _shared_constants(network)
    network = without_arena_copies(network)
    steps = [_operators(step, merge=merge) for step in network.steps]
    operators = list(chain.from_iterable(steps))
    names = unique([one.code if isinstance(one, CpuOperator) else one.label for one in operators])
    kernels = {name: one for name, one in zip(names, operators, strict=True) if isinstance(one, _Kernel)}
    bindings = [*network.inputs, *network.outputs, *(b for step in network.steps for b in (*step.inputs, *step.outputs))]
    table = TensorTable.of(
        AddressMap.of([*((b.byte_range.start, b.byte_range.end) for b in bindings), *_ranges(kernels.values(), ARENA)]),
        AddressMap.of(_ranges(kernels.values(), CONSTANTS)),
        bindings,
        [(name, kernel.operation.ofm) for name, kernel in kernels.items()],
    )
    parts = [
        _cpu_part(name, one, table) if isinstance(one, CpuOperator) else _npu_part(name, one, table)
        for name, one in zip(names, operators, strict=True)
    ]
    waiting = iter(names)
    segments = [
        Segment(tuple(islice(waiting, len(own))), tuple(map(table.port, step.inputs)), tuple(map(table.port, step.outputs)))
        for own, step in zip(steps, network.steps, strict=True)
    ]
    inputs, outputs = tuple(map(table.port, network.inputs)), tuple(map(table.port, network.outputs))
    packing = Packing.of(span for part in parts if isinstance(part.payload, EthosuPart) for span in constant_ranges(part.payload))
    packed = tuple(replace(p, payload=packing.part(p.payload)) if isinstance(p.payload, EthosuPart) else p for p in parts)
    graph = CascaderGraph(packed, _tensors(table, packed, inputs, outputs))
    # A variable that is written before it is read is not a state: its bytes between inferences are of no use.
    kept = {tensor.name for tensor in graph.select(TensorKind.VARIABLE)}
    variables = tuple(port for port in map(table.port, network.variables) if port.tensor in kept)
    return Network(
        graph,
        tuple(segments),
        inputs,
        outputs,
        packing.content(constants),
        variables=variables,
        others=network.others,
        constant_outputs=network.constant_outputs,
        resources=network.resources,
    )
