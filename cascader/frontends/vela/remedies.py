"""Remedies: changes to a network that let an operator run on the NPU which Vela leaves to the CPU.

A remedy is a rule: the operators and the words of a reason for which it holds, and what to do. The first matching rule is taken. Rules that
name another operator were tried with Vela 5.2: ``tests/cascader/frontends/test_cpu_reasons.py`` builds the networks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from cascader.frontends.vela.cpu_reasons import Said, reason_of, said_reasons
from npu_model.compiled.cpu_reason import CpuReason
from npu_model.printable import printable
from npu_model.tflite.model import TfliteModel


class Rule(Struct, frozen=True):
    """A remedy for operators whose type matches ``codes`` and whose reason (value and bound) contains ``words``. Both are patterns."""

    codes: str
    words: str
    remedy: str


_POOL = "AVERAGE_POOL_2D|MAX_POOL_2D"
_FLOAT_BORDER = (
    "at the network's border ask the converter for integers (inference_input_type and inference_output_type tf.int8), "
    "elsewhere quantise the operators that need floats"
)

RULES = (
    Rule(".*", "--ignore-ops", "leave the operator out of --ignore-ops"),
    Rule(".*", "Dynamic non-batch dimension", "fix the shape with --input-shape NAME=1,224,224,3, or convert the network with that shape"),
    Rule(".*", "shapeless tensor", "give the tensor a constant shape"),
    Rule("SPACE_TO_DEPTH", "no operator", "use a CONV_2D whose kernel and strides are the block, with weights of 0 and 1"),
    Rule("DEPTH_TO_SPACE", "no operator", "use a TRANSPOSE_CONV 2x2 with strides of 2x2 and weights of 0 and 1, for a block of 2"),
    Rule("GATHER", "no operator", "use SLICE or STRIDED_SLICE if the indices have a constant step"),
    Rule("SPACE_TO_BATCH_ND|BATCH_TO_SPACE_ND", "no operator", "use a convolution with a dilation in place of both"),
    Rule("BROADCAST_TO|FILL", "no operator", "use TILE, or a constant"),
    Rule("DIV", "no operator", "use MUL by the reciprocal where the divisor is a constant"),
    Rule("SQRT", "no operator", "use MUL of the operand and its RSQRT"),
    Rule("POW|SQUARE", "no operator", "use MUL of the operand by itself where the exponent is 2"),
    Rule("REDUCE_PROD|CUMSUM", "no operator", "use MUL, or a CONV_2D with weights of 0 and 1"),
    Rule("QUANTIZE|DEQUANTIZE", "no operator|[Ff]loat|missing quantization", _FLOAT_BORDER),
    Rule(".*", "DataType Float|[Ff]loat32|missing quantization", f"quantise the tensor: {_FLOAT_BORDER}"),
    Rule("TRANSPOSE_CONV", "stride", "use strides of 1x1 or 2x2: several, one after another, or a resize and a CONV_2D"),
    Rule("RESIZE_.*", "scal|criteria", "resize by 2, 4 or 8 along both axes, and cut off the rest with SLICE"),
    Rule(
        "MEAN|SUM|REDUCE_.*",
        "depth-reduction|axis parameter",
        "reduce channels by a CONV_2D 1x1 of equal weights, rows and columns by MEAN",
    ),
    Rule(".*", "[Bb]atch (size )?must be 1", "use one image at a time"),
    Rule("MEAN|SUM", "reduced elements|Reduced axis|exceed", "reduce in two steps, as with AVERAGE_POOL_2D first"),
    Rule(_POOL, "padding|Kernel|kernel|stride|SAME", "pool in several steps, or with padding VALID after a PAD"),
    Rule("CONV_2D|DEPTHWISE_CONV_2D", "[Ss]tride", "use strides up to 3, or padding VALID after a PAD"),
    Rule("CONV_2D|DEPTHWISE_CONV_2D", "kernel (width|height|product)", "use a smaller kernel, or several convolutions"),
    Rule("CONV_2D|DEPTHWISE_CONV_2D|FULLY_CONNECTED|TRANSPOSE_CONV", "[Ww]eight.*(constant|8-bit)", "use constant weights of 8 bits"),
    Rule("CONV_2D|DEPTHWISE_CONV_2D|FULLY_CONNECTED|TRANSPOSE_CONV", "sum of", "use fewer or smaller weights for an output channel"),
    Rule("ARG_MAX", "depth|axis", "take it over the channels, 127 at most"),
    Rule("STRIDED_SLICE", "stride", "step forwards, and only over rows and columns"),
    Rule("MAXIMUM|MINIMUM|CONCATENATION", "quantization", "give the inputs and the output one scale and zero point"),
    Rule(".*", "[Pp]er-axis", "quantise the tensor as a whole, not by channels"),
    Rule("TRANSPOSE", "permutation|transpose", "keep one order of axes: export the network in NHWC"),
    Rule(".*", r"greater than 4D|Rank not supported|rank exceeds|<= 8", "use tensors of at most four dimensions"),
    Rule(".*", "(32|64)-bit feature-maps|DataType (Int32|Int64|Bool)|of type int32", "use INT8, UINT8 or INT16 for feature maps"),
    Rule(".*", "must be constant|non-constant|constant", "make that operand a constant"),
)
"""Remedies in the order in which they are tried."""

_NAMED = 6
"""The most operators with one reason that a sentence names."""

_REASONS = 4
"""The most reasons that the sentence names if nothing is left for the NPU."""

_GENERAL = "use quantised operators that the NPU supports"


def remedy(code: str, reason: CpuReason) -> str:
    """The change that lets an operator of type ``code`` run on the NPU, as a clause; "" if none is known.

    >>> remedy("GATHER", CpuReason("the NPU has no operator GATHER"))
    'use SLICE or STRIDED_SLICE if the indices have a constant step'
    """
    words = f"{reason.value}; {reason.bound}"
    return next((rule.remedy for rule in RULES if re.fullmatch(rule.codes, code) and re.search(rule.words, words)), "")


def explained(code: str, reason: CpuReason) -> str:
    """The value, the bound and the remedy as one clause."""
    what = f" ({reason.bound})" if reason.bound else ""
    change = remedy(code, reason)
    return f"{reason.value}{what}{f'; {change}' if change else ''}"


def grouped(operators: Sequence[tuple[str, str, CpuReason | None]]) -> list[tuple[str, list[str], CpuReason | None]]:
    """Operators (type, name, reason) grouped by type and reason, in the order of each group's first operator."""
    found: dict[tuple[str, CpuReason | None], list[str]] = {}
    for code, name, reason in operators:
        found.setdefault((code, reason), []).append(name)
    return [(code, names, reason) for (code, reason), names in found.items()]


