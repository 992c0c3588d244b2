"""Propagator: the affine map of TVM RFC 0037 from a stripe of a part's output to the stripe of an input that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm

from msgspec import Struct
from msgspec.structs import force_setattr

from cascader.graph.intervals import Box, elements, whole
from cascader.graph.intervals import clip as clip_box
from cascader.graph.stripe_config import Rational
from npu_model.errors import InputError


def _simple(value: Rational) -> Rational:
    """An int if the value is whole."""
    if isinstance(value, int):
        return value
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else exact


class _Row(Struct, frozen=True):
    """One input axis over a common denominator: its output axes with their numerators, the constant and the offset."""

    terms: tuple[tuple[int, int], ...]
    constant: int
    offset: int
    denominator: int


class Propagator(Struct, frozen=True, dict=True):
    """An affine map from n output axes to m input axes.

    ``matrix`` is augmented: m + 1 rows of n + 1 numbers, the last row (0, ..., 0, 1). Row i says how the length of input
    axis i grows with the lengths of the output axes, and its last number the constant part. ``offset`` is where the input
    begins for an output that begins at 0: minus the padding, or the start of a slice. An output box [a, b) needs

        low = floor(row . a + offset), high = ceil(row . b + constant + offset)

    of input axis i, where row holds the coefficients without the constant; all numbers are exact and coefficients are
    not negative. A 3 x 3 convolution of 8 input channels, stride 1, makes a stripe of (1, 3, 3, 4) from a stripe of (1, 5, 5, 8), for any
    number of its own channels (the RFC's example):

    >>> conv = Propagator(
    ...     matrix=(
    ...         (1, 0, 0, 0, 0),
    ...         (0, 1, 0, 0, 2),
    ...         (0, 0, 1, 0, 2),
    ...         (0, 0, 0, 0, 8),
    ...         (0, 0, 0, 0, 1),
    ...     ),
    ...     offset=(0, -1, -1, 0),
    ... )
    >>> conv.lengths((1, 3, 3, 4))
    (1, 5, 5, 8)
    >>> conv.demand(((0, 1), (0, 3), (3, 6), (4, 8)), (1, 16, 16, 8))
    ((0, 1), (0, 4), (2, 7), (0, 8))

    Raises InputError if the matrix is not of this form.
    """

    matrix: tuple[tuple[Rational, ...], ...]
    offset: tuple[Rational, ...]

    def __post_init__(self) -> None:
        _check(self.matrix, self.offset)
        force_setattr(self, "matrix", tuple(tuple(_simple(value) for value in row) for row in self.matrix))
        force_setattr(self, "offset", tuple(_simple(value) for value in self.offset))

    @cached_property
    def _rows(self) -> tuple[_Row, ...]:
        return tuple(_row(row, shift) for row, shift in zip(self.matrix, self.offset, strict=False))

    @classmethod
    def of_axes(cls, axes: Sequence[InputAxis], outputs: int) -> Propagator:
        """A map in which every input axis follows one output axis, or none, of ``outputs``.

        >>> Propagator.of_axes((InputAxis(1), InputAxis(0)), 2).lengths((3, 4))
        (4, 3)
        """
        rows: list[tuple[Rational, ...]] = []
        for axis in axes:
            row: list[Rational] = [0] * outputs
            if axis.follows is not None:
                row[axis.follows] = axis.stride
            rows.append((*row, axis.constant))
        return cls((*rows, (0,) * outputs + (1,)), tuple(axis.offset for axis in axes))

    @classmethod
    def identity(cls, rank: int) -> Propagator:
        """A map in which every input axis equals the output axis of the same number."""
        return cls.of_axes([InputAxis(axis) for axis in range(rank)], rank)

    @classmethod
    def opaque(cls, input_shape: Sequence[int], outputs: int) -> Propagator:
        """A map in which any output needs all of the input.

        >>> Propagator.opaque((4, 4), 1).demand(((3, 4),), (4, 4))
        ((0, 4), (0, 4))
        """
        return cls.of_axes([InputAxis(None, 0, size) for size in input_shape], outputs)

    @property
    def outputs(self) -> int:
        """Output axes."""
        return len(self.matrix[-1]) - 1

    @property
    def inputs(self) -> int:
        """Input axes."""
        return len(self.offset)

    def follows(self, axis: int) -> tuple[int, ...]:
        """The output axes that input ``axis`` depends on."""
        return tuple(term for term, _ in self._rows[axis].terms)

    def lengths(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Elements of each input axis for an output of these lengths that begins where nothing is rounded: ceil(M . [v; 1])."""
        return tuple(ceil(sum((c * v for c, v in zip(row, lengths, strict=False)), Fraction(row[-1]))) for row in self.matrix[:-1])

    def reach(self, box: Box) -> Box:
        """The box that an output box reads, not clipped: it may reach into the padding around the input."""
        reached = []
        for row in self._rows:
            low = high = row.offset
            for axis, numerator in row.terms:
                low += numerator * box[axis][0]
                high += numerator * box[axis][1]
            reached.append((low // row.denominator, -(-(high + row.constant) // row.denominator)))
        return tuple(reached)

    def demand(self, box: Box, input_shape: Sequence[int]) -> Box:
        """The elements of an input of ``input_shape`` that an output box needs, exactly; empty for an empty box."""
        if not elements(box):
            return ((0, 0),) * self.inputs
        return clip_box(self.reach(box), whole(input_shape))

    def __matmul__(self, other: Propagator) -> Propagator:
        """``self`` after ``other``: from the output of ``other`` to the input of ``self``, whose output is ``other``'s input.

        It does not round in between: with whole numbers it equals one map after the other; otherwise it needs no more.

        >>> wide = Propagator.of_axes((InputAxis(0, 1, 2, -1),), 1)
        >>> (wide @ wide).matrix, (wide @ wide).offset
        (((1, 4), (0, 1)), (-2,))
        """
        if self.outputs != other.inputs:
            raise InputError(f"A Propagator of {self.outputs} output axes is put after one of {other.inputs} input axes: make them equal.")
        columns = tuple(zip(*other.matrix, strict=True))
        matrix = tuple(
            tuple(_simple(sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0))) for column in columns) for row in self.matrix
        )
        offset = tuple(
            sum((a * b for a, b in zip(row, other.offset, strict=False)), Fraction(shift))
            for row, shift in zip(self.matrix, self.offset, strict=False)
        )
        return Propagator(matrix, offset)


class InputAxis(Struct, frozen=True):
    """An input axis: the output axis that it ``follows`` (None: any output needs all of it), stride, constant length and offset."""

    follows: int | None
    stride: Rational = 1
    constant: Rational = 0
    offset: Rational = 0


def window(axis: int, *, taps: int = 1, stride: int = 1, dilation: int = 1, pad: int = 0) -> InputAxis:
    """An axis under a sliding window of ``taps`` elements: a stripe of n needs (n - 1) * stride + (taps - 1) * dilation + 1.

    >>> window(0, taps=3, stride=2, pad=1)
    InputAxis(follows=0, stride=2, constant=1, offset=-1)
    """
    return InputAxis(axis, stride, (taps - 1) * dilation + 1 - stride, -pad)


def upscaled(axis: InputAxis, factor: int) -> InputAxis:
    """The axis before an upscaling by ``factor``, of which ``axis`` is a window.

    Nearest neighbour repeats each element. Where zeros follow each element instead, a device still reads the element for them.

    >>> upscaled(window(0, taps=3, pad=1), 2)
    InputAxis(follows=0, stride=Fraction(1, 2), constant=Fraction(1, 1), offset=Fraction(-1, 2))
    """
    return InputAxis(axis.follows, Fraction(axis.stride, factor), Fraction(axis.constant, factor), Fraction(axis.offset, factor))


def _check(matrix: tuple[tuple[Rational, ...], ...], offset: tuple[Rational, ...]) -> None:
    width = len(matrix[-1]) if matrix else 0
    if len(matrix) != len(offset) + 1 or any(len(row) != width for row in matrix) or width < 1:
        raise InputError(
            f"A Propagator has {len(matrix)} rows and {len(offset)} offsets: give one row per offset, one more, all equally long."
        )
    if matrix[-1] != (0,) * (width - 1) + (1,):
        raise InputError(f"A Propagator's matrix ends with {matrix[-1]}: end it with zeros and a 1.")
    if any(value < 0 for row in matrix for value in row[:-1]):
        raise InputError(
            f"A Propagator has a coefficient of {min(v for row in matrix for v in row[:-1])}: an axis cannot run backwards, use 0 or more."
        )


def _row(coefficients: tuple[Rational, ...], offset: Rational) -> _Row:
    common = lcm(*(Fraction(value).denominator for value in (*coefficients, offset)))
    whole_numbers = [int(value * common) for value in coefficients]
    terms = tuple((axis, value) for axis, value in enumerate(whole_numbers[:-1]) if value)
    return _Row(terms, whole_numbers[-1], int(offset * common), common)
