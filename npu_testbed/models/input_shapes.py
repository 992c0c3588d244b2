"""Input shapes from ``--input-shape``: parsed from their text, and carried by a model's source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.printable import shown
from npu_testbed.models.layouts import ChannelsLast

MAX_EXTENT = 1 << 16
"""Largest extent: a feature map's registers count 16 bits."""

MAX_ELEMENTS = 1 << 24
"""Most elements of an input: a picture of 2,300 x 2,300 pixels in three colours."""

_EXTENTS = r"[0-9]{1,6}(,[0-9]{1,6})*"


class InputShape(Struct, frozen=True):
    """The shape of an input: ``name`` is its tensor's or a signature's, "" for the only input."""

    name: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> InputShape:
        """The shape in ``NAME=1,224,224,3`` or, for a network with one input, ``1,224,224,3``; InputError for other text.

        >>> InputShape.of("image:0=1,32,32,3")
        InputShape(name='image:0', shape=(1, 32, 32, 3))
        """
        name, _, extents = text.rpartition("=")
        if not re.fullmatch(_EXTENTS, extents):
            raise InputError(f"{shown(text)} is not of the form NAME=EXTENT,EXTENT,..., write it as in image=1,224,224,3.")
        shape = tuple(map(int, extents.split(",")))
        if prod(shape) > MAX_ELEMENTS:
            raise InputError(f"{shown(text)} has {prod(shape)} elements, give {MAX_ELEMENTS} at most.")
        for extent in shape:
            if not 1 <= extent <= MAX_EXTENT:
                raise InputError(f"{shown(text)} has an extent of {extent}, give 1 to {MAX_EXTENT}.")
        return cls(name, shape)


class ShapedSource(str):
    """A model's source (a path, ``zoo:NAME`` or ``portfolio:NAME``) with the shapes of its inputs, and the tensors that are NHWC.

    It can replace any source; :func:`npu_testbed.models.sources.load_model` reads the model with these changes.
    """

    __slots__ = ("layouts", "shapes")
    shapes: tuple[InputShape, ...]
    layouts: tuple[ChannelsLast, ...]

    def __new__(  # noqa: PYI034  # Python 3.10 has no Self
        cls, source: str, shapes: Sequence[InputShape] = (), layouts: Sequence[ChannelsLast] = ()
    ) -> ShapedSource:
        """The source with these shapes and layouts."""
        made = super().__new__(cls, source)
        made.shapes, made.layouts = tuple(shapes), tuple(layouts)
        return made

    def __reduce__(self) -> tuple[type[ShapedSource], tuple[str, tuple[InputShape, ...], tuple[ChannelsLast, ...]]]:
        """The source for another process."""
        return ShapedSource, (str(self), self.shapes, self.layouts)

    @property
    def option(self) -> str:
        """The option that the user gave, or the first of two."""
        return "--input-shape" if self.shapes else "--layout"
