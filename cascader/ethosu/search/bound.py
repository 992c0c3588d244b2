"""Lower bounds of cycles: no schedule of a network takes fewer, with any stripes, blocks, copies and arena.

Each unit of the NPU works on one thing at a time. The least work of all kernels on a unit is therefore a bound, and the largest such bound
is the network's. Every needed row is computed at least once, in blocks of any cut. Before any unit begins, the first command and its first
words must have arrived, and after the last unit there is a response.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from msgspec import Struct

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, CONSTANTS, EthosuPart, Network, ethosu_part
from cascader.plan.depth_first import DepthFirstScheduler
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.cost.cycles import mac_pace, output_rate
from npu_model.cost.shram import ifm_depth_step
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.cost.traversal import reduces_depth
from npu_model.memory.system import Memory, MemorySystem
from npu_model.program import KernelOperation, OperationKind, Upscale
from npu_model.shapes import ceil_div
from npu_model.timing import DEFAULT_TIMING, TimingParameters


class Demand(Struct, frozen=True):
    """Least demand on the units: cycles of the MACs and of the output unit, bytes of feature maps that are read and written.

    Each number of bytes has its region; constants are not included.
    """

    macs: Fraction = Fraction(0)
    output: Fraction = Fraction(0)
    read: tuple[tuple[int, int], ...] = ()
    written: tuple[int, int] = (ARENA, 0)


class Pace(Struct, frozen=True):
    """Fewest cycles in which a port's memory moves bytes, its reads and writes together.

    In each period a gate lets the addresses of at most ``capped`` words of ``word_bytes`` pass. A transaction that crosses the cap passes
    whole.
    """

    cycles_per_word: Fraction
    period: int = 0
    capped: int = 1
    word_bytes: int = BEAT_BYTES

    @classmethod
    def of(cls, memory: Memory, word_bytes: int = BEAT_BYTES) -> Pace:
        """The pace of a memory on a port of the given width in bytes."""
        pulse = memory.pulse
        if pulse is None or not pulse.cap_words:
            return cls(memory.cycles_per_word, word_bytes=word_bytes)
        capped = pulse.cap_words - 1 + memory.burst_words(word_bytes)
        return cls(memory.cycles_per_word, pulse.on + pulse.off, capped, word_bytes)

    def gated(self, count: int) -> int:
        """Cycles in which the gate lets a number of bytes pass, reads and writes together; the last period need not be over.

        >>> Pace(Fraction(1), 400, 57).gated(57 * 8 * 10), Pace(Fraction(1)).gated(57 * 8 * 10)
        (3600, 0)
        """
        return max(0, ceil_div(count // self.word_bytes, self.capped) - 1) * self.period

    def moving(self, count: int) -> int:
        """Cycles in which a number of bytes pass in one direction. With a gate, the words of the last period pass after all others.

        >>> Pace(Fraction(1), 400, 57).moving(57 * 8 * 10), Pace(Fraction(2)).moving(57 * 8 * 10)
        (3657, 1140)
        """
        words = count // self.word_bytes
        whole = max(0, ceil_div(words, self.capped) - 1) if self.period else 0
        return max(int(words * self.cycles_per_word), whole * self.period + int((words - whole * self.capped) * self.cycles_per_word))


def plane_ublocks(part: EthosuPart, needed: Fraction, accelerator: Accelerator) -> Fraction:
    """Ublocks in height and width that the share ``needed`` of a part's rows takes at least.

    Along the axis no ublock is half empty. Across it a job has all of the OFM, whose last ublock may be half empty. A ublock of two rows
    may become one of a single row and twice the width.
    """
    op, ublock, ofm = part.operation, accelerator.ofm_ublock, part.operation.ofm.shape
    if part.axis is Axis.ROWS:
        return needed * ofm.height * ceil_div(ofm.width, ublock.width) / ublock.height
    across = Fraction(ofm.height, ublock.height) if op.kernel.height == 1 and ofm.height == 1 else ceil_div(ofm.height, ublock.height)
    return needed * ofm.width * across / ublock.width


def _mac_cycles(part: EthosuPart, needed: Fraction, accelerator: Accelerator, timing: TimingParameters) -> Fraction:
    """Least MAC cycles for a share of a part's rows: the formula of ``mac_cycles`` with the fewest possible ublocks in the plane."""
    op, ublock, ofm = part.operation, accelerator.ofm_ublock, part.operation.ofm.shape
    plane = plane_ublocks(part, needed, accelerator)
    deep = ublock.depth * accelerator.cores
    pace = mac_pace(op, accelerator, op.kernel.elements, op.ifm.shape.depth, timing, is_known=True)
    if op.kind is OperationKind.POOL and not reduces_depth(op):
        # A half-used last ublock spares a part.
        return plane * (pace.plane * ceil_div(ofm.depth, deep) - pace.spared)
    per_channels = op.kind is OperationKind.DEPTHWISE or op.part_kernel
    reads = 1 if per_channels else ceil_div(op.ifm.shape.depth, ifm_depth_step(op.ifm.dtype.bits, part_kernel=False))
    return plane * pace.plane * pace.steps * ceil_div(ofm.depth, deep) * reads


