"""Network: a CascaderGraph for the Ethos-U, with its constants and its connections to the outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.network.axis import Axis
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.brief import Brief
from npu_model.compiled.cpu_reason import CpuReason
from npu_model.compiled.resource_variable import ResourceVariable
from npu_model.program import ByteRange, ConstantOutput, DataType, FeatureMap, KernelOperation, Quantisation
from npu_model.program.region_numbers import ARENA as ARENA  # noqa: PLC0414  # a network is read with it
from npu_model.program.region_numbers import CONSTANTS as CONSTANTS  # noqa: PLC0414
from npu_model.tflite.kernel_bytes import KernelBytes

LUT_SLOT = 256
"""Bytes of a look-up table's slot in SHRAM, of which there are eight (core driver)."""


class Port(Struct, frozen=True):
    """A named NHWC array inside a tensor: an input or output of the network, of an NPU subgraph or of a CPU operator."""

    name: str
    tensor: str
    offset: int
    shape: tuple[int, ...]
    dtype: DataType
    quantisation: Quantisation | None = None

    @property
    def size(self) -> int:
        """Bytes of the array."""
        size = self.dtype.bytes
        for extent in self.shape:
            size *= extent
        return size


class Home(Struct, frozen=True):
    """Home region of a tensor that does not live in the arena (RFC 0037's home map): it lies whole from ``address`` of the region on.

    ``region`` is the base pointer of its accesses, ``memory`` the name of its memory, and ``port`` the AXI port of that memory.
    """

    tensor: str
    region: int
    memory: str
    port: int
    address: int = 0


class LutLoad(Struct, frozen=True):
    """A look-up table: its bytes in the constants and the address in SHRAM where the kernel expects it."""

    source: ByteRange
    destination: int

    def overlaps(self, other: LutLoad) -> bool:
        """Whether two tables have common bytes in SHRAM."""
        return self.destination < other.destination + other.source.length and other.destination < self.destination + self.source.length


class EthosuPart(Struct, frozen=True, tag="npu"):
    """Payload of a Part that is one kernel operation.

    Feature maps of ``operation`` are relative. The bases of their tiles count from the start of the tensors ``ifm``, ``ifm2`` and ``ofm``
    in their home region, mostly the arena. Bases of constants (region 0), weights and scales count from the start of the network's
    constants. Its BLOCKDEP is 0: only the lowering knows what runs before. ``layer`` is the network's layer; a layer may have several
    kernels. Stripes are cut along ``axis``. A ``transfer`` only copies bytes, within the arena or between it and a home, and the DMA does
    that wherever they lie together. It runs ``ahead`` rows before the parts that read its rows, or after the parts that make them.
    """

    operation: KernelOperation
    ifm: str
    ofm: str
    ifm2: str | None = None
    lut: LutLoad | None = None
    layer: str = ""
    axis: Axis = Axis.ROWS
    transfer: bool = False
    ahead: int = 0

    @property
    def operands(self) -> tuple[tuple[str | None, FeatureMap], ...]:
        """IFM and, if there is one, IFM2, each with its tensor; None for a second operand that is a constant."""
        operation = self.operation
        second = () if operation.ifm2 is None else ((self.ifm2, operation.ifm2),)
        return (self.ifm, operation.ifm), *second

    @property
    def maps(self) -> tuple[tuple[str | None, FeatureMap], ...]:
        """IFM, OFM and IFM2, like :attr:`operands`."""
        first, *second = self.operands
        return first, (self.ofm, self.operation.ofm), *second

    def on_maps(self, moved: Callable[[str | None, FeatureMap], FeatureMap]) -> KernelOperation:
        """The operation with each feature map and its tensor changed by ``moved``."""
        (_, ifm), (_, ofm), *second = ((name, moved(name, feature_map)) for name, feature_map in self.maps)
        return self.operation.having(ifm=ifm, ifm2=second[0][1] if second else None, ofm=ofm)

    def renamed(self, names: Mapping[str, str]) -> EthosuPart:
        """The kernel on the tensors that ``names`` gives in place of its own."""
        ifm2 = None if self.ifm2 is None else names.get(self.ifm2, self.ifm2)
        return replace(self, ifm=names.get(self.ifm, self.ifm), ofm=names.get(self.ofm, self.ofm), ifm2=ifm2)


class CpuPart(Struct, frozen=True, tag="cpu"):
    """Payload of a Part that stays on the CPU: its operator, its variable operands in order, and the reason, if it is known.

    ``resource`` is the name of the resource variable that it reads or assigns, "" for other operators. ``macs`` is its
    multiply-accumulates, and ``kernel`` the bytes of TFLite Micro's kernel (None: not known).
    """

    code: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    reason: CpuReason | None = None
    resource: str = ""
    macs: int = 0
    kernel: KernelBytes | None = None


