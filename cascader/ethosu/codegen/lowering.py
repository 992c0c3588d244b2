"""From a Schedule to the Programs that the NPU runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.codegen.stream import Stream
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.job.staging import weight_ranges, with_staged_weights
from cascader.ethosu.job.stripes import BufferPlace, in_block, stripe
from cascader.ethosu.job.transfers import transfers
from cascader.ethosu.network.network import ARENA, CONSTANTS, CpuPart, EthosuPart, LutLoad, Network, Port, Segment
from cascader.ethosu.verify.emitted import require_own_constants
from cascader.plan.jobs import Copy, Job
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.command_stream.encode import encode_operations
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.errors import InputError
from npu_model.program import Binding, Control, ControlKind, DmaWait, KernelOperation, Program, Region, RegionRole
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.check import check_program
from npu_model.shapes import round_up

_IMAGE = 3
"""Axes of an image at the end of a shape: rows, columns, channels."""

STOP_MASK = 0xFFFF
"""Parameter of NPU_OP_STOP: raise all of the interrupt's bits, as Vela does."""


class _Lowering(Struct):
    """A schedule on its way to Programs: the address of everything, and the weights staged so far."""

    schedule: Schedule
    accelerator: Accelerator
    parts: dict[str, EthosuPart]
    places: dict[str, BufferPlace]
    rings: Mapping[str, BufferPlace]
    """Addresses of inputs outside the arena that lie in rings of rows."""
    regions: Mapping[str, int]
    """Home regions of the tensors that live outside the arena."""
    copies: dict[int, list[Copy]]
    """Copies by the step before which they are issued."""
    staged: dict[str, int]
    """Address of the newest copy of a part's weights."""
    early_tables: bool

    def program(self, segment: Segment, first: int, last: int, *, more: bool = False) -> Program:
        """The Program of jobs ``first`` to ``last`` (exclusive) of an NPU segment. With ``more``, others follow in the segment."""
        stream = Stream(self.accelerator)
        early = self._early_tables(first, last)
        for step in range(first, last):
            if step == first + 1:
                for table, layer in early:
                    stream.load(table, layer)
            self._run(stream, step)
        if more and stream.transfers:
            stream.issue(DmaWait(0), "")  # The next Program does not know of a transfer that is still under way.
        stream.issue(Control(ControlKind.STOP, STOP_MASK), "")
        operations, words = tuple(stream.operations), encode_operations(stream.operations)[1]
        constants = self.schedule.network.constants
        return Program(
            accelerator=self.schedule.accelerator,
            operations=operations,
            words=words,
            regions=(
                Region(CONSTANTS, RegionRole.CONSTANTS, len(constants), constants),
                Region(ARENA, RegionRole.ARENA, self.schedule.arena_size),
                *_home_regions(self.schedule.network, segment, self.rings),
            ),
            inputs=_bindings(_ringed(segment.inputs, self.rings), self.places, self.regions),
            outputs=_bindings(segment.outputs, self.places, self.regions),
            names=tuple(stream.names),
        )

    def _early_tables(self, first: int, last: int) -> list[tuple[LutLoad, str]]:
        """The first table that is used, with its layer: it can be loaded while the first job runs.

        More tables would hold up the kernel that waits for the first one, because it waits for all transfers. None if kernels without a
        table use the same banks of SHRAM.
        """
        if not self.early_tables or self.accelerator.reserved_lut_banks == 0:
            return []
        parts = (self.parts.get(job.part) for job in self.schedule.jobs[first:last])
        return [(part.lut, part.layer) for part in parts if part is not None and part.lut is not None][:1]

    def _tables_before(self, copy: Copy, step: int, loaded: Sequence[LutLoad]) -> list[tuple[LutLoad, str]]:
        """The tables, with their layers, of jobs from ``step`` on that come before the first one that uses a copy.

        Behind the copy they would come late. A table whose place in SHRAM another one still has stays behind. None if one transfer is
        outstanding at a time, because the copy would wait until each table is there, or if kernels without a table use the same banks.
        """
        if self.accelerator.max_outstanding_dma == 1 or self.accelerator.reserved_lut_banks == 0:
            return []
        between = takewhile(lambda job: job.part in self.parts and job.part not in copy.readers, self.schedule.jobs[step:])
        held, found = list(loaded), list[tuple[LutLoad, str]]()
        for part in (self.parts[job.part] for job in between):
            if part.lut is not None and not any(part.lut.overlaps(other) for other in held):
                found.append((part.lut, part.layer))
                held.append(part.lut)
        return found

    def _run(self, stream: Stream, step: int) -> None:
        """Issue one job with its table and the copies before it.

        The table comes first: it is short, and a transfer after a long one would hold up the job until both are done.
        """
        job = self.schedule.jobs[step]
        if job.part not in self.parts:
            raise InputError(f"Part {job.part!r} runs on the CPU but is inside an NPU segment: give it a segment of its own.")
        part = self.parts[job.part]
        if part.lut is not None:
            stream.load(part.lut, part.layer)
        for copy in self.copies.get(step, ()):
            for table, layer in self._tables_before(copy, step, stream.tables):
                stream.load(table, layer)
            copied = self.parts[copy.part]
            stream.stage(weight_ranges(copied.operation), copy.address, copied.layer)
            self.staged |= dict.fromkeys(copy.readers, copy.address)
        kernel = self._kernel(job, part)
        if part.transfer and (moved := transfers(kernel)):
            stream.move(moved, part.layer)
            return
        stream.run(kernel, part.layer)

    def _kernel(self, job: Job, part: EthosuPart) -> KernelOperation:
        """The kernel of a job, which reads its weights from their newest copy if there is one."""
        start, end = job.rows or (0, part.axis.extent(part.operation.ofm.shape))
        operation = in_block(stripe(part, start, end, self.places), job.part, job.block, self.accelerator)
        require_own_constants(job.part, part, job.rows, operation)
        staged = self.staged.get(job.part)
        return operation if staged is None else with_staged_weights(operation, staged)


