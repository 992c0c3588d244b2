"""What must hold of any Schedule, checked naively and apart from all code that makes one."""

from __future__ import annotations

from itertools import combinations

from cascader.ethosu.in_place import overwritable_operands
from cascader.ethosu.network import ARENA, CONSTANTS, CpuPart, EthosuPart, Network, Port
from cascader.ethosu.schedule import Schedule
from cascader.graph import TensorKind
from cascader.schedule import Buffer, lifetimes
from npu_model.accelerator import accelerator
from npu_model.errors import InputError
from npu_model.program import ByteRange, FeatureMap
from npu_model.shapes import Shape3D

ALIGNMENT = 16
"""Of tensor addresses: NHCWB16 bases are multiples of 16 bytes (core driver)."""

MAX_ARENA = 1 << 32
"""The U55 has 32-bit addresses (core driver)."""


def check_schedule(schedule: Schedule) -> None:
    """InputError with the first thing that is wrong: accelerator, parts, segments, order, buffers, lifetimes, overlaps."""
    accelerator(schedule.accelerator)
    _check_network(schedule.network)
    _check_jobs(schedule)
    _check_arena(schedule)
    for buffer in schedule.buffers:
        _check_buffer(schedule, buffer)
    _check_tensors(schedule)
    for first, second in combinations(schedule.buffers, 2):
        if _live_together(first, second) and first.address < second.address + second.size and second.address < first.address + first.size:
            raise InputError(
                f"Buffers {first.tensors[0]!r} and {second.tensors[0]!r} are live at once and overlap at address "
                f"{max(first.address, second.address)}: give each its own bytes."
            )


def _live_together(first: Buffer, second: Buffer) -> bool:
    return first.start < second.end and second.start < first.end


def _check_network(network: Network) -> None:
    for port in network.inputs + network.outputs:
        _check_port(network, port)
    for segment in network.segments:
        for port in segment.inputs + segment.outputs:
            _check_port(network, port)
    for part in network.graph.parts:
        payload = part.payload
        if isinstance(payload, CpuPart):
            for port in payload.inputs + payload.outputs:
                _check_port(network, port)
        elif isinstance(payload, EthosuPart):
            named = {name for name in (payload.ifm, payload.ifm2) if name is not None}
            if named != set(part.inputs) or part.outputs != (payload.ofm,):
                raise InputError(f"Part {part.name!r} reads or writes other tensors than its kernel: they must be the same.")
            _check_kernel(network, part.name, payload)
        else:
            raise InputError(f"Part {part.name!r} has neither a kernel nor a CPU operator: give it one.")


def _check_port(network: Network, port: Port) -> None:
    tensor = network.graph.tensor(port.tensor)
    if port.offset < 0 or min(port.shape, default=1) < 1 or port.offset + port.size > tensor.size or tensor.kind is TensorKind.CONSTANT:
        raise InputError(
            f"Port {port.name!r} is {port.size} bytes at offset {port.offset} of tensor {tensor.name!r}, "
            f"which has {tensor.size} bytes in the arena: it must lie inside."
        )


def _check_kernel(network: Network, name: str, part: EthosuPart) -> None:
    """Feature maps inside their tensors, constants inside the constants."""
    operation = part.operation
    maps = [(part.ifm, operation.ifm), (part.ofm, operation.ofm)]
    if (part.ifm2 is None) != (operation.ifm2 is None):
        raise InputError(f"Part {name!r} names a second operand that its kernel does not have, or the reverse: they go together.")
    if part.ifm2 is not None and operation.ifm2 is not None:
        maps.append((part.ifm2, operation.ifm2))
    for tensor, feature_map in maps:
        _check_map(network, name, tensor, feature_map)
    constants = [*operation.weights, *operation.scales, *([part.lut.source] if part.lut else [])]
    for span in constants:
        _check_constant(network, name, span)


def _check_map(network: Network, name: str, tensor: str, feature_map: FeatureMap) -> None:
    if min(feature_map.shape.height, feature_map.shape.width, feature_map.shape.depth) < 1:
        raise InputError(f"Part {name!r} has a feature map of {feature_map.shape} elements: every extent must be 1 or more.")
    kind = network.graph.tensor(tensor).kind
    if feature_map.region != (CONSTANTS if kind is TensorKind.CONSTANT else ARENA):
        raise InputError(f"Part {name!r} uses region {feature_map.region} for tensor {tensor!r}, which is {kind.value}: use its own.")
    for span in feature_map.byte_ranges():
        if feature_map.region == CONSTANTS:
            _check_constant(network, name, span)
        elif span.start < 0 or span.end > network.graph.tensor(tensor).size:
            raise InputError(
                f"Part {name!r} uses bytes {span.start} to {span.end} of tensor {tensor!r}, "
                f"which has {network.graph.tensor(tensor).size}: it must stay inside."
            )


