"""Emitted kernels against their definition: the constant feature maps that a job must read, without the code that cuts kernels.

The byte checker follows only the arena's bytes. A constant operand that is cut at the wrong row would change results without its notice.
"""

from __future__ import annotations

from collections.abc import Iterator

from cascader.ethosu.network.network import CONSTANTS, EthosuPart
from cascader.ethosu.verify.windows import Rows, rows_read, spans
from npu_model.errors import InputError
from npu_model.program import FeatureMap, KernelOperation

_Range = tuple[int, int]


def _operands(operation: KernelOperation) -> Iterator[FeatureMap]:
    yield operation.ifm
    if operation.ifm2 is not None:
        yield operation.ifm2


def _wanted(operation: KernelOperation, operand: FeatureMap, rows: Rows | None, part: EthosuPart) -> _Range:
    """First and last (exclusive) constant byte for some rows of the result."""
    found = list(spans(operand, rows_read(operation, operand, rows, part.axis), 0, part.axis))
    return min(span.start for span in found), max(span.end for span in found)


def _emitted(operand: FeatureMap) -> _Range:
    ranges = operand.byte_ranges()
    return min(span.start for span in ranges), max(span.end for span in ranges)


def require_own_constants(name: str, part: EthosuPart, rows: Rows | None, emitted: KernelOperation) -> None:
    """InputError unless the ``emitted`` kernel reads just the constant operands of its rows (None: all) of the part ``name``."""
    for operand, found in zip(_operands(part.operation), _operands(emitted), strict=True):
        if operand.region != CONSTANTS:
            continue
        wanted, read = _wanted(part.operation, operand, rows, part), _emitted(found)
        if wanted != read:
            raise InputError(
                f"Part {name!r} reads constants {read[0]} to {read[1]} for rows {rows or 'all'}, but they are at {wanted[0]} to "
                f"{wanted[1]}: schedule the network anew."
            )