def _read_bytes(op: KernelOperation) -> tuple[tuple[int, int], ...]:
    """Bytes of the operands, by region, that are read at least once if the whole OFM is computed; constants are left out."""
    if op.kind is OperationKind.ELEMENTWISE:
        maps = [one for one in (op.ifm, op.ifm2) if one is not None and one.region != CONSTANTS]
        return tuple((one.region, one.shape.height * one.shape.width * one.shape.depth * one.dtype.bytes) for one in maps)
    kernel, ofm, ifm = op.kernel, op.ofm.shape, op.ifm.shape
    dense = kernel.dilation_y == kernel.dilation_x == 1 and kernel.stride_y <= kernel.height and kernel.stride_x <= kernel.width
    if op.upscale is not Upscale.NONE or not dense or op.ifm.region == CONSTANTS:
        return ()
    rows = min(ifm.height, (ofm.height - 1) * kernel.stride_y + kernel.height - op.padding.top)
    columns = min(ifm.width, (ofm.width - 1) * kernel.stride_x + kernel.width - op.padding.left)
    return ((op.ifm.region, max(rows, 0) * max(columns, 0) * ifm.depth * op.ifm.dtype.bytes),)


def demand(part: EthosuPart, needed: Fraction, accelerator: Accelerator, timing: TimingParameters = DEFAULT_TIMING) -> Demand:
    """The least demand of a part on the units if the share ``needed`` of its rows is made."""
    op, ofm = part.operation, part.operation.ofm.shape
    elements = needed * ofm.height * ofm.width * ofm.depth
    read = _read_bytes(op) if needed == 1 else ()
    written = op.ofm.region, int(elements) * op.ofm.dtype.bytes
    if part.transfer:
        return Demand(read=read, written=written)
    macs, output = _mac_cycles(part, needed, accelerator, timing), output_rate(op, accelerator, timing) * elements
    return Demand(macs, output, read, written)


def edges(system: MemorySystem, network: Network) -> int:
    """Cycles of every Program in which no kernel's unit works: reading the first command and the first words, and the last response.

    A kernel without operands in a memory has none of these words, so they count only if every part reads a feature map.
    """
    payloads = [payload for payload in map(ethosu_part, network.graph.parts) if payload is not None]
    if not payloads:
        return 0
    operations = [payload.operation for payload in payloads]
    ports = [[system.ports[system.port_of(one.region)] for one in (op.ifm, op.ifm2) if one is not None] for op in operations]
    first = min(min(memory.read_latency for memory in memories) for memories in ports)
    return (
        system.ports[system.command_port].read_latency
        + first
        + min(system.ports[system.port_of(op.ofm.region)].write_latency for op in operations)
    )


def constant_bytes(network: Network, parts: Iterable[EthosuPart]) -> int:
    """Bytes of the distinct weight streams and scale records: each is read at home once, by a kernel or by a copy."""
    return sum(map(len, {content for part in parts for content in streams(network, part)}))


def streams(network: Network, part: EthosuPart) -> tuple[bytes, ...]:
    """The distinct weight streams and scale records of a part."""
    spans = (*part.operation.weights, *part.operation.scales)
    return tuple(dict.fromkeys(network.constants[span.start : span.end] for span in spans if span.region == CONSTANTS))


def least_cycles(
    network: Network, scheduler: DepthFirstScheduler, accelerator: str, system: MemorySystem, timing: TimingParameters = DEFAULT_TIMING
) -> int:
    """Cycles that every schedule of a network in this form takes, in any arena; ``scheduler`` belongs to its row graph.

    It is the largest of some sums: MACs, output unit, words of feature maps through the ports of their homes, and words of constants
    through their own port. If a memory has one path for all, or a cap of words in a period, its sums add up.
    """
    device = find_accelerator(accelerator)
    payloads = [ethosu_part(part) for part in network.graph.parts]
    shares = [Fraction(needed, part.rows) for needed, part in zip(scheduler.needed, scheduler.graph.parts, strict=True)]
    kernels = [(part, share) for part, share in zip(payloads, shares, strict=True) if part is not None]
    asked = [demand(part, share, device, timing) for part, share in kernels]
    weights = constant_bytes(network, (part for part, _ in kernels))
    loads = [[0, 0], [0, 0]]
    for one in asked:
        for region, count in one.read:
            loads[system.port_of(region)][0] += count
        region, count = one.written
        loads[system.port_of(region)][1] += count
    loads[system.port_of(CONSTANTS)][0] += weights
    around = edges(system, network)
    bounds = [around + sum(one.macs for one in asked), around + sum(one.output for one in asked)]
    for memory, (read, written) in zip(system.ports, loads, strict=True):
        most = read + written if memory.shared else max(read, written)
        capped = read + written if timing.shared_cap else max(read, written)
        pace = Pace.of(memory, device.port_bytes_per_cycle)
        bounds.append(Fraction(max(int(most // pace.word_bytes * memory.cycles_per_word), pace.gated(capped))))
    return ceil(max(bounds))