def _check_constant(network: Network, name: str, span: ByteRange) -> None:
    if span.region != CONSTANTS or not 0 <= span.start <= span.end <= len(network.constants):
        raise InputError(
            f"Part {name!r} reads bytes {span.start} to {span.end} of region {span.region}, "
            f"but the constants are {len(network.constants)} bytes in region {CONSTANTS}: it must stay inside."
        )


def _check_jobs(schedule: Schedule) -> None:
    """Every part runs once, after what it needs, segment by segment, NPU parts with a block."""
    graph = schedule.network.graph
    graph.check_order(tuple(job.part for job in schedule.jobs))
    payloads = {part.name: part.payload for part in graph.parts}
    limit = accelerator(schedule.accelerator).max_block
    for job in schedule.jobs:
        if (job.block is not None) != isinstance(payloads[job.part], EthosuPart):
            raise InputError(f"Job {job.part!r} has block {job.block}: NPU parts have one and CPU parts have none.")
        if job.block is not None and not _fits(job.block, limit):
            raise InputError(f"Job {job.part!r} has block {job.block}: 1x1x1 to {limit} is possible; choose one of these.")
    position = 0
    for segment in schedule.network.segments:
        own = {job.part for job in schedule.jobs[position : position + len(segment.parts)]}
        if own != set(segment.parts) or not own:
            raise InputError(f"The segment of part {next(iter(segment.parts), '')!r} does not run in one piece: keep its jobs together.")
        if len(own) > 1 and any(isinstance(payloads[name], CpuPart) for name in own):
            raise InputError(f"The segment of part {segment.parts[0]!r} mixes NPU and CPU parts: give each CPU part its own segment.")
        position += len(segment.parts)
    if position != len(schedule.jobs):
        raise InputError(f"The segments have {position} parts but {len(schedule.jobs)} jobs run: put every part into one segment.")


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
    if buffer.size < 1 or buffer.address + buffer.size > schedule.arena_size:
        raise InputError(
            f"Buffer {name!r} takes bytes {buffer.address} to {buffer.address + buffer.size}, "
            f"beyond the arena of {schedule.arena_size}: enlarge the arena or move it."
        )
    if not 0 <= buffer.start < buffer.end <= max(len(schedule.jobs), 1):
        raise InputError(f"Buffer {name!r} lives from step {buffer.start} to {buffer.end}: 0 to {len(schedule.jobs)} exist.")


def _check_tensors(schedule: Schedule) -> None:
    """Every tensor of the arena is in one buffer, which is large enough and lives long enough, and shares it safely."""
    graph = schedule.network.graph
    lives = lifetimes(graph, tuple(job.part for job in schedule.jobs))
    seen: set[str] = set()
    for buffer in schedule.buffers:
        for name in buffer.tensors:
            if name not in lives:
                raise InputError(f"A buffer holds tensor {name!r}, which is not a tensor of the arena: remove it.")
            if name in seen:
                raise InputError(f"Tensor {name!r} is in two buffers: keep one.")
            seen.add(name)
            life = lives[name]
            if graph.tensor(name).size > buffer.size or life.start < buffer.start or life.end > buffer.end:
                raise InputError(
                    f"Tensor {name!r} has {graph.tensor(name).size} bytes from step {life.start} to {life.end}, more than its buffer of "
                    f"{buffer.size} bytes from {buffer.start} to {buffer.end}: enlarge it."
                )
        for earlier, later in zip(buffer.tensors, buffer.tensors[1:], strict=False):
            _check_heir(schedule, earlier, later, lives[earlier].end, lives[later].start)
    missing = [name for name in lives if name not in seen]
    if missing:
        raise InputError(f"Tensor {missing[0]!r} has no buffer: give it one.")


def _check_heir(schedule: Schedule, earlier: str, later: str, end: int, start: int) -> None:
    """``later`` may begin where ``earlier`` lies after its last use, or in it if that use may be overwritten."""
    graph = schedule.network.graph
    in_place = start == end - 1 and earlier in overwritable_operands(graph.parts[graph.index(schedule.jobs[start].part)])
    if start < end and not in_place:
        raise InputError(f"Tensor {later!r} overwrites {earlier!r}, which is needed until step {end}: give it a buffer of its own.")
