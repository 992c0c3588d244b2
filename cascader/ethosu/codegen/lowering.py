"""From a Schedule to the Programs that the NPU runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field
from functools import partial
from itertools import pairwise

from msgspec import Struct

from cascader.ethosu.codegen.kept import Addresses, Issued, IssuedOperation, KeptKernels, Located, Looked, Placed
from cascader.ethosu.codegen.stream import Stream
from cascader.ethosu.codegen.stripes import Place, form, stripe
from cascader.ethosu.codegen.transfers import transfers
from cascader.ethosu.network.network import ARENA, CONSTANTS, CpuPart, EthosuPart, LutLoad, Network, Port, Segment
from cascader.ethosu.schedule.schedule import Schedule
from cascader.ethosu.verify.emitted import require_own_constants
from cascader.plan.jobs import Copy, Job
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.command_stream.encode import encode_operations
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import Binding, Control, ControlKind, DmaWait, KernelOperation, Moved, Operation, Program, Region, RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.check import check_program
from npu_model.shapes import round_up

STOP_MASK = 0xFFFF
"""Parameter of NPU_OP_STOP: raise all of the interrupt's bits, as Vela does."""


@mutable(slots=True)
class _Lowering:
    """A schedule on its way to Programs: where everything lies, and which weights are staged so far."""

    schedule: Schedule
    accelerator: Accelerator
    parts: dict[str, EthosuPart]
    places: dict[str, Place]
    regions: Mapping[str, int]
    """Home regions of the tensors that do not live in the arena."""
    copies: dict[int, list[Copy]]
    """Copies by the step before which they are issued."""
    staged: dict[str, int]
    """Address of the newest copy of a part's weights."""
    early_tables: bool
    kept: KeptKernels
    finish: Callable[[KeptKernels, Sequence[IssuedOperation]], _Finished]
    located: dict[str, Located] = field(default_factory=dict)
    """Parts of the schedule among the kept ones."""

    def program(self, segment: Segment, first: int, last: int, *, more: bool = False) -> Program:
        """The Program of jobs ``first`` to ``last`` (exclusive), which are those of an NPU segment, or with ``more`` behind them of it."""
        stream = Stream(self.accelerator, self.kept)
        early = self._early_tables(first, last)
        for step in range(first, last):
            if step == first + 1:
                for table, layer in early:
                    stream.load(table, layer)
            self._run(stream, step)
        if more and stream.transfers:
            stream.issue(DmaWait(0), "")  # the next Program knows of none that is under way
        stream.issue(Control(ControlKind.STOP, STOP_MASK), "")
        finished = self.finish(self.kept, stream.operations)
        constants = self.schedule.network.constants
        return Program(
            accelerator=self.schedule.accelerator,
            operations=finished.operations,
            words=finished.words,
            regions=(
                Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants),
                Region(ARENA, RegionRole.ARENA, self.schedule.arena_size),
                *_home_regions(self.schedule.network, segment),
            ),
            inputs=_bindings(segment.inputs, self.places, self.regions),
            outputs=_bindings(segment.outputs, self.places, self.regions),
            names=tuple(stream.names),
            moved=finished.moved,
        )

    def _early_tables(self, first: int, last: int) -> list[tuple[LutLoad, str]]:
        """The first table that is used, with its layer: it can be loaded while the first job runs.

        More of them would hold up the kernel that waits for the first, as it waits for all transfers. None where kernels without a table
        use the same banks of SHRAM.
        """
        if not self.early_tables or self.accelerator.reserved_lut_banks == 0:
            return []
        parts = (self.parts.get(job.part) for job in self.schedule.jobs[first:last])
        return [(part.lut, part.layer) for part in parts if part is not None and part.lut is not None][:1]

    def _run(self, stream: Stream, step: int) -> None:
        """Issue one job with its table and the copies before it.

        The table comes first: it is short, and a transfer behind a long one would hold up the job until both are done.
        """
        job = self.schedule.jobs[step]
        if job.part not in self.parts:
            raise InputError(f"Part {job.part!r} runs on the CPU but is inside an NPU segment: give it a segment of its own.")
        part = self.parts[job.part]
        if part.lut is not None:
            stream.load(part.lut, part.layer)
        for copy in self.copies.get(step, ()):
            copied = self.parts[copy.part]
            stream.stage(self.kept.copied(copied.operation), copy.address, copied.layer)
            self.staged |= dict.fromkeys(copy.readers, copy.address)
        kernel = self._kernel(job, part)
        if part.transfer and (moved := transfers(self.kept.operation(kernel))):
            stream.move(moved, part.layer)
            return
        stream.run(kernel, part.layer)

    def _kernel(self, job: Job, part: EthosuPart) -> Placed:
        """The kernel of a job, which reads its weights from their newest copy if there is one."""
        located = self.located.get(job.part)
        if located is None:
            located = self.located[job.part] = _located(self.kept, job.part, part, self.places)
        block, staged = job.block, self.staged.get(job.part)
        key = job.rows, block and (block.height, block.width, block.depth)
        return located.kernels.get((staged, key)) or self.kept.kernel(located, key, staged, partial(self._look, job, part))

    def _look(self, job: Job, part: EthosuPart) -> Looked:
        looked = _look(job, part, self.places)

        def made() -> KernelOperation:
            operation = _with_block(looked.make(), job, self.accelerator)
            require_own_constants(job.part, part, job.rows, operation)
            return operation

        return Looked((looked.form, job.block and (job.block.height, job.block.width, job.block.depth)), looked.offsets, made)


