"""The outcome of ``npu-testbed schedule --device``: a plan of stripes for your own device."""

from __future__ import annotations

from cascader.plan.proposals import Proposal
from cascader.plan.stripe_trace import StripedGroup
from cascader.tensorir.device import OwnDevice
from cascader.tensorir.prove import RunProof
from cascader.tensorir.te_frontend import TeGraph
from npu_model.printable import printable
from npu_testbed.documents.document import extended
from npu_testbed.documents.firmware import DeviceRunDocument
from npu_testbed.documents.schedule import ScheduleDeviceDocument
from npu_testbed.firmware.run import FirmwareRun, run_text
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.reports.stripe_plans import groups_json, groups_text
from validation.layout import filled


class DeviceRunOutcome(Outcome, frozen=True):
    """A run of firmware."""

    run: FirmwareRun

    @property
    def passed(self) -> bool:
        """Whether the firmware ended by itself with exit code 0."""
        return self.run.passed

    def document(self) -> DeviceRunDocument:
        """The end of the run, and the NPU's counters."""
        return extended(DeviceRunDocument, self.run, output=self.run.text)

    def text(self) -> str:
        """A table of the NPU's counters below a line on how the run ended."""
        return run_text(self.run)


class DevicePlanOutcome(Outcome, frozen=True, eq=False):
    """Groups of parts with their stripes and buffers, and the run that proves the plan. ``output`` is the written file (empty: none)."""

    model: str
    device: OwnDevice
    graph: TeGraph
    proposal: Proposal[StripedGroup]
    proof: RunProof
    output: str = ""

    @property
    def memory_bytes(self) -> int:
        """Bytes of the device's memory that the plan needs."""
        return self.proposal.memory

    @property
    def cycles(self) -> int:
        """Planned cycles."""
        return self.proposal.cycles

    def document(self) -> ScheduleDeviceDocument:
        """The plan's figures, group by group."""
        return ScheduleDeviceDocument(
            model=self.model,
            device=self.device.name,
            memory_bytes=self.memory_bytes,
            planned_cycles=self.cycles,
            alive_bytes=self.proof.resident,
            groups=groups_json(self.graph.affine, self.proposal.plans),
            output=self.output,
        )

    def text(self) -> str:
        """The plan in a sentence, its groups, and the facts that the run proves."""
        file = f"{printable(self.output)}: " if self.output else ""
        count = len(self.proposal.plans)
        said = (
            f"{file}{printable(self.model)} for {printable(self.device.name)} in {count} group{'s' * (count != 1)}, "
            f"{self.memory_bytes:,} of {self.device.memory:,} bytes: {self.cycles:,} planned cycles"
        )
        table = groups_text(self.graph.affine, self.proposal.plans)
        proven = (
            f"Compiled by TVM and run: {self.proof.resident:,} bytes alive at once, each buffer and the work of each part as planned, "
            "outputs equal to those without stripes."
        )
        return "\n\n".join((filled(said), table, filled(proven)))
