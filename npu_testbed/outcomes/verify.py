"""The outcome of ``npu-testbed verify``."""

from __future__ import annotations

from collections.abc import Sequence

from npu_model.printable import printable
from npu_testbed.documents.document import extended, given
from npu_testbed.documents.verify import VerifyDocument
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.proofs.tensorir_proof import TensorirProof
from npu_testbed.proofs.verification import OutputComparison, Verification
from npu_testbed.reports.hazards import hazards_json, hazards_text
from validation.layout import filled, grid


def _result(row: OutputComparison) -> str:
    left = f", {row.undefined:,} could not be compared" if row.undefined else ""
    return f"{row.differing:,} of {row.size:,} bytes differ{left}"


class VerifyOutcome(Outcome, frozen=True):
    """The outputs of a file and its references. ``proof`` is the run in TensorIR, None if not requested."""

    verification: Verification
    proof: TensorirProof | None = None

    @property
    def comparisons(self) -> Sequence[OutputComparison]:
        """Each output with each reference: its bytes, and the number that differ."""
        return self.verification.comparisons

    @property
    def passed(self) -> bool:
        """Whether every difference has a reason, and no order of the operations could change an output."""
        return self.verification.passed and (self.proof is None or self.proof.passed)

    def document(self) -> VerifyDocument:
        """The comparisons, and the remarks."""
        proof = None if self.proof is None else self.proof.document()
        return extended(VerifyDocument, self.verification, hazards=hazards_json(self.verification.hazards), tensorir=given(proof))

    def text(self) -> str:
        """A row for each output and reference, and the remarks."""
        result = self.verification
        rows = [(printable(row.output), row.reference, _result(row)) for row in result.comparisons]
        same = "every order that the NPU may take gives the same bytes"
        order = "another order of its operations gives other bytes" if result.hazards else same
        inputs = f", {result.given} on inputs of yours, the others on random ones" if result.given else " on random inputs"
        how = f"{result.inferences} inferences{inputs}, seed {result.seed}" if result.inferences else order
        sections = [f"{printable(result.model)}: {how}"]
        sections += [grid(("output", "reference", "result"), rows, (True, True, True))] if rows else []
        sections += [filled(printable(result.remark, 4000))] if result.remark else []
        sections += [hazards_text(result.hazards, "Error")] if result.hazards else []
        return "\n\n".join(sections if self.proof is None else [*sections, self.proof.text()])
