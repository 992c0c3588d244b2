"""The outcome of ``npu-testbed simulate``: a replay with the requested extras."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from msgspec import UNSET

from npu_testbed.documents.document import extended, given
from npu_testbed.documents.replay import SimulateDocument, SimulateScheduleDocument, SimulateVelaDocument
from npu_testbed.findings import Finding
from npu_testbed.measured.measured_text import measured_json, measured_text
from npu_testbed.measured.rows import Beside
from npu_testbed.outcomes.records import Records
from npu_testbed.outcomes.replayed import ReplayedOutcome
from npu_testbed.replays.recurrent import recurrent_layers
from npu_testbed.replays.simulation import Simulation
from npu_testbed.replays.streaming import StreamedInput
from npu_testbed.reports.cpu_operators import cpu_operators_json, cpu_operators_text
from npu_testbed.reports.findings import findings_text
from npu_testbed.reports.hazards import hazards_json, hazards_text
from npu_testbed.reports.stream import stream_text
from npu_testbed.reports.summary import Summary, replay_json, summarise, summary_text
from npu_testbed.reports.tables import layers_text, stalls_json, stalls_text
from npu_testbed.reports.unseen import unproven_json
from npu_testbed.views.arena_map import ArenaMap
from npu_testbed.views.sram_map import sram_map_svg
from sim.views.layers import LayerRow, layer_rows
from validation.layout import filled


class ReplayOutcome(ReplayedOutcome, frozen=True):
    """A replay of a schedule, ``kind`` ours or Vela's, and the requested extras.

    ``findings``, a measurement (``beside``) and a ``drawing`` are None or "" if not requested; ``trace`` is the path of a written trace.
    ``areas`` makes the map of the arena. ``stream`` is the run with an input whose rows arrive one by one.
    """

    kind: str
    simulation: Simulation
    areas: Callable[[], ArenaMap]
    findings: Sequence[Finding] | None
    beside: Beside | None = None
    drawing: str = ""
    trace: str = ""
    min_percent: float = 1.0
    stalls: bool = False
    cpu_operations: bool = False
    stream: StreamedInput | None = None

    @property
    def replayed(self) -> Simulation:
        """The replay."""
        return self.simulation

    @property
    def summary(self) -> Summary:
        """The figures of the replay."""
        return summarise(self.simulation)

    @property
    def layers(self) -> Records[LayerRow]:
        """The layers in their order, each with cycles, bound and traffic."""
        return Records(layer_rows(self.simulation.replay))

    def svg(self) -> str:
        """The arena over the cycles, as a picture."""
        return sram_map_svg(self.areas())

    def document(self) -> SimulateDocument:
        """The figures, the layers, and the requested extras."""
        facts = extended(
            SimulateDocument,
            replay_json(self.simulation),
            hazards=hazards_json(self.simulation.hazards),
            recurrent=recurrent_layers(self.simulation.replay),
            stalls=stalls_json(self.simulation.replay) if self.stalls else UNSET,
            measured=UNSET if self.beside is None else measured_json(self.beside),
            findings=given(self.findings),
            cpu_operations=cpu_operators_json(self.simulation.network) if self.cpu_operations else UNSET,
        )
        if self.kind == "vela":
            return extended(SimulateVelaDocument, facts, unproven=unproven_json(self.simulation) or UNSET)
        return extended(SimulateScheduleDocument, facts, stream=given(self.stream))

    def text(self) -> str:
        """The summary, the layers, and the requested extras."""
        return "\n\n".join(self._sections())

    def _sections(self) -> Iterator[str]:
        yield filled(self.headline)
        yield summary_text(self.simulation)
        if self.simulation.hazards:
            yield hazards_text(self.simulation.hazards)
        if self.stream is not None:
            yield stream_text(self.stream)
        yield layers_text(self.simulation.replay, self.min_percent)
        if self.beside is not None:
            yield measured_text(self.beside, self.min_percent)
        if self.stalls:
            yield stalls_text(self.simulation.replay)
        if self.drawing:
            yield self.drawing
        if self.cpu_operations:
            yield cpu_operators_text(self.simulation.network, self.simulation.inference)
        if self.findings is not None:
            yield findings_text(self.findings, self.simulation)
        if self.trace:
            yield f"Trace: {self.trace}"

    def _repr_html_(self) -> str:
        """The arena over the cycles, and the report."""
        return f"{self.svg()}<pre>{escape(self.text())}</pre>"
