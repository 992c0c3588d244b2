"""Other block depths: weights are encoded for another OFM block if that saves repeated reads of weights or feature maps.

A weight stream is encoded for one depth of the OFM block. A shallow block can be as high and wide as a small feature map, so that each
weight is read once; a deep block covers a part of the plane, and every part reads its weights again. But every block also reads the feature
maps again. Which of the two costs more depends on the memory of the weights. That memory is decided later, so the depth must suit both.

Blocks of different depths wait for each other. Accumulators exist for two blocks, so a block begins when the output of the second block
before it is done. 20 channels take a third more cycles in blocks of 16 and 4 than in one of 24. The estimate of a block does not see that.
So such kernels are simulated block by block, with the decoder's work for their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.block_choice import Ranking
from cascader.ethosu.cost.kernel_flow import kernel_flow
from cascader.ethosu.cost.kernel_load import operation_loads
from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.threads import of_each
from cascader.ethosu.forms.workbench import BestBlock, Weights, Workbench, fitted, in_best_block, of_depth
from cascader.ethosu.network.network import EthosuPart, Network
from npu_model.accelerator import Accelerator
from npu_model.program import BRICK, KernelOperation
from npu_model.shapes import round_up
from npu_model.weight_stream.kernels import kernel_weights
from npu_model.weight_stream.mlw_work import DecoderWork
from npu_model.weight_stream.order import WeightFormat
from npu_model.weight_stream.shares import decoding_cycles
from npu_model.weight_stream.streams import coded
from npu_model.weight_stream.work import operation_work

GAIN = 0.95
"""Largest share of the estimated cycles at which another depth is taken. A smaller gain is not worth a new stream."""

MOST_FOLLOWED = 32_768
"""Bytes of weights up to which every depth may be followed: more streams take too long to encode."""

SMALLEST = 2048
"""A layer with fewer bytes of weights keeps its depth, unless its blocks have different depths: in low stripes a new one may be slower."""

FOLLOWED = 8
"""Number of blocks of each depth that are simulated: those with the lowest estimates."""


def _depths(operation: KernelOperation, accelerator: Accelerator) -> list[int]:
    """Multiples of 16 below the OFM's depth, and the whole depth of a shallow OFM."""
    deepest = min(accelerator.max_block.depth, round_up(operation.ofm.shape.depth, accelerator.ofm_ublock.depth))
    return sorted({depth for depth in (BRICK, 2 * BRICK, 3 * BRICK, 4 * BRICK, 6 * BRICK) if depth < deepest} | {deepest})


def _is_uneven(channels: int, depth: int) -> bool:
    return channels > depth and channels % depth > 0


def is_uneven(operation: KernelOperation) -> bool:
    """Whether the last block along the channels is shallower than the earlier ones."""
    return _is_uneven(operation.ofm.shape.depth, operation.block.depth)


def _choices(
    operation: KernelOperation, depths: Sequence[int], accelerator: Accelerator, sources: Sequence[Sources], decoding: int
) -> list[BestBlock]:
    """The operation in its best block of its own depth and of each of some other depths."""
    others = (depth for depth in depths if depth != operation.block.depth)
    starts = (operation, *(of_depth(operation, depth, accelerator) for depth in others))
    choices = (in_best_block(start, accelerator, sources, decoding) for start in starts)
    return [choice for choice in choices if choice is not None]


def _better(found: Sequence[BestBlock], own: int) -> KernelOperation | None:
    """The best choice for all sources together, of equal ones the deepest, which reads the IFM least often.

    None if the ``own`` depth is good enough.
    """
    least = [min(column) for column in zip(*(choice.cycles for choice in found), strict=True)]
    scores = [sum(some / best for some, best in zip(choice.cycles, least, strict=True)) for choice in found]
    today = next((score for score, choice in zip(scores, found, strict=True) if choice.operation.block.depth == own), None)
    score, best = min(zip(scores, found, strict=True), key=lambda entry: (entry[0], -entry[1].operation.block.depth))
    return None if today is not None and score > today * GAIN else best.operation


class _Followed(Struct, frozen=True):
    """Operations in blocks of any depth, each block simulated through the units for each of some sources."""

    accelerator: Accelerator
    sources: tuple[Sources, ...]

    def best(self, operation: KernelOperation, weights: Weights) -> BestBlock | None:
        """The operation in the block of its depth with the fewest cycles from all sources together; None if no block fits."""
        if fitted(operation, self.accelerator) is None:
            return None
        streams = coded(weights, WeightFormat.of(operation), self.accelerator)
        work = operation_work(operation, streams, self.accelerator)
        ranking = Ranking(operation, self.accelerator, self.sources[0], decoding_cycles(work, self.sources[0].timing))
        blocks = (operation.having(block=block) for block in (operation.block, *ranking.near(FOLLOWED)))
        made = (fitted(one, self.accelerator) for one in blocks)
        return min((BestBlock(one, self._cycles(one, work)) for one in made if one is not None), key=lambda best: sum(best.cycles))

    def _cycles(self, operation: KernelOperation, work: tuple[DecoderWork, ...]) -> tuple[float, ...]:
        bursts = [(one.maps.burst, one.constants.burst) for one in self.sources]
        loads = operation_loads(operation, self.accelerator, work, bursts, self.sources[0].timing)
        return tuple(kernel_flow(load, one).cycles for load, one in zip(loads, self.sources, strict=True))


