"""Streamed pools: a pool over all rows of a map becomes sums (or maxima) of a few rows each, and a small pool over these.

A global pool reads a whole tensor at once, so no kernel before it can be cut. Sums of a few rows need only these rows, and are far smaller
than the map. A map of one row is cut along its columns instead.

- An average of 8 bits becomes sums of windows so small that no sum leaves 16 bits, and an average over these with the old scale. The sums
  are a depthwise convolution with weights of 1, or an average that divides by 1, by their estimated cycles.
- A mean of 8 bits is a depthwise convolution with weights of 1 to 32 bits, as in Vela. It becomes the same sums, and one sum over these.
- A mean of 16 bits, or of rows so long that their sums leave 16 bits, becomes sums of 32 bits, which are added in pairs.
- An average of 16 bits, or of such rows, becomes the same sums, and a product with a factor that rounds each of them to the same average.
- A maximum becomes a maximum of maxima.
- A dense map of few channels is summed as a map of more channels and fewer columns, with the same bytes: the NPU sums all channels of a
  block at once. The sums of these channels are then summed in turn.
- A pool that a compiler splits, or flattens to a row, because its window is too large, becomes one pool first.

The same integers are rescaled by the same factors, so the same bytes are written. Kernels that write wider elements than they read occur in
Vela 5.2's own streams: DEPTHWISE from 8 or 16 bits to 32 (MEAN), CONV from 8 to 16, POOL from 8 to 16 and from 16 to 8 (QUANTIZE). So does
the product from 32 bits to 16, with a factor in memory (MEAN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.average_factors import averages
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.forms.pool_cuts import PoolCut, in_channels, pool_cut, times_in_channels, whole_axis
from cascader.ethosu.forms.split_sums import whole_sums
from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import ARENA, EthosuPart, Network
from cascader.graph.cascader_graph import Tensor, TensorKind
from npu_model.accelerator import Accelerator
from npu_model.program import (
    AccumulatorFormat,
    Activation,
    ActivationKind,
    DataType,
    ElementwiseKind,
    FeatureMap,
    KernelOperation,
    OperationKind,
    Padding,
    PoolKind,
    Rounding,
    Scale,
)
from npu_model.weight_stream.streams import has_streams
from npu_model.weight_stream.weights import RECORD_BYTES, ChannelScale, decode_scales, encode_scales

_INT16, _INT32 = DataType(16, signed=True), DataType(32, signed=True)
_CLAMP = Activation(ActivationKind.NONE, _INT16.minimum, _INT16.maximum)
"""The clamp of a sum: the range of 16 bits for 16-bit results, and none for 32 bits; Vela sets the same."""
_SMALLEST = 1024
"""A pool of a map with fewer bytes stays: no arena is so small that they matter."""
_TALLEST, _LARGEST = 64, 64 * 64
"""The most rows, and the most elements, of a depthwise convolution's window (Vela 5.2's supported operators)."""
_HIGHEST = 256
"""The most rows, or columns, of a pool's window (Vela 5.2's supported operators)."""
_FEW = 2
"""Rows of sums in a stripe for comparing kernels: stripes are low if bytes are short."""
_QUICKER = 0.9
"""Sums of a few rows replace a mean if they take less than this share of its estimated cycles. The margin covers the estimates' errors."""
_MOST_CHANNELS = 32
"""The most channels in which a map of few channels is summed: blocks with more channels take no fewer cycles."""
_HARDLY_MORE = 1.05
"""Bytes that a pool may hold above the minimum, if it takes fewer cycles with them."""
_NARROW = 8
"""Bits of a map whose sums have 16 bits."""
_ONE = {8: ChannelScale(0, 1 << 30, 30), 16: ChannelScale(0, 1 << 14, 14)}
"""Record that scales a sum by 1, by the bits of the map. Vela uses the same records for a mean."""


class _Made(Struct, frozen=True):
    """The kernels of a pool, and the tensors between them. ``held`` bytes of the map and of the first such tensor exist at once."""

    kernels: tuple[EthosuPart, ...]
    tensors: tuple[Tensor, ...]
    held: int


