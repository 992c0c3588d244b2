"""From a Schedule to the Programs that the NPU runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cascader.ethosu.blockdep import blockdep
from cascader.ethosu.feature_maps import rebase
from cascader.ethosu.network import ARENA, CONSTANTS, LUT_SLOT, CpuPart, EthosuPart, LutLoad, Port, Segment
from cascader.ethosu.schedule import Schedule
from cascader.schedule import Job
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.command_stream.encode import encode_operations
from npu_model.compiled import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import (
    ActivationKind,
    Binding,
    Control,
    ControlKind,
    DmaOperation,
    DmaWait,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Operation,
    Program,
    Region,
    RegionRole,
)
from npu_model.program.check import check_program
from npu_model.shram import BlockQuery, shram_partition

STOP_MASK = 0xFFFF
"""Parameter of NPU_OP_STOP: raise all of the interrupt's bits, as Vela does."""


@dataclass(slots=True)
class _Stream:
    """The operations of one Program as they are issued, with what the NPU is known to hold at the end of them."""

    accelerator: Accelerator
    operations: list[Operation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kernels: list[KernelOperation] = field(default_factory=list)
    """All kernels so far, the newest last."""
    running: int = 0
    """How many of the newest kernels may not have finished."""
    tables: list[LutLoad] = field(default_factory=list)
    """Look-up tables that are in SHRAM."""

    def issue(self, operation: Operation, name: str) -> None:
        """Append an operation of the layer ``name``."""
        self.operations.append(operation)
        self.names.append(name)

    def load(self, table: LutLoad, name: str) -> None:
        """Transfer a table unless it is in its place already, after the kernels that use that place, and wait for it."""
        if table in self.tables:
            return
        users = [age for age in range(self.running) if self._uses(self.kernels[-1 - age], table)]
        if users:
            self.issue(KernelWait(users[0]), name)
            self.running = users[0]
        self.issue(DmaOperation(table.source, table.destination, to_shram=True), name)
        self.issue(DmaWait(0), name)
        self.tables = [other for other in self.tables if not _overlap(other, table)] + [table]

    def _uses(self, kernel: KernelOperation, table: LutLoad) -> bool:
        """Whether the kernel holds SHRAM bytes of the table's place."""
        if self.accelerator.reserved_lut_banks == 0:
            return True
        if kernel.activation.kind is not ActivationKind.LUT:
            return False
        start = self.accelerator.lut_address + kernel.activation.lut * LUT_SLOT
        size = next((t.source.length for t in self.tables if t.destination == start), LUT_SLOT)
        return start < table.destination + table.source.length and table.destination < start + size

    def run(self, operation: KernelOperation, name: str) -> None:
        """Issue a kernel behind the others."""
        operation = replace(operation, blockdep=blockdep(self.kernels, operation, self.accelerator))
        self.issue(operation, name)
        self.kernels.append(operation)
        self.running = min(self.running + 1, self.accelerator.max_outstanding_kernels)
        if self.accelerator.reserved_lut_banks == 0 and operation.activation.kind is not ActivationKind.LUT:
            # The banks of the tables are not reserved here: such a kernel has its accumulators or operands there.
            self.tables = []


def _overlap(a: LutLoad, b: LutLoad) -> bool:
    return a.destination < b.destination + b.source.length and b.destination < a.destination + a.source.length


def _with_block(operation: KernelOperation, job: Job, accelerator: Accelerator) -> KernelOperation:
    """The operation with the job's block config and the SHRAM partition that this implies."""
    if job.block is None or job.block == operation.block:
        return operation
    if operation.weights and job.block.depth != operation.block.depth:
        raise InputError(
            f"Part {job.part!r} has block depth {job.block.depth} but weights encoded for {operation.block.depth}: keep the depth."
        )
    shram = shram_partition(BlockQuery.of(operation), job.block, accelerator)
    if shram is None:
        raise InputError(f"Block {job.block} of part {job.part!r} does not fit into the SHRAM of {accelerator.name}: choose a smaller one.")
    return replace(operation, block=job.block, shram=shram)


def _resolved(part: EthosuPart, addresses: dict[str, int]) -> KernelOperation:
    """The part's operation with the addresses of its tensors; constants are where they are."""

    def moved(feature_map: FeatureMap, tensor: str) -> FeatureMap:
        return rebase(feature_map, addresses[tensor]) if feature_map.region == ARENA else feature_map

    operation = part.operation
    return replace(
        operation,
        ifm=moved(operation.ifm, part.ifm),
        ifm2=moved(operation.ifm2, part.ifm2) if operation.ifm2 is not None and part.ifm2 is not None else None,
        ofm=moved(operation.ofm, part.ofm),
    )


def _binding(port: Port, addresses: dict[str, int]) -> Binding:
    return Binding(port.name, ARENA, addresses[port.tensor] + port.offset, port.shape, port.dtype, port.quantisation)


def _bindings(ports: tuple[Port, ...], addresses: dict[str, int]) -> tuple[Binding, ...]:
    return tuple(_binding(port, addresses) for port in ports)


def _program(schedule: Schedule, segment: Segment, jobs: tuple[Job, ...], addresses: dict[str, int]) -> Program:
    accelerator = find_accelerator(schedule.accelerator)
    graph = schedule.network.graph
    stream = _Stream(accelerator)
    for job in jobs:
        part = graph.parts[graph.index(job.part)].payload
        if not isinstance(part, EthosuPart):
            raise InputError(f"Part {job.part!r} runs on the CPU but is inside an NPU segment: give it a segment of its own.")
        if part.lut is not None:
            stream.load(part.lut, part.layer)
        stream.run(_with_block(_resolved(part, addresses), job, accelerator), part.layer)
    stream.issue(Control(ControlKind.STOP, STOP_MASK), "")
    operations = tuple(stream.operations)
    constants = schedule.network.constants
    program = Program(
        accelerator=schedule.accelerator,
        operations=operations,
        words=encode_operations(operations)[1],
        regions=(
            Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants),
            Region(ARENA, RegionRole.ARENA, schedule.arena_size),
        ),
        inputs=_bindings(segment.inputs, addresses),
        outputs=_bindings(segment.outputs, addresses),
        names=tuple(stream.names),
    )
    check_program(program, accelerator)
    return program


def _step(schedule: Schedule, segment: Segment, jobs: tuple[Job, ...], addresses: dict[str, int]) -> Program | CpuOperator:
    graph = schedule.network.graph
    payload = graph.parts[graph.index(jobs[0].part)].payload
    if isinstance(payload, CpuPart):
        return CpuOperator(payload.code, _bindings(payload.inputs, addresses), _bindings(payload.outputs, addresses))
    return _program(schedule, segment, jobs, addresses)


def lower(schedule: Schedule) -> CompiledNetwork:
    """The Programs and CPU operators of a schedule, in order, in one arena of ``schedule.arena_size`` bytes.

    Tables are loaded into SHRAM when a kernel needs one that is not there, kernels wait for what they read by BLOCKDEP.
    InputError if a block config does not fit or an operation breaks a rule of the accelerator.
    """
    addresses = schedule.addresses()
    steps = []
    remaining = list(schedule.jobs)
    for segment in schedule.network.segments:
        jobs, remaining = remaining[: len(segment.parts)], remaining[len(segment.parts) :]
        steps.append(_step(schedule, segment, tuple(jobs), addresses))
    return CompiledNetwork(
        tuple(steps),
        schedule.arena_size,
        _bindings(schedule.network.inputs, addresses),
        _bindings(schedule.network.outputs, addresses),
    )