def places_of(schedule: Schedule) -> dict[str, BufferPlace]:
    """The address of every tensor of a schedule in its region; whole tensors count as one row."""
    graph = schedule.network.graph
    homes = {home.tensor: BufferPlace(home.address, 1, graph.tensor(home.tensor).size) for home in schedule.network.homes}
    return homes | {
        tensor: BufferPlace(buffer.address, buffer.rows or 1, buffer.row_bytes if buffer.rows else graph.tensor(tensor).size)
        for buffer in schedule.buffers
        for tensor in buffer.tensors
    }


def _home_regions(network: Network, segment: Segment, rings: Mapping[str, BufferPlace]) -> Iterator[Region]:
    """The regions outside the arena that hold tensors of a segment, in ascending order, with the sizes that the tensors need."""
    parts = [network.graph.parts[network.graph.index(name)] for name in segment.parts] if network.homes else []
    own = {tensor for part in parts for tensor in (*part.inputs, *part.outputs)}
    own |= {port.tensor for port in segment.ports}
    ends: dict[int, int] = {}
    for home in network.homes:
        if home.tensor in own:
            size = rings[home.tensor].size if home.tensor in rings else network.graph.tensor(home.tensor).size
            ends[home.region] = max(ends.get(home.region, 0), home.address + size)
    return (Region(region, RegionRole.HOME, round_up(end, ALIGNMENT)) for region, end in sorted(ends.items()))


def _ringed(ports: Sequence[Port], rings: Mapping[str, BufferPlace]) -> tuple[Port, ...]:
    """The ports; the ports of tensors in rings have the rings' rows."""
    return tuple(
        replace(port, shape=(*port.shape[:-_IMAGE], rings[port.tensor].rows, *port.shape[1 - _IMAGE :])) if port.tensor in rings else port
        for port in ports
    )


def _bindings(ports: tuple[Port, ...], places: dict[str, BufferPlace], regions: Mapping[str, int]) -> tuple[Binding, ...]:
    return tuple(
        Binding(p.name, regions.get(p.tensor, ARENA), places[p.tensor].address + p.offset, p.shape, p.dtype, p.quantisation) for p in ports
    )


def lower(
    schedule: Schedule,
    *,
    early_tables: bool = True,
    cuts: Sequence[int] = (),
    rings: Mapping[str, BufferPlace] | None = None,
    checked: bool = True,
) -> CompiledNetwork:
    """The Programs and CPU operators of a schedule, in order, in one arena of ``schedule.arena_size`` bytes.

    A job of some rows becomes a kernel on tile boxes, which wrap where a buffer rolls. Tables are loaded into SHRAM when a kernel needs a
    missing table, as Vela does, or with ``early_tables`` during the first job of each Program. Weights are copied where the schedule says
    so. Kernels wait for transfers of their inputs and, by BLOCKDEP, for each other. Each job in ``cuts`` begins another Program, so the
    host may wait for an event before it starts that Program. Inputs outside the arena may lie in ``rings`` of rows, in which the source
    overwrites old rows. InputError if a block config does not fit or, where that is ``checked``, an operation breaks a rule of the
    accelerator.
    """
    lowered = _lowered(schedule, rings or {}, early_tables=early_tables, cuts=cuts)
    for program in lowered.programs if checked else ():
        check_program(program, find_accelerator(schedule.accelerator))
    return lowered


def _lowered(schedule: Schedule, rings: Mapping[str, BufferPlace], *, early_tables: bool, cuts: Sequence[int]) -> CompiledNetwork:
    network = schedule.network
    lowering = _Lowering(
        schedule=schedule,
        accelerator=find_accelerator(schedule.accelerator),
        parts=network.kernels,
        places={**places_of(schedule), **rings},
        rings=rings,
        regions={home.tensor: home.region for home in network.homes},
        copies={},
        staged={},
        early_tables=early_tables,
    )
    for copy in schedule.copies:
        lowering.copies.setdefault(copy.step, []).append(copy)
    steps: list[Program | CpuOperator] = []
    first = 0
    for segment in network.segments:
        last, own = first, set(segment.parts)
        while last < len(schedule.jobs) and schedule.jobs[last].part in own:
            last += 1
        # A segment without parts is a view: an NPU operator without a command, as Vela's Python core writes it.
        payload = network.graph.parts[network.graph.index(segment.parts[0])].payload if segment.parts else None
        if isinstance(payload, CpuPart):
            read, written = (_bindings(ports, lowering.places, lowering.regions) for ports in (payload.inputs, payload.outputs))
            facts = payload.reason, payload.resource, payload.macs, payload.kernel
            steps.append(CpuOperator(payload.code, read, written, *facts))
        else:
            borders = [first, *(cut for cut in cuts if first < cut < last), last]
            steps += [lowering.program(segment, start, end, more=end < last) for start, end in pairwise(borders)]
        first = last
    ends = (_ringed(network.inputs, rings), network.outputs, network.variables)
    inputs, outputs, variables = (_bindings(ports, lowering.places, lowering.regions) for ports in ends)
    return CompiledNetwork(
        tuple(steps),
        schedule.arena_size,
        inputs,
        outputs,
        variables,
        network.others,
        network.constant_outputs,
        network.resources,
        schedule.provenance.nhwc or (),
    )
