"""A 3 x 3 convolution of an image that does not fit on the chip, as Programs: tiles and bands, one by one, overlapped, in a ring.

    python -m examples.tiled_convolution --side 2048 --plot timeline.svg

The image lies in an external memory behind AXI1; the NPU convolves what the DMA has copied into SRAM, behind AXI0, and the
DMA copies the result back. A DMA transfer of the Ethos-U55 is one run of bytes, so that a tile costs a transfer per row,
while a band of whole rows costs one. docs/stripe-plans.md has the figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from tabulate import tabulate

from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.blockdep import blockdep
from cascader.ethosu.cost.memory_path import Sources
from examples import ended
from examples.tiled_timeline import Spans, picture
from npu_model.accelerator import DEFAULT_ACCELERATOR, Accelerator, accelerator
from npu_model.command_stream.encode import encode_operations
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.memory.system import AXI1, MemorySystem
from npu_model.memory.timing_adapter import profile
from npu_model.program import (
    BRICK,
    Activation,
    ActivationKind,
    Binding,
    ByteRange,
    Control,
    ControlKind,
    DataType,
    DmaOperation,
    DmaWait,
    FeatureMap,
    Kernel,
    KernelOperation,
    KernelWait,
    Layout,
    Operation,
    OperationKind,
    Program,
    Region,
    RegionRole,
    Rounding,
    Shram,
    Strides,
    Tiles,
)
from npu_model.program.check import check_program
from npu_model.shapes import Shape3D
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.weights import ChannelScale, encode_scales, encode_weights
from npu_testbed.ground.files import require_picture, write_file
from sim import Listener, footprint, quick_replay, replay

CONSTANTS, SRAM, IMAGE, RESULT = 0, 1, 3, 4
"""Regions. Vela uses 0 and 1 so; 3 and later are free for inputs and outputs."""

CHANNELS = 16
"""Channels of the image and of the result: one brick, so that a pixel is 16 bytes and any row of a tile may be a DMA transfer."""

TAPS = 3
HALO = TAPS - 1
INT8 = DataType(8, signed=True)
SHIFT = 10
"""Results are sums divided by 2 ** 10, which keeps most sums of random data within 8 bits."""
STOP_MASK = 0xFFFF


def weights() -> npt.NDArray[np.int16]:
    """Seeded random weights as (output channels, height, width, input channels)."""
    return np.random.default_rng(2048).integers(-127, 128, (CHANNELS, TAPS, TAPS, CHANNELS)).astype(np.int16)


class Job(Struct, frozen=True):
    """A convolution of some rows and columns, the transfers that it needs before it, and those of its result."""

    loads: tuple[DmaOperation, ...]
    kernel: KernelOperation
    stores: tuple[DmaOperation, ...]


class Chip(Struct, frozen=True):
    """The accelerator, and the constants: at home in external memory, copied to the first bytes of SRAM before all else.

    The NPU reads all weights anew for each block, which an external memory of one byte a cycle would not bear.
    """

    device: Accelerator
    constants: bytes
    weights: ByteRange
    scales: ByteRange

    @property
    def start(self) -> int:
        """First byte of SRAM behind the constants."""
        return len(self.constants)

    @property
    def staging(self) -> DmaOperation:
        """The copy of the constants."""
        return DmaOperation(ByteRange(CONSTANTS, 0, len(self.constants)), 0, SRAM)

    @classmethod
    def of(cls, name: str) -> Chip:
        """The accelerator of this name; weights in the order that suits 16 channels best, kernel first."""
        device = accelerator(name)
        stream = encode_weights(weights(), WeightFormat(CHANNELS, part_kernel=True), device)
        scales = encode_scales([ChannelScale(0, 1 << 30, 30 + SHIFT)] * CHANNELS)
        ends = len(stream), len(stream) + len(scales)
        return cls(device, stream + scales, ByteRange(SRAM, 0, ends[0]), ByteRange(SRAM, *ends))

    def kernel(self, ifm: FeatureMap, ofm: FeatureMap) -> KernelOperation:
        """The convolution from ``ifm`` to ``ofm``, with the block that is estimated to be the fastest."""
        clamp = Activation(ActivationKind.NONE, INT8.minimum, INT8.maximum)
        operation = KernelOperation(
            kind=OperationKind.CONV_2D,
            ifm=ifm,
            ofm=ofm,
            block=Shape3D(2, 2, CHANNELS),
            shram=Shram(0, 0),
            activation=clamp,
            kernel=Kernel(TAPS, TAPS),
            weights=(self.weights,),
            scales=(self.scales,),
            part_kernel=True,
            rounding=Rounding.NATURAL,
        )
        block, _ = choose_block(operation, self.device, Sources.staged(memory_system()))
        shram = shram_partition(BlockQuery.of(operation), block, self.device)
        if shram is None:
            raise InputError(f"Block {block} does not fit into the SHRAM of {self.device.name}: choose another accelerator.")
        return replace(operation, block=block, shram=shram)


def row_bytes(pixels: int) -> int:
    """Bytes of a row of pixels."""
    return pixels * CHANNELS


def feature_map(base: int, height: int, width: int) -> FeatureMap:
    """Rows in SRAM, in one piece."""
    shape = Shape3D(height, width, CHANNELS)
    return FeatureMap(SRAM, shape, INT8, Layout.NHCWB16, Tiles.single(shape, base), Strides(row_bytes(width), BRICK, row_bytes(width)))


def ring_map(base: int, rows: int, width: int, first: int, height: int) -> FeatureMap:
    """Rows ``first`` on in a ring of ``rows`` rows, in which row y lies at y modulo ``rows``: the second tile begins again."""
    flat = feature_map(base + first % rows * row_bytes(width), height, width)
    before = rows - first % rows
    if before >= height:
        return flat
    return replace(flat, tiles=Tiles(before, before, width, (flat.tiles.bases[0], 0, base, 0)))


def tiles(chip: Chip, side: int, count: int, buffers: int) -> Iterator[Job]:
    """``count`` x ``count`` square tiles, each loaded with its halo, in ``buffers`` buffers in turn for input and for output."""
    own = side // count
    padded = own + HALO
    sizes = padded * row_bytes(padded), own * row_bytes(own)
    for number in range(count * count):
        top, left = number // count * own, number % count * own
        source = chip.start + number % buffers * sizes[0]
        target = chip.start + buffers * sizes[0] + number % buffers * sizes[1]
        loads = (
            _load((top + y) * row_bytes(side + HALO) + row_bytes(left), row_bytes(padded), source + y * row_bytes(padded))
            for y in range(padded)
        )
        stores = (_store(target + y * row_bytes(own), row_bytes(own), (top + y) * row_bytes(side) + row_bytes(left)) for y in range(own))
        yield Job(tuple(loads), chip.kernel(feature_map(source, padded, padded), feature_map(target, own, own)), tuple(stores))


def bands(chip: Chip, side: int, rows: int) -> Iterator[Job]:
    """Bands of ``rows`` whole rows, each loaded with its halo, in two buffers in turn."""
    width = side + HALO
    sizes = (rows + HALO) * row_bytes(width), rows * row_bytes(side)
    for number, top in enumerate(range(0, side, rows)):
        source, target = chip.start + number % 2 * sizes[0], chip.start + 2 * sizes[0] + number % 2 * sizes[1]
        kernel = chip.kernel(feature_map(source, rows + HALO, width), feature_map(target, rows, side))
        yield Job((_load(top * row_bytes(width), sizes[0], source),), kernel, (_store(target, sizes[1], top * row_bytes(side)),))


def ring(chip: Chip, side: int, rows: int) -> Iterator[Job]:
    """The same bands in a ring of input rows: a band keeps the last rows of the one before and loads only what is new."""
    width, room = side + HALO, 2 * rows + HALO
    results = chip.start + room * row_bytes(width)
    for number, top in enumerate(range(0, side, rows)):
        target = results + number % 2 * rows * row_bytes(side)
        loads = []
        first, last = (top + HALO if top else 0), top + rows + HALO
        while first < last:
            piece = min(last - first, room - first % room)
            loads.append(_load(first * row_bytes(width), piece * row_bytes(width), chip.start + first % room * row_bytes(width)))
            first += piece
        kernel = chip.kernel(ring_map(chip.start, room, width, top, rows + HALO), feature_map(target, rows, side))
        yield Job(tuple(loads), kernel, (_store(target, rows * row_bytes(side), top * row_bytes(side)),))


def _load(start: int, length: int, address: int) -> DmaOperation:
    return DmaOperation(ByteRange(IMAGE, start, start + length), address, SRAM)


def _store(start: int, length: int, address: int) -> DmaOperation:
    return DmaOperation(ByteRange(SRAM, start, start + length), address, RESULT)


Named = tuple[str, Operation]


def serial(jobs: Sequence[Job]) -> Iterator[Named]:
    """Load, convolve, store; nothing at the same time."""
    for number, job in enumerate(jobs):
        yield from ((f"load {number}", load) for load in job.loads)
        yield "", DmaWait(0)
        yield f"convolve {number}", job.kernel
        yield "", KernelWait(0)
        yield from ((f"store {number}", store) for store in job.stores)


def overlapped(jobs: Sequence[Job]) -> Iterator[Named]:
    """Prologue: load the first. Body: convolve one, beside it load the next and store the one before. Epilogue: store the last.

    A job's loads and stores wait for the kernel before the running one, whose buffers they use.
    """
    yield from (("load 0", load) for load in jobs[0].loads)
    for number, job in enumerate(jobs):
        yield "", DmaWait(0)
        yield f"convolve {number}", job.kernel
        if number:
            yield "", KernelWait(1)
        if number + 1 < len(jobs):
            yield from ((f"load {number + 1}", load) for load in jobs[number + 1].loads)
        if number:
            yield from ((f"store {number - 1}", store) for store in jobs[number - 1].stores)
    yield "", KernelWait(0)
    yield from ((f"store {len(jobs) - 1}", store) for store in jobs[-1].stores)


def program(chip: Chip, side: int, named: Iterator[Named]) -> Program:
    """The operations as a Program, with BLOCKDEP for kernels that run one after the other; checked against the device's rules."""
    names: list[str] = [""]
    operations: list[Operation] = [chip.staging]
    kernels: list[KernelOperation] = []
    for name, given in named:
        operation = given
        if isinstance(operation, KernelOperation):
            operation = replace(operation, blockdep=blockdep(kernels[-1:], operation, chip.device))
            kernels.append(operation)
        names.append(name)
        operations.append(operation)
    names.append("")
    operations.append(Control(ControlKind.STOP, STOP_MASK))
    room = max(r.end for kernel in kernels for r in kernel.reads() + kernel.writes() if r.region == SRAM)
    regions = (
        Region(CONSTANTS, RegionRole.CONSTANTS, len(chip.constants), chip.constants),
        Region(SRAM, RegionRole.ARENA, room),
        Region(IMAGE, RegionRole.UNUSED, binding("image", IMAGE, side + HALO).size),
        Region(RESULT, RegionRole.UNUSED, binding("result", RESULT, side).size),
    )
    made = Program(chip.device.name, tuple(operations), encode_operations(tuple(operations))[1], regions, names=tuple(names))
    check_program(made, chip.device)
    return made


