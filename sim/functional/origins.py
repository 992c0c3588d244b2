"""Origins of bytes: constants and copies of them, or what was computed, of which no run without arithmetic knows the values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu_model.errors import InputError
from npu_model.program import Binding, ByteRange, DmaOperation, FeatureMap
from sim.functional.boxes import boxes
from sim.functional.memory import RegionBytes
from sim.functional.regions import Regions, Store

_MASKS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}


class Origins:
    """For each byte of each memory whether it was computed: by a kernel, by an operator on the CPU, or as an input of the network."""

    def __init__(self) -> None:
        self._computed: dict[Store, NDArray[np.uint8]] = {}

    def _of(self, store: Store) -> NDArray[np.uint8]:
        if store not in self._computed:
            self._computed[store] = np.zeros(len(store), np.uint8)
        return self._computed[store]

    def compute(self, memory: RegionBytes, fm: FeatureMap) -> None:
        """Note that a kernel has written a feature map, which lies inside its region."""
        mask, kind = self._of(memory.regions[fm.region]), _MASKS[fm.dtype.bytes]
        for box in boxes(fm):
            np.ndarray(box.shape, kind, mask.data, box.start, box.strides)[...] = (1 << 8 * fm.dtype.bytes) - 1

    def compute_arrays(self, regions: Regions, bindings: Iterable[Binding]) -> None:
        """Note that arrays were written from outside of the NPU."""
        for binding in bindings:
            self._of(regions.regions[binding.region])[binding.byte_range.start : binding.byte_range.end] = 1

    def transfer(self, memory: RegionBytes, dma: DmaOperation) -> None:
        """Copy the origins of a transfer's bytes."""
        if not dma.to_shram:
            source = self._of(memory.regions[dma.source.region])[dma.source.start : dma.source.end].copy()
            self._of(memory.regions[dma.destination_region])[dma.destination : dma.destination + dma.length] = source

    def require_constant(self, memory: RegionBytes, span: ByteRange, user: str) -> None:
        """InputError if a byte of a weight stream was computed: a stream is made by the compiler."""
        computed = self._of(memory.regions[span.region])[span.start : span.end]
        if computed.any():
            byte = span.start + int(np.argmax(computed))
            raise InputError(
                f"{user} reads weights at bytes {span.start:#x} to {span.end:#x} of region {span.region}, of which byte {byte:#x} was "
                "computed and is not a copy of a constant: such weights cannot be decoded; the stream is wrong."
            )
