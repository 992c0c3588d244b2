"""Parser of the text form of a Program; the form itself is described in ``text``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from npu_model.errors import InputError
from npu_model.program.feature_map import ByteRange, DataType, FeatureMap, Layout, Strides, Tiles
from npu_model.program.modes import (
    MODE_FLAGS,
    AccumulatorInput,
    IndexList,
    MapStorage,
    Modes,
    Resize,
    ResizeAxis,
    ResizeKind,
    Reverse,
    Rows,
    TableFormat,
    Transpose,
)
from npu_model.program.operations import (
    SEPARATE_BUFFERS,
    AccumulatorFormat,
    Activation,
    ActivationKind,
    Broadcast,
    ClipRange,
    Control,
    ControlKind,
    DmaOperation,
    DmaWait,
    ElementwiseKind,
    Kernel,
    KernelOperation,
    KernelWait,
    Operation,
    OperationKind,
    Padding,
    PoolKind,
    Rounding,
    Scale,
    ScaledOperand,
    Shram,
    Upscale,
)
from npu_model.program.program import Binding, Program, Quantisation, Region, RegionRole
from npu_model.program.text_line import Line, parse_line
from npu_model.shapes import Shape3D

_DATA_TYPES = {
    str(dtype): dtype
    for bits in (8, 16, 32, 64)
    for dtype in (DataType(bits, signed=True), DataType(bits, signed=False), DataType(bits, signed=True, floating=True))
}
_AXES = "height", "width", "depth"
_FUNCTIONS: dict[OperationKind, type[PoolKind | ElementwiseKind]] = {
    OperationKind.POOL: PoolKind,
    OperationKind.ELEMENTWISE: ElementwiseKind,
}


def _number(text: str) -> int:
    return int(text, 0)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part, 0) for part in text.split(","))


def _extents(text: str) -> tuple[int, ...]:
    return () if text == "scalar" else tuple(int(part) for part in text.split("x"))


def _pair(text: str) -> tuple[int, int]:
    first, second = _extents(text)
    return first, second


def _shape(text: str) -> Shape3D:
    height, width, depth = _extents(text)
    return Shape3D(height, width, depth)


def _address(text: str) -> tuple[int, int]:
    region, plus, address = text.partition("+")
    if not plus:
        raise ValueError(text)
    return int(region), int(address, 16)


def _byte_range(text: str) -> ByteRange:
    place, _, length = text.partition(":")
    region, start = _address(place)
    return ByteRange(region, start, start + int(length))


def _scale(text: str) -> Scale:
    scale, rest = text.split(">>")
    shift, *others = rest.split(",")
    if others[1:] not in ([], ["n"]):
        raise ValueError(text)
    return Scale(int(scale), int(shift), int(others[0]) if others else 0, len(others) > 1)


def _clamp(text: str) -> tuple[int, int]:
    low, high = text.split("..")
    return int(low), int(high)


def _data_type(text: str) -> DataType:
    return _DATA_TYPES[text]


def _layout(text: str) -> Layout:
    return Layout(text)


def _strides(text: str) -> Strides:
    y, x, c = _numbers(text)
    return Strides(y, x, c)


def _padding(text: str) -> Padding:
    top, left, bottom, right = _numbers(text)
    return Padding(top, left, bottom, right)


def _three_numbers(text: str) -> tuple[int, int, int]:
    first, second, third = _numbers(text)
    return first, second, third


def _banks(text: str) -> Shram:
    return Shram(*_numbers(text))


def _quantisation(text: str) -> Quantisation:
    scale, zero_point = text.split(",")
    return Quantisation(float(scale), int(zero_point))


def _digest(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError(text)
    return text


def _word(text: str) -> str:
    return text


def _feature_map(line: Line) -> FeatureMap:
    region, base = line.take(_address)
    shape = line.take(_shape)
    dtype, layout = line.take(_data_type), line.take(_layout)
    tiles = Tiles.single(shape, base)
    if "tiles" in line.options:
        height0, height1, width0 = line.needed("tiles", _three_numbers)
        tiles = Tiles(height0, height1, width0, (base, *line.needed("bases", _three_numbers)))
    strides, zero, storage = line.needed("strides", _strides), line.option("zp", _number, 0), line.choice("storage", MapStorage.TILES)
    return FeatureMap(region, shape, dtype, layout, tiles, strides, zero, storage)


def _window(line: Line) -> dict[str, Any]:
    height, width = line.take(_pair)
    stride, dilation = line.option("stride", _pair, (1, 1)), line.option("dilation", _pair, (1, 1))
    return {
        "kernel": Kernel(height, width, *stride, *dilation),
        "padding": line.option("pad", _padding, Padding()),
        "upscale": line.choice("upscale", Upscale.NONE),
        "part_kernel": line.flag("part-kernel"),
        "decompose": line.flag("decompose"),
    }


def _scalar(line: Line) -> dict[str, Any]:
    scalar = None if line.flag("none") else line.take(_number)
    return {"scalar": scalar, "scalar_zero_point": line.option("zp", _number, 0)}


def _broadcast(line: Line) -> dict[str, Any]:
    return {"broadcast": Broadcast(line.flag("height"), line.flag("width"), line.flag("depth"), line.flag("swap"))}


def _ranges(line: Line) -> dict[str, Any]:
    ranges, line.values = tuple(line.read(_byte_range, value) for value in line.values), []
    return {line.word: ranges}


def _scaling(line: Line) -> dict[str, Any]:
    return {
        "ofm_scale": line.option("ofm", _scale, Scale(1, 0)),
        "opa_scale": line.option("opa", _scale, Scale(0, 0)),
        "opb_scale": line.option("opb", _scale, Scale(0, 0)),
        "scaled_operand": line.choice("operand", ScaledOperand.BOTH),
        "global_scale": line.flag("global"),
    }


def _block(line: Line) -> dict[str, Any]:
    return {
        "block": line.take(_shape),
        "shram": line.option("shram", _banks, SEPARATE_BUFFERS),
        "accumulator": line.choice("acc", AccumulatorFormat.INT32),
        "parallel_mode": line.option("parallel", _number, 0),
    }


def _output(line: Line) -> dict[str, Any]:
    minimum, maximum = line.take(_clamp)
    rounding = line.member(Rounding, line.take(_word))
    kind, lut = line.choice("function", ActivationKind.NONE), line.option("lut", _number, 0)
    clip, table = line.choice("clip", ClipRange.OFM), line.choice("table", TableFormat.OFM)
    return {"activation": Activation(kind, minimum, maximum, lut, clip, table), "rounding": rounding}


def _axes(text: str) -> tuple[bool, bool, bool]:
    names = text.split(",")
    if not {*names} <= {*_AXES}:
        raise ValueError(text)
    return "height" in names, "width" in names, "depth" in names


def _modes(line: Line) -> dict[str, Any]:
    no_output, fast, sparse, from_ifm2 = (line.flag(word) for word in MODE_FLAGS)
    return {
        "ublock": line.option("ublock", _pair, (0, 0)),
        "accumulators": line.choice("accumulators", AccumulatorInput.RESET),
        "has_output": not no_output,
        "transpose": line.choice("transpose", Transpose.HWC),
        "reverse": line.choice("reverse", Reverse.NONE),
        "ifm_broadcast": line.option("ifm-repeats", _axes, (False, False, False)),
        "fast_weights": fast,
        "sparse_weights": sparse,
        "weights_from_ifm2": from_ifm2,
    }


def _resize_axis(text: str) -> ResizeAxis:
    numerator, offset, quotient, remainder, block_quotient, block_remainder = _numbers(text)
    return ResizeAxis(numerator, offset, quotient, remainder, block_quotient, block_remainder)


def _resize(line: Line) -> dict[str, Any]:
    kind = line.member(ResizeKind, line.take(_word))
    return {"resize": Resize(kind, line.needed("y", _resize_axis), line.needed("x", _resize_axis))}


_DETAILS: dict[str, Callable[[Line], dict[str, Any]]] = {
    "ifm": lambda line: {"ifm": _feature_map(line)},
    "ifm2": lambda line: {"ifm2": _feature_map(line)},
    "ofm": lambda line: {"ofm": _feature_map(line)},
    "scalar": _scalar,
    "broadcast": _broadcast,
    "window": _window,
    "weights": _ranges,
    "scales": _ranges,
    "scaling": _scaling,
    "block": _block,
    "output": _output,
    "modes": _modes,
    "resize": _resize,
    "blockdep": lambda line: {"blockdep": line.take(_number)},
}
_NEEDED = ("ifm", "ofm", "block", "output")


def _kernel_operation(head: Line, mnemonic: str, details: list[Line]) -> KernelOperation:
    kind_name, dot, function_name = mnemonic.partition(".")
    kind = head.member(OperationKind, kind_name)
    function = head.member(_FUNCTIONS[kind], function_name) if kind in _FUNCTIONS else None
    if dot and function is None:
        raise head.fail(f"has {mnemonic!r} but {kind_name} has no functions")
    fields: dict[str, Any] = {
        "kind": kind,
        "pool": function if isinstance(function, PoolKind) else None,
        "elementwise": function if isinstance(function, ElementwiseKind) else None,
    }
    seen = set()
    for line in details:
        if line.word not in _DETAILS or line.word in seen:
            raise line.fail(f"starts with {line.word!r} where a new one of {', '.join(_DETAILS)} is needed")
        seen.add(line.word)
        fields |= _DETAILS[line.word](line)
        line.close()
    for word in _NEEDED:
        if word not in seen:
            raise head.fail(f"starts an operation without {word}")
    modes = {name: fields.pop(name) for name in Modes.__struct_fields__ if name in fields}
    return KernelOperation(**fields, modes=Modes(**modes))


def _rows(line: Line) -> Rows:
    """The rows of a strided transfer, and the row numbers of an indexed one."""
    count, planes = line.needed("rows", _pair)
    source, destination = line.needed("source", _two), line.needed("destination", _two)
    indices = None
    if "indices" in line.options:
        region, address = line.needed("indices", _address)
        picks, largest, skip = line.needed("picks", _picks)
        indices = IndexList(region, address, largest, skip, picks)
    return Rows(count, planes, source, destination, indices)


def _two(text: str) -> tuple[int, int]:
    first, second = _numbers(text)
    return first, second


def _picks(text: str) -> tuple[bool, int, int]:
    side, largest, skip = text.split(",")
    return ("destination", "source").index(side) == 1, int(largest), int(skip)


def _dma(line: Line) -> DmaOperation:
    source, target = line.needed("from", _byte_range), line.needed("to", _word)
    to_shram = target.startswith("shram")
    place = target.removeprefix("shram")
    region, address = line.read(_address, f"0{place}" if place.startswith("+") else place)
    return DmaOperation(source, address, region, to_shram, _rows(line) if "rows" in line.options else None)


def _operation(head: Line, mnemonic: str, details: list[Line]) -> Operation:
    if mnemonic.partition(".")[0] in OperationKind.__members__:
        return _kernel_operation(head, mnemonic, details)
    if details:
        raise details[0].fail(f"is indented, but {mnemonic} has no details")
    if mnemonic == "DMA":
        return _dma(head)
    if mnemonic in ("DMA_WAIT", "KERNEL_WAIT"):
        outstanding = head.needed("outstanding", _number)
        return DmaWait(outstanding) if mnemonic == "DMA_WAIT" else KernelWait(outstanding)
    return Control(head.member(ControlKind, mnemonic), head.needed("parameter", _number))


class _Reader:
    """The parts of the text that have been read so far."""

    def __init__(self, constants: bytes) -> None:
        self.constants = constants
        self.constants_used = not constants
        self.regions: list[Region] = []
        self.bindings: dict[str, list[Binding]] = {"input": [], "output": []}
        self.operations: list[Operation] = []
        self.words: list[int] = []
        self.names: list[str | None] = []

    def region(self, line: Line) -> None:
        """A region; its content is ``constants`` if the hash says so."""
        index, role, size = line.take(_number), line.member(RegionRole, line.take(_word)), line.take(_number)
        digest, content = line.option("sha256", _digest, ""), b""
        if digest and self.constants:
            given = hashlib.sha256(self.constants).hexdigest()
            if given != digest:
                raise line.fail(f"needs constants of SHA-256 {digest} but {given} were given")
            content, self.constants_used = self.constants, True
        self.regions.append(Region(index, role, size, content))

    def binding(self, line: Line) -> None:
        """An input or output of the network."""
        region, address = line.take(_address)
        shape, dtype = line.take(_extents), line.take(_data_type)
        quantisation = line.options.pop("quantised", None)
        if line.name is None:
            raise line.fail("has no name")
        name, line.name = line.name, None
        parameters = None if quantisation is None else line.read(_quantisation, quantisation)
        self.bindings[line.word].append(Binding(name, region, address, shape, dtype, parameters))

    def operation(self, line: Line, details: list[Line]) -> None:
        """A numbered line with the indented ones below it."""
        if line.word != f"#{len(self.operations)}":
            raise line.fail(f"starts with {line.word!r} where #{len(self.operations)} is due")
        self.words.append(line.needed("words", _number))
        self.names.append(line.name)
        line.name = None
        mnemonic = line.take(_word)
        self.operations.append(_operation(line, mnemonic, details))


def _lines(text: str) -> list[tuple[Line, list[Line]]]:
    """Unindented lines, each with the indented ones below it; blank lines are skipped."""
    groups: list[tuple[Line, list[Line]]] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        line = parse_line(number, raw)
        if not raw.startswith(" "):
            groups.append((line, []))
        elif groups:
            groups[-1][1].append(line)
        else:
            raise line.fail("is indented before any operation")
    return groups


def _accelerator(groups: list[tuple[Line, list[Line]]]) -> str:
    """The accelerator that the first line names."""
    head, details = groups[0] if groups else (Line(1), [])
    if head.word != "npu-program":
        raise head.fail("is not 'npu-program 1 ACCELERATOR'")
    version = head.take(_number)
    if version != 1:
        raise head.fail(f"has version {version} but only 1 is read")
    name = head.take(_word)
    head.close()
    if details:
        raise details[0].fail("is indented, but the first line has no details")
    return name


def parse_text(text: str, constants: bytes = b"") -> Program:
    """The Program for a ``text``.

    ``constants`` becomes the content of the regions that carry its SHA-256; without it their content is empty, with the declared size.
    InputError names a malformed line, also if ``constants`` does not belong to the text.
    """
    groups = _lines(text)
    accelerator = _accelerator(groups)
    reader = _Reader(constants)
    for line, details in groups[1 if groups else 0 :]:
        if line.word.startswith("#"):
            reader.operation(line, details)
        elif details:
            raise details[0].fail(f"is indented, but {line.word!r} has no details")
        elif line.word == "region":
            reader.region(line)
        elif line.word in reader.bindings:
            reader.binding(line)
        else:
            raise line.fail(f"starts with {line.word!r} where region, input, output or an operation is needed")
        line.close()
    if not reader.constants_used:
        raise InputError(f"The program text has no region for the {len(constants)} bytes of constants given: give none.")
    names = tuple(name or "" for name in reader.names) if any(name is not None for name in reader.names) else ()
    return Program(
        accelerator=accelerator,
        operations=tuple(reader.operations),
        words=tuple(reader.words),
        regions=tuple(reader.regions),
        inputs=tuple(reader.bindings["input"]),
        outputs=tuple(reader.bindings["output"]),
        names=names,
    )