def binding(name: str, region: int, side: int) -> Binding:
    """The image or the result in its region."""
    return Binding(name, region, 0, (1, side, side, CHANNELS), INT8)


class Way(Struct, frozen=True):
    """One way of doing it: what it is called, and the Program for a chip, an image's side, tiles per side and rows of a band."""

    title: str
    build: Callable[[Chip, int, int, int], Program]


WAYS = (
    Way("tiles, one after the other", lambda chip, side, count, _: program(chip, side, serial(tuple(tiles(chip, side, count, 1))))),
    Way("tiles, overlapped", lambda chip, side, count, _: program(chip, side, overlapped(tuple(tiles(chip, side, count, 2))))),
    Way("bands, overlapped", lambda chip, side, _, rows: program(chip, side, overlapped(tuple(bands(chip, side, rows))))),
    Way("bands in a ring, overlapped", lambda chip, side, _, rows: program(chip, side, overlapped(tuple(ring(chip, side, rows))))),
)


def memory_system() -> MemorySystem:
    """The default profile, with the image and the result in the external memory, which takes the DMA's writes too."""
    system = profile("u55_high_end").memory_system()
    ports = tuple(AXI1 if region in (CONSTANTS, IMAGE, RESULT) else port for region, port in enumerate(system.region_ports))
    return replace(system, name=f"{system.name}, image behind AXI1", region_ports=ports)


