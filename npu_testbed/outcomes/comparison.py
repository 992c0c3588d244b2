"""The outcome of ``npu-testbed compare``."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import UNSET

from npu_testbed.comparisons.comparison import Comparison
from npu_testbed.comparisons.comparison_tables import comparison_json, comparison_text, robust_json
from npu_testbed.comparisons.summary import summary_table
from npu_testbed.cpu_time import DEFAULT_CPU, CpuTable, load_cpu_table
from npu_testbed.cpu_time.estimate import Inference, inference_json, inference_of, inference_sentence
from npu_testbed.documents.comparison import ComparedNetworkEntry, CompareDocument
from npu_testbed.documents.document import extended, given
from npu_testbed.findings import Finding
from npu_testbed.outcomes.outcome import Outcome
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.findings import findings_text
from npu_testbed.reports.frontier import frontier_deadline
from npu_testbed.reports.inputs_outputs import network_and_system
from npu_testbed.reports.tables import layers_text
from npu_testbed.reports.tolerance import frontier_within
from npu_testbed.views.frontier_plot import comparison_svg
from validation.layout import filled


class ComparisonOutcome(Outcome, frozen=True):
    """Our schedules of networks compared with Vela's.

    A single network also has the layers of our schedule in Vela Performance's bytes.

    ``simulation`` and ``findings`` are None where layers or findings are not shown; ``markdown`` makes the text a section of a page.
    ``cpu`` is the table of the operators' CPU cycles (None: the default).
    """

    comparisons: tuple[Comparison, ...]
    simulation: Simulation | None = None
    findings: Sequence[Finding] | None = None
    min_percent: float = 1.0
    markdown: bool = False
    cpu: CpuTable | None = None

    def inference(self, comparison: Comparison) -> Inference:
        """An inference by our schedule at Vela Performance's bytes or fewer. Every schedule leaves the same work to the CPU."""
        network, _ = network_and_system(comparison.frontier)
        return inference_of(network, comparison.chosen.cycles, comparison.frontier.clock_hz, self.cpu or load_cpu_table(DEFAULT_CPU))

    def deadline_text(self, milliseconds: float) -> str:
        """The smallest schedule of each network that meets a time per inference."""
        return "\n".join(frontier_deadline(one.frontier, milliseconds) for one in self.comparisons)

    def within_text(self, within: float) -> str:
        """The smallest schedule of each network within a share of the fastest one's cycles."""
        return "\n".join(frontier_within(one.frontier, within) for one in self.comparisons)

    def document(self) -> CompareDocument:
        """The networks, one by one, and the notes below their summary."""
        networks, notes = tuple(map(self._network, self.comparisons)), summary_table(self.comparisons).notes
        return extended(CompareDocument, self, networks=networks, summary=notes, findings=given(self.findings))

    def _network(self, comparison: Comparison) -> ComparedNetworkEntry:
        return extended(
            ComparedNetworkEntry,
            comparison_json(comparison),
            inference=inference_json(self.inference(comparison)),
            robust=UNSET if comparison.robust is None else robust_json(comparison.robust),
            energy=given(comparison.energy),
        )

    def text(self) -> str:
        """The comparison of one network with its layers, or the summary of several."""
        if self.markdown:
            return summary_table(self.comparisons).markdown().removesuffix("\n")
        if self.simulation is None:
            return summary_table(self.comparisons).text()
        heading = f"Ours in {self.simulation.planned_bytes:,} bytes, layer by layer:"
        layers = f"{heading}\n\n{layers_text(self.simulation.replay, self.min_percent)}"
        advice = [] if self.findings is None else [findings_text(self.findings, self.simulation)]
        inference = self.inference(self.comparisons[0])
        if inference.operators:
            layers += f"\n\n{filled(inference_sentence(inference))}"
        return "\n\n".join([comparison_text(self.comparisons[0]), layers, *advice])

    def _repr_html_(self) -> str:
        """The picture of each network, and the report."""
        return "".join(map(comparison_svg, self.comparisons)) + f"<pre>{escape(self.text())}</pre>"
