"""Layouts: tensors whose channels do not fill bricks of 16 are stored densely, as NHWC, where every access allows it."""

from __future__ import annotations

from collections.abc import Iterable

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.brick_tensors import Bricks, NhwcForm, bricks_by_tensor, first_element, in_form, in_forms, maps_by_tensor
from cascader.ethosu.forms.workbench import kernel_cycles
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, FeatureMap
from npu_model.shapes import ceil_div

ANY_DEPTH = 1 << 16
"""Stands for no limit on a dense tensor's channels: a feature map has fewer."""


def _may_be_dense(bricks: Bricks, maps: Iterable[FeatureMap], largest_depth: int, *, in_parts: bool) -> bool:
    """Whether a tensor gains by a dense layout, and all of its accesses are of whole pixels.

    They begin with the first pixel, unless ``in_parts``.
    """
    depth = bricks.depth
    whole = all((first_element(m).channel if in_parts else m.base) == 0 and m.shape.depth == depth for m in maps)
    return bricks.height > 1 and whole and bricks.bricks == ceil_div(depth, BRICK) and depth % BRICK > 0 and depth <= largest_depth


class _Layouts:
    """The tensors of a network that may be dense."""

    def __init__(self, network: Network) -> None:
        self._maps = maps_by_tensor(network)
        self._bricks = bricks_by_tensor(network, self._maps)

    def dense(self, largest_depth: int, *, in_parts: bool = False) -> dict[str, NhwcForm]:
        """The dense forms of all tensors that have one."""
        found = self._bricks.items()
        return {name: one.dense for name, one in found if _may_be_dense(one, self._maps[name], largest_depth, in_parts=in_parts)}


def dense_variants(network: Network, largest_depth: int) -> tuple[Network, ...]:
    """The network of :func:`dense_layouts`, and that of :func:`denser_layouts` if it differs."""
    layouts = _Layouts(network)
    dense, denser = layouts.dense(largest_depth), layouts.dense(ANY_DEPTH, in_parts=True)
    return tuple(in_forms(network, forms) for forms in ((dense,) if dense == denser else (dense, denser)))


def dense_layouts(network: Network, largest_depth: int) -> Network:
    """``network`` with every intermediate tensor of at most ``largest_depth`` channels, not a multiple of 16, as NHWC.

    Bricks round 8 channels up to 16 and so double the memory; dense pixels cost part-beats instead. A tensor stays in
    bricks if it is read or written in slices, or in another shape.
    """
    return in_forms(network, _Layouts(network).dense(largest_depth))


def denser_layouts(network: Network) -> Network:
    """``network`` with tensors of any depth as NHWC, like :func:`dense_layouts`, even if their rows or columns are written in parts.

    The result of tiles is such a tensor. Each tile writes some of its columns.
    """
    return in_forms(network, _Layouts(network).dense(ANY_DEPTH, in_parts=True))


def pixel_layouts(network: Network) -> Network:
    """``network`` with every intermediate tensor in bricks as NHWC, so that it may be cut anywhere and roll along any axis."""
    return in_forms(network, {name: bricks.dense for name, bricks in bricks_by_tensor(network).items()})


def quick_layouts(network: Network, largest_depth: int, accelerator: Accelerator, sources: Sources) -> Network:
    """Like :func:`dense_layouts`, but tensors stay in bricks if their kernels are estimated to be faster with them.

    A kernel that takes fewer channels at a time than a dense pixel has fetches each pixel separately. Tensors are decided in their order:
    earlier tensors as chosen, later tensors dense.
    """
    forms = _Layouts(network).dense(largest_depth)
    kernels = network.kernels
    users = {tensor: [part.name for part in network.graph.parts if tensor in (*part.inputs, *part.outputs)] for tensor in forms}

    def cycles(chosen: dict[str, NhwcForm], names: list[str]) -> float:
        used = {name: in_form(kernels[name], chosen) for name in names if name in kernels}
        return sum(kernel_cycles(used, accelerator, sources).values())

    for name in tuple(forms):
        bricks = {other: form for other, form in forms.items() if other != name}
        if cycles(bricks, users[name]) < cycles(forms, users[name]):
            forms = bricks
    return in_forms(network, forms)