def _is_sum(operation: KernelOperation, maker: KernelMaker) -> bool:
    """Whether the operation is a depthwise convolution that sums elements to 32 bits without scaling the sums."""
    if operation.kind is not OperationKind.DEPTHWISE or not has_streams(operation):
        return False
    if operation.ofm.dtype != _INT32 or operation.activation.kind is not ActivationKind.NONE:
        return False
    records = decode_scales(maker.records(operation), operation.ofm.shape.depth)
    unscaled = all(one.bias == 0 and one.scale == 1 << one.shift for one in records)
    return unscaled and bool((maker.weights(operation) == 1).all())


def _convolved(operation: KernelOperation, maker: KernelMaker) -> KernelOperation | None:
    """The sums over the operation's windows as a depthwise convolution, in its best block; None if no block fits."""
    bits, depth, window = operation.ifm.dtype.bits, operation.ofm.shape.depth, operation.kernel
    sums = operation.having(
        kind=OperationKind.DEPTHWISE,
        pool=None,
        activation=_CLAMP,
        rounding=Rounding.DOUBLE if bits == _NARROW else Rounding.NATURAL,
        accumulator=AccumulatorFormat.INT32 if bits == _NARROW else AccumulatorFormat.INT40,
        global_scale=False,
        ofm_scale=Scale(1, 0),
        part_kernel=False,
    )
    sums = maker.with_records(sums, encode_scales([_ONE[bits]] * depth)[: depth * RECORD_BYTES])
    return maker.of_weights(sums, np.ones((depth, window.height, window.width, 1), np.int16))


def _pooled(operation: KernelOperation, maker: KernelMaker) -> KernelOperation | None:
    """The 16-bit sums as averages that divide by 1; None if no block fits, or if windows reach beyond the map."""
    if operation.padding != Padding() or operation.ofm.dtype != _INT16:
        return None
    sums = operation.having(
        kind=OperationKind.POOL,
        pool=PoolKind.AVERAGE,
        activation=_CLAMP,
        weights=(),
        scales=(),
        rounding=Rounding.NATURAL,
        accumulator=AccumulatorFormat.INT32,
        global_scale=True,
        ofm_scale=Scale(1, 0),
        part_kernel=False,
        parallel_mode=0,
    )
    return maker.in_any_block(sums)


def _summed(cut: PoolCut, operation: KernelOperation, ofm: FeatureMap, maker: KernelMaker) -> KernelOperation | None:
    """The first kernel of a cut pool: the kind of sums that is estimated to be faster in stripes of a few rows."""
    whole = cut.first(operation, ofm)
    made = [one for one in (_pooled(whole, maker), _convolved(whole, maker)) if one is not None]
    return min(made, key=lambda one: maker.cycles([cut.stripe(one, _FEW)]), default=None)


def _added(
    cut: PoolCut, between: FeatureMap, ofm: FeatureMap, operation: KernelOperation, maker: KernelMaker
) -> Iterator[KernelOperation | None]:
    """The sum of an intermediate map along the axis: its second half is added to its first half until one element, in ``ofm``, is left."""
    left = cut.count
    while left > 1:
        half = left // 2
        first, second = (cut.part(between, *span) for span in ((0, half), (left - half, left)))
        yield maker.in_any_block(
            KernelOperation(
                OperationKind.ELEMENTWISE,
                first,
                ofm if half == left - 1 else first,
                operation.block,
                operation.shram,
                _CLAMP,
                elementwise=ElementwiseKind.ADD,
                ifm2=second,
                global_scale=True,
                opa_scale=Scale(1, 0),
                opb_scale=Scale(1, 0),
            )
        )
        left -= half


