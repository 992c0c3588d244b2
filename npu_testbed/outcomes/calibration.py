"""The outcomes of ``npu-testbed calibrate``: a fitted profile, and a profile checked against measurements."""

from __future__ import annotations

from npu_testbed.devices.timing import timing_json
from npu_testbed.documents.calibration import CalibrateCheckDocument, CalibrateFitDocument, ProfileEntry
from npu_testbed.documents.document import extended
from npu_testbed.outcomes.outcome import Outcome
from validation.calibrate import CalibrationCheck, CalibrationProfile, check_tables, fit_tables


class CalibrateFitOutcome(Outcome, frozen=True):
    """A profile that was fitted, and the file ``output`` that holds it."""

    profile: CalibrationProfile
    output: str

    def document(self) -> CalibrateFitDocument:
        """The parameters with their intervals, and the errors."""
        timing = timing_json(self.profile.timing, self.profile.timing.__struct_fields__)
        profile = extended(ProfileEntry, self.profile, timing=timing, tools=dict(self.profile.tools))
        return CalibrateFitDocument(profile, self.output)

    def text(self) -> str:
        """The parameters with their intervals, and the errors."""
        return "\n\n".join([*(table.text() for table in fit_tables(self.profile)), f"Profile: {self.output}"])


class CalibrateCheckOutcome(Outcome, frozen=True):
    """The errors of the profile ``name`` on measurements."""

    name: str
    found: CalibrationCheck

    @property
    def passed(self) -> bool:
        """Whether the profile's own cycles are reproduced, and its error on left-out networks is near its error in sample."""
        return self.found.passed

    def document(self) -> CalibrateCheckDocument:
        """Each measurement in replay, and the errors."""
        drifted = [point.name for point in self.found.drifted]
        return extended(CalibrateCheckDocument, self.found, profile=self.name, drifted=drifted)

    def text(self) -> str:
        """Each measurement in replay, and the errors."""
        return "\n\n".join(table.text() for table in check_tables(self.found))