def _look(job: Job, part: EthosuPart, places: dict[str, Place]) -> Looked:
    """A job's kernel in its part's own block."""
    start, end = job.rows or (0, part.axis.extent(part.operation.ofm.shape))
    key, offsets = form(part, start, end, places)

    def made() -> KernelOperation:
        there = ((name, places.get(name)) for name in (part.ifm, part.ofm, part.ifm2) if name is not None)
        at = {name: place for name, place in there if place is not None}
        for name, offset in zip((part.ifm, part.ofm, part.ifm2), offsets, strict=True):
            if name in at:
                at[name] = Place(-offset, at[name].rows, at[name].row_bytes)
        return stripe(part, start, end, at)

    return Looked((job.part, key), offsets, made)


def _located(kept: KeptKernels, name: str, part: EthosuPart, places: dict[str, Place]) -> Located:
    """A part among the kept ones: its tensors may roll otherwise, and then its kernels are others."""

    def look() -> tuple[object, Addresses]:
        maps = [(feature_map, None if tensor is None else places.get(tensor)) for tensor, feature_map in part.maps]
        rolls = tuple(None if place is None else (place.rows, place.row_bytes) for _, place in maps)
        ifm, ofm, *second = (place.address if place is not None and one.region != CONSTANTS else None for one, place in maps)
        return (name, rolls), (ifm, ofm or 0, second[0] if second else None)

    return kept.located((name, places.get(part.ifm), places.get(part.ofm), part.ifm2 and places.get(part.ifm2)), look)


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
    return operation.having(block=job.block, shram=shram)


def _places(schedule: Schedule) -> dict[str, Place]:
    """Where every tensor lies in its region; those that are whole are one row."""
    graph = schedule.network.graph
    homes = {home.tensor: Place(home.address, 1, graph.tensor(home.tensor).size) for home in schedule.network.homes}
    return homes | {
        tensor: Place(buffer.address, buffer.rows or 1, buffer.row_bytes if buffer.rows else graph.tensor(tensor).size)
        for buffer in schedule.buffers
        for tensor in buffer.tensors
    }


def _home_regions(network: Network, segment: Segment) -> Iterator[Region]:
    """The regions beside the arena in which tensors of a segment live, in ascending order, as large as these need."""
    parts = [network.graph.parts[network.graph.index(name)] for name in segment.parts] if network.homes else []
    own = {tensor for part in parts for tensor in (*part.inputs, *part.outputs)}
    own |= {port.tensor for port in (*segment.inputs, *segment.outputs)}
    ends: dict[int, int] = {}
    for home in network.homes:
        if home.tensor in own:
            ends[home.region] = max(ends.get(home.region, 0), home.address + network.graph.tensor(home.tensor).size)
    return (Region(region, RegionRole.HOME, round_up(end, ALIGNMENT)) for region, end in sorted(ends.items()))


def _bindings(ports: tuple[Port, ...], places: dict[str, Place], regions: Mapping[str, int]) -> tuple[Binding, ...]:
    return tuple(
        Binding(p.name, regions.get(p.tensor, ARENA), places[p.tensor].address + p.offset, p.shape, p.dtype, p.quantisation) for p in ports
    )