def _made(name: str, kernel: EthosuPart, cut: PoolCut, operations: Sequence[KernelOperation | None]) -> _Made | None:
    """The kernels: the first writes the intermediate tensor, and the others read it; None if one of them fits no block."""
    middle, factor = f"{name}/streamed", f"{name}/factor"
    made: list[EthosuPart] = []
    for number, operation in enumerate(operations):
        if operation is None:
            return None
        begins, ends = number == 0, number == len(operations) - 1
        source, target = kernel.ifm if begins else middle, middle if begins or not ends else kernel.ofm
        second = operation.ifm2 and (middle if operation.ifm2.region == ARENA else factor)
        table = kernel.lut if ends else None
        made.append(replace(kernel, operation=operation, ifm=source, ifm2=second, ofm=target, lut=table))
    between = made[0].operation.ofm
    shape = between.shape
    tensor = Tensor.dense(middle, TensorKind.INTERMEDIATE, (1, shape.height, shape.width, shape.depth), between.dtype.bytes)
    constants = (Tensor.dense(factor, TensorKind.CONSTANT, (1, 1, 1, 1), _INT32.bytes),) if any(one.ifm2 == factor for one in made) else ()
    return _Made(tuple(made), (tensor, *constants), cut.held(kernel.operation.ifm) + tensor.size)


