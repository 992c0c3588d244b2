"""Known faults of Vela's cores that no check of a stream can see: the stream computes another network."""

from __future__ import annotations

from cascader.frontends.vela.model_changes import integers, is_of_single_elements, keeps_values
from cascader.frontends.vela.result import CORES
from npu_model.tflite.identifiers import is_tosa
from npu_model.tflite.model import TfliteModel, TfliteOperator, TfliteTensor
from npu_model.tflite.record_reader import RecordReader
from npu_model.tflite.schema import tflite

_VERSION = "5.2"
"""The version of Vela that has these faults, as comparisons with LiteRT on networks of the portfolio showed.

The networks are `strided_rows_at_ends`, `uint8_transpose_hw` and `half_pixel_padded`; for the Python core `mean_at_ends` and a part of
several images (`drawn_7215`).
"""

_CONVOLUTIONS = {"CONV_2D", "DEPTHWISE_CONV_2D"}
_PARTS = {"SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V"}
_IMAGE_RANK = 4
_STRIDES, _PADDINGS, _WEIGHTS = 3, 1, 1
"""The operand numbers of strides (STRIDED_SLICE), paddings (PAD) and weights (convolution)."""


def _integers(model: TfliteModel, operator: TfliteOperator, operand: int) -> tuple[int, ...]:
    """An operand's constant of 32-bit integers; empty if the operand is something else."""
    return integers(model.tensors[operator.inputs[operand]]) if len(operator.inputs) > operand else ()


def _first_output(model: TfliteModel, operator: TfliteOperator) -> TfliteTensor:
    return model.tensors[operator.outputs[0]]


def _strided_slice_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A STRIDED_SLICE with a step: next to a convolution, the C++ core takes other elements.

    With a backward step it takes the right ones.
    """
    model = records.model
    if operator.code != "STRIDED_SLICE" or all(stride <= 1 for stride in _integers(model, operator, _STRIDES)):
        return ""
    return f"STRIDED_SLICE {_first_output(model, operator).name!r} takes other elements than its strides say"


def _unsigned_transpose_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A TRANSPOSE of uint8: the C++ core takes its bytes for signed ones and clamps them at 0."""
    output = _first_output(records.model, operator)
    is_unsigned = operator.code == "TRANSPOSE" and output.dtype == "UINT8"
    return f"TRANSPOSE {output.name!r} of uint8 cuts half of the values off" if is_unsigned else ""


def _grouped_batch_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A grouped convolution of several images, as in `drawn_4087`: nearly all outputs of the C++ core are wrong."""
    model = records.model
    if operator.code != "CONV_2D":
        return ""
    images, weights = (model.tensors[operator.inputs[operand]].shape for operand in (0, _WEIGHTS))
    is_grouped = len(images) == len(weights) == 4 and images[0] > 1 and weights[3] < images[3]
    return f"CONV_2D {_first_output(model, operator).name!r} of groups takes channels of the wrong images" if is_grouped else ""


def _readers(model: TfliteModel, operator: TfliteOperator) -> list[int]:
    return [number for number, other in enumerate(model.operators) if operator.outputs[0] in other.inputs]


def _part_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A window on a part of a tensor, as in `drawn_7128`: the C++ core slides it over the whole tensor.

    It does the same with a transposed convolution directly after the part, and with other convolutions of several images.
    """
    model = records.model
    for part in operator.outputs if operator.code in _PARTS else ():
        windows = {"TRANSPOSE_CONV", *(_CONVOLUTIONS if model.tensors[part].shape[:1] > (1,) else ())}
        if any(part in other.inputs for other in model.operators if other.code in windows):
            return f"the convolution after {operator.code} {model.tensors[part].name!r} reads other elements than that part's"
    return ""


def _is_part_of(records: RecordReader, pad: TfliteOperator, number: int) -> bool:
    """Whether a PAD becomes the padding of convolution ``number``.

    That convolution then has no padding of its own, and its window reaches beyond the PAD's rows and columns.
    """
    model = records.model
    convolution = model.operators[number]
    if convolution.code not in _CONVOLUTIONS or dict(records.operator(number).fields).get("Padding") != tflite.Padding.VALID:
        return False
    window = model.tensors[convolution.inputs[_WEIGHTS]].shape[1:3]
    before = _integers(model, pad, _PADDINGS)[2:6:2]
    return all(amount < extent for amount, extent in zip(before, window, strict=True))


def _padded_resize_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A bilinear resize with half-pixel centres, then a PAD that adds rows or columns before it: the C++ core does not move the result."""
    model = records.model
    readers = [model.operators[reader] for reader in _readers(model, operator)] if operator.code == "RESIZE_BILINEAR" else []
    if [reader.code for reader in readers] != ["PAD"]:
        return ""
    (pad,) = readers
    is_half_pixel = dict(records.operator(model.operators.index(operator)).fields).get("HalfPixelCenters")
    moves = is_half_pixel and any(_integers(model, pad, _PADDINGS)[2:6:2])
    if not moves or all(_is_part_of(records, pad, reader) for reader in _readers(model, pad)):
        return ""
    return f"RESIZE_BILINEAR {_first_output(model, operator).name!r} is not moved by the rows and columns that are padded before it"


def _dropped_mean_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A MEAN of single elements that changes scale or zero point: the Python core drops it, so nothing is rescaled."""
    if not is_of_single_elements(records.model, operator) or keeps_values(records.model, operator):
        return ""
    return f"MEAN {_first_output(records.model, operator).name!r} of single elements does not rescale them"


def _first_image_fault(records: RecordReader, operator: TfliteOperator) -> str:
    """A part of several images: the Python core copies the part of the first image only, as `drawn_7215` shows."""
    model = records.model
    if operator.code not in _PARTS | {"UNPACK"}:
        return ""
    operands = (model.tensors[number].shape for number in operator.inputs if number >= 0 and not model.tensors[number].data)
    images = next((shape[0] for shape in operands if len(shape) == _IMAGE_RANK), 1)
    parts = (model.tensors[number] for number in operator.outputs)
    part = next((part for part in parts if images > 1 and part.shape[:1] > (1,)), None)
    return "" if part is None else f"{operator.code} {part.name!r} of {images} images is that of the first alone"


_MENDABLE = _unsigned_transpose_fault
_RULES = {
    CORES[0]: (_MENDABLE, _strided_slice_fault, _grouped_batch_fault, _part_fault, _padded_resize_fault),
    CORES[1]: (_dropped_mean_fault, _first_image_fault),
}
"""The rules for each core. A rule says what is wrong with an operator, as a clause."""


def known_fault(model: bytes, core: str, version: str, *, unsigned_copies: bool = True) -> str:
    """The known fault of the given core with a .tflite ``model``, as a clause; "" if none is known, as for TOSA networks.

    ``unsigned_copies`` includes the fault that can be mended, a TRANSPOSE of uint8.
    """
    if not version.startswith(_VERSION) or is_tosa(model):
        return ""
    records = RecordReader(model)
    rules = [rule for rule in _RULES[core] if unsigned_copies or rule is not _MENDABLE]
    # Operators of state may have no operand or no result; no rule covers them.
    operators = [operator for operator in records.model.operators if operator.inputs and operator.outputs]
    found = (rule(records, operator) for rule in rules for operator in operators)
    return next((clause for clause in found if clause), "")
