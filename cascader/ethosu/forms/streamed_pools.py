"""Streamed pools: a pool over all rows of a map as sums (or maxima) of a few rows each, and a small pool over these.

A global pool reads a whole tensor at once, so that nothing before it could be cut. Sums of a few rows ask for these rows alone, and
are far smaller than the map. What is one row high is cut along its columns instead.

- An average of 8 bits is sums of windows so small that none leaves 16 bits, and an average over these with the scale that it had. What
  sums is a depthwise convolution with weights of 1, or an average that divides by 1, whichever is estimated to be faster.
- A mean of 8 bits is a depthwise convolution with weights of 1 to 32 bits, as Vela has it: it becomes the same sums, and one over these.
- A mean of 16 bits, or of rows so long that their sums leave 16 bits, is sums of 32 bits, which are added in pairs.
- A maximum is a maximum of maxima.

The same integers are rescaled by the same factors, so that the same bytes are written. Kernels that write wider than they read are those
of Vela 5.2's own streams: DEPTHWISE from 8 or 16 bits to 32 (MEAN), CONV from 8 to 16, POOL from 8 to 16 and from 16 to 8 (QUANTIZE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.kernel_maker import KernelMaker
from cascader.ethosu.forms.pool_cuts import PoolCut, pool_cut, whole_axis
from cascader.ethosu.job.feature_maps import dense_map
from cascader.ethosu.network.axis import Axis
from cascader.ethosu.network.network import EthosuPart, Network
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
"""The clamp of a sum: to what 16 bits hold, and none of 32 bits, for which Vela sets the same."""
_SMALLEST = 1024
"""Bytes of a map below which a pool of it stays: no arena is so small that they matter."""
_TALLEST, _LARGEST = 64, 64 * 64
"""Rows, and elements, of a depthwise convolution's window at most (Vela 5.2's supported operators)."""
_HIGHEST = 256
"""Rows, or columns, of a pool's window at most (the same)."""
_FEW = 2
"""Rows of sums in a stripe for which kernels are compared: few are made at a time where bytes are short."""
_QUICKER = 0.9
"""Share of a mean's estimated cycles below which its sums of a few rows are faster, whatever the estimates are off by."""
_NARROW = 8
"""Bits of a map whose sums are of 16 bits."""
_ONE = {8: ChannelScale(0, 1 << 30, 30), 16: ChannelScale(0, 1 << 14, 14)}
"""Record that scales a sum by 1, by the bits of the map: those that Vela has for a mean."""


class _Made(Struct, frozen=True):
    """The kernels of a pool, and the tensor between them."""

    kernels: tuple[EthosuPart, ...]
    tensor: Tensor


def _is_sum(operation: KernelOperation, maker: KernelMaker) -> bool:
    """Whether the operation is a depthwise convolution that sums elements to 32 bits, and does not scale the sums."""
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
    """The sums, of 16 bits, as averages that divide by 1; None if no block fits, or windows reach beyond the map."""
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
    )
    return maker.in_any_block(sums)


def _summed(cut: PoolCut, operation: KernelOperation, ofm: FeatureMap, maker: KernelMaker) -> KernelOperation | None:
    """The first kernel of a cut pool: sums by whichever kind of kernel is estimated to be faster in stripes of a few rows."""
    whole = cut.first(operation, ofm)
    made = [one for one in (_pooled(whole, maker), _convolved(whole, maker)) if one is not None]
    return min(made, key=lambda one: maker.cycles([cut.stripe(one, _FEW)]), default=None)


def _added(cut: PoolCut, between: FeatureMap, operation: KernelOperation, maker: KernelMaker) -> Iterator[KernelOperation | None]:
    """The sum of the elements of an intermediate map along the axis: its second half is added to its first one until one is left."""
    left = cut.count
    while left > 1:
        half = left // 2
        first, second = (cut.part(between, *span) for span in ((0, half), (left - half, left)))
        yield maker.in_any_block(
            KernelOperation(
                OperationKind.ELEMENTWISE,
                first,
                operation.ofm if half == left - 1 else first,
                operation.block,
                operation.shram,
                _CLAMP,
                elementwise=ElementwiseKind.ADD,
                ifm2=second,
                global_scale=True,
                opa_scale=Scale(1, 0),
                opb_scale=Scale(1, 0),
                parallel_mode=operation.parallel_mode,
            )
        )
        left -= half


