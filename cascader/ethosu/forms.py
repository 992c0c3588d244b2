"""The forms of a network that are searched: other layouts, rows, block depths and pieces of the same mathematics."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from cascader.ethosu.columns import column_stripes
from cascader.ethosu.fold import folded
from cascader.ethosu.layouts import dense_layouts, quick_layouts
from cascader.ethosu.network import Network, ethosu_part
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from cascader.ethosu.reblock import reblocked
from cascader.ethosu.row_shapes import in_row_shapes
from cascader.ethosu.slices import LARGEST, sliced
from cascader.ethosu.source import Sources
from cascader.ethosu.table_slots import with_table_slots
from cascader.ethosu.turned import turned, turned_in_place
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory import MemorySystem

_PIECES = (12, 24, 40, 100)
"""Pieces of equal size into which all weights of a network are thought to be cut to find finer sizes of slices."""
_FINER = Fraction(3, 4)
"""What part of the next larger size a size may have: others hardly differ."""
_SMALLEST_PIECE = 2 * 1024
_LARGE = 30_000
"""Parts times rows of all parts above which a network is searched in two forms only, as each search takes long."""
_SMALL = 12_000
"""Parts times rows of all parts up to which a network is small."""
_PIECES_OF_LARGE = (40, 100)
"""As ``_PIECES``, for a large network: the first of these that gives pieces that are finer."""
_FLAT_PIECE, _FLAT_PIECES = LARGEST // 4, 16
"""Bytes of weights of a piece, and pieces of a layer at most, in networks that are cut along the columns."""


def _work(network: Network) -> int:
    """Parts times rows of all parts: how long a search takes, roughly."""
    payloads = [payload for part in network.graph.parts if (payload := ethosu_part(part)) is not None]
    return len(payloads) * sum(payload.axis.extent(payload.operation.ofm.shape) for payload in payloads)


def is_small(network: Network) -> bool:
    """Whether there is time to ask its groups for ``CascadeOptions.fine_rows`` too."""
    return _work(network) <= _SMALL


def _piece_sizes(network: Network, options: CascadeOptions) -> tuple[int, ...]:
    """Bytes of weights above which layers are cut, coarse and finer; 0 for not at all."""
    if not options.slices:
        return (0,)
    payloads = (ethosu_part(part) for part in network.graph.parts)
    total = sum(span.length for payload in payloads if payload is not None for span in payload.operation.weights)
    large = _work(network) > _LARGE
    sizes = [LARGEST]
    for pieces in (_PIECES_OF_LARGE if large else _PIECES) if options.fine_slices else ():
        size = max(_SMALLEST_PIECE, total // pieces)
        sizes += [size] if size <= sizes[-1] * _FINER else []
    return tuple(sizes[:2] if large else sizes)


def _flat_forms(base: Network, accelerator: Accelerator, options: CascadeOptions) -> list[Network]:
    """Forms of a network that is one row high, none of another: cut along the columns, and in pieces in the densest layout.

    Every stripe of columns reads the weights of its kernels anew, while a piece of a layer needs all columns of its input. So
    either all layers are cut along the columns; or those of many weights are, and the others into small pieces; or those
    without a window, which need no other columns than they make, and the others into pieces; or all are cut into pieces.
    """
    flat = [form for form in _each(column_stripes(base, depth) for depth in options.layouts) if form is not base] if options.columns else []
    found = [dense_layouts(sliced(base, accelerator, LARGEST // 2), options.layouts[-1])] if flat and options.slices else []
    for form in flat:
        found.append(form)
        if options.slices and options.fine_slices:
            found.append(sliced(form, accelerator, _FLAT_PIECE, _FLAT_PIECES))
            found.append(sliced(form, accelerator, LARGEST // 2, pointwise=False))
    return found


def variants(network: Network, accelerator: str, system: MemorySystem, options: CascadeOptions = DEFAULT_OPTIONS) -> tuple[Network, ...]:
    """The network as it is searched: once per layout, axis and size of slices, those left out that do not differ from others."""
    device = find_accelerator(accelerator)
    staged, direct = Sources.staged(system), Sources.direct(system)
    plain = with_table_slots(network, device) if options.table_slots else network
    plain = in_row_shapes(plain, device) if options.row_shapes else plain
    plain = folded(plain, device, staged) if options.fold else plain

    def encoded(form: Network, *sources: Sources) -> Network:
        return reblocked(form, device, sources) if options.reblock else form

    base = encoded(plain, direct, staged)
    coarse, *fine = _piece_sizes(network, options)
    layouts = options.layouts[-1:] if fine and _work(network) > _LARGE else options.layouts
    found = [dense_layouts(sliced(base, device, coarse, early=True) if coarse else base, depth) for depth in layouts]
    # Small pieces are tried in one layout only: where each of both gains anything, they hardly gain more together.

    def pieces(form: Network, size: int) -> Network:
        cut = encoded(sliced(form, device, size, early=True), staged)
        depth = options.layouts[-1]
        return quick_layouts(cut, depth, device, staged) if options.quick_layouts else dense_layouts(cut, depth)

    found += [pieces(plain, size) for size in fine]
    across = turned(plain, device, staged) if options.turn else plain
    if across is not plain:
        for form in (across, turned_in_place(plain, device, staged)):
            found.append(dense_layouts(sliced(encoded(form, direct, staged), device, coarse, early=True), options.layouts[-1]))
        found += [pieces(across, size) for size in fine]
    return _each(found + _flat_forms(base, device, options))


def _each(networks: Iterable[Network]) -> tuple[Network, ...]:
    """The networks without those that are equal to earlier ones."""
    seen: list[Network] = []
    for network in networks:
        if network not in seen:
            seen.append(network)
    return tuple(seen)
