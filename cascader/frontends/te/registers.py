"""Registers that all operators have: types, zero points and clips, from attributes and shapes. Addresses and blocks are set later."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cascader.frontends.te.attributes import NO_LIMIT, Attributes
from npu_model.errors import InputError
from npu_model.program import (
    Activation,
    ActivationKind,
    DataType,
    FeatureMap,
    KernelOperation,
    Layout,
    OperationKind,
    Rounding,
    Shram,
    Strides,
    Tiles,
)
from npu_model.program.region_numbers import ARENA
from npu_model.shapes import Shape3D

_ROUNDINGS = {"TFL": Rounding.DOUBLE, "TRUNCATE": Rounding.TRUNCATE, "NATURAL": Rounding.NATURAL}
_TYPES = {str(one): one for one in (DataType(bits, signed=signed) for bits in (8, 16, 32) for signed in (True, False))}
_DUMMY_BLOCK, _DUMMY_SHRAM = Shape3D(1, 1, 8), Shram(0, 0)
"""Stand-ins for values that are chosen once the whole network is known."""


class RegisterOperand(Struct, frozen=True):
    """Shape and type of a tensor that an operator reads; ``scalar`` if it is a constant of one element, with its value."""

    shape: tuple[int, ...]
    dtype: str
    scalar: int | None = None


def data_type(op: str, name: str, dtype: str) -> DataType:
    """The type with this name; InputError if the NPU has no such type."""
    if dtype not in _TYPES:
        raise InputError(f"{op} has {name} of type {dtype}: {', '.join(_TYPES)} exist on the NPU; quantise it.")
    return _TYPES[dtype]


def image(op: str, name: str, shape: tuple[int, ...]) -> Shape3D:
    """Height, width and channels of an NHWC shape of up to 4 axes, of one image."""
    full = (1,) * (4 - len(shape)) + tuple(shape)
    if len(full) != 4 or full[0] != 1:
        raise InputError(f"{op} has {name} of shape {shape}: one image of (1, height, width, channels) is an operand; cut the batch.")
    return Shape3D(*full[1:])


def dense_map(shape: Shape3D, dtype: DataType, zero_point: int) -> FeatureMap:
    """A feature map as NHWC that begins at the first byte of the arena."""
    size = dtype.bytes
    pixel = shape.depth * size
    return FeatureMap(ARENA, shape, dtype, Layout.NHWC, Tiles.single(shape, 0), Strides(shape.width * pixel, pixel, size), zero_point)


def activation(made: Attributes, ofm: DataType) -> Activation:
    """The clamp of an operator whose OFM has this type, or the table that follows it."""
    # The registers hold 16 bits, and a 32-bit OFM is not clipped.
    limits = DataType(min(ofm.bits, 16), signed=ofm.signed or ofm.bits == 32)
    low, high = max(made.clip_min, limits.minimum), min(made.clip_max, limits.maximum)
    if made.activation == "CLIP" and low > high:
        raise made.refuse("clip_min", f"with clip_max {made.clip_max} it leaves nothing of {ofm}; choose limits inside the type")
    if ofm.bits == 32 and (made.clip_min, made.clip_max) != (-NO_LIMIT, NO_LIMIT):
        raise made.refuse("activation", "a 32-bit OFM is not clipped; clip a later result")
    kind = ActivationKind.LUT if made.activation == "LUT" else ActivationKind.NONE
    return Activation(kind, low, high)


def kernel_operation(
    made: Attributes, kind: OperationKind, shapes: tuple[Shape3D, Shape3D], types: tuple[DataType, DataType], **more: Any
) -> KernelOperation:
    """A kernel on dense maps, with the shapes and types of IFM and OFM, and ``more`` fields."""
    zero_points = made.ifm_zero_point, made.ofm_zero_point
    ifm, ofm = map(dense_map, shapes, types, zero_points)
    rounding = _ROUNDINGS[made.rounding_mode]
    return KernelOperation(kind, ifm, ofm, _DUMMY_BLOCK, _DUMMY_SHRAM, activation(made, types[1]), rounding=rounding, **more)


def require_zero_point(made: Attributes, name: str, dtype: DataType) -> None:
    """Check a zero point; InputError if it lies outside the type."""
    if not dtype.minimum <= getattr(made, name) <= dtype.maximum:
        raise made.refuse(name, f"{dtype} holds {dtype.minimum} to {dtype.maximum}")


def require_type(made: Attributes, name: str, dtype: DataType, *allowed: str) -> None:
    """Check an operand; InputError if its type is not one of the allowed types."""
    if str(dtype) not in allowed:
        raise InputError(f"{made.op} has {name} of type {dtype}: {', '.join(allowed)} are possible; convert it.")


def scales_given(made: Attributes, *names: str) -> tuple[float, ...]:
    """Scales that a result depends on. Either all are given or none; without them the scales are 1."""
    values = [getattr(made, name) for name in names]
    missing = [name for name, value in zip(names, values, strict=True) if not value]
    if missing and len(missing) < len(names):
        raise made.refuse(missing[0], f"{' and '.join(name for name in names if name not in missing)} is given; give all of them or none")
    return tuple(value or 1.0 for value in values)


def agree(made: Attributes, name: str, value: int | tuple[int, ...]) -> None:
    """Check an attribute that the shapes determine too; InputError if it contradicts them."""
    given = getattr(made, name)
    if given and given != value:
        raise made.refuse(name, f"the operands have {value}; leave it out, or make them equal")


def require_zero_points(made: Attributes, ifm: DataType, ofm: DataType) -> None:
    """Check the zero points of IFM and OFM; InputError if one lies outside its type."""
    require_zero_point(made, "ifm_zero_point", ifm)
    require_zero_point(made, "ofm_zero_point", ofm)
    if ofm.bits == 32 and made.ofm_zero_point:
        raise made.refuse("ofm_zero_point", "a 32-bit OFM has none on the NPU; give 0")
    for name in ("ifm_zero_point", "ifm2_zero_point"):
        if ifm.bits == 32 and getattr(made, name):
            raise made.refuse(name, "whether the NPU subtracts it from 32-bit operands is not public; give 0")
