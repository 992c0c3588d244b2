"""The rules of the command stream that a Program must keep on a given accelerator, and their check.

Sources: Arm core driver ``ethosu55_interface.h`` (alignment, register ranges), Vela 5.2.0 ``register_command_stream_util.py``
(``check_*``), Linux ``drivers/accel/ethosu`` (every access inside its region). The encoder checks values that the registers cannot hold at
all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.program.alignment import ALIGNMENT
from npu_model.program.feature_map import BRICK, MOST_ELEMENTS, ByteRange, FeatureMap, Layout
from npu_model.program.operations import (
    ActivationKind,
    ClipRange,
    Control,
    ControlKind,
    DmaOperation,
    DmaWait,
    KernelOperation,
    KernelWait,
    Operation,
    OperationKind,
)
from npu_model.program.program import Binding, Program
from npu_model.shapes import Shape3D

ADDRESS_LIMIT = 1 << 32
"""The U55 drives 32 address bits."""

BANK_BYTES = 1024
"""Size of a SHRAM bank."""

MAX_WAIT = 15
"""Outstanding operations that NPU_OP_DMA_WAIT and NPU_OP_KERNEL_WAIT can name: four bits."""


def _aligned(what: str, value: int, multiple: int) -> Iterator[str]:
    if value % multiple:
        yield f"has {what} {value:#x} but a multiple of {multiple} is needed"


def _inside(program: Program, what: str, part: ByteRange) -> Iterator[str]:
    """The fault of an access: it must lie in a region of the program and in the address space."""
    size = next((region.size for region in program.regions if region.index == part.region), None)
    if size is None:
        yield f"uses region {part.region} for its {what} but the program has {', '.join(str(r.index) for r in program.regions)}"
    elif part.start < 0 or part.end > min(size, ADDRESS_LIMIT) or part.end < part.start:
        yield f"has its {what} at bytes {part.start:#x} to {part.end:#x} but region {part.region} has {size:#x}"


def _feature_map(program: Program, what: str, fm: FeatureMap) -> Iterator[str]:
    if fm.shape.elements > MOST_ELEMENTS:
        # With strides of 0 such a map may lie in a few bytes.
        yield f"has {fm.shape} elements as its {what} but {MOST_ELEMENTS} is the most"
    multiple = ALIGNMENT if fm.layout is Layout.NHCWB16 else fm.dtype.bytes
    for base, *_ in fm.tile_boxes():
        yield from _aligned(f"{what} base", base, multiple)
    yield from _aligned(f"{what} row stride", fm.strides.y, multiple)
    if fm.layout is Layout.NHWC:
        yield from _aligned(f"{what} column stride", fm.strides.x, multiple)
    elif fm.shape.depth > BRICK:
        yield from _aligned(f"{what} brick stride", fm.strides.c, multiple)
    for part in fm.byte_ranges():
        yield from _inside(program, what, part)


def _streams(program: Program, op: KernelOperation, device: Accelerator) -> Iterator[str]:
    """Check weights and scales."""
    if device.weight_streams and len(op.weights) > device.weight_streams:
        yield f"has {len(op.weights)} weight streams but the accelerator has {device.weight_streams}"
    if op.parallel_mode >= device.cores:
        yield f"runs on {op.parallel_mode + 1} cores but the accelerator has {device.cores}"
    for what, ranges in (("weights", op.weights), ("scales", op.scales)):
        for part in ranges:
            yield from _aligned(f"{what} length", part.length, ALIGNMENT)
            if what == "weights":
                yield from _aligned(f"{what} base", part.start, ALIGNMENT)
            yield from _inside(program, what, part)


def ofm_ublock_of(op: KernelOperation, device: Accelerator) -> Shape3D:
    """The OFM microblock of a kernel: the accelerator's, unless the kernel names one; 8 MACs work on each of its elements."""
    height, width = op.modes.ublock
    return Shape3D(height, width, max(1, device.macs // (8 * height * width))) if height else device.ofm_ublock


_LEAST_DEPTH = 8
"""The fewest channels of a microblock."""


def _granules(op: KernelOperation) -> Iterator[str]:
    """Units of block sides without a shared buffer: the microblock's height and width, and 8 channels (``ethos_u85.cpp``)."""
    height, width = op.modes.ublock
    if op.kind is not OperationKind.RESIZE:
        yield from _aligned("OFM block height", op.block.height, height)
        yield from _aligned("OFM block width", op.block.width, width)
    yield from _aligned("OFM block depth", op.block.depth, _LEAST_DEPTH)


def _block(op: KernelOperation, device: Accelerator) -> Iterator[str]:
    """Check that the OFM block is within the hardware's limits, and that SHRAM areas are inside the SHRAM and in order."""
    block, limit, banks = op.block, device.max_block, device.shram_banks
    if block.height > limit.height or block.width > limit.width or block.depth > limit.depth:
        yield f"has OFM block {block} but {limit} is the largest"
    if device.buffers is not None:
        yield from _granules(op)
        return
    ublock = device.ofm_ublock
    for what, extent, multiple in (
        ("height", block.height, ublock.height),
        ("width", block.width, ublock.width),
        ("depth", block.depth, ublock.depth),
    ):
        yield from _aligned(f"OFM block {what}", extent, multiple)
    if block.depth < op.ofm.shape.depth:
        yield from _aligned("OFM block depth (it splits the OFM)", block.depth, device.ofm_split_depth)
    lut_banks = device.lut_banks if op.activation.kind is ActivationKind.LUT else 0
    top = banks - max(device.reserved_lut_banks, lut_banks)
    if not device.reserved_output_banks <= op.shram.ib_end <= banks:
        yield f"ends its IFM buffer at SHRAM bank {op.shram.ib_end} but banks {device.reserved_output_banks} to {banks} exist"
    if op.shram.ab_start > top:
        yield f"starts its accumulators at SHRAM bank {op.shram.ab_start} but {top} is the last bank they may end at"


def _kernel(program: Program, op: KernelOperation, device: Accelerator) -> Iterator[str]:
    yield from _feature_map(program, "IFM", op.ifm)
    if op.ifm2 is not None:
        yield from _feature_map(program, "IFM2", op.ifm2)
    yield from _feature_map(program, "OFM", op.stored)
    yield from _streams(program, op, device)
    yield from _block(op, device)
    if not 0 <= op.blockdep <= device.max_blockdep:
        yield f"has BLOCKDEP {op.blockdep} but 0 to {device.max_blockdep} exist"
    if op.activation.clip is not ClipRange.NONE and op.activation.minimum > op.activation.maximum:
        yield f"clamps to {op.activation.minimum} to {op.activation.maximum} but the first must not be above the second"


def _dma(program: Program, op: DmaOperation, device: Accelerator) -> Iterator[str]:
    if op.rows is None:
        yield from _aligned("DMA source", op.source.start, ALIGNMENT)
        yield from _aligned("DMA destination", op.destination, ALIGNMENT)
        yield from _aligned("DMA length", op.length, ALIGNMENT)
    elif not 0 < op.rows.count * op.rows.planes * max(op.length, 1) <= MOST_ELEMENTS:
        yield f"moves {op.rows.count} x {op.rows.planes} rows of {op.length} bytes but 1 to {MOST_ELEMENTS} bytes can be moved"
    for part in op.reads():
        yield from _inside(program, "DMA source", part)
    for part in op.writes():
        yield from _inside(program, "DMA destination", part)
    shram = device.shram_banks * BANK_BYTES
    if op.to_shram and op.destination + op.length > shram:
        yield f"writes SHRAM bytes {op.destination:#x} to {op.destination + op.length:#x} but there are {shram:#x}"


def operation_violations(program: Program, op: Operation, device: Accelerator) -> Iterator[str]:
    """The rules that one operation breaks, each as a sentence without its subject and its end."""
    if isinstance(op, KernelOperation):
        yield from _kernel(program, op, device)
    elif isinstance(op, DmaOperation):
        yield from _dma(program, op, device)
    elif isinstance(op, (DmaWait, KernelWait)) and not 0 <= op.outstanding <= MAX_WAIT:
        # A wait for more transfers than can be under way is legal: it is met already. Vela 3.0.0 emits it.
        yield f"waits for {op.outstanding} outstanding operations but the command has room for 0 to {MAX_WAIT}"


def _binding(program: Program, binding: Binding) -> Iterator[str]:
    if any(extent < 1 for extent in binding.shape):
        yield f"has shape {binding.shape} but every extent must be at least 1"
    else:
        yield from _inside(program, "array", binding.byte_range)
    if binding.quantisation is not None and not 0 < binding.quantisation.scale < math.inf:
        yield f"has quantisation scale {binding.quantisation.scale} but it must be positive and finite"


def violations(program: Program, device: Accelerator) -> Iterator[str]:
    """Each broken rule as a sentence without its end, in the program's order; see :func:`check_program`."""
    for word, bindings in (("Input", program.inputs), ("Output", program.outputs)):
        for binding in bindings:
            yield from (f"{word} {binding.name!r} {problem}" for problem in _binding(program, binding))
    for index, op in enumerate(program.operations):
        for problem in operation_violations(program, op, device):
            name = op.mnemonic if isinstance(op, KernelOperation) else type(op).__name__
            yield f"Operation {index} ({name}) {problem}"
    last = program.operations[-1] if program.operations else None
    if not (isinstance(last, Control) and last.kind is ControlKind.STOP):
        yield f"The last of {len(program.operations)} operations is not NPU_OP_STOP, which must end the stream"


def check_program(program: Program, device: Accelerator) -> None:
    """InputError, naming the operation, the value and the bound, at the first rule that ``program`` breaks on ``device``.

    Every access lies in its region and below 4 GiB. A feature map has at most ``MOST_ELEMENTS``. Bases, strides and streams are aligned.
    The OFM block and the SHRAM areas fit the accelerator. Waits name numbers that their command can hold. Arrays of inputs and outputs have
    their bytes. NPU_OP_STOP is last.
    """
    for violation in violations(program, device):
        raise InputError(f"{violation}: the program is damaged or for another accelerator than {device.name}.")