def _tallest(operation: KernelOperation, cut: Axis, most: int) -> int:
    """The most elements along the axis whose sum, with all elements across it, never exceeds ``most``."""
    ifm, kernel = operation.ifm, operation.kernel
    furthest = max(ifm.dtype.maximum - ifm.zero_point, ifm.zero_point - ifm.dtype.minimum)
    beside = kernel.width if cut is Axis.ROWS else kernel.height
    return min(_TALLEST, min(most // furthest, _LARGEST) // beside)


def _narrow_sums(name: str, kernel: EthosuPart, axis: Axis, maker: KernelMaker, times: int = 1) -> _Made | None:
    """The kernels of an average or a mean, with 16-bit sums between them; the first kernel has ``times`` the channels."""
    operation = kernel.operation
    folded = in_channels(operation, times)
    cut = pool_cut(axis, folded, _tallest(folded, axis, _INT16.maximum), _INT16.bytes)
    if cut is None:
        return None
    between = _map_between(folded, cut, _INT16)
    first, rest = _summed(cut, folded, between, maker), cut.rest(operation, between, times)
    if operation.pool or not _is_too_tall(rest):
        return _made(name, kernel, cut, (first, maker.in_any_block(rest) if rest.pool else _convolved(rest, maker)))
    begun = _made(name, kernel, cut, (first,))
    if begun is None:
        return None
    middle = begun.tensors[0].name
    ended = _wide_sums(middle, replace(kernel, operation=rest, ifm=middle), axis, maker)
    return None if ended is None else _Made(begun.kernels + ended.kernels, begun.tensors + ended.tensors, begun.held)


def _is_too_tall(operation: KernelOperation) -> bool:
    """Whether the window is too large for a depthwise convolution."""
    return operation.kernel.height > _TALLEST or operation.kernel.elements > _LARGEST


def _wide_sums(name: str, kernel: EthosuPart, axis: Axis, maker: KernelMaker, times: int = 1) -> _Made | None:
    """The kernels of a mean, or of an average, with 32-bit sums between them; the first kernel has ``times`` the channels."""
    operation = kernel.operation
    folded = in_channels(operation, times)
    cut = pool_cut(axis, folded, _tallest(folded, axis, _INT32.maximum), _INT32.bytes)
    if cut is None:
        return None
    between = _map_between(folded, cut, _INT32)
    all_sums = replace(cut, count=cut.count * times)
    middle = dense_map(between, all_sums.between(operation.ofm.shape))
    total = all_sums.part(middle, 0, 1) if operation.pool else operation.ofm
    kernels = [_convolved(cut.first(folded, between), maker), *_added(all_sums, middle, total, operation, maker)]
    return _made(name, kernel, cut, [*kernels, averages(total, operation, maker)] if operation.pool else kernels)


def _map_between(operation: KernelOperation, cut: PoolCut, dtype: DataType) -> FeatureMap:
    return replace(dense_map(replace(operation.ofm, dtype=dtype), cut.between(operation.ofm.shape)), zero_point=0)


def _maxima(name: str, kernel: EthosuPart, axis: Axis, maker: KernelMaker) -> _Made | None:
    """The kernels of a maximum."""
    operation = kernel.operation
    ifm = operation.ifm
    cut = pool_cut(axis, operation, _HIGHEST, ifm.dtype.bytes)
    if cut is None:
        return None
    between = dense_map(ifm, cut.between(operation.ofm.shape))
    plain = operation.having(activation=Activation(ActivationKind.NONE, ifm.dtype.minimum, ifm.dtype.maximum))
    kernels = (cut.first(plain, between), cut.rest(operation, between))
    return _made(name, kernel, cut, tuple(map(maker.in_any_block, kernels)))


def _streamed(name: str, kernel: EthosuPart, maker: KernelMaker, *, whole: bool) -> list[_Made]:
    """The ways to replace a pool over a whole axis by kernels that read little at a time; none if exactness is unknown.

    A kernel is known to sum a map if it was split or flattened, and is ``whole`` again.
    """
    operation = kernel.operation
    axis = whole_axis(operation)
    if axis is None or operation.ifm.shape.elements * operation.ifm.dtype.bytes < _SMALLEST:
        return []
    if operation.pool is PoolKind.MAX:
        maxima = _maxima(name, kernel, axis, maker)
        return [] if maxima is None else [maxima]
    narrow, sums = operation.ifm.dtype.bits == _NARROW, whole or _is_sum(operation, maker)
    average = operation.pool is PoolKind.AVERAGE and operation.global_scale
    makes = (_narrow_sums,) * (narrow and (average or sums)) + (_wide_sums,) * sums
    folds = times_in_channels(operation, axis, _MOST_CHANNELS)
    ways = [one for make in makes for times in folds if (one := make(name, kernel, axis, maker, times)) is not None]
    return ways or [one for times in folds if average and (one := _wide_sums(name, kernel, axis, maker, times)) is not None]


def with_streamed_pools(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with kernels that read a few rows for every pool over all rows of a map.

    It is unchanged if none of them holds fewer bytes.
    """
    maker = KernelMaker(network, accelerator, sources)

    def best(_: Sequence[KernelOperation], ways: Sequence[_Made]) -> _Made | None:
        few = min((one.held for one in ways), default=0) * _HARDLY_MORE
        return min((one for one in ways if one.held <= few), key=lambda one: _cycles(one, maker), default=None)

    return _replaced(network, maker, best)


def with_quick_means(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with sums of a few rows, and one sum over these, for the means that are estimated to be faster this way.

    The window of a mean over both axes spans a whole map, and a depthwise convolution takes it position by position: sums save three
    quarters of the cycles. A mean over rows alone stays, and so do pools: two of them take as long as one.
    """
    maker = KernelMaker(network, accelerator, sources)

    def best(kernels: Sequence[KernelOperation], ways: Sequence[_Made]) -> _Made | None:
        first = kernels[0]
        if first.kind is not OperationKind.DEPTHWISE or first.ofm.shape.height * first.ofm.shape.width > 1 or not ways:
            return None
        quickest = min(ways, key=lambda one: _cycles(one, maker))
        return quickest if _cycles(quickest, maker) < maker.cycles(kernels) * _QUICKER else None

    return _replaced(network, maker, best)


def _cycles(made: _Made, maker: KernelMaker) -> float:
    return maker.cycles(one.operation for one in made.kernels)


_Best = Callable[[Sequence[KernelOperation], Sequence[_Made]], _Made | None]
"""Choose the best way to replace some kernels; None if the kernels themselves are best."""


def _replaced(network: Network, maker: KernelMaker, best: _Best) -> Network:
    """``network`` with its pools in the ``best`` way. Pools that a compiler has split or flattened come first."""
    kernels = network.kernels
    split = whole_sums(network, lambda operation: _is_sum(operation, maker))
    found = [*((one.names, one.kernel, True) for one in split), *(((name,), kernel, False) for name, kernel in kernels.items())]
    made: dict[str, tuple[EthosuPart, ...]] = {}
    tensors: list[Tensor] = []
    for names, kernel, whole in found:
        if any(name in made for name in names):
            continue
        ways = _streamed(names[-1], kernel, maker, whole=whole)
        one = best([kernels[name].operation for name in names], ways)
        if one is not None:
            made |= dict.fromkeys(names[:-1], ()) | {names[-1]: one.kernels}
            tensors += one.tensors
    return maker.replaced(made, tensors)
