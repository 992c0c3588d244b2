"""Transposing: kernels on feature maps whose height and width are exchanged.

The MAC array takes the columns of a map in pairs (ublocks of 1 x 2 and 2 x 2). Therefore 25 x 5 elements cost the same as 25 x 6, and 5 x
25 elements the same as 5 x 26. Either axis may be a kernel's height, as long as its window is transposed too. Tensors inside the network
are stored in the new order. Tensors that others see keep their order, and are addressed with the strides of the two axes exchanged (NHWC).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.brick_tensors import Bricks, NhwcForm, bricks_by_tensor, in_forms, in_place, is_pixel, with_window_exchanged
from cascader.ethosu.forms.workbench import Workbench, in_best_block, kernel_cycles, of_depth
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network, tensor_maps
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, LONGEST_STRIDE, FeatureMap, KernelOperation, Layout
from npu_model.shapes import round_up

WORTHWHILE = 0.99
"""Transposing is taken if the estimated cycles of all kernels shrink to this share or less: a smaller gain is not worth a search."""

_TRIED = 4
"""Number of kernels that are tried as the first transposed one."""


def _is_narrower_turned(operation: KernelOperation, accelerator: Accelerator) -> bool:
    """Whether whole ublocks cover fewer elements of the OFM if its axes are exchanged."""
    (height, width), ublock = (operation.ofm.shape.height, operation.ofm.shape.width), accelerator.ofm_ublock
    upright, turned_over = (round_up(a, ublock.height) * round_up(b, ublock.width) for a, b in ((height, width), (width, height)))
    return turned_over < upright


class _Choice(Struct, frozen=True):
    """A choice of parts to transpose.

    ``tensors`` are stored transposed; ``dense`` tensors become NHWC, because some of their parts are not transposed.
    """

    parts: frozenset[str]
    tensors: Mapping[str, Bricks]
    dense: Mapping[str, NhwcForm]


def _may_be_turned(payload: EthosuPart, bricks: Mapping[str, Bricks]) -> bool:
    """Whether each of the kernel's maps is in NHWC, a single pixel, or in a tensor whose bricks are understood.

    A window whose row step is longer than the NPU's runs row by row; it could not run column by column.
    """
    steps_far = payload.operation.kernel.stride_y > LONGEST_STRIDE
    if payload.axis is not Axis.ROWS or steps_far:
        return False
    for name, feature_map in payload.maps:
        known = name in bricks and feature_map.region == ARENA
        if not known and not (feature_map.is_single_tile and (feature_map.layout is Layout.NHWC or is_pixel(feature_map))):
            return False
    return True


def _able(network: Network, bricks: Mapping[str, Bricks]) -> tuple[str, ...]:
    """The kernels that may be transposed, in their order; ``bricks`` are the network's tensors in bricks."""
    return tuple(name for name, payload in network.kernels.items() if _may_be_turned(payload, bricks))


def _choice(network: Network, bricks: Mapping[str, Bricks], parts: Collection[str]) -> _Choice:
    """The choice of these parts, and the layouts of their tensors."""
    parts = frozenset(parts)
    users: dict[str, set[str]] = {}
    for part, payload in network.kernels.items():
        for name, _ in tensor_maps(payload):
            users.setdefault(name, set()).add(part)
    tensors = {name: one for name, one in bricks.items() if users[name] <= parts}
    mixed = {name: one for name, one in bricks.items() if users[name] & parts and not users[name] <= parts}
    # Pixels of whole bricks: both kinds of kernels read them, and each begins at a word.
    dense = {name: NhwcForm(one.height, one.width, one.bricks * BRICK * one.element, one.element) for name, one in mixed.items()}
    return _Choice(parts, tensors, dense)


def _turned(payload: EthosuPart, choice: _Choice, accelerator: Accelerator, sources: Sources) -> KernelOperation | None:
    """The operation on transposed maps, in the fastest block of its depth, with its old weights; None if no block fits."""

    def moved(name: str | None, feature_map: FeatureMap) -> FeatureMap:
        form = choice.tensors.get(name) if name is not None and feature_map.region == ARENA else None
        return form.transposed(feature_map) if form is not None else in_place(feature_map)

    operation = with_window_exchanged(payload.on_maps(moved))
    depth = operation.block.depth if operation.weights else min(BRICK, operation.block.depth)
    best = in_best_block(of_depth(operation, depth, accelerator), accelerator, (sources,))
    return best.operation if best is not None else None


