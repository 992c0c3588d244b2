"""The outcome of ``npu-testbed device run``."""

from __future__ import annotations

from npu_testbed.documents.firmware import DeviceRunDocument
from npu_testbed.firmware.run import FirmwareRun
from npu_testbed.firmware.run_text import run_json, run_text
from npu_testbed.outcomes.outcome import Outcome


class DeviceRunOutcome(Outcome, frozen=True):
    """A run of firmware."""

    run: FirmwareRun

    @property
    def command(self) -> str:
        """``device run``."""
        return "device run"

    @property
    def passed(self) -> bool:
        """Whether the firmware ended by itself with exit code 0."""
        return self.run.passed

    def document(self) -> DeviceRunDocument:
        """The end of the run, and the NPU's counters."""
        return run_json(self.run)

    def text(self) -> str:
        """A table of the NPU's counters below a line on how the run ended."""
        return run_text(self.run)
