"""``npu-testbed validate all``: the whole suite as one scorecard."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from typing import TYPE_CHECKING, ClassVar

from npu_testbed.asked.ask import OfModels
from npu_testbed.commands.validate_networks import Models, model_sources

if TYPE_CHECKING:
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.validation import SuiteOutcome


class ValidateAll(OfModels["SuiteOutcome"], frozen=True):
    """Check every peer and print one scorecard.

    Measured streams are checked against the FVP's counters, and networks on the ethos-u55-128 against Vela's SRAM and estimate and LiteRT's
    bytes (not checked if LiteRT is not installed). About two minutes for the whole zoo. Status 1 if a bar is missed that is not a known
    miss.
    """

    examples: ClassVar[tuple[str, ...]] = ("npu-testbed validate all", "npu-testbed validate all zoo:ds_cnn zoo:resnet8 --json")

    models: Models = ()

    def answer(self, show: "Progress") -> "SuiteOutcome":
        """Make the scorecard; status 1 if a bar is missed."""
        from npu_testbed.outcomes.validation import SuiteOutcome
        from npu_testbed.proofs.suite import validate_all

        named = model_sources(self.models, self) if self.models else ()
        return SuiteOutcome(validate_all(named, show))
