"""Reasons why Vela leaves operators to the CPU. They are read from Vela's output and attached to the operators.

For every such operator Vela prints the value that it found and, where there is one, the bound. The C++ core names an operator by its type
and its first output. The Python core names it by its type and a name, which is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from npu_model.compiled.cpu_reason import CpuReason
from npu_model.compiled.network import CompiledNetwork, CpuOperator
from npu_model.printable import printable

SUPPORTED = "`npu-testbed compile --supported-ops-report` lists the operators that the NPU runs"
"""Bound for an operator that the NPU does not have."""

_LONGEST = 1000
"""The most characters of a reason, names of tensors included."""

_CPP = re.compile(
    r"^Warning \(supported operators\) operator: (?P<code>\w+), ofm: '(?P<output>.*?)'\n"
    r"Reason: (?P<value>[^\n]*)(?P<bound>.*?)(?=\n[ \t]*\n|\nWarning \(supported|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = re.compile(
    r"^Warning: (?:Unsupported TensorFlow Lite semantics for )?(?P<code>\w+) '(?P<output>.*?)'(?: is not supported on the NPU)?\. "
    r"Placing on CPU instead\n - (?P<bound>.*?)(?:\n   (?P<value>\S[^\n]*))?(?=\n\S|\n[ \t]*\n|\n?\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON_UNKNOWN = re.compile(r"^Info: (?P<code>\w+) '(?P<output>.*?)' is a CPU only op$", re.MULTILINE | re.DOTALL)

_NO_SUCH = ("Unsupported opType", "Unsupported operator type")
_CUSTOM = "CUSTOM"
_INNER = "_act"
"""Suffix of the output's name where the C++ core splits an activation off its operator."""


class Said(Struct, frozen=True):
    """Vela's remark on one operator: its type, the name of its first output, and the reason."""

    code: str
    output: str
    reason: CpuReason


def _line(text: str | None) -> str:
    r"""A text of several lines as one line: lists become clauses.

    >>> _line("Kernel constraints:\n  - IF padding=VALID:\n    - at most 256")
    'Kernel constraints: IF padding=VALID: at most 256'
    """
    parts = [part for line in (text or "").splitlines() if (part := " ".join(line.split()).removeprefix("- ").rstrip("."))]
    joined = "".join(part + ("" if last else " " if part.endswith(":") else "; ") for part, last in zip(parts, _lasts(parts), strict=True))
    return printable(joined, _LONGEST)


def _lasts(parts: Sequence[str]) -> list[bool]:
    return [False] * (len(parts) - 1) + [True] * bool(parts)


def _no_such(code: str) -> CpuReason:
    return CpuReason(f"the NPU has no operator {code}", SUPPORTED)


def said_reasons(text: str) -> tuple[Said, ...]:
    r"""All remarks of Vela on operators that it leaves to the CPU, in order. Both cores' formats are read.

    >>> said_reasons("Warning (supported operators) operator: GATHER, ofm: 'x'\nReason: Unsupported opType\n")[0].reason.value
    'the NPU has no operator GATHER'
    """
    found: list[tuple[int, Said]] = []
    for match in _CPP.finditer(text):
        code, value = match["code"], _line(match["value"])
        reason = _no_such(code) if value in _NO_SUCH else CpuReason(value, _line(match["bound"]))
        found.append((match.start(), Said(code, match["output"], reason)))
    for match in _PYTHON.finditer(text):
        bound, value = _line(match["bound"]), _line(match["value"])
        reason = CpuReason(value, bound) if value else CpuReason(bound)
        found.append((match.start(), Said(match["code"], match["output"], reason)))
    found += [(match.start(), Said(match["code"], match["output"], _no_such(match["code"]))) for match in _PYTHON_UNKNOWN.finditer(text)]
    return tuple(said for _, said in sorted(found, key=lambda one: one[0]))


def asked_for(codes: Sequence[str]) -> dict[str, CpuReason]:
    """Reason for operators that the user leaves to the CPU, by their types."""
    return {code: CpuReason("left to the CPU by --ignore-ops") for code in codes}


def reason_of(code: str, outputs: Sequence[str], said: Sequence[Said], asked: Sequence[str] = ()) -> CpuReason | None:
    """Reason why the operator with this type and these outputs is on the CPU; None if Vela gives none.

    A remark on another type with the same output, such as a fused activation, counts if Vela has no remark on this type. An operator
    without outputs is found by its type.
    """
    if code in asked:
        return asked_for(asked)[code]
    own = [one for one in said if one.code == code]
    for candidates in (own, said):
        for one in candidates:
            if outputs and one.output.removesuffix(_INNER) in (outputs[0], outputs[0].removesuffix(_INNER)):
                # A custom operator has a name of its own in a network.
                return _no_such(code) if one.code == _CUSTOM and one.reason == _no_such(_CUSTOM) else one.reason
    # Vela's remark has no name for an operator without outputs.
    unnamed = own if not outputs else []
    return unnamed[0].reason if unnamed and len({one.reason for one in unnamed}) == 1 else None


def with_reasons(network: CompiledNetwork, said: Sequence[Said], asked: Sequence[str] = ()) -> CompiledNetwork:
    """The network with a reason for each operator on the CPU, where Vela gives one. ``asked`` are types that the user leaves to the CPU."""

    def known(step: CpuOperator) -> CpuOperator:
        reason = reason_of(step.code, [binding.name for binding in step.outputs], said, asked)
        return step if reason is None else replace(step, reason=reason)

    if not said and not asked:
        return network
    return replace(network, steps=tuple(known(step) if isinstance(step, CpuOperator) else step for step in network.steps))