def check_sizes(side: int, count: int, rows: int) -> None:
    """InputError unless the sides are whole tiles and bands."""
    for value, what in ((count, "--tiles"), (rows, "--rows")):
        if value < 1 or side < 1 or side % value:
            raise InputError(f"--side {side} is not a multiple of {what} {value}: choose a divisor, of at least 1.")


def external_bytes(made: Program) -> tuple[int, int]:
    """Bytes that the DMA loads from the image and stores to the result."""
    transfers = made.transfers
    return sum(t.length for t in transfers if t.source.region == IMAGE), sum(t.length for t in transfers if t.destination_region == RESULT)


def row(title: str, made: Program, cycles: int) -> list[object]:
    """A line of the table."""
    loaded, stored = external_bytes(made)
    return [
        title,
        cycles,
        footprint((made,), (), ()).peak,
        loaded,
        stored,
        len(made.transfers),
        len(made.kernels),
        f"{100 * sum(k.macs for k in made.kernels) / cycles / accelerator(made.accelerator).macs:.1f}",
    ]


HEADERS = ("way", "cycles", "SRAM bytes", "loaded bytes", "stored bytes", "transfers", "kernels", "MAC %")


def run(side: int, count: int, rows: int, name: str, ways: Sequence[Way], *, timed: bool) -> tuple[list[list[object]], list[Spans]]:
    """The table of each way, and if they are ``timed`` the timelines, which take the engine's events; progress goes to standard error.

    Cycles are the same without them, by the fast recurrence.
    """
    check_sizes(side, count, rows)
    chip, system = Chip.of(name), memory_system()
    table, timelines = [], []
    for way in ways:
        started = time.perf_counter()
        made = way.build(chip, side, count, rows)
        if timed:
            spans = Spans(way.title)
            listeners: tuple[Listener, ...] = (spans,)
            cycles = replay(made, system, listeners).cycles
            timelines.append(spans)
        else:
            cycles = quick_replay(made, system).cycles
        table.append(row(way.title, made, cycles))
        sys.stderr.write(f"{way.title}: replayed in {time.perf_counter() - started:.0f} s\n")
    return table, timelines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and draw the timelines if asked; InputError on bad input."""
    parser = argparse.ArgumentParser(description="A 3 x 3 convolution of an image that does not fit on the chip, four ways.")
    parser.add_argument("--side", type=int, default=2048, help="rows and columns of the result (default 2048)")
    parser.add_argument("--tiles", type=int, default=2, help="tiles along each side (default 2: four tiles)")
    parser.add_argument("--rows", type=int, default=8, help="rows of a band (default 8)")
    ways = range(1, len(WAYS) + 1)
    names = "; ".join(f"{number} {way.title}" for number, way in zip(ways, WAYS, strict=True))
    parser.add_argument("--ways", type=int, nargs="+", choices=ways, default=list(ways), help=f"which ({names}; default all)")
    parser.add_argument("--accelerator-config", default=DEFAULT_ACCELERATOR, help=f"default {DEFAULT_ACCELERATOR}")
    parser.add_argument("--plot", type=Path, help="draw the timelines as SVG")
    options = parser.parse_args(arguments)
    if options.plot:
        require_picture(options.plot)
    chosen = [WAYS[number - 1] for number in options.ways]
    timed = options.plot is not None
    table, timelines = run(options.side, options.tiles, options.rows, options.accelerator_config, chosen, timed=timed)
    print(tabulate(table, HEADERS, intfmt=",", colalign=("left", *("right",) * (len(HEADERS) - 1))))
    if options.plot:
        write_file(options.plot, picture(timelines).encode("utf-8"))


if __name__ == "__main__":
    raise SystemExit(ended(main))
