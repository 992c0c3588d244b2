"""Slices: convolutions with many weights cut along their output channels, so that the channel slices can be staged one by one.

A copy of a whole layer's weights needs room for all of them at once, and the layer starts only after the last byte has arrived. Slices need
less room, and the first slice can run while the next is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.forms.threads import of_each
from cascader.ethosu.forms.workbench import Workbench, fitted
from cascader.ethosu.job.feature_maps import channels
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, KernelOperation, OperationKind
from npu_model.shapes import Shape3D, ceil_div, round_up
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.streams import coded, has_streams
from npu_model.weight_stream.weights import RECORD_BYTES

LARGEST = 96 * 1024
"""Approximate limit on the weight bytes of a channel slice, whose channels are a multiple of 16."""

ANY = 1 << 30
"""Stands for no limit on the number of slices."""


def _count(operation: KernelOperation, largest: int) -> int:
    """Number of slices that the weights need, at most one for every 16 channels."""
    return min(ceil_div(sum(span.length for span in operation.weights), largest), ceil_div(operation.ofm.shape.depth, BRICK))


def _cuts(operation: KernelOperation, largest: int, lead: int = 0) -> list[tuple[int, int]]:
    """Channel ranges of the slices. All but the last have the same multiple of 16 channels.

    The first ``lead`` channels are a slice of their own.
    """
    depth = operation.ofm.shape.depth
    step = round_up(ceil_div(depth, _count(operation, largest)), BRICK)
    return ([(0, lead)] if lead else []) + [(first, min(depth, first + step)) for first in range(lead, depth, step)]


def _may_be_cut(operation: KernelOperation, largest: int) -> bool:
    weights = sum(span.length for span in operation.weights)
    whole = operation.ofm.region == ARENA and operation.ofm.tiles.height0 >= operation.ofm.shape.height
    return operation.kind is OperationKind.CONV_2D and has_streams(operation) and whole and weights > largest


def _slice(operation: KernelOperation, first: int, last: int, accelerator: Accelerator) -> KernelOperation | None:
    """The operation for some output channels, with the whole layer's weights and scales; None if its block does not fit."""
    ofm = channels(operation.ofm, first, last)
    depth = min(operation.block.depth, round_up(last - first, accelerator.ofm_ublock.depth))
    block = Shape3D(operation.block.height, operation.block.width, depth)
    return fitted(replace(operation, ofm=ofm, block=block), accelerator)


class _Slice(Struct, frozen=True):
    """Some output channels of an operation: the operation for them, and their weights in streams of their own."""

    channels: range
    operation: KernelOperation
    streams: tuple[bytes, ...]


def _slices(operation: KernelOperation, lead: int, bench: Workbench, largest: int) -> list[_Slice]:
    """The operation cut along its channels; empty if it cannot be cut."""
    if not _may_be_cut(operation, 0 if lead else largest):
        return []
    weights, made = bench.weights(operation), []
    for first, last in _cuts(operation, largest, lead if lead < operation.ofm.shape.depth else 0):
        one = _slice(operation, first, last, bench.accelerator)
        if one is None:
            return []
        made.append(_Slice(range(first, last), one, coded(weights[first:last], WeightFormat.of(one), bench.accelerator)))
    return made if len(made) > 1 else []


def _placed(kernel: EthosuPart, slices: Sequence[_Slice], bench: Workbench) -> list[EthosuPart]:
    """The kernels of the slices, with scales and weights of their own."""
    records = bench.records(kernel.operation)

    def placed(one: _Slice) -> KernelOperation:
        own = records[one.channels.start * RECORD_BYTES : one.channels.stop * RECORD_BYTES]
        return bench.with_streams(bench.with_records(one.operation, own), one.streams)

    return [replace(kernel, operation=placed(one)) for one in slices]


def sliced(network: Network, accelerator: Accelerator, largest: int = LARGEST, most: int = ANY, *, early: bool = False) -> Network:
    """``network`` with every convolution of more than ``largest`` bytes of weights cut into channel slices.

    A layer stays whole if it would have more than ``most`` slices. Slices are parts of their own that write the same tensor; each reads the
    whole input. ``early`` makes the first 16 channels of each NPU job's first part a slice of their own. Nothing runs while its weights are
    copied, so a small slice is better.
    """
    leads = {segment.parts[0]: BRICK for segment in network.segments if segment.parts} if early else {}
    bench = Workbench(network, accelerator)
    few = {name: kernel for name, kernel in network.kernels.items() if _count(kernel.operation, largest) <= most}
    cut = of_each(few, lambda name, kernel: _slices(kernel.operation, leads.get(name, 0), bench, largest) or None)
    return bench.replaced({name: _placed(few[name], slices, bench) for name, slices in cut.items()})
