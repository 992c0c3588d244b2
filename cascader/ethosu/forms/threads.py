"""Work on the weights of several kernels in two threads. The compiled coder of weights runs without Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cascader.ethosu.network.network import EthosuPart

S = TypeVar("S")
T = TypeVar("T")

THREADS = 2
"""More threads would wait for Python's lock: the coder takes about half of the time."""

MANY_BYTES = 256 * 1024
"""Bytes of weights from which on a second thread pays. It saves MobileNetV1, of 4 MB, a quarter of the time of its forms."""


def weight_bytes(kernels: Iterable[EthosuPart]) -> int:
    """Bytes of the weight streams of some kernels."""
    return sum(span.length for kernel in kernels for span in kernel.operation.weights)


def for_each(work: Callable[[S], T], items: Sequence[S], size: int) -> list[T]:
    """The results of ``work`` on each item, in their order. ``work`` must not depend on the order. ``size`` is the bytes of all weights."""
    if size < MANY_BYTES:
        return [work(item) for item in items]
    # The threads end here, because a process with threads is not copied.
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, items))
