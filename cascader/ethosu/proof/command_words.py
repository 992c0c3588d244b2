"""The least words of commands that a kernel takes behind another one: those of the registers that differ wherever the tensors lie."""

from __future__ import annotations

from npu_model.program import KernelOperation, OperationKind

COPY_WORDS = 3
"""Words of a transfer at least: its source, which is another one than that of the transfer before, and its start."""

_EACH = 22 + 23 + 3 + 6 + 1 + 1
"""Words of a Program's first kernel: IFM, OFM, activation, block and SHRAM, BLOCKDEP, the operation itself."""

_WINDOW = 7
_WEIGHTS = 10


def _shapes(op: KernelOperation) -> tuple[int, ...]:
    """Values of registers of one word that each kernel sets."""
    ofm = op.ofm.shape
    return op.ifm.shape.depth, op.ifm.zero_point, ofm.height, ofm.width, ofm.depth, op.ofm.zero_point


def _window(op: KernelOperation) -> tuple[int, ...]:
    """Values of registers of one word that each kernel with a window sets."""
    padding = op.padding
    return padding.top, padding.left, padding.bottom, padding.right, op.kernel.dilated_height, op.kernel.dilated_width


def _lengths(op: KernelOperation) -> tuple[int, ...]:
    """Values of registers of two words that each kernel with weights sets."""
    return tuple(span.length for span in (*op.weights, *op.scales))


def _differing(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    return sum(a != b for a, b in zip(before, after, strict=False))


def least_words(before: KernelOperation | None, after: KernelOperation) -> int:
    """Words of ``after`` behind the kernel ``before`` (None: it is a Program's first), at least."""
    has_window = after.kind is not OperationKind.ELEMENTWISE
    if before is None:
        return _EACH + (_WINDOW if has_window else 0) + (_WEIGHTS if after.weights and after.scales else 0)
    words = 1 + _differing(_shapes(before), _shapes(after))
    if has_window and before.kind is not OperationKind.ELEMENTWISE:
        words += _differing(_window(before), _window(after))
    return words + 2 * _differing(_lengths(before), _lengths(after))
