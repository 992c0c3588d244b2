"""Columns: parts whose feature maps are one row high are cut along the width, and their tensors are stored pixel by pixel."""

from __future__ import annotations

from dataclasses import replace

from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, ethosu_part
from cascader.ethosu.rewrites.nhwc_form import NhwcForm, accesses, in_forms
from cascader.graph.cascader_graph import CascaderGraph, Part, Tensor, TensorKind
from npu_model.cost.traffic import BEAT_BYTES
from npu_model.program import BRICK, FeatureMap, Layout
from npu_model.shapes import ceil_div, round_up


def _is_flat(part: Part) -> bool:
    """Whether the part is a kernel all of whose feature maps in the arena are one row high, and some more than a column wide."""
    payload = ethosu_part(part)
    if payload is None:
        return False
    operation = payload.operation
    shapes = [m.shape for m in (operation.ifm, operation.ifm2, operation.ofm) if m is not None and m.region == ARENA]
    return all(shape.height == 1 for shape in shapes) and any(shape.width > 1 for shape in shapes)


def _along_columns(part: Part) -> Part:
    payload = ethosu_part(part)
    return replace(part, payload=replace(payload, axis=Axis.COLUMNS)) if payload is not None and _is_flat(part) else part


def _by_pixels(tensor: Tensor, found: list[tuple[EthosuPart, FeatureMap]], largest_depth: int) -> NhwcForm | None:
    """The form of ``tensor`` with its pixels one after the other; None if it has it, or an access does not allow it."""
    if tensor.kind is not TensorKind.INTERMEDIATE or not found:
        return None
    first = found[0][1]
    size, brick = first.dtype.bytes, BRICK * first.dtype.bytes
    for payload, m in found:
        alike = m.layout is Layout.NHCWB16 and m.strides == first.strides and m.dtype.bytes == size
        if payload.axis is not Axis.COLUMNS or not alike or not m.is_single_tile or m.tiles.bases[0] >= tensor.size:
            return None
    plane = first.strides.c
    if first.strides.y != tensor.size or plane < 1 or plane % brick or tensor.size % plane:
        return None
    width = plane // brick
    if any(m.tiles.bases[0] % plane // brick + m.shape.width > width for _, m in found):
        return None
    depth = max(m.tiles.bases[0] // plane * BRICK + m.shape.depth for _, m in found)
    if ceil_div(depth, BRICK) * plane != tensor.size:
        return None
    pixel = depth * size if depth <= largest_depth else round_up(depth * size, BEAT_BYTES)
    return NhwcForm(1, width, pixel, size)


def column_stripes(network: Network, largest_depth: int) -> Network:
    """``network`` with every part that is one row high cut along the width, and the tensors between such parts as NHWC.

    In bricks the channels of a column are apart, so that no column can be moved or overwritten alone. Pixels of at most
    ``largest_depth`` channels are dense, others rounded up to whole beats. A tensor stays in bricks, and its parts uncut, if an
    access does not allow the form. Nothing changes in a network of which less than half of the kernels are such parts.
    """
    graph = network.graph
    if 2 * sum(_is_flat(part) for part in graph.parts) < max(1, sum(ethosu_part(part) is not None for part in graph.parts)):
        return network
    along = replace(network, graph=CascaderGraph(tuple(_along_columns(part) for part in graph.parts), graph.tensors))
    found = accesses(along)
    forms = {t.name: form for t in graph.tensors if (form := _by_pixels(t, found.get(t.name, []), largest_depth)) is not None}
    return in_forms(along, forms)


_COUNTS = (4, 16)
"""Columns per stripe where little memory counts for more than cycles."""
_PIECES = (2, 3, 4, 6)
"""Numbers of equal stripes into which a tensor is cut: the kernels of 1-D networks read all of their weights for each stripe."""


def column_counts(network: Network) -> tuple[int, ...]:
    """Numbers of columns that a stripe may have, in ascending order; none if no part is cut along the width."""
    payloads = (payload for part in network.graph.parts if _is_flat(part) and (payload := ethosu_part(part)) is not None)
    widths = {payload.operation.ofm.shape.width for payload in payloads if payload.axis is Axis.COLUMNS}
    equal = {ceil_div(width, pieces) for width in widths for pieces in _PIECES}
    return tuple(sorted(equal.union(_COUNTS))) if max(widths, default=1) > 1 else ()
