"""The text form of a Program: stable, diffable and readable.

One item a line; an operation is a numbered line and, for a kernel operation, indented lines::

    npu-program 1 ethos-u55-128
    region 0 CONSTANTS 4096 sha256=9f86d0...
    region 1 ARENA 65536
    input 1+0x0 1x49x10x1 int8 quantised=0.58,83 "input"
    #0 DMA words=10 from=0+0x0:1024 to=1+0x4000
    #1 CONV_2D words=60 "conv_1"
      ifm 1+0x0 49x10x1 int8 NHWC zp=83 strides=10,1,1
      ofm 1+0x200 25x5x64 int8 NHCWB16 zp=-128 strides=320,16,80
      window 10x4 stride=2x2 pad=4,1,5,1 part-kernel
      weights 1+0x4000:768
      scales 0+0x400:640
      block 8x6x16 shram=12,16
      output -128..127 DOUBLE
      blockdep 3
    #2 STOP words=1 parameter=65535

``1+0x200`` is an address of a region, ``:768`` a length in bytes; ``HxW`` and ``HxWxD`` are extents; ``pad`` is top, left, bottom, right;
``strides`` are y, x, c in bytes; ``shram`` is IB_END, AB_START and, if used, IFM2_IB_START. ``tiles=h0,h1,w0`` and ``bases=`` (tiles 1 to
3) appear if a feature map is not a single tile. Fields with their default values are left out. Names come last, as JSON strings. The
content of a constant region is represented by its SHA-256.

``storage=CHAINED`` marks a map in the chaining buffer of that number, ``storage=NONE`` a map without storage. A line ``modes`` has the
modes that only some NPUs have, a line ``resize`` the kind and six numbers an axis: numerator, offset, quotient, remainder and the last two
for a block. A scale may be followed by its double rounding and by ``n`` for natural rounding. ``rows=HxP`` of a DMA are rows and planes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from msgspec.structs import astuple

from npu_model.program.feature_map import ByteRange, FeatureMap, Tiles
from npu_model.program.modes import MODE_FLAGS, AccumulatorInput, MapStorage, Reverse, Rows, TableFormat, Transpose, mode_flags
from npu_model.program.operations import (
    SEPARATE_BUFFERS,
    AccumulatorFormat,
    Activation,
    ActivationKind,
    Broadcast,
    ClipRange,
    Control,
    DmaOperation,
    DmaWait,
    Kernel,
    KernelOperation,
    Operation,
    OperationKind,
    Padding,
    Scale,
    ScaledOperand,
    Shram,
    Upscale,
)
from npu_model.program.program import Binding, Program, Region

VERSION = 1
"""Version of the text form, which its first line says."""

_NO_SCALE = Scale(0, 0)
_BROADCAST_AXES = ("height", "width", "depth", "swap")


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _place(region: int, address: int) -> str:
    return f"{region}+{address:#x}"


def _range(part: ByteRange) -> str:
    return f"{_place(part.region, part.start)}:{part.length}"


def _scale(scale: Scale) -> str:
    double = f",{scale.double_round}" if scale.double_round or scale.is_natural else ""
    return f"{scale.scale}>>{scale.shift}{double}{',n' if scale.is_natural else ''}"


def _region(region: Region) -> str:
    digest = f"sha256={hashlib.sha256(region.content).hexdigest()}" if region.content else ""
    return _join("region", str(region.index), region.role.name, str(region.size), digest)


def _binding(word: str, binding: Binding) -> str:
    shape = "x".join(str(extent) for extent in binding.shape) or "scalar"
    quantisation = binding.quantisation
    quantised = "" if quantisation is None else f"quantised={quantisation.scale!r},{quantisation.zero_point}"
    return _join(word, _place(binding.region, binding.address), shape, str(binding.dtype), quantised, json.dumps(binding.name))


def _feature_map(word: str, fm: FeatureMap) -> str:
    tiles, bases = "", ""
    if fm.tiles != Tiles.single(fm.shape, fm.tiles.bases[0]):
        tiles = f"tiles={fm.tiles.height0},{fm.tiles.height1},{fm.tiles.width0}"
        bases = "bases=" + ",".join(f"{base:#x}" for base in fm.tiles.bases[1:])
    zero = f"zp={fm.zero_point}" if fm.zero_point else ""
    strides = f"strides={fm.strides.y},{fm.strides.x},{fm.strides.c}"
    place = _place(fm.region, fm.tiles.bases[0])
    storage = "" if fm.storage is MapStorage.TILES else f"storage={fm.storage.name}"
    return _join(word, place, str(fm.shape), str(fm.dtype), fm.layout.value, zero, strides, tiles, bases, storage)


def _window(op: KernelOperation) -> str:
    """Kernel, padding, upscaling and traversal; "" if all have their defaults."""
    kernel, pad = op.kernel, op.padding
    plain = kernel == Kernel() and pad == Padding() and op.upscale is Upscale.NONE and not (op.part_kernel or op.decompose)
    if plain and op.kind is OperationKind.ELEMENTWISE:
        return ""
    return _join(
        f"window {kernel.height}x{kernel.width}",
        "" if kernel.stride_y == kernel.stride_x == 1 else f"stride={kernel.stride_y}x{kernel.stride_x}",
        "" if kernel.dilation_y == kernel.dilation_x == 1 else f"dilation={kernel.dilation_y}x{kernel.dilation_x}",
        "" if pad == Padding() else f"pad={pad.top},{pad.left},{pad.bottom},{pad.right}",
        "" if op.upscale is Upscale.NONE else f"upscale={op.upscale.name}",
        "part-kernel" if op.part_kernel else "",
        "decompose" if op.decompose else "",
    )


def _second_operand(op: KernelOperation) -> Iterator[str]:
    if op.ifm2 is not None:
        yield _feature_map("ifm2", op.ifm2)
    if op.scalar is not None or op.scalar_zero_point:
        zero = f"zp={op.scalar_zero_point}" if op.scalar_zero_point else ""
        yield _join("scalar", "none" if op.scalar is None else str(op.scalar), zero)
    if op.broadcast != Broadcast():
        yield _join("broadcast", *(axis for axis in _BROADCAST_AXES if getattr(op.broadcast, axis)))


def _scaling(op: KernelOperation) -> str:
    """The fixed-point factors; "" if all have their defaults."""
    parts = (
        "" if op.ofm_scale == Scale(1, 0) else f"ofm={_scale(op.ofm_scale)}",
        "" if op.opa_scale == _NO_SCALE else f"opa={_scale(op.opa_scale)}",
        "" if op.opb_scale == _NO_SCALE else f"opb={_scale(op.opb_scale)}",
        "" if op.scaled_operand is ScaledOperand.BOTH else f"operand={op.scaled_operand.name}",
        "global" if op.global_scale else "",
    )
    return _join("scaling", *parts) if any(parts) else ""


def _block(op: KernelOperation) -> str:
    shram: Shram = op.shram
    banks = f"shram={shram.ib_end},{shram.ab_start}" + (f",{shram.ib2_start}" if shram.ib2_start else "")
    if shram == SEPARATE_BUFFERS:
        banks = ""
    accumulator = "" if op.accumulator is AccumulatorFormat.INT32 else f"acc={op.accumulator.name}"
    return _join(f"block {op.block}", banks, accumulator, f"parallel={op.parallel_mode}" if op.parallel_mode else "")


def _output(op: KernelOperation) -> str:
    act: Activation = op.activation
    return _join(
        f"output {act.minimum}..{act.maximum} {op.rounding.name}",
        "" if act.kind is ActivationKind.NONE else f"function={act.kind.name}",
        f"lut={act.lut}" if act.lut else "",
        "" if act.clip is ClipRange.OFM else f"clip={act.clip.name}",
        "" if act.table is TableFormat.OFM else f"table={act.table.name}",
    )


def _modes(op: KernelOperation) -> Iterator[str]:
    """The lines of modes that only some NPUs have; empty if the operation has none."""
    modes = op.modes
    height, width = modes.ublock
    repeated = [axis for axis, repeats in zip(_BROADCAST_AXES, modes.ifm_broadcast, strict=False) if repeats]
    parts = (
        f"ublock={height}x{width}" if height else "",
        "" if modes.accumulators is AccumulatorInput.RESET else f"accumulators={modes.accumulators.name}",
        "" if modes.transpose is Transpose.HWC else f"transpose={modes.transpose.name}",
        "" if modes.reverse is Reverse.NONE else f"reverse={modes.reverse.name}",
        f"ifm-repeats={','.join(repeated)}" if repeated else "",
        *(word for word, applies in zip(MODE_FLAGS, mode_flags(modes), strict=True) if applies),
    )
    yield _join("modes", *parts) if any(parts) else ""
    if modes.resize is not None:
        axes = (f"{name}={','.join(map(str, astuple(axis)))}" for name, axis in (("y", modes.resize.y), ("x", modes.resize.x)))
        yield _join("resize", modes.resize.kind.name, *axes)


def _details(op: KernelOperation) -> Iterator[str]:
    """The indented lines of a kernel operation; empty ones are left out by the caller."""
    yield _feature_map("ifm", op.ifm)
    yield from _second_operand(op)
    yield _feature_map("ofm", op.ofm)
    yield _window(op)
    for word, ranges in (("weights", op.weights), ("scales", op.scales)):
        yield _join(word, *(_range(part) for part in ranges)) if ranges else ""
    yield _scaling(op)
    yield _block(op)
    yield _output(op)
    yield from _modes(op)
    yield f"blockdep {op.blockdep}" if op.blockdep else ""


def _rows(rows: Rows | None) -> str:
    if rows is None:
        return ""
    strides = f"source={rows.source[0]},{rows.source[1]} destination={rows.destination[0]},{rows.destination[1]}"
    one = rows.indices
    if one is None:
        return f"rows={rows.count}x{rows.planes} {strides}"
    picks = "source" if one.picks_source else "destination"
    return f"rows={rows.count}x{rows.planes} {strides} indices={_place(one.region, one.address)} picks={picks},{one.largest},{one.skip}"


def _headline(op: Operation) -> tuple[str, str]:
    """The operation's word, and the text after the word count."""
    if isinstance(op, KernelOperation):
        return op.mnemonic, ""
    if isinstance(op, DmaOperation):
        region = str(op.destination_region or "") if op.to_shram else str(op.destination_region)
        return "DMA", _join(f"from={_range(op.source)} to={'shram' if op.to_shram else ''}{region}+{op.destination:#x}", _rows(op.rows))
    if isinstance(op, Control):
        return op.kind.name, f"parameter={op.parameter}"
    return "DMA_WAIT" if isinstance(op, DmaWait) else "KERNEL_WAIT", f"outstanding={op.outstanding}"


def to_text(program: Program) -> str:
    """The text form of ``program``. Equal Programs with equal names have equal texts, and others have other texts.

    The operations must be ones that ``encode_operations`` accepts.
    """
    lines = [f"npu-program {VERSION} {program.accelerator}"]
    lines += [_region(region) for region in program.regions]
    lines += [_binding("input", binding) for binding in program.inputs]
    lines += [_binding("output", binding) for binding in program.outputs]
    for index, (op, words) in enumerate(zip(program.operations, program.words, strict=True)):
        word, rest = _headline(op)
        name = json.dumps(program.names[index]) if program.names else ""
        lines.append(_join(f"#{index}", word, f"words={words}", rest, name))
        if isinstance(op, KernelOperation):
            lines += [f"  {line}" for line in _details(op) if line]
    return "\n".join(lines) + "\n"