def named(names: Sequence[str]) -> str:
    """Names in quotes, with the number of names left out.

    >>> named(["a", "b"])
    "'a', 'b'"
    """
    listed = ", ".join(f"'{printable(name)}'" for name in names[:_NAMED])
    return listed + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _of_model(model: TfliteModel, said: Sequence[Said], asked: Sequence[str]) -> list[tuple[str, str, CpuReason | None]]:
    found = []
    for operator in model.operators:
        outputs = [model.tensors[index].name for index in operator.outputs if index >= 0]
        found.append((operator.name, (outputs or [""])[0], reason_of(operator.name, outputs, said, asked)))
    return found


def nothing_left(model: TfliteModel, text: str, asked: Sequence[str] = ()) -> str:
    """The sentence for a network that Vela leaves to the CPU.

    It names the operators, and the values, bounds and remedies from Vela's output ``text``.
    """
    known = [one for one in grouped(_of_model(model, said_reasons(text), asked)) if one[2] is not None]
    count = len(model.operators)
    begin = f"Vela left {'the only operator' if count == 1 else f'all {count} operators'} on the CPU"
    if not known:
        return f"{begin}: {_GENERAL}."
    clauses = [f"{printable(code)} {named(names)}: {explained(code, reason)}" for code, names, reason in known[:_REASONS] if reason]
    more = f"; and {len(known) - _REASONS} more reasons" if len(known) > _REASONS else ""
    return f"{begin}. {'. '.join(clauses)}{more}."
