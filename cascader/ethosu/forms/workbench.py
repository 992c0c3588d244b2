"""The workbench of a rewrite: kernels in their best blocks for a device, and networks with some kernels replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import choose_block, choose_blocks
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.job.constants import StreamEditor, repacked
from cascader.ethosu.network.network import EthosuPart, Network, part_of
from cascader.graph.cascader_graph import Part, Tensor
from npu_model.accelerator import Accelerator
from npu_model.cost.shram import BlockQuery, shram_partition
from npu_model.program import BRICK, KernelOperation
from npu_model.shapes import Shape3D, round_up
from npu_model.weight_stream.kernels import kernel_weights
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.streams import coded, dealt_records, records_of

Weights = npt.NDArray[np.integer]
"""Weights as (output channels, height, width, input channels), zero point subtracted."""


def kernel_cycles(kernels: Mapping[str, EthosuPart], accelerator: Accelerator, sources: Sources) -> dict[str, float]:
    """Estimated cycles of some kernels, each in its best block of the depth of its weights."""
    return {name: choose_block(kernel.operation, accelerator, sources)[1] for name, kernel in kernels.items()}


def fitted(operation: KernelOperation, accelerator: Accelerator) -> KernelOperation | None:
    """The operation with the partition of the shared buffer for its block; None if the block does not fit."""
    shram = shram_partition(BlockQuery.of(operation), operation.block, accelerator)
    return operation.having(shram=shram) if shram is not None else None


def of_depth(operation: KernelOperation, depth: int, accelerator: Accelerator) -> KernelOperation:
    """The operation with the smallest block of ``depth`` channels."""
    return operation.having(block=Shape3D(accelerator.ofm_ublock.height, accelerator.ofm_ublock.width, depth))


class BestBlock(Struct, frozen=True):
    """An operation in the best block of its depth, with weights still coded for the old block, and its cycles from each source."""

    operation: KernelOperation
    cycles: tuple[float, ...]


def in_best_block(
    operation: KernelOperation, accelerator: Accelerator, sources: Sequence[Sources], decoding: int | None = None
) -> BestBlock | None:
    """The operation in the block of its depth that is best for the first source; None if no block fits."""
    if fitted(operation, accelerator) is None:
        return None
    found = choose_blocks(operation, accelerator, sources, decoding)
    best = fitted(operation.having(block=found[0][0]), accelerator)
    return BestBlock(best, tuple(cycles for _, cycles in found)) if best is not None else None


def in_best_depth(operation: KernelOperation, accelerator: Accelerator, sources: Sources) -> BestBlock | None:
    """The operation in the best block of any depth and order of weights; None if no block fits."""
    depth = round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth)
    depths = sorted({min(depth, accelerator.max_block.depth), *(some for some in (BRICK, 2 * BRICK, 4 * BRICK) if some < depth)})
    orders = [replace(operation, part_kernel=part_kernel) for part_kernel in (False, True)]
    found = [in_best_block(of_depth(order, deep, accelerator), accelerator, (sources,)) for deep in depths for order in orders]
    return min((best for best in found if best is not None), key=lambda best: best.cycles, default=None)


class Workbench:
    """A network while some of its kernels are replaced: their streams go to the end of its constants."""

    def __init__(self, network: Network, accelerator: Accelerator) -> None:
        self._network = network
        self._constants = StreamEditor(network.constants)
        self.accelerator = accelerator
        self.read, self.append = self._constants.read, self._constants.append

    def streams(self, operation: KernelOperation) -> tuple[bytes, ...]:
        """The weight stream of each core."""
        return tuple(map(self.read, operation.weights))

    def weights(self, operation: KernelOperation) -> Weights:
        """The weights of all channels of an operation."""
        return kernel_weights(operation, self.streams(operation), self.accelerator)

    def records(self, operation: KernelOperation) -> bytes:
        """The scale and bias records of all channels of an operation, in their order."""
        return records_of(tuple(map(self.read, operation.scales)), operation.ofm.shape.depth)

    def with_records(self, operation: KernelOperation, records: bytes) -> KernelOperation:
        """The operation with the scale and bias ``records`` of all of its channels."""
        return replace(operation, scales=self._constants.append_all(dealt_records(records, self.accelerator)))

    def with_weights(self, operation: KernelOperation, weights: Weights, *, keep: bool = False) -> KernelOperation:
        """The operation with ``weights`` in streams of its own, in its order of reading; its scales keep their address.

        With ``keep`` the weights are kept in memory, for a layer that may be cut later and needs them again.
        """
        return self.with_streams(operation, coded(weights, WeightFormat.of(operation), self.accelerator, keep=keep))

    def with_streams(self, operation: KernelOperation, streams: Sequence[bytes]) -> KernelOperation:
        """The operation with weights that are coded for it, on as many cores as there are streams."""
        return replace(operation, weights=self._constants.append_all(streams), parallel_mode=len(streams) - 1)

    def with_scales_again(self, operation: KernelOperation) -> KernelOperation:
        """The operation with a copy of its scales at the end, so that one transfer copies them and the next stream."""
        return replace(operation, scales=self._constants.append_all([self.read(span) for span in operation.scales]))

    def changed(self, operations: Mapping[str, KernelOperation]) -> Network:
        """The network with the operations of the named parts changed; the same network if none is named."""
        kernels = self._network.kernels
        return self.replaced({name: [replace(kernels[name], operation=operation)] for name, operation in operations.items()})

    def replaced(self, made: Mapping[str, Sequence[EthosuPart]], tensors: Sequence[Tensor] = ()) -> Network:
        """The network with the kernels ``made`` in place of the named parts, and more ``tensors``. It is unchanged if no part is named.

        One kernel keeps the name of its part; several are numbered. Constants and results that no kernel uses any more are dropped.
        """
        if not made:
            return self._network
        graph = self._network.graph
        parts = {part.name: _parts(part, made[part.name]) for part in graph.parts if part.name in made}
        still = {name for new in parts.values() for part in new for name in part.outputs}
        gone = {name for part in graph.parts if not made.get(part.name, (part,)) for name in part.outputs} - still
        kept = [tensor for tensor in graph.tensors if tensor.name not in gone]
        return self.finished(self._network.with_parts(parts, (*kept, *tensors)))

    def finished(self, network: Network) -> Network:
        """A network of kernels that were made here, with the constants that they use."""
        return repacked(network, self._constants)


def _parts(old: Part, kernels: Sequence[EthosuPart]) -> list[Part]:
    """The parts that replace one part, one for each kernel."""
    names = [old.name] if len(kernels) == 1 else [f"{old.name}/{number}" for number in range(len(kernels))]
    return [part_of(old, kernel, name) for name, kernel in zip(names, kernels, strict=True)]
