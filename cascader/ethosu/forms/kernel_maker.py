"""KernelMaker: a workbench that finds blocks for new kernels, also for windows with steps longer than the NPU's."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import choose_block
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.workbench import Weights, Workbench, in_best_block, in_best_depth, of_depth
from cascader.ethosu.job.feature_maps import channels
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator
from npu_model.program import LONGEST_STRIDE, KernelOperation, OperationKind
from npu_model.shapes import Shape3D
from npu_model.weight_stream.weights import RECORD_BYTES


def _one_row(operation: KernelOperation) -> KernelOperation:
    """The first row of a kernel that runs row by row; any other kernel unchanged."""
    kernel, ifm, ofm = operation.kernel, operation.ifm, operation.ofm
    if kernel.stride_y <= LONGEST_STRIDE:
        return operation
    rows = Shape3D(kernel.dilated_height, ifm.shape.width, ifm.shape.depth)
    row = Shape3D(1, ofm.shape.width, ofm.shape.depth)
    return replace(
        operation,
        ifm=ifm.at(ifm.base, rows),
        ofm=ofm.at(ofm.base, row),
        kernel=replace(kernel, stride_y=1),
    )


class KernelMaker(Workbench):
    """Makes kernels for one device and its memories."""

    def __init__(self, network: Network, accelerator: Accelerator, sources: Sources) -> None:
        super().__init__(network, accelerator)
        self.sources = sources

    def cycles(self, operations: Iterable[KernelOperation]) -> float:
        """The estimated cycles of some kernels, each in its best block."""
        return sum(choose_block(operation, self.accelerator, self.sources)[1] for operation in operations)

    def in_block(self, operation: KernelOperation) -> KernelOperation | None:
        """The operation in its best block of the depth for which its weights are encoded; None if no block fits."""
        best = in_best_block(of_depth(_one_row(operation), operation.block.depth, self.accelerator), self.accelerator, (self.sources,))
        return replace(operation, block=best.operation.block, shram=best.operation.shram) if best is not None else None

    def in_any_block(self, operation: KernelOperation) -> KernelOperation | None:
        """The operation in its best block of any depth, with weights that are still coded for the old block; None if no block fits."""
        best = in_best_depth(_one_row(operation), self.accelerator, self.sources)
        if best is None:
            return None
        chosen = best.operation
        return replace(operation, block=chosen.block, shram=chosen.shram, part_kernel=chosen.part_kernel)

    def of_weights(self, operation: KernelOperation, weights: Weights) -> KernelOperation | None:
        """The operation, in its best block, with a stream of ``weights`` (OHWI); None if no block fits."""
        made = self.in_any_block(operation)
        return None if made is None else self.with_weights(made, weights)

    def encoded(self, before: KernelOperation, after: KernelOperation, shape: tuple[int, int, int, int]) -> KernelOperation | None:
        """``after``, in its best block, with the weights of ``before`` in another shape (OHWI); None if no block fits."""
        if not before.weights:
            return self.in_block(after)
        return self.of_weights(after, self.weights(before).reshape(shape))

    def channel_slice(self, operation: KernelOperation, first: int, last: int) -> KernelOperation | None:
        """The operation that makes some channels, with weights and scales of its own; None if no block fits.

        A depthwise convolution reads the same channels.
        """
        depthwise = operation.kind is OperationKind.DEPTHWISE
        ifm = channels(operation.ifm, first, last) if depthwise else operation.ifm
        piece = self.in_any_block(replace(operation, ofm=channels(operation.ofm, first, last), ifm=ifm))
        if piece is None:
            return None
        records = self.records(operation)[first * RECORD_BYTES : last * RECORD_BYTES]
        return self.with_weights(self.with_records(piece, records), self.weights(operation)[first:last])
