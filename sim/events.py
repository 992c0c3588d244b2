"""The events that a replay sends to its listeners: which unit was busy, which waited, and for what."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from msgspec import Struct

from npu_model.program import Program


class Unit(Enum):
    """The hardware units, by the names of Arm's PMU events and debug registers."""

    CC = "command processor"
    DMA = "DMA"
    IFM = "input load"
    WD = "weight decoder"
    MAC = "MAC array"
    AO = "output unit"
    OFM = "write-back"


class Cause(Enum):
    """Causes of a unit's waits."""

    COMMANDS = "command fetch"
    KERNEL_QUEUE = "kernel queue full"
    DMA_QUEUE = "DMA queue full"
    KERNEL_WAIT = "KERNEL_WAIT"
    DMA_WAIT = "DMA_WAIT"
    DRAIN = "outstanding work at the end"
    START = "kernel start"
    BLOCKDEP = "BLOCKDEP"
    SHRAM = "SHRAM reconfiguration"
    IB = "input buffer"
    WEIGHTS = "decoded weights"
    ACC = "accumulators"
    OB = "output buffer"
    SCALES = "scales"
    DW = "decoded-weight buffer full"
    AXI0 = "AXI0"
    AXI1 = "AXI1"


class Busy(Struct, frozen=True):
    """``unit`` worked for operation ``operation`` (index in the Program) from cycle ``start`` to ``end``."""

    unit: Unit
    start: int
    end: int
    operation: int


class Wait(Struct, frozen=True):
    """``unit`` waited for ``cause`` on behalf of operation ``operation`` from cycle ``start`` to ``end``."""

    unit: Unit
    cause: Cause
    start: int
    end: int
    operation: int


Event = Busy | Wait


class Listener(Protocol):
    """A receiver of a replay's events, which come in order of their end."""

    def on_start(self, program: Program) -> None:
        """Begin a Program; its events count cycles from 0 and operations by their index."""

    def on_event(self, event: Event) -> None:
        """Take one event."""
