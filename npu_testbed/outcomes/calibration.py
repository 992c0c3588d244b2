"""The outcomes of ``npu-testbed calibrate``: a fitted profile, and a profile checked against measurements."""

from __future__ import annotations

from msgspec import to_builtins

from npu_testbed.documents.calibration import CalibrateCheckDocument, CalibrateFitDocument
from npu_testbed.documents.document import checked
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.proofs.calibration import profile_json
from validation.calibrate import CalibrationCheck, CalibrationProfile, check_tables, fit_tables


class CalibrateFitOutcome(Outcome, frozen=True):
    """A profile that was fitted, and the file ``output`` that holds it."""

    profile: CalibrationProfile
    output: str

    def document(self) -> CalibrateFitDocument:
        """The parameters with their intervals, and the errors."""
        return CalibrateFitDocument(profile_json(self.profile), self.output)

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
        check = self.found
        facts = {
            "profile": self.name,
            "passed": check.passed,
            "generalises": check.generalises,
            "drifted": [point.name for point in check.drifted],
            "seen": to_builtins(check.seen),
            "unseen": to_builtins(check.unseen),
            "points": [to_builtins(one) | {"error": one.error, "default_error": one.default_error} for one in check.points],
        }
        return checked(CalibrateCheckDocument, facts)

    def text(self) -> str:
        """Each measurement in replay, and the errors."""
        return "\n\n".join(table.text() for table in check_tables(self.found))