def _made(network: Network, choice: _Choice, accelerator: Accelerator, sources: Sources) -> Network | None:
    """The network with its choice transposed, with its old weights; None if a kernel has no block for it."""
    dense, changed = in_forms(network, choice.dense), {}
    for name, kernel in dense.kernels.items():
        operation = _turned(kernel, choice, accelerator, sources) if name in choice.parts else kernel.operation
        if operation is None:
            return None
        changed[name] = replace(kernel, operation=operation)
    return dense.with_kernels(changed)


def _best(network: Network, accelerator: Accelerator, sources: Sources) -> frozenset[str]:
    """The transposed kernels, from one kernel on, with which the network is estimated to be fastest; none if it is not worth it.

    The kernels' cycles in the network, and in the fully transposed one, say where to begin; the best starts are tried.
    """
    forms, kernels = bricks_by_tensor(network), network.kernels
    able = _able(network, forms)
    if not any(_is_narrower_turned(kernels[name].operation, accelerator) for name in able):
        return frozenset()

    def cycles(parts: Collection[str]) -> dict[str, float] | None:
        made = _made(network, _choice(network, forms, parts), accelerator, sources)
        return kernel_cycles(made.kernels, accelerator, sources) if made is not None else None

    before, after = kernel_cycles(kernels, accelerator, sources), cycles(able)
    if after is None:
        return frozenset()
    saved = [before[name] - after[name] for name in able]
    firsts = sorted(range(len(able)), key=lambda first: (-sum(saved[first:]), first))[:_TRIED]
    best, least = frozenset[str](), WORTHWHILE * sum(before.values())
    for first in firsts:
        found = cycles(able[first:])
        if found is not None and sum(found.values()) <= least:
            best, least = frozenset(able[first:]), sum(found.values())
    return best


def _with_weights(network: Network, changed: Network, parts_turned: Collection[str], accelerator: Accelerator) -> Network:
    """``changed`` with the weights of ``network``, encoded for transposed windows where its parts are transposed."""
    bench, kernels, encoded = Workbench(changed, accelerator), network.kernels, dict[str, KernelOperation]()
    for name, kernel in changed.kernels.items():
        before = kernels[name].operation
        # A window of one element has no weights to transpose.
        turns = name in parts_turned and before.weights and before.kernel.elements > 1
        encoded[name] = bench.with_weights(kernel.operation, bench.weights(before).swapaxes(1, 2)) if turns else kernel.operation
    return bench.changed(encoded)


def with_transposed(network: Network, names: Collection[str], accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with the named kernels transposed if possible. It is unchanged if one of them has no block for it."""
    forms = bricks_by_tensor(network)
    parts = frozenset(names) & frozenset(_able(network, forms))
    changed = _made(network, _choice(network, forms, parts), accelerator, sources) if parts else None
    return network if changed is None else _with_weights(network, changed, parts, accelerator)


def transposed(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with its kernels transposed from the first one on for which it pays. It is unchanged if it never pays."""
    return with_transposed(network, _best(network, accelerator, sources), accelerator, sources)


def transposed_in_place(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with all possible kernels transposed, on tensors that keep their rows. It is unchanged if a kernel has no block for it.

    The tensors in bricks become NHWC, and stripes are cut along the kernels' columns, which are the tensors' rows. So stripes may be as low
    as before, at the price of fetches pixel by pixel.
    """
    forms = bricks_by_tensor(network)
    able, dense = _able(network, forms), {name: form.dense for name, form in forms.items()}
    made = _made(network, _Choice(frozenset(able), {}, dense), accelerator, sources)
    if made is None:
        return network
    kernels = made.kernels
    along = made.with_kernels({name: replace(kernels[name], axis=Axis.COLUMNS) for name in able})
    return _with_weights(network, along, able, accelerator)
