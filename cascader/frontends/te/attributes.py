"""Attributes of the Ethos-U operators by TVM's names: the attributes that each operator takes, and their permitted values.

No attribute is ignored: an attribute that cannot be honoured is refused by its name, with the value to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from npu_model.errors import InputError, did_you_mean
from npu_model.printable import shown

CONV2D, DEPTHWISE, POOLING = "ethosu_conv2d", "ethosu_depthwise_conv2d", "ethosu_pooling"
BINARY, UNARY, IDENTITY = "ethosu_binary_elementwise", "ethosu_unary_elementwise", "ethosu_identity"
CONCATENATE, RESHAPE, SLICE = "concatenate", "reshape", "strided_slice"
TO_BRICKS, FROM_BRICKS = "nhwc_to_nhcwb16", "nhcwb16_to_nhwc"

BRICKS = "NHCWB16"
"""The layout of tensors of (1, height, bricks, width, 16 channels)."""

_WORDS = {
    "activation": ("NONE", "CLIP", "LUT"),
    "rounding_mode": ("TFL", "TRUNCATE", "NATURAL"),
    "upscale": ("NONE", "NEAREST", "ZEROS"),
    "ifm_layout": ("NHWC", BRICKS),
    "ifm2_layout": ("NHWC", BRICKS),
    "ofm_layout": ("NHWC", BRICKS),
    "pooling_type": ("AVG", "MAX", "SUM"),
}
"""Attributes whose value is one of a few words."""

OPERATOR_TYPES = {BINARY: ("ADD", "SUB", "MUL", "MIN", "MAX", "SHR", "SHL"), UNARY: ("ABS", "CLZ")}

_REMEDIES = {
    "activation": "native TANH and SIGMOID round in a way that is not public: give their table as lut, with activation LUT",
    "ifm_layout": "the scheduler chooses the storage of tensors by itself",
    "upscale": "TVM's three are known",
}
_REMEDIES |= dict.fromkeys(("ifm2_layout", "ofm_layout"), _REMEDIES["ifm_layout"])

_COMMON = ("op", "ifm_scale", "ifm_zero_point", "ofm_scale", "ofm_zero_point", "activation", "rounding_mode", "ifm_layout", "ofm_layout")
_CLIPPED = (*_COMMON, "clip_min", "clip_max")
_WINDOW = (*_CLIPPED, "strides", "padding", "upscale", "ofm_channels")
_TAKES = {
    CONV2D: (*_WINDOW, "weight_zero_point", "kernel_shape", "dilation"),
    DEPTHWISE: (*_WINDOW, "weight_zero_point", "kernel_shape", "dilation", "ofm_dtype"),
    POOLING: (*_WINDOW, "pooling_type", "pool_shape", "ofm_dtype"),
    BINARY: (
        *_CLIPPED,
        *("operator_type", "ifm2_scale", "ifm2_zero_point", "ifm2_layout", "ifm_channels", "ifm2_channels", "reversed_operands"),
        *("ofm_dtype", "use_rescale", "rescale_scale", "rescale_shift"),
    ),
    UNARY: (*_CLIPPED, "operator_type", "ofm_channels", "ofm_dtype"),
    IDENTITY: _COMMON,
}
"""The attributes that each operator takes."""

NO_LIMIT = 1 << 40
"""The clip limit where none is given; it lies outside every number format."""


class Attributes(Struct, frozen=True):
    """The attributes of one operator. Attributes that it does not take, or that are not given, have their defaults.

    A scale of 0.0 and 0 channels mean "not given". ``kernel_shape`` of a pooling is the shape of its pool.
    """

    op: str
    ifm_scale: float = 0.0
    ifm_zero_point: int = 0
    ifm2_scale: float = 0.0
    ifm2_zero_point: int = 0
    weight_zero_point: int = 0
    ofm_scale: float = 0.0
    ofm_zero_point: int = 0
    ofm_dtype: str = ""
    pooling_type: str = ""
    operator_type: str = ""
    kernel_shape: tuple[int, ...] = ()
    pool_shape: tuple[int, ...] = ()
    ofm_channels: int = 0
    ifm_channels: int = 0
    ifm2_channels: int = 0
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)
    activation: str = "NONE"
    clip_min: int = -NO_LIMIT
    clip_max: int = NO_LIMIT
    rounding_mode: str = "TFL"
    upscale: str = "NONE"
    reversed_operands: bool = False
    use_rescale: bool = False
    rescale_scale: int = 0
    rescale_shift: int = 0
    ifm_layout: str = "NHWC"
    ifm2_layout: str = "NHWC"
    ofm_layout: str = "NHWC"

    @property
    def plain(self) -> dict[str, Any]:
        """The attributes that the operator takes, in the form that ``te.compute`` takes."""
        return {name: getattr(self, name) for name in _TAKES[self.op]}

    def refuse(self, name: str, remedy: str) -> InputError:
        """The error for an attribute with a wrong value."""
        return InputError(f"{self.op} has {name} {shown(getattr(self, name))}: {remedy}.")


_DEFAULTS = Attributes("")
_LENGTHS = {"strides": 2, "padding": 4, "dilation": 2, "kernel_shape": 2, "pool_shape": 2}


def attributes(op: str, given: Mapping[str, Any]) -> Attributes:
    """The checked attributes of an operator. InputError names an attribute that cannot be honoured."""
    if op not in _TAKES:
        raise InputError(f"Operator {shown(op)} is unknown: the Ethos-U operators are {', '.join(_TAKES)}.")
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _TAKES[op]:
            raise InputError(f"{op} has no attribute {name!r}{did_you_mean(name, _TAKES[op])}: it takes {', '.join(_TAKES[op])}.")
        values[name] = _typed(op, name, value)
    made = Attributes(**{**values, "op": op})
    for name, words in _WORDS.items():
        if getattr(made, name) and getattr(made, name) not in words:
            raise made.refuse(name, f"{' or '.join(words)} is possible; {_REMEDIES.get(name, 'choose one')}")
    _check(made)
    return made


def _integers(values: Any, length: int) -> tuple[int, ...] | None:
    """The value as a tuple of this many integers, or as an empty one; None if the value is something else."""
    try:
        given = tuple(values)
        found = tuple(int(one) for one in given)
    except (TypeError, ValueError):
        return None
    return found if len(found) in (0, length) and found == given else None


def _number(value: Any, kind: type[int | float]) -> int | float | None:
    """The value as an integer or a float; None if it is neither."""
    try:
        found = kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if kind is float or found == value else None


def _typed(op: str, name: str, value: Any) -> Any:
    """The value in the type of its field; InputError if it has another type."""
    default = getattr(_DEFAULTS, name)
    if isinstance(default, bool) and value not in (True, False):
        raise InputError(f"{op} has {name} {shown(value)}: it is True or False; give it so.")
    if isinstance(default, (str, bool)):
        return type(default)(value)
    found: Any
    if name in _LENGTHS:
        found, what = _integers(value, _LENGTHS[name]), f"{_LENGTHS[name]} integers"
    else:
        found, what = _number(value, type(default)), "a number" if isinstance(default, float) else "an integer"
    if found is None:
        raise InputError(f"{op} has {name} {shown(value)}: it is {what}; give it so.")
    return found


def _check(made: Attributes) -> None:
    """Check those attributes of an operator that do not depend on its operands."""
    types = OPERATOR_TYPES.get(made.op)
    if types and made.operator_type not in types:
        raise made.refuse("operator_type", f"choose {', '.join(types)}")
    if made.op == POOLING and not made.pooling_type:
        raise made.refuse("pooling_type", "choose AVG, MAX or SUM")
    for name in ("strides", "dilation", "kernel_shape", "pool_shape"):
        if min(getattr(made, name), default=1) < 1:
            raise made.refuse(name, "each must be 1 or more")
    if min(made.padding, default=0) < 0 or len(made.padding) != _LENGTHS["padding"]:
        raise made.refuse("padding", "give rows and columns of 0 or more: top, left, bottom, right")
    for name in ("ifm_scale", "ifm2_scale", "ofm_scale"):
        if not 0 <= getattr(made, name) < float("inf"):
            raise made.refuse(name, "a scale is a positive number")
    _check_clip(made)
    _check_rescale(made)


def _check_clip(made: Attributes) -> None:
    for name in ("clip_min", "clip_max"):
        if made.activation != "CLIP" and abs(getattr(made, name)) != NO_LIMIT:
            raise made.refuse(name, f"activation is {made.activation}, which clips to the OFM's type alone; give activation CLIP")
    if made.clip_min > made.clip_max:
        raise made.refuse("clip_min", f"clip_max is {made.clip_max}, so that nothing is left; exchange them")


def _check_rescale(made: Attributes) -> None:
    if not made.use_rescale:
        for name in ("rescale_scale", "rescale_shift"):
            if getattr(made, name):
                raise made.refuse(name, "use_rescale is False; give it as True")
    elif made.operator_type not in ("ADD", "SUB", "MUL"):
        raise made.refuse("use_rescale", f"{made.operator_type} is never rescaled; leave it out")
    elif not (0 < made.rescale_scale < 1 << 32 and 0 <= made.rescale_shift < 1 << 6):
        raise made.refuse("rescale_scale", f"32 bits hold a scale above 0, and 6 bits the shift, which is {made.rescale_shift}")
