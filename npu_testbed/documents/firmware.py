"""The document of ``device run``."""

from __future__ import annotations

from typing import Annotated, Literal

from npu_testbed.documents.document import STRUCTURE, Document, Entry, meaning
from npu_testbed.documents.units import Cycles


class NpuRun(Entry, frozen=True):
    """A run of an NPU of the chip."""

    npu: Annotated[int, meaning("Number of the NPU in the chip, from 0.")]
    start: Annotated[int, meaning("Cycle of the NPU's clock at which a run began.")]
    cycles: Cycles
    ending: Annotated[str, meaning("Cause of the end of a run of an NPU.")]


class DeviceRunDocument(Document, frozen=True, tag="device run"):
    """Output of firmware, runs of the NPUs, and the end."""

    chip: str
    core_cycles: Annotated[int | None, meaning("Cycles of the emulated core; null where its emulator does not count them.")]
    exit_code: Annotated[int | None, meaning("Exit code of the firmware; null if it did not end by itself.")]
    npu_runs: tuple[NpuRun, ...]
    output: str
    passed: bool
    stopped: str
    schema: Annotated[Literal[2], STRUCTURE] = 2
