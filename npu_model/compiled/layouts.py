"""Layouts: inputs and outputs that are NHWC in a network but NCHW in its model, as named in a .tflite file's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from npu_model.front import later

with later():
    from npu_model.tflite import model as tflite_models  # options name layouts, and numpy comes with it

if TYPE_CHECKING:
    from npu_model.program import Binding

NHWC = "NHWC"
"""The order of an array with the channels last, which the NPU reads and writes."""

LAYOUTS = "npu_testbed.layouts"
"""Name of the metadata: a JSON object with the order of each tensor whose order differs from the model's."""


def layouts_data(names: Sequence[str]) -> bytes:
    """The content of the metadata for tensors of these names.

    >>> layouts_data(["image"])
    b'{"image":"NHWC"}'
    """
    return msgspec.json.encode(dict.fromkeys(names, NHWC))


def read_layouts(metadata: Mapping[str, bytes]) -> tuple[str, ...]:
    """The names of NHWC tensors in the metadata; empty if the entry is missing or damaged.

    >>> read_layouts({LAYOUTS: b'{"image":"NHWC"}'}), read_layouts({LAYOUTS: b"["})
    (('image',), ())
    """
    try:
        found = msgspec.json.decode(metadata.get(LAYOUTS, b"{}"), type=dict[str, str])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ()
    return tuple(name for name, order in found.items() if order == NHWC)


def layouts_of(model: bytes) -> tuple[str, ...]:
    """The names of NHWC tensors in a model's file, which is parsed only if it may have the entry."""
    return read_layouts(tflite_models.read_tflite(model).metadata) if LAYOUTS.encode() in model else ()


def layout_sentences(names: Sequence[str], inputs: Sequence[Binding], outputs: Sequence[Binding]) -> tuple[str, ...]:
    """A sentence for each input and output whose order is not the model's, by its number."""
    ends = [(f"Input {number}", one) for number, one in enumerate(inputs)] + [
        (f"Output {number}", one) for number, one in enumerate(outputs)
    ]
    words = {4: (NHWC, "NCHW")}
    return tuple(
        "{0} is {2} ({1}), and {3} in the model.".format(
            end, "x".join(map(str, one.shape)), *words.get(len(one.shape), ("channels last", "channels first"))
        )
        for end, one in ends
        if one.name in names
    )
