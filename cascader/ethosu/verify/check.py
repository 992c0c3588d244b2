"""Rules of every Schedule, checked naively, independently of all code that makes one."""

from __future__ import annotations

from collections.abc import Mapping

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import CpuPart, EthosuPart, Segment
from cascader.ethosu.verify.byte_checker import check_bytes
from cascader.ethosu.verify.homes import MAX_ARENA, check_homes
from cascader.ethosu.verify.network_rules import check_network
from cascader.ethosu.verify.windows import copied_bytes, copied_content, rows_of
from cascader.ethosu.verify.writers import check_writers
from cascader.graph.cascader_graph import TensorKind
from cascader.plan.jobs import Buffer, Copy, Job
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import LONGEST_STRIDE
from npu_model.program.alignment import ALIGNMENT
from npu_model.shapes import Shape3D


def check_schedule(schedule: Schedule) -> None:
    """InputError for the first fault: accelerator, homes, parts, segments, jobs, copies, buffers, findings of the byte checker."""
    accelerator(schedule.accelerator)
    check_homes(schedule.network, schedule.provenance.memory_system)
    check_network(schedule.network)
    _check_jobs(schedule)
    _check_arena(schedule)
    _check_copies(schedule)
    for buffer in schedule.buffers:
        _check_buffer(schedule, buffer)
    _check_tensors(schedule)
    uses = check_bytes(schedule)
    check_writers(schedule.network, schedule.jobs)
    for buffer in schedule.buffers:
        for tensor in buffer.tensors:
            first, last = uses.get(tensor, (buffer.start, buffer.start))
            if first < buffer.start or last >= buffer.end:
                raise InputError(
                    f"Tensor {tensor!r} is used from step {first} to {last + 1} but its buffer lives from step {buffer.start} "
                    f"to {buffer.end}: let it live longer."
                )


def _check_jobs(schedule: Schedule) -> None:
    """Check that every part runs, NPU parts with a block and existing rows, segment by segment."""
    network = schedule.network
    payloads = {part.name: part.payload for part in network.graph.parts}
    limit = accelerator(schedule.accelerator).max_block
    for job in schedule.jobs:
        payload = payloads[network.graph.parts[network.graph.index(job.part)].name]
        if (job.block is not None) != isinstance(payload, EthosuPart):
            raise InputError(f"Job {job.part!r} has block {job.block}: NPU parts have one and CPU parts have none.")
        if job.block is not None and not _fits(job.block, limit):
            raise InputError(f"Job {job.part!r} has block {job.block}: 1x1x1 to {limit} is possible; choose one of these.")
        if isinstance(payload, EthosuPart):
            _check_steps(job, payload)
        if job.rows is not None:
            total = rows_of(payload.operation.ofm, payload.axis) if isinstance(payload, EthosuPart) else 0
            if not 0 <= job.rows[0] < job.rows[1] <= total:
                raise InputError(f"Job {job.part!r} makes rows {job.rows[0]} to {job.rows[1]}: 0 to {total} can be chosen from.")
    made = {job.part for job in schedule.jobs}
    for part in payloads:
        if part not in made:
            raise InputError(f"Part {part!r} has no job: give it one.")
    _check_segments(schedule)


def _check_steps(job: Job, payload: EthosuPart) -> None:
    """Check that a window with a longer row step than the NPU's is at one position along the axis at a time."""
    kernel = payload.operation.kernel
    along, across = (kernel.stride_y, kernel.stride_x) if payload.axis is Axis.ROWS else (kernel.stride_x, kernel.stride_y)
    rows = job.rows[1] - job.rows[0] if job.rows is not None else rows_of(payload.operation.ofm, payload.axis)
    if across > LONGEST_STRIDE or (along > LONGEST_STRIDE and rows > 1):
        raise InputError(
            f"Job {job.part!r} makes {rows} rows with strides {along} and {across}: the NPU's end with {LONGEST_STRIDE}; "
            f"make one row at a time, if that is the longer one."
        )


def _is_view(segment: Segment) -> bool:
    """Whether the segment's results lie where its operands do: a RESHAPE next to operators on the CPU moves no byte."""
    read = {(port.tensor, port.offset) for port in segment.inputs}
    return all((port.tensor, port.offset) in read for port in segment.outputs)


def _check_segments(schedule: Schedule) -> None:
    """Check that the jobs of every segment are together, and CPU parts alone."""
    cpu = {part.name for part in schedule.network.graph.parts if isinstance(part.payload, CpuPart)}
    position = 0
    for segment in schedule.network.segments:
        first, own = position, set(segment.parts)
        while position < len(schedule.jobs) and schedule.jobs[position].part in own:
            position += 1
        if {job.part for job in schedule.jobs[first:position]} != own or not (own or _is_view(segment)):
            raise InputError(f"The segment of part {next(iter(segment.parts), '')!r} does not run in one piece: keep its jobs together.")
        if position - first > 1 and cpu.intersection(segment.parts):
            raise InputError(f"The segment of part {segment.parts[0]!r} has more than one CPU job: give each CPU part its own segment.")
    if position != len(schedule.jobs):
        raise InputError(f"The segments have {position} jobs but {len(schedule.jobs)} run: put every part into one segment.")