def kernels(schedule: Schedule, kept: KeptKernels) -> list[Placed | None]:
    """The kernel of each job, at its tensors' addresses and in its part's own block; None for a transfer and for a job on the CPU.

    Of kernels that are ``kept`` those are taken that were made before.
    """
    places = _places(schedule)
    kept.make_room()
    parts = {name: kernel for name, kernel in schedule.network.kernels.items() if not kernel.transfer}
    located = {name: _located(kept, name, part, places) for name, part in parts.items() if part.ofm in places}
    found: list[Placed | None] = []
    for job in schedule.jobs:
        part = parts.get(job.part)
        if part is None:
            found.append(None)
            continue
        at, rows = located[job.part], job.rows
        kernel = at.kernels.get((None, rows))
        found.append(kept.kernel(at, rows, None, partial(_look, job, part, places)) if kernel is None else kernel)
    return found


class _Finished(Struct, frozen=True):
    """The operations of a Program, the words of each, and what its kernels were made of."""

    operations: tuple[Operation, ...]
    words: tuple[int, ...]
    moved: Mapping[int, Moved]


def _whole(kept: KeptKernels, issued: Sequence[IssuedOperation]) -> _Finished:
    """The operations themselves."""
    found = tuple(kept.issued_operation(one) if isinstance(one, Issued) else one for one in issued)
    return _Finished(found, encode_operations(found)[1], {})


def _replayed(kept: KeptKernels, issued: Sequence[IssuedOperation]) -> _Finished:
    """Operations that replay like these."""
    found = tuple([one.replayed or kept.replayed(one) if isinstance(one, Issued) else one for one in issued])
    return _Finished(found, kept.words(issued), kept.moved)


def lower(schedule: Schedule, *, early_tables: bool = True, cuts: Sequence[int] = ()) -> CompiledNetwork:
    """The Programs and CPU operators of a schedule, in order, in one arena of ``schedule.arena_size`` bytes.

    A job of some rows becomes a kernel on tile boxes, which wrap where a buffer rolls. Tables are loaded into SHRAM when a
    kernel needs one that is not there, as Vela does, or with ``early_tables`` under the first job of each Program; weights are
    copied where the schedule says so, kernels wait for transfers of what they read and, by BLOCKDEP, for each other. A further Program
    begins with each of the jobs ``cuts``: the host may wait for something before it hands that to the NPU. InputError
    if a block config does not fit or an operation breaks a rule of the accelerator.
    """
    lowered = _lowered(schedule, KeptKernels(), _whole, early_tables=early_tables, cuts=cuts)
    for program in lowered.programs:
        check_program(program, find_accelerator(schedule.accelerator))
    return lowered


def replayable(schedule: Schedule, kept: KeptKernels | None = None) -> CompiledNetwork:
    """Programs whose replay is that of a schedule's to the cycle, for a schedule that is compared with others and goes nowhere.

    Their kernels lie elsewhere: of kernels that differ by addresses alone, which no replay asks for, one stands for all. Of kernels of the
    same network and device that are ``kept`` those are taken that were made before. Nothing is checked.
    """
    return _lowered(schedule, KeptKernels() if kept is None else kept, _replayed, early_tables=True)


def _lowered(
    schedule: Schedule,
    kept: KeptKernels,
    finish: Callable[[KeptKernels, Sequence[IssuedOperation]], _Finished],
    *,
    early_tables: bool,
    cuts: Sequence[int] = (),
) -> CompiledNetwork:
    network = schedule.network
    kept.make_room()
    lowering = _Lowering(
        schedule=schedule,
        accelerator=find_accelerator(schedule.accelerator),
        parts=network.kernels,
        places=_places(schedule),
        regions={home.tensor: home.region for home in network.homes},
        copies={},
        staged={},
        early_tables=early_tables,
        kept=kept,
        finish=finish,
    )
    for copy in schedule.copies:
        lowering.copies.setdefault(copy.step, []).append(copy)
    steps: list[Program | CpuOperator] = []
    first = 0
    for segment in network.segments:
        last, own = first, set(segment.parts)
        while last < len(schedule.jobs) and schedule.jobs[last].part in own:
            last += 1
        payload = network.graph.parts[network.graph.index(segment.parts[0])].payload
        if isinstance(payload, CpuPart):
            read, written = (_bindings(ports, lowering.places, lowering.regions) for ports in (payload.inputs, payload.outputs))
            steps.append(CpuOperator(payload.code, read, written, payload.reason, payload.resource, payload.macs))
        else:
            borders = [first, *(cut for cut in cuts if first < cut < last), last]
            steps += [lowering.program(segment, start, end, more=end < last) for start, end in pairwise(borders)]
        first = last
    ends = (network.inputs, network.outputs, network.variables)
    inputs, outputs, variables = (_bindings(ports, lowering.places, lowering.regions) for ports in ends)
    return CompiledNetwork(
        tuple(steps), schedule.arena_size, inputs, outputs, variables, network.others, network.constant_outputs, network.resources
    )
