"""Numbers that the engine and its fast twin share: channels, bursts, the command buffer, the DMA's chunks, and times of operations."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from npu_model.accelerator import Accelerator
from npu_model.memory.system import Memory
from npu_model.program import WORD_BYTES, KernelOperation
from npu_model.timing import TimingParameters

COMMAND_BUFFER_WORDS = 64
"""Words fetched ahead of the command processor, for each of the fetches that go out together. Undocumented."""

DMA_CHUNKS_AHEAD = 8
"""Chunks that the DMA requests before the oldest arrives: the reads that the AXI_LIMIT registers allow (32 of 64 bytes, U65: 64).

The U65's published runs, whose memory answers after 500 cycles, exclude two chunks; the U55's runs do not depend on it.
"""


def fetch_words(accelerator: Accelerator) -> int:
    """Words of the command fetches that go out together."""
    return accelerator.fetch_bytes // WORD_BYTES


def command_buffer_words(accelerator: Accelerator) -> int:
    """Words fetched ahead of the command processor."""
    return COMMAND_BUFFER_WORDS * accelerator.command_fetches


class Channel(IntEnum):
    """The DMA channels of the NPU, in arbitration order (PMCAXI_CHAN of the core driver)."""

    COMMANDS = 0
    IFM = 1
    WEIGHTS = 2
    SCALES = 3
    MEM2MEM = 4
    OFM = 5


def burst_beats(memory: Memory, channel: Channel, device: Accelerator, timing: TimingParameters) -> int:
    """Beats of a channel's longest transaction: the memory's burst, or for the IFM a part of the driver's default burst."""
    return memory.burst_words(device.port_bytes_per_cycle, timing.ifm_burst_divisor if channel is Channel.IFM else 0)


def most_weight_bursts(op: KernelOperation, device: Accelerator) -> int:
    """Weight transactions that a kernel may have under way, on all cores."""
    access = device.access
    bursts = min(access.fast_weight_bursts, access.weight_bursts) if op.modes.fast_weights else 0
    return (bursts or access.weight_bursts) * device.cores


class Times(Struct, frozen=True):
    """When an operation was issued to its queue and when it was finished, in cycles."""

    issued: int
    finished: int
