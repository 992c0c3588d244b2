"""One operation on a bus: its inputs are fetched, it is executed bit by bit, and its results are stored.

Every operand becomes a memory of its own from its lowest address on, so that regions may lie anywhere and may overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from npu_model.accelerator import Accelerator
from npu_model.errors import InputError
from npu_model.memory.system import MemorySystem
from npu_model.program import ByteRange, DmaOperation, FeatureMap, KernelOperation, Operation, Program, Region, RegionRole
from sim.device.bus import Bus, BusError
from sim.device.commands import Commands
from sim.functional import FilterCache, RegionBytes, Store
from sim.functional.execute import execute
from sim.functional.hazards import require_no_hazard

COMMANDS, IFM, WEIGHTS, SCALES, MEM2MEM, OFM, MEM2MEM_WRITE = 0, 1, 2, 3, 4, 8, 9
"""Numbers of the DMA channels in STATUS.faulting_channel (core driver, PMCAXI_CHAN)."""

_MOST_RUNS = 64
"""Largest number of written runs that are stored one by one. More runs are read, changed and stored as one."""


class BusAbortError(Exception):
    """A bus abort: its AXI port and DMA channel, and the bus's message."""

    def __init__(self, port: int, channel: int, message: str) -> None:
        super().__init__(message)
        self.port, self.channel = port, channel


class OperandWindow(Struct, frozen=True):
    """The span of addresses of an operand: its region, first offset there and length, and the channel that moves it."""

    region: int
    start: int
    length: int
    channel: int


def _span(ranges: Sequence[ByteRange], channel: int) -> OperandWindow:
    low = min(part.start for part in ranges)
    return OperandWindow(ranges[0].region, low, max(part.end for part in ranges) - low, channel)


def windows(op: Operation) -> tuple[OperandWindow, ...]:
    """The operands of an operation, reads first; none if it is neither kernel nor transfer."""
    if isinstance(op, DmaOperation):
        source = _span((op.source,), MEM2MEM)
        return (source,) if op.to_shram else (source, OperandWindow(op.destination_region, op.destination, op.length, MEM2MEM_WRITE))
    if not isinstance(op, KernelOperation):
        return ()
    maps = [_span(fm.byte_ranges(), IFM) for fm in (op.ifm, op.ifm2) if fm is not None]
    streams = [_span((part,), channel) for parts, channel in ((op.weights, WEIGHTS), (op.scales, SCALES)) for part in parts]
    return (*maps, *streams, _span(op.ofm.byte_ranges(), OFM))


