"""A schedule's TensorIR, compiled by LLVM and run, with the memory taken from that same compilation.

The run in an arena gets an arena full of noise between two guards. Changed bytes of the guards are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.network.network import Port
from cascader.tensorir.compat import load
from cascader.tensorir.measured import Measured, compile_measured
from cascader.tensorir.schedule_tir import ARENA_FUNCTION, BUFFERS_FUNCTION, ScheduleModule, schedule_module
from npu_model.errors import InputError

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by the name of the network's input or output."""

GUARD = 4096
"""Bytes before and after the arena that a run must not change."""

_ALIGNMENT = 64
"""Alignment in bytes of the memory that compiled code gets (TVM's default)."""


class ScheduleRun(Struct, frozen=True):
    """Result of one inference: outputs by name, counted multiply-accumulates by part, and two numbers of bytes that must be 0.

    ``stale`` counts staged bytes that were not the part's weights when a job used them. ``damaged`` counts changed bytes of the guards.
    """

    outputs: dict[str, NDArray[Any]]
    macs: dict[str, int]
    stale: int
    damaged: int


class CompiledSchedule(Struct, frozen=True, eq=False):
    """A schedule as machine code. The memory in ``measured`` is the memory of the run in buffers."""

    source: ScheduleModule
    measured: Measured

    def run_in_arena(self, inputs: Arrays, seed: int = 0) -> ScheduleRun:
        """One inference in an arena of exactly the schedule's size, at its addresses; ``seed`` makes the noise."""
        size = self.source.arena_size
        store = np.random.default_rng(seed).integers(0, 256, size + 2 * GUARD + _ALIGNMENT).astype(np.uint8)
        start = GUARD + -(store.ctypes.data + GUARD) % _ALIGNMENT
        before, behind = store[:start].copy(), store[start + size :].copy()
        # The array itself is used, not a copy: the guards must lie next to the bytes that the code writes.
        arena = load().tvm.runtime.from_dlpack(store[start : start + size])
        outputs, macs, stale = self._run(ARENA_FUNCTION, inputs, arena)
        damaged = int(np.count_nonzero(store[:start] != before)) + int(np.count_nonzero(store[start + size :] != behind))
        return ScheduleRun(outputs, macs, stale, damaged)

    def run_in_buffers(self, inputs: Arrays) -> ScheduleRun:
        """One inference in buffers that the code allocates itself, each of exactly its claimed size."""
        return ScheduleRun(*self._run(BUFFERS_FUNCTION, inputs), damaged=0)

    def _run(self, function: str, inputs: Arrays, *arena: Any) -> tuple[dict[str, NDArray[Any]], dict[str, int], int]:
        tensor, source = load().tvm.runtime.tensor, self.source
        given = np.concatenate([_bytes_of(port, inputs) for port in source.inputs])
        outputs = tensor(np.zeros(sum(port.size for port in source.outputs), np.uint8))
        counters = tensor(np.zeros(len(source.macs) + 1, np.int64))
        self.measured.library[function](*arena, tensor(given), outputs, tensor(source.pool), tensor(source.constants), counters)
        *counted, stale = counters.numpy().tolist()
        return _split(outputs.numpy(), source.outputs), dict(zip(source.macs, counted, strict=True)), stale


def _bytes_of(port: Port, arrays: Arrays) -> NDArray[np.uint8]:
    array = arrays.get(port.name)
    if array is None or str(array.dtype) != str(port.dtype) or array.nbytes != port.size:
        given = "not given" if array is None else f"given as {array.dtype} of shape {array.shape}"
        raise InputError(f"Input {port.name!r} is {given}: the network takes {port.dtype} of shape {port.shape}.")
    return np.frombuffer(array.tobytes(), np.uint8)


def _split(content: NDArray[np.uint8], ports: tuple[Port, ...]) -> dict[str, NDArray[Any]]:
    arrays, offset = {}, 0
    for port in ports:
        arrays[port.name] = np.frombuffer(content[offset : offset + port.size].tobytes(), str(port.dtype)).reshape(port.shape)
        offset += port.size
    return arrays


def compile_schedule(schedule: Schedule) -> CompiledSchedule:
    """A schedule compiled for this machine.

    InputError names the part if TensorIR cannot express one of its kernels.
    """
    source = schedule_module(schedule)
    return CompiledSchedule(source, compile_measured(source.module, BUFFERS_FUNCTION))
