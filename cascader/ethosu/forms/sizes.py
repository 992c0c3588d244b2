"""Sizes of networks. They decide which forms the search has time for, and how large the channel slices are."""

from __future__ import annotations

from fractions import Fraction

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.slices import LARGEST
from cascader.ethosu.network.network import Network
from npu_model.accelerator import Accelerator

MOST_PARTS = 256
"""The most parts of a form that recomputes work: to plan a larger one for each way to cut a network would take long."""
_SLICES = (12, 24, 40, 100)
"""Numbers of equal slices of all weights of a network: each gives a finer slice size to try."""
_FINER = Fraction(3, 4)
"""Largest ratio of a size to the next larger one: closer sizes hardly differ."""
_SMALLEST_SLICE = 2 * 1024
_LARGE = 30_000
"""Parts times rows of all parts, above which a network is searched in two forms only, because each search takes long."""
_SMALL = 12_000
"""Parts times rows of all parts, up to which a network is small."""
_SLICES_OF_LARGE = (40, 100)
"""Like ``_SLICES``, for a large network: the first of these that gives finer slices."""


def _rows(network: Network) -> list[int]:
    """The rows of each kernel."""
    return [kernel.axis.extent(kernel.operation.ofm.shape) for kernel in network.kernels.values()]


def _work(network: Network) -> int:
    """Parts times rows of all parts: a rough measure of the time of a search."""
    rows = _rows(network)
    return len(rows) * sum(rows)


def is_small(network: Network) -> bool:
    """Whether the search has time for ``CascadeOptions.fine_rows`` too."""
    return _work(network) <= _SMALL


def is_large(network: Network) -> bool:
    """Whether the search has time for few forms only."""
    return _work(network) > _LARGE


def is_flat(network: Network) -> bool:
    """Whether most tensors are one row high, as in an unrolled recurrent network. Such a network is searched quickly."""
    rows = _rows(network)
    return sum(rows) <= 2 * len(rows)


def waits_for_weights(network: Network, direct: Sources, accelerator: Accelerator) -> bool:
    """Whether a small network takes longer to read its weights at home than to run its MACs at full rate."""
    if not is_small(network):
        return False
    operations = [kernel.operation for kernel in network.kernels.values()]
    read = sum(span.length for operation in operations for span in operation.weights) * direct.constants.rate
    return read * accelerator.macs_per_cycle > sum(operation.macs for operation in operations)


def fine_sizes(network: Network) -> tuple[int, ...]:
    """Weight bytes above which layers are cut into finer slices than slices of :data:`LARGEST` bytes, in descending order."""
    total = sum(span.length for kernel in network.kernels.values() for span in kernel.operation.weights)
    large = is_large(network)
    sizes = [LARGEST]
    for slices in _SLICES_OF_LARGE if large else _SLICES:
        size = max(_SMALLEST_SLICE, total // slices)
        sizes += [size] if size <= sizes[-1] * _FINER else []
    return tuple(sizes[1:2] if large else sizes[1:])