class Operands:
    """A running device's access to memory: base addresses, ports and SHRAM."""

    def __init__(self, device: Accelerator, bus: Bus, shram: Store, filters: FilterCache) -> None:
        self._device, self._bus, self._shram, self._filters = device, bus, shram, filters
        self.bases: tuple[int, ...] = ()
        self.system: MemorySystem | None = None

    def port(self, region: int) -> int:
        """The AXI port of a region, or of the queue (-1)."""
        if self.system is None:
            return 0
        return self.system.command_port if region < 0 else self.system.port_of(region)

    def _abort(self, region: int, channel: int, error: BusError) -> BusAbortError:
        return BusAbortError(self.port(region), channel, str(error))

    def fetch(self, window: OperandWindow) -> bytes:
        """The bytes of a window; BusAbortError if memory does not have them."""
        try:
            return self._bus.read(self.bases[window.region] + window.start, window.length)
        except BusError as error:
            raise self._abort(window.region, window.channel, error) from None

    def within_memory(self, found: Commands) -> Commands:
        """The commands up to the first that leaves memory, judged by the highest address of each region so far."""
        low, high = dict[int, int](), dict[int, int]()
        for index, op in enumerate(found.operations):
            for one in windows(op):
                new = {one.start} if one.start < low.get(one.region, one.start + 1) else set()
                new |= {one.start + one.length - 1} if one.start + one.length > high.get(one.region, 0) else set()
                try:
                    for place in new if one.length else ():
                        self.fetch(OperandWindow(one.region, place, 1, one.channel))
                except BusAbortError as abort:
                    return Commands(found.operations[:index], found.words[:index], str(abort), one.channel, one.region)
                low[one.region] = min(low.get(one.region, one.start), one.start)
                high[one.region] = max(high.get(one.region, 0), one.start + one.length)
        return found

    def _store(self, window: OperandWindow, first: int, data: bytes) -> None:
        try:
            self._bus.write(self.bases[window.region] + window.start + first, data)
        except BusError as error:
            raise self._abort(window.region, window.channel, error) from None

    def run(self, op: KernelOperation | DmaOperation, user: str) -> None:
        """Execute one operation; BusAbortError for missing memory, InputError for a result that is not public or not defined."""
        if isinstance(op, DmaOperation):
            self._transfer(op, user)
        else:
            self._kernel(op, user)

    def _transfer(self, op: DmaOperation, user: str) -> None:
        data = self.fetch(OperandWindow(op.source.region, op.source.start, op.source.length, MEM2MEM))
        if not op.to_shram:
            self._store(OperandWindow(op.destination_region, op.destination, op.length, MEM2MEM_WRITE), 0, data)
        elif op.destination + op.length > len(self._shram):
            raise InputError(f"{user} writes to byte {op.destination + op.length - 1:#x} of a SHRAM of {len(self._shram)} bytes.")
        else:
            self._shram.put(op.destination, data)

    def _kernel(self, op: KernelOperation, user: str) -> None:
        self._require_no_hazard(op, user)
        windows: list[OperandWindow] = []
        contents: list[bytes | None] = []

        def place(ranges: Sequence[ByteRange], channel: int, *, read: bool = True) -> tuple[int, int]:
            """Distance and region of an operand that moves into a memory of its own."""
            window = _span(ranges, channel)
            windows.append(window)
            contents.append(self.fetch(window) if read else None)
            return -window.start, len(windows) - 1

        def streams(ranges: tuple[ByteRange, ...], channel: int) -> tuple[ByteRange, ...]:
            return tuple(ByteRange(place((part,), channel)[1], 0, part.length) for part in ranges)

        def input_map(fm: FeatureMap | None) -> FeatureMap | None:
            return None if fm is None else fm.moved(*place(fm.byte_ranges(), IFM))

        inputs = {name: input_map(fm) for name, fm in (("ifm", op.ifm), ("ifm2", op.ifm2))}
        weights, scales = streams(op.weights, WEIGHTS), streams(op.scales, SCALES)
        ofm = op.ofm.moved(*place(op.ofm.byte_ranges(), OFM, read=False))
        here = replace(op, weights=weights, scales=scales, ofm=ofm, **inputs)
        regions = tuple(Region(i, RegionRole.UNUSED, window.length, contents[i] or b"") for i, window in enumerate(windows))
        program = Program(self._device.name, (here,), (0,), regions)
        memory = RegionBytes(program)
        memory.shram = self._shram
        execute(program, memory, filters=self._filters)
        self._write_back(windows[-1], memory.regions[ofm.region])

    def _require_no_hazard(self, op: KernelOperation, user: str) -> None:
        """Check for hazards by physical addresses, because regions may overlap."""
        maps = {name: fm and fm.moved(self.bases[fm.region], 0) for name, fm in (("ifm", op.ifm), ("ifm2", op.ifm2), ("ofm", op.ofm))}
        require_no_hazard(replace(op, **maps), user)

    def _write_back(self, window: OperandWindow, store: Store) -> None:
        runs = list(_runs(store.written))
        if len(runs) <= _MOST_RUNS:
            for first, end in runs:
                self._store(window, first, store.data[first:end].tobytes())
            return
        first, end = runs[0][0], runs[-1][1]
        before = np.frombuffer(self.fetch(OperandWindow(window.region, window.start + first, end - first, OFM)), np.uint8)
        merged = np.where(store.written[first:end] == 1, store.data[first:end], before)
        self._store(window, first, merged.astype(np.uint8).tobytes())


def _runs(written: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """First and end of every run of written bytes."""
    edges = np.flatnonzero(np.diff(written, prepend=0, append=0)).tolist()
    return zip(edges[::2], edges[1::2], strict=True)