def _check_copies(schedule: Schedule) -> None:
    """Check that copies are in order, of weights, inside the arena, and used in the segment in which they are issued."""
    parts = {part.name: part.payload for part in schedule.network.graph.parts}
    segment_of = {name: index for index, segment in enumerate(schedule.network.segments) for name in segment.parts}
    latest, previous = 0, dict[str, Copy]()
    for copy in schedule.copies:
        payload = parts.get(copy.part)
        size = copied_bytes(payload.operation) if isinstance(payload, EthosuPart) else 0
        if not size:
            raise InputError(f"A copy is of part {copy.part!r}, which has no weights: remove it.")
        if not latest <= copy.step < len(schedule.jobs):
            raise InputError(
                f"The copy of part {copy.part!r} is at step {copy.step}: {latest} to {len(schedule.jobs) - 1} is possible; order them."
            )
        latest = copy.step
        if copy.address < 0 or copy.address % ALIGNMENT or copy.address + size > schedule.arena_size:
            raise InputError(
                f"The copy of part {copy.part!r} takes bytes {copy.address} to {copy.address + size}: multiples of {ALIGNMENT} inside the "
                f"arena of {schedule.arena_size} are needed; move it."
            )
        if segment_of[schedule.jobs[copy.step].part] != segment_of[copy.part]:
            raise InputError(f"The copy of part {copy.part!r} at step {copy.step} is in another segment than the part: issue it there.")
        _check_sharing(schedule, copy, parts, segment_of)
        if not any(job.part in copy.readers for job in schedule.jobs[copy.step :]):
            raise InputError(f"The copy of part {copy.part!r} at step {copy.step} comes after the part's last job: remove it.")
        before = previous.get(copy.part)
        if before is not None and not any(job.part in before.readers for job in schedule.jobs[before.step : copy.step]):
            raise InputError(f"Part {copy.part!r} is copied at step {before.step} and again before any job of it: remove one copy.")
        previous[copy.part] = copy


def _check_sharing(schedule: Schedule, copy: Copy, parts: Mapping[str, object], segment_of: Mapping[str, int]) -> None:
    """Check that the parts of one copy have the same constants, byte for byte, and run in one segment."""
    payload, constants = parts[copy.part], schedule.network.constants
    for name in copy.sharing:
        other = parts.get(name)
        if not isinstance(other, EthosuPart) or not isinstance(payload, EthosuPart):
            raise InputError(f"The copy of part {copy.part!r} is shared by {name!r}, which is not a kernel: leave it out.")
        if copied_content(other.operation, constants) != copied_content(payload.operation, constants):
            raise InputError(f"The copy of part {copy.part!r} is shared by {name!r}, whose constants are others: leave it out.")
        if segment_of[name] != segment_of[copy.part]:
            raise InputError(f"The copy of part {copy.part!r} is shared by {name!r} of another segment: leave it out.")


def _fits(block: Shape3D, limit: Shape3D) -> bool:
    return 1 <= block.height <= limit.height and 1 <= block.width <= limit.width and 1 <= block.depth <= limit.depth


def _check_arena(schedule: Schedule) -> None:
    size = schedule.arena_size
    if not 0 <= size <= MAX_ARENA or size % ALIGNMENT:
        raise InputError(f"The arena has {size} bytes: a multiple of {ALIGNMENT} from 0 to {MAX_ARENA} is needed.")


def _check_buffer(schedule: Schedule, buffer: Buffer) -> None:
    if not buffer.tensors:
        raise InputError(f"The buffer at address {buffer.address} holds 0 tensors: remove it.")
    name = buffer.tensors[0]
    if buffer.address < 0 or buffer.address % ALIGNMENT:
        raise InputError(f"Buffer {name!r} is at address {buffer.address}: a multiple of {ALIGNMENT} from 0 is needed.")
    if buffer.rows is not None and (buffer.rows < 1 or buffer.size % buffer.rows):
        raise InputError(f"Buffer {name!r} has {buffer.size} bytes for {buffer.rows} rows: give it whole rows, one or more.")
    if buffer.size < 1 or buffer.address + buffer.size > schedule.arena_size:
        raise InputError(
            f"Buffer {name!r} takes bytes {buffer.address} to {buffer.address + buffer.size}, "
            f"beyond the arena of {schedule.arena_size}: enlarge the arena or move it."
        )
    if not 0 <= buffer.start < buffer.end <= max(len(schedule.jobs), 1):
        raise InputError(f"Buffer {name!r} lives from step {buffer.start} to {buffer.end}: 0 to {len(schedule.jobs)} exist.")


def _check_tensors(schedule: Schedule) -> None:
    """Check that every tensor of the arena is in one buffer."""
    graph = schedule.network.graph
    outside = {home.tensor for home in schedule.network.homes}
    arena = {tensor.name for tensor in graph.tensors if tensor.kind is not TensorKind.CONSTANT and tensor.name not in outside}
    seen: set[str] = set()
    for buffer in schedule.buffers:
        for name in buffer.tensors:
            if name not in arena:
                raise InputError(f"A buffer holds tensor {name!r}, which is not a tensor of the arena: remove it.")
            if name in seen:
                raise InputError(f"Tensor {name!r} is in two buffers: keep one.")
            seen.add(name)
    for tensor in graph.tensors:
        if tensor.name in arena and tensor.name not in seen:
            raise InputError(f"Tensor {tensor.name!r} has no buffer: give it one.")
