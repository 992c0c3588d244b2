"""The three-dimensional shapes of blocks and feature maps."""

from __future__ import annotations

from msgspec import Struct


def round_up(value: int, multiple: int) -> int:
    """Smallest multiple of ``multiple`` that is not below ``value``.

    >>> round_up(17, 16)
    32
    """
    return -(-value // multiple) * multiple


def ceil_div(numerator: int, denominator: int) -> int:
    """Quotient rounded towards plus infinity.

    >>> ceil_div(17, 16)
    2
    """
    return -(-numerator // denominator)


class Shape3D(Struct, frozen=True, order=True):
    """Height, width and depth (channels), in elements.

    >>> Shape3D(2, 3, 4).elements
    24
    """

    height: int
    width: int
    depth: int

    @property
    def elements(self) -> int:
        """Number of elements: height * width * depth."""
        return self.height * self.width * self.depth

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.depth}"
