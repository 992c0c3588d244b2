"""Layouts of a network's inputs and outputs from ``--layout``, parsed from their text."""

from __future__ import annotations

from msgspec import Struct

from npu_model.compiled.layouts import NHWC
from npu_model.errors import InputError
from npu_model.printable import shown


class ChannelsLast(Struct, frozen=True):
    """A tensor that is NHWC: its name or a signature's, or ``input`` or ``output`` for all of them."""

    name: str

    @classmethod
    def of(cls, text: str) -> ChannelsLast:
        """The tensor in ``NAME=NHWC``; InputError for other text.

        >>> ChannelsLast.of("image:0=NHWC")
        ChannelsLast(name='image:0')
        """
        name, _, order = text.rpartition("=")
        if not name or order != NHWC:
            raise InputError(f"{shown(text)} is not of the form NAME={NHWC}, write it as in input={NHWC} or image={NHWC}.")
        return cls(name)