class Segment(Struct, frozen=True):
    """Consecutive parts that run as one NPU job, with the tensors that the job gets; or one CPU part."""

    parts: tuple[str, ...]
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, then outputs: an operator passes them to the NPU in this order."""
        return self.inputs + self.outputs


class Network(Brief, frozen=True):
    """A network to be scheduled: its graph (payloads EthosuPart or CpuPart), segments in order, constants, and ports.

    ``mended`` are the layers whose kernels round once, as LiteRT does, where the compiler's legalised stream rounds twice.
    ``variables`` are the states: arrays in VARIABLE tensors that are read before they are written. ``others`` counts the
    subgraphs of the model beside this one, which stay on the CPU. ``constant_outputs`` are outputs that no part writes. ``homes`` are
    those of the tensors that do not live in the arena.
    ``recomputed_macs`` counts the multiply-accumulates that its kernels do a second time, as tiles and recomputed skips do.
    """

    unshown = ("constants",)

    graph: CascaderGraph
    segments: tuple[Segment, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: bytes
    mended: tuple[str, ...] = ()
    variables: tuple[Port, ...] = ()
    others: int = 0
    constant_outputs: tuple[ConstantOutput, ...] = ()
    homes: tuple[Home, ...] = ()
    resources: tuple[ResourceVariable, ...] = ()
    recomputed_macs: int = 0

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all kernels."""
        return sum(kernel.operation.macs for kernel in self.kernels.values())

    @property
    def kernels(self) -> dict[str, EthosuPart]:
        """The kernels by the names of their parts, in order."""
        return {part.name: part.payload for part in self.graph.parts if isinstance(part.payload, EthosuPart)}

    @property
    def placed_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that have an address in the arena or in a home, all but constants.

        Drafts and row graphs number them in this order.
        """
        return tuple(tensor for tensor in self.graph.tensors if tensor.kind is not TensorKind.CONSTANT)

    @property
    def ports(self) -> tuple[Port, ...]:
        """The arrays that the application, other NPU jobs and CPU operators find: inputs, outputs, states, and arrays between jobs."""
        return (*self.inputs, *self.outputs, *self.variables, *self.handed_on)

    @property
    def bound(self) -> frozenset[str]:
        """The tensors that hold such arrays."""
        return frozenset(port.tensor for port in self.ports)

    @property
    def handed_on(self) -> tuple[Port, ...]:
        """The arrays that NPU jobs and CPU operators pass to each other."""
        on_cpu = [part.payload for part in self.graph.parts if isinstance(part.payload, CpuPart)]
        runs: tuple[Segment | CpuPart, ...] = (*self.segments, *on_cpu)
        return tuple(port for run in runs for port in (*run.inputs, *run.outputs))

    def with_kernels(self, changed: Mapping[str, EthosuPart]) -> Network:
        """The network with other kernels in the named parts; itself if none is named."""
        if not changed:
            return self
        parts = tuple(replace(part, payload=changed.get(part.name, part.payload)) for part in self.graph.parts)
        return replace(self, graph=replace(self.graph, parts=parts))

    def with_parts(self, made: Mapping[str, Sequence[Part]], tensors: Sequence[Tensor] | None = None) -> Network:
        """The network with other parts, none or several, in place of the named ones; on other ``tensors`` if some are given."""
        parts = tuple(new for part in self.graph.parts for new in made.get(part.name, (part,)))
        names = {name: tuple(part.name for part in new) for name, new in made.items()}
        segments = tuple(replace(s, parts=tuple(new for old in s.parts for new in names.get(old, (old,)))) for s in self.segments)
        graph = CascaderGraph(parts, self.graph.tensors if tensors is None else tuple(tensors))
        return replace(self, graph=graph, segments=segments)

    def repeating(self, before: Network) -> Network:
        """The network, which recomputes parts of the network ``before``.

        All multiply-accumulates beyond the earlier ones count as recomputed.
        """
        return replace(self, recomputed_macs=before.recomputed_macs + self.macs - before.macs)

    def accesses(self) -> dict[str, list[tuple[EthosuPart, FeatureMap]]]:
        """The kernels that use each tensor, with their feature maps of it."""
        found: dict[str, list[tuple[EthosuPart, FeatureMap]]] = {tensor.name: [] for tensor in self.graph.tensors}
        for kernel in self.kernels.values():
            for name, feature_map in tensor_maps(kernel):
                found[name].append((kernel, feature_map))
        return found


def ethosu_part(part: Part) -> EthosuPart | None:
    """The part's kernel, None for a CPU part."""
    return part.payload if isinstance(part.payload, EthosuPart) else None


def part_of(like: Part, kernel: EthosuPart, name: str = "") -> Part:
    """The part that runs a kernel in place of another part, under the old name if it gets no ``name`` of its own."""
    inputs = tuple(dict.fromkeys(tensor for tensor, _ in kernel.operands if tensor is not None))
    return replace(like, name=name or like.name, inputs=inputs, outputs=(kernel.ofm,), payload=kernel)


def tensor_reads(part: EthosuPart) -> Iterator[tuple[str, FeatureMap]]:
    """The part's operands that are not constants, IFM and IFM2, each with its tensor."""
    for name, operand in part.operands:
        if name is not None and operand.region != CONSTANTS:
            yield name, operand


def tensor_writes(part: EthosuPart) -> Iterator[tuple[str, FeatureMap]]:
    """The part's OFM with its tensor."""
    if part.operation.ofm.region != CONSTANTS:
        yield part.ofm, part.operation.ofm


def tensor_maps(part: EthosuPart) -> Iterator[tuple[str, FeatureMap]]:
    """The part's feature maps that are not constants, IFM, IFM2 and OFM, each with its tensor."""
    yield from tensor_reads(part)
    yield from tensor_writes(part)
