"""The header of a weight stream's slice: the coding of its weights and zero runs, and the palette.

All codes and widths are those that Vela 5.2.0's ``mlw_codec`` writes and reads.
"""

from __future__ import annotations

from msgspec import Struct

from npu_model.errors import InputError
from npu_model.weight_stream.mlw_bits import Bits

_END, _NO_RUNS, _LAST_RUN_DIVISION = 7, 6, 3
_RAW, _LAST_DIVISION = 7, 5
_LONG_UNARY, _SHORT_UNARY = 12, 8
_SHORT_RUN_DIVISION = 3
"""From this remainder width on, zero runs have the short unary word."""
_WIDEST_LONG_RAW = 5
"""The widest uncompressed index with twelve indices to a chunk; wider indices come eight to a chunk."""


class Palette(Struct, frozen=True):
    """The way from an index to a weight: first the palette's entries, then direct values from ``direct_offset`` on.

    Entries and direct values hold the sign in bit 0 and the magnitude above it. ``bits`` is the width of an entry.
    """

    entries: tuple[int, ...]
    direct_offset: int
    bits: int

    @property
    def index_bits(self) -> int:
        """Width of an uncompressed index: the number of an entry, or the value itself if there are no entries."""
        return (len(self.entries) - 1).bit_length() if self.entries else self.bits


class Coding(Struct, frozen=True):
    """The code of one kind of symbol: symbols (or unary bits) per chunk, and bits of a remainder.

    ``raw`` symbols have no unary word: the remainder is the symbol. ``truncated`` unary codes end after two ones.
    """

    unary: int
    remainder: int
    raw: bool = False
    truncated: bool = False


class Header(Struct, frozen=True):
    """One slice: ``count`` indices (1 to 32768) with the code ``weights``, and a zero run after each with the code ``runs``, if any.

    A slice with a new palette has one more zero run, before its first weight. ``body`` is the bit after the header.
    """

    count: int
    weights: Coding
    runs: Coding | None
    palette: Palette
    new_palette: bool
    body: int

    @property
    def run_count(self) -> int:
        """Number of zero runs in the slice."""
        return self.count + self.new_palette if self.runs else 0


def _palette(bits: Bits, position: int) -> tuple[Palette, int]:
    """The palette at a bit position, and the bit after it: DIROFS 5, PALSIZE 5, PALBITS 3, entries."""
    offset, size = bits.field(position, 5), bits.field(position + 5, 5)
    width = bits.field(position + 10, 3) + 2
    first = position + 13
    entries = size + 1 if size else 0
    return (
        Palette(tuple(bits.field(first + i * width, width) for i in range(entries)), offset, width),
        first + entries * width,
    )


def _runs(division: int) -> Coding | None:
    if division == _NO_RUNS:
        return None
    return Coding(_SHORT_UNARY if division >= _SHORT_RUN_DIVISION else _LONG_UNARY, division)


def _weights(division: int, palette: Palette, *, truncated: bool) -> Coding:
    if division != _RAW:
        return Coding(_LONG_UNARY, division, truncated=truncated)
    width = palette.index_bits
    return Coding(_SHORT_UNARY if width > _WIDEST_LONG_RAW else _LONG_UNARY, width, raw=True)


def read_header(bits: Bits, position: int, palette: Palette | None) -> Header | None:
    """The slice header at a bit position, or None for an end mark; ``palette`` is the previous slice's.

    Layout: ZDIV 3, SLICELEN 15, WDIV 3, WTRUNC 1, NEWPAL 1 and, if NEWPAL is set, the palette. InputError if the stream ends within the
    header, if the hardware does not have a division, or if there is no palette to continue with.
    """
    run_division = bits.field(position, 3)
    if run_division == _END:
        return None
    division, new = bits.field(position + 18, 3), bool(bits.field(position + 22, 1))
    if run_division not in (*range(_LAST_RUN_DIVISION + 1), _NO_RUNS) or division not in (*range(_LAST_DIVISION + 1), _RAW):
        raise InputError(
            f"The weight slice at bit {position} divides zero runs by code {run_division} and weights by code {division}: 0 to 3 or 6 and "
            "0 to 5 or 7 are known; the file is damaged; compile the network again."
        )
    body = position + 23
    if new:
        palette, body = _palette(bits, body)
    if palette is None:
        raise InputError(
            f"The weight slice at bit {position} is the first of its stream but has no palette: one is needed; the file is cut off or "
            "damaged; compile the network again."
        )
    return Header(
        count=bits.field(position + 3, 15) + 1,
        weights=_weights(division, palette, truncated=bool(bits.field(position + 21, 1))),
        runs=_runs(run_division),
        palette=palette,
        new_palette=new,
        body=body,
    )
