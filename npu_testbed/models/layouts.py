"""Layouts that a user gives a network's inputs and outputs (``--layout``), read from their text."""

from __future__ import annotations

from msgspec import Struct

from npu_model.compiled.layouts import NHWC
from npu_model.errors import InputError
from npu_model.printable import shown


class ChannelsLast(Struct, frozen=True):
    """The tensor that a network takes as NHWC: its name or a signature's, or ``input`` or ``output`` for all of them."""

    name: str

    @classmethod
    def of(cls, text: str) -> ChannelsLast:
        """The tensor in a text ``NAME=NHWC``; InputError if it is not one.

        >>> ChannelsLast.of("image:0=NHWC")
        ChannelsLast(name='image:0')
        """
        name, _, order = text.rpartition("=")
        if not name or order != NHWC:
            raise InputError(f"{shown(text)} is not of the form NAME={NHWC}, write it as in input={NHWC} or image={NHWC}.")
        return cls(name)