def _made(name: str, kernel: EthosuPart, between: FeatureMap, operations: Sequence[KernelOperation | None]) -> _Made | None:
    """The kernels, the first to the tensor between them and the others from it; None if one of them fits into no block."""
    middle = f"{name}/streamed"
    made: list[EthosuPart] = []
    for number, operation in enumerate(operations):
        if operation is None:
            return None
        begins, ends = number == 0, number == len(operations) - 1
        source, target = kernel.ifm if begins else middle, kernel.ofm if ends else middle
        second, table = None if operation.ifm2 is None else middle, kernel.lut if ends else None
        made.append(replace(kernel, operation=operation, ifm=source, ifm2=second, ofm=target, lut=table))
    shape = between.shape
    extents = (1, shape.height, shape.width, shape.depth)
    return _Made(tuple(made), Tensor.dense(middle, TensorKind.INTERMEDIATE, extents, between.dtype.bytes))


def _tallest(operation: KernelOperation, cut: Axis, most: int) -> int:
    """Elements along the axis whose sums with all beside them are sure to be at most ``most``."""
    ifm, kernel = operation.ifm, operation.kernel
    furthest = max(ifm.dtype.maximum - ifm.zero_point, ifm.zero_point - ifm.dtype.minimum)
    beside = kernel.width if cut is Axis.ROWS else kernel.height
    return min(_TALLEST, min(most // furthest, _LARGEST) // beside)


def _narrow_sums(name: str, kernel: EthosuPart, axis: Axis, maker: KernelMaker) -> _Made | None:
    """The kernels of an average or a mean, with sums of 16 bits between them."""
    operation = kernel.operation
    cut = pool_cut(axis, operation, _tallest(operation, axis, _INT16.maximum), _INT16.bytes)
    if cut is None:
        return None
    between = _map_between(operation, cut, _INT16)
    first, rest = _summed(cut, operation, between, maker), cut.rest(operation, between)
    return _made(name, kernel, between, (first, maker.in_any_block(rest) if rest.pool else _convolved(rest, maker)))


def _wide_sums(name: str, kernel: EthosuPart, axis: Axis, maker: KernelMaker) -> _Made | None:
    """The kernels of a mean, with sums of 32 bits between them."""
    operation = kernel.operation
    cut = pool_cut(axis, operation, _tallest(operation, axis, _INT32.maximum), _INT32.bytes)
    if cut is None:
        return None
    between = _map_between(operation, cut, _INT32)
    return _made(name, kernel, between, (_convolved(cut.first(operation, between), maker), *_added(cut, between, operation, maker)))


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
    return _made(name, kernel, between, tuple(map(maker.in_any_block, kernels)))


def _streamed(name: str, kernel: EthosuPart, maker: KernelMaker) -> _Made | None:
    """The kernels of a pool over a whole axis, which read little at a time; None if it is another part or exactness is unknown."""
    operation = kernel.operation
    axis = whole_axis(operation)
    if axis is None or operation.ifm.shape.elements * operation.ifm.dtype.bytes < _SMALLEST:
        return None
    if operation.pool is PoolKind.MAX:
        return _maxima(name, kernel, axis, maker)
    narrow, sums = operation.ifm.dtype.bits == _NARROW, _is_sum(operation, maker)
    # The factor of an average is too wide for what multiplies 32 bits.
    averages = operation.pool is PoolKind.AVERAGE and operation.global_scale
    made = _narrow_sums(name, kernel, axis, maker) if narrow and (averages or sums) else None
    return _wide_sums(name, kernel, axis, maker) if made is None and sums else made


def with_streamed_pools(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with every pool over all rows of a map as kernels that read a few of them each; itself if none holds fewer bytes so."""
    return _replaced(network, KernelMaker(network, accelerator, sources), lambda *_: True)


def with_quick_means(network: Network, accelerator: Accelerator, sources: Sources) -> Network:
    """``network`` with those means as sums of a few rows, and one over these, that are estimated to be faster so.

    The window of a mean over both axes spans a whole map, which a depthwise convolution takes position by position: three quarters of the
    cycles go. One over rows alone is left, and so are pools: two of them take as long as one.
    """
    maker = KernelMaker(network, accelerator, sources)

    def is_faster(kernel: EthosuPart, made: _Made) -> bool:
        operation = kernel.operation
        if operation.kind is not OperationKind.DEPTHWISE or operation.ofm.shape.height * operation.ofm.shape.width > 1:
            return False
        return maker.cycles(one.operation for one in made.kernels) < maker.cycles([operation]) * _QUICKER

    return _replaced(network, maker, is_faster)


def _replaced(network: Network, maker: KernelMaker, worth: Callable[[EthosuPart, _Made], bool]) -> Network:
    """``network`` with its pools streamed where that is ``worth`` it."""
    found = ((name, _streamed(name, kernel, maker)) for name, kernel in network.kernels.items())
    made = {name: one for name, one in found if one is not None and worth(network.kernels[name], one)}
    return maker.replaced({name: one.kernels for name, one in made.items()}, [one.tensor for one in made.values()])
