"""Work on the weights of several kernels in two threads. The compiled coder of weights runs without Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cascader.ethosu.network.network import EthosuPart

T = TypeVar("T")

THREADS = 2
"""More threads would wait for Python's lock: the coder takes about half of the time."""

MANY_BYTES = 256 * 1024
"""Bytes of weights from which on a second thread pays. It saves MobileNetV1, of 4 MB, a quarter of the time of its forms."""


def of_each(kernels: Mapping[str, EthosuPart], work: Callable[[str, EthosuPart], T | None]) -> dict[str, T]:
    """The results of ``work`` by the name of their kernel, in the kernels' order, without None. ``work`` must not depend on the order."""
    if sum(span.length for kernel in kernels.values() for span in kernel.operation.weights) < MANY_BYTES:
        found: Iterable[T | None] = map(work, kernels, kernels.values())
    else:
        # The threads end here, because a process with threads is not copied.
        with ThreadPoolExecutor(THREADS) as pool:
            found = pool.map(work, kernels, kernels.values())
    return {name: one for name, one in zip(kernels, found, strict=True) if one is not None}
