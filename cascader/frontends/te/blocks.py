"""Blocks and weight streams: each kernel gets the block that the cost model finds fastest, and its constants are encoded for that block."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import candidates
from cascader.ethosu.cost.block_estimator import Estimator
from cascader.ethosu.cost.kernel_flow import kernel_flow
from cascader.ethosu.cost.kernel_load import operation_load
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.constants import StreamEditor
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.errors import InputError
from npu_model.program import AccumulatorFormat, ByteRange, KernelOperation, OperationKind
from npu_model.program.region_numbers import CONSTANTS
from npu_model.shapes import Shape3D, round_up
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.streams import coded, dealt_records
from npu_model.weight_stream.weights import RECORD_BYTES
from npu_model.weight_stream.work import operation_work

_DEPTHS = (16, 32, 64)
"""Block depths that are tried in addition to the whole depth of a shallow OFM."""

_FOLLOWED, _NEAR = 8, 1.05
"""Blocks of each depth that are simulated unit by unit: those with the smallest estimates, and the largest ones that are hardly slower."""

_ALIKE = 1.05
"""Limit on the cycles of a larger block, as a multiple of the fastest block's.

Within it the larger block is taken, because a stripe then reads its weights less often.
"""


class BlockMaker(Struct, frozen=True):
    """Chooses blocks for one device, whose kernels read from the given memories."""

    accelerator: Accelerator
    sources: Sources

    def blocked(self, operation: KernelOperation) -> KernelOperation:
        """An operation without weights in its best block; InputError if no block fits."""
        return self._best(operation, self._followed(accumulating(operation), ()))

    def encoded(
        self, operation: KernelOperation, weights: npt.NDArray[np.integer], records: bytes, constants: StreamEditor
    ) -> KernelOperation:
        """A filter in its best block. Its records, then its ``weights`` (OHWI, zero point off), are added to the constants."""
        best = self._best(operation, self._depths(accumulating(operation), weights))
        scales = constants.append_all(dealt_records(records[: len(weights) * RECORD_BYTES], self.accelerator))
        return replace(best, scales=scales, weights=constants.append_all(coded(weights, WeightFormat.of(best), self.accelerator)))

    def _depths(self, operation: KernelOperation, weights: npt.NDArray[np.integer]) -> Iterator[tuple[float, KernelOperation]]:
        """A filter in its best block of every depth, each with its cycles."""
        whole = self._whole(operation)
        for depth in sorted({whole, *(depth for depth in _DEPTHS if depth < whole)}):
            part_kernel = operation.kind is OperationKind.CONV_2D and _is_part_kernel(operation)
            start = replace(operation, part_kernel=part_kernel, block=replace(self.accelerator.ofm_ublock, depth=depth))
            streams = coded(weights, WeightFormat.of(start), self.accelerator)
            made = replace(start, weights=tuple(ByteRange(CONSTANTS, 0, len(stream)) for stream in streams))
            yield from self._followed(made, operation_work(made, streams, self.accelerator))

    def _whole(self, operation: KernelOperation) -> int:
        """The depth of a block that takes all channels, or the largest depth that fits."""
        return min(self.accelerator.max_block.depth, round_up(operation.ofm.shape.depth, self.accelerator.ofm_ublock.depth))

    def _followed(self, operation: KernelOperation, work: tuple[DecoderWork, ...], /) -> Iterator[tuple[float, KernelOperation]]:
        """The operation in its promising blocks. Each one is simulated block by block through the units."""
        query, one = BlockQuery.of(operation), self.sources
        if not operation.weights:
            operation = operation.having(block=replace(self.accelerator.ofm_ublock, depth=self._whole(operation)))
        blocks = candidates(operation, self.accelerator)
        cycles = Estimator(operation, self.accelerator, one).cycles_of(blocks)
        fitting = []
        for number in np.argsort(cycles, kind="stable"):
            block = Shape3D(*map(int, blocks[number]))
            shram = shram_partition(query, block, self.accelerator)
            if shram is not None:
                fitting.append((float(cycles[number]), operation.having(block=block, shram=shram)))
        near = [made for estimate, made in fitting if estimate <= fitting[0][0] * _NEAR]
        chosen = [*near[:_FOLLOWED], *sorted(near, key=_volume, reverse=True)[:_FOLLOWED]]
        for made in dict.fromkeys(chosen):
            load = operation_load(made, self.accelerator, work, one.maps.burst, one.constants.burst, one.timing)
            yield kernel_flow(load, one).cycles, made

    def _best(self, operation: KernelOperation, found: Iterator[tuple[float, KernelOperation]]) -> KernelOperation:
        known = list(found)
        if not known:
            shape, window = operation.ofm.shape, operation.kernel
            raise InputError(
                f"No block of {operation.mnemonic} with a window of {window.height} x {window.width} and {shape.depth} channels fits the "
                f"{self.accelerator.name}: use fewer channels, a smaller window or more MACs."
            )
        least = min(cycles for cycles, _ in known)
        best = max((made for cycles, made in known if cycles <= least * _ALIKE), key=_volume)
        return best.having(parallel_mode=self.accelerator.cores - 1)


def _volume(operation: KernelOperation) -> int:
    return operation.block.elements


def _is_part_kernel(operation: KernelOperation) -> bool:
    """Whether a convolution goes through the kernel's elements before the channels: it does if that leaves no more MAC inputs idle.

    The rule is Vela 5.2.0's. Up to 8 channels always do. More channels do if groups of 8 channels by 4 elements (2 of 16 bits) waste no
    more than groups of 32 (16) channels.
    """
    depth, elements = operation.ifm.shape.depth, operation.kernel.elements
    group, deep = (4, 32) if operation.ifm.dtype.bits == 8 else (2, 16)
    filled = Fraction(depth, round_up(depth, 8)) * Fraction(elements, round_up(elements, group))
    return depth <= 8 or filled >= Fraction(depth, round_up(depth, deep))


def accumulating(operation: KernelOperation) -> KernelOperation:
    """The operation with the accumulators that Vela gives it: 40 bits for filters and sums of 16-bit maps."""
    wide = operation.kind is not OperationKind.POOL and operation.ifm.dtype.bits == 16
    return replace(operation, accumulator=AccumulatorFormat.INT40) if wide else operation