@lru_cache(maxsize=1024)
def _estimated(operation: KernelOperation, accelerator: Accelerator, sources: tuple[Sources, ...], decoding: int) -> KernelOperation | None:
    """The operation at the depth that is best for all sources together; None if its own depth is good enough.

    ``decoding`` is the cycles in which the decoder passes all weights once. The forms of a network ask for the same layers repeatedly, so
    results are kept.
    """
    return _better(_choices(operation, _depths(operation, accelerator), accelerator, sources, decoding), operation.block.depth)


@lru_cache(maxsize=256)
def _followed(
    operation: KernelOperation, accelerator: Accelerator, sources: tuple[Sources, ...], streams: tuple[bytes, ...], *, even: bool
) -> KernelOperation | None:
    """The operation at the best depth, each block followed; None if its own depth is good enough. ``streams`` are its weights.

    With ``even`` only depths count that give all of its blocks the same depth.
    """
    weights = kernel_weights(operation, streams, accelerator)
    depths = [depth for depth in _depths(operation, accelerator) if not (even and _is_uneven(operation.ofm.shape.depth, depth))]
    starts = (operation, *(of_depth(operation, depth, accelerator) for depth in depths))
    found = [_Followed(accelerator, sources).best(start, weights) for start in starts]
    return _better([best for best in found if best is not None], operation.block.depth)


class _Coded(Struct, frozen=True):
    """An operation in a block of another depth, and its weights coded for that depth."""

    operation: KernelOperation
    streams: tuple[bytes, ...]


def reblocked(network: Network, accelerator: Accelerator, sources: Sequence[Sources], *, followed: bool = False) -> Network:
    """``network`` with the block depths at which kernels are fastest for all ``sources`` of their constants together.

    With ``followed`` each block of layers with few weights is followed. The mathematics stay the same: the same weights in another order.
    """
    bench = Workbench(network, accelerator)
    # Kernels with the same streams, such as the tiles of a layer, get the same ones again.
    placed: dict[tuple[object, ...], KernelOperation] = {}

    def chosen(operation: KernelOperation, streams: tuple[bytes, ...]) -> KernelOperation | None:
        size, found = sum(map(len, streams)), None
        if followed and SMALLEST <= size <= MOST_FOLLOWED:
            return _followed(operation, accelerator, tuple(sources), streams, even=False)
        if size >= SMALLEST:
            work = operation_work(operation, streams, accelerator)
            found = _estimated(operation, accelerator, tuple(sources), decoding_cycles(work, sources[0].timing))
        return _followed(operation, accelerator, tuple(sources), streams, even=True) if found is None and is_uneven(operation) else found

    def deeper_or_shallower(_name: str, kernel: EthosuPart) -> _Coded | None:
        operation = kernel.operation
        found = chosen(operation, bench.streams(operation)) if operation.weights else None
        if found is None:
            return None
        return _Coded(found, coded(bench.weights(operation), WeightFormat.of(found), accelerator, keep=True))

    def changed(operation: KernelOperation, one: _Coded) -> KernelOperation:
        key = *operation.weights, *operation.scales, WeightFormat.of(one.operation)
        if key not in placed:
            placed[key] = bench.with_streams(bench.with_scales_again(one.operation), one.streams)
        return replace(one.operation, weights=placed[key].weights, scales=placed[key].scales)

    made = of_each(network.kernels, deeper_or_shallower)
    return bench.changed({name: changed(network.kernels[name].operation, one) for name, one in made.items()})


def recoded(network: Network, accelerator: Accelerator, most: int | None = None) -> Network:
    """``network`` with each weight stream in the shorter of two codings: its own, and this coder's.

    Streams of more than ``most`` bytes stay unchanged, because layers that are cut are coded later, in channel slices.
    """
    bench = Workbench(network, accelerator)

    def shorter(_name: str, kernel: EthosuPart) -> tuple[bytes, ...] | None:
        operation = kernel.operation
        held = sum(span.length for span in operation.weights)
        if not held or (most is not None and held > most):
            return None
        streams = coded(bench.weights(operation), WeightFormat.of(operation), accelerator)
        return streams if sum(map(len, streams)) < held else None

    operations = {name: kernel.operation for name, kernel in network.kernels.items()}
    made = of_each(network.kernels, shorter)
    return bench.changed({name: bench.with_streams(bench.with_scales_again(operations[name]), one) for name, one in made.items()})
