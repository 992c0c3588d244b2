"""Modes that only some NPUs have: storage of a map, transposed outputs, sources of accumulators, resizing, strided transfers."""

from __future__ import annotations

from msgspec import Struct

from npu_model.program.coded import Coded


class MapStorage(Coded):
    """The storage of a feature map: four tiles of a memory, a chaining buffer, or none.

    A chaining buffer passes an OFM to the next kernel without memory; the map's region is then the buffer's number. A scalar operand has no
    storage, and neither has an OFM that is switched off. (Storage field of the U85's PRECISION registers.)
    """

    TILES = "TILES", 0
    CHAINED = "CHAINED", 2
    NONE = "NONE", 3


class Transpose(Coded):
    """Order of the OFM's axes in memory, as the letters of the computed axes (height, width, channels)."""

    HWC = "HWC", 0
    WHC = "WHC", 1
    HCW = "HCW", 2
    WCH = "WCH", 3
    CHW = "CHW", 6
    CWH = "CWH", 7

    @property
    def axes(self) -> tuple[int, int, int]:
        """The computed axis for each axis in memory.

        >>> Transpose.CHW.axes
        (2, 0, 1)
        """
        first, second, third = ("HWC".index(letter) for letter in self.name)
        return first, second, third


class Reverse(Coded):
    """The axis along which the OFM is written backwards."""

    NONE = "NONE", 0
    HEIGHT = "HEIGHT", 1
    WIDTH = "WIDTH", 2
    DEPTH = "DEPTH", 3

    @property
    def axis(self) -> int | None:
        """Number of the axis; None if there is none."""
        return self.code - 1 if self.code else None


class AccumulatorInput(Coded):
    """The accumulators' first value: zero, the previous kernel's accumulators, or the second operand."""

    RESET = "RESET", 0
    KEEP = "KEEP", 1
    IFM2 = "IFM2", 2


class TableFormat(Coded):
    """Elements of a look-up table: types of index and entry; OFM: the clip range and the OFM's type decide them."""

    OFM = "OFM", 0
    U8_U8 = "U8_U8", 1
    S8_S8 = "S8_S8", 4
    S8_S16 = "S8_S16", 5
    S8_S32 = "S8_S32", 7
    S16_S16 = "S16_S16", 8
    S16_S32 = "S16_S32", 9
    TANH = "TANH", 10
    SIGMOID = "SIGMOID", 11


class ResizeKind(Coded):
    """Parameter of NPU_OP_RESIZE."""

    BILINEAR = "BILINEAR", 0
    REPLICATE = "REPLICATE", 1
    NEAREST = "NEAREST", 2


class ResizeAxis(Struct, frozen=True):
    """Positions of a resize along one axis: output ``i`` lies at input ``(i * step + offset) / numerator``.

    ``step`` is ``quotient * numerator + remainder``; the ``block_`` terms are the same for the last element of an OFM block.
    """

    numerator: int
    offset: int
    quotient: int
    remainder: int
    block_quotient: int
    block_remainder: int

    @property
    def step(self) -> int:
        """Numerators from one output to the next."""
        return self.quotient * self.numerator + self.remainder


class Resize(Struct, frozen=True):
    """Arguments of NPU_OP_RESIZE: its kind, and the positions of rows and columns."""

    kind: ResizeKind
    y: ResizeAxis
    x: ResizeAxis


class Modes(Struct, frozen=True):
    """Modes of a kernel beyond the modes that every NPU has; the defaults are those of the U55.

    ``ublock`` is the height and width of the OFM microblock, (0, 0) if the NPU has only one. ``fast_weights`` and ``sparse_weights`` (two
    of four are zero) are formats of the weight stream; with ``weights_from_ifm2`` the second operand holds the weights. ``has_output`` is
    False if the accumulators are only kept. ``ifm_broadcast`` are the axes along which the first operand repeats.
    """

    ublock: tuple[int, int] = (0, 0)
    accumulators: AccumulatorInput = AccumulatorInput.RESET
    has_output: bool = True
    transpose: Transpose = Transpose.HWC
    reverse: Reverse = Reverse.NONE
    ifm_broadcast: tuple[bool, bool, bool] = (False, False, False)
    fast_weights: bool = False
    sparse_weights: bool = False
    weights_from_ifm2: bool = False
    resize: Resize | None = None


MODE_FLAGS = "no-output", "fast", "sparse", "weights-from-ifm2"
"""Words of a text for modes that are either on or off; see :func:`mode_flags`."""


def mode_flags(modes: Modes) -> tuple[bool, bool, bool, bool]:
    """Whether each of :data:`MODE_FLAGS` applies."""
    return not modes.has_output, modes.fast_weights, modes.sparse_weights, modes.weights_from_ifm2


PLAIN = Modes()
"""The modes of every kernel of a U55."""


class IndexList(Struct, frozen=True):
    """Row numbers of an indexed transfer: their address, the largest legal number, and the bytes from plane to plane.

    ``picks_source`` says that they choose rows of the source (a gather) and not of the destination (a scatter).
    """

    region: int
    address: int
    largest: int
    skip: int
    picks_source: bool


class Rows(Struct, frozen=True):
    """A transfer of many rows: ``count`` rows in each of ``planes``, with the bytes from row to row and plane to plane."""

    count: int
    planes: int = 1
    source: tuple[int, int] = (0, 0)
    destination: tuple[int, int] = (0, 0)
    indices: IndexList | None = None
