"""Columns: parts whose feature maps are one row high are cut along the width, and their tensors are stored pixel by pixel."""

from __future__ import annotations

from msgspec.structs import replace

from cascader.ethosu.forms.brick_tensors import Bricks, NhwcForm, bricks_by_tensor, in_forms
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.ethosu.network.views import view_of
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div, round_up


def _is_flat(kernel: EthosuPart) -> bool:
    """Whether all of the kernel's feature maps in the arena are one row high, and some are wider than a column.

    The operand may also hold the windows of a tensor with one row next to each other, so that its columns, with all their rows, follow each
    other.
    """
    maps = [feature_map for _, feature_map in kernel.maps if feature_map.region == ARENA]
    one_row = kernel.operation.ofm.shape.height == 1 and all(m.shape.height == 1 or _is_column_by_column(m) for m in maps)
    return one_row and any(m.shape.width > 1 for m in maps)


def _is_column_by_column(feature_map: FeatureMap) -> bool:
    return feature_map.layout is Layout.NHWC and view_of(feature_map).step(Axis.COLUMNS.number) is not None


def _is_wide(kernel: EthosuPart) -> bool:
    """Whether a feature map of the kernel in the arena has more than one pixel."""
    return any(m.shape.height * m.shape.width > 1 for _, m in kernel.maps if m.region == ARENA)


def is_along_columns(network: Network) -> bool:
    """Whether at least half of the kernels on more than a pixel are one row high."""
    kernels = network.kernels.values()
    return 2 * sum(map(_is_flat, kernels)) >= max(1, sum(map(_is_wide, kernels)))


def _by_pixels(bricks: Bricks, largest_depth: int) -> NhwcForm:
    """The form of a tensor with its pixels one after the other."""
    dense = bricks.dense
    return dense if bricks.depth <= largest_depth else replace(dense, pixel=round_up(dense.pixel, BEAT_BYTES))


def column_stripes(network: Network, largest_depth: int) -> Network:
    """``network`` with every part that is one row high cut along the width, and the tensors between such parts as NHWC.

    In bricks the channels of a column are apart, so that no column can be moved or overwritten alone. Pixels of at most ``largest_depth``
    channels are dense, others rounded up to whole beats. A tensor stays in bricks, and its parts uncut, if an access does not allow the
    form. A network is unchanged if less than half of its kernels on more than a pixel are such parts.
    """
    if not is_along_columns(network):
        return network
    cut = network.with_kernels({name: replace(kernel, axis=Axis.COLUMNS) for name, kernel in network.kernels.items() if _is_flat(kernel)})
    uncut = {name for name, found in cut.accesses().items() if any(kernel.axis is not Axis.COLUMNS for kernel, _ in found)}
    flat = {name: bricks for name, bricks in bricks_by_tensor(cut).items() if bricks.height == 1 and name not in uncut}
    whole = {name: bricks for name, bricks in flat.items() if ceil_div(bricks.depth, BRICK) == bricks.bricks}
    return in_forms(cut, {name: _by_pixels(bricks, largest_depth) for name, bricks in whole.items()})


_COUNTS = (4, 16)
"""Columns per stripe where memory counts more than cycles."""
_STRIPE_COUNTS = (2, 3, 4, 6)
"""Numbers of equal stripes into which a tensor is cut: the kernels of 1-D networks read all of their weights for each stripe."""


def column_counts(network: Network) -> tuple[int, ...]:
    """Possible numbers of columns in a stripe, in ascending order; none if no part is cut along the width."""
    along = (kernel for kernel in network.kernels.values() if kernel.axis is Axis.COLUMNS and _is_flat(kernel))
    widths = {kernel.operation.ofm.shape.width for kernel in along}
    equal = {ceil_div(width, count) for width in widths for count in _STRIPE_COUNTS}
    return tuple(sorted(equal.union(_COUNTS))) if max(widths, default=1) > 1 else ()
