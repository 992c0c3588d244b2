"""The outcome of ``npu-testbed compile``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import UNSET

from npu_model.compiled.layouts import layout_sentences
from npu_model.front import later
from npu_model.printable import printable
from npu_testbed.compilation.compiler import Compilation
from npu_testbed.compilation.vela_summary import vela_summary_text
from npu_testbed.compilation.verdict import verdict_text
from npu_testbed.documents.document import extended
from npu_testbed.documents.replay import CompileDocument
from npu_testbed.outcomes.replayed import ReplayedOutcome
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.macs import macs_text
from npu_testbed.reports.summary import replay_json, summary_text
from npu_testbed.runtimes.runtime_use import RuntimeUse, of_schedule, placements
from npu_testbed.runtimes.runtime_words import homes_warning, runtimes_json, runtimes_text
from validation.layout import filled

with later():
    from npu_testbed.reports import cpu_operators, tables  # tables that an option adds


class CompilationOutcome(ReplayedOutcome, frozen=True, dict=True):
    """A compilation with its promise, and the bytes of the files that were written, by path.

    ``layers`` and ``cpu_operations`` add their tables to the text.
    """

    compilation: Compilation
    files: Mapping[str, int]
    layers: bool = False
    cpu_operations: bool = False

    @property
    def replayed(self) -> Simulation:
        """The replay."""
        return self.compilation.simulation

    @cached_property
    def runtimes(self) -> tuple[RuntimeUse, ...]:
        """The bytes that each runtime sets aside for the compiled file, and the cycles there."""
        simulation, plan = self.compilation.simulation, self.compilation.schedule
        if plan is not None:
            return of_schedule(plan, simulation.network, self.cycles)
        return placements(simulation.network, simulation.system, self.cycles, simulation.timing)

    def document(self) -> CompileDocument:
        """The figures, the layers, the promise and the files."""
        simulation = self.compilation.simulation
        return extended(
            CompileDocument,
            replay_json(simulation),
            runtimes=runtimes_json(self.runtimes),
            promise=self.compilation.verdict,
            recomputed_macs=0 if self.compilation.schedule is None else self.compilation.schedule.network.recomputed_macs,
            files=dict(self.files),
            cpu_operations=cpu_operators.cpu_operators_json(simulation.network) if self.cpu_operations else UNSET,
        )

    def text(self) -> str:
        """The promise, the lines that Vela prints, the summary, and the files."""
        simulation, reports = self.compilation.simulation, self.compilation.reports
        lines = vela_summary_text(reports.summary, reports.layers, cycles=self.layers, operators=self.cpu_operations)
        sections = [filled(self.headline), verdict_text(self.compilation.verdict), lines, summary_text(simulation)]
        plan = self.compilation.schedule
        sections += [] if plan is None else [macs_text(simulation.network, plan.network.recomputed_macs)]
        network = simulation.network
        sections += ["\n".join(said)] if (said := layout_sentences(network.nhwc, network.inputs, network.outputs)) else []
        warning = homes_warning(self.runtimes[0], self.cycles)
        sections += [*([filled(warning)] if warning else []), runtimes_text(self.runtimes)]
        if self.layers:
            sections.append(tables.layers_text(simulation.replay))
        if self.cpu_operations:
            sections.append(cpu_operators.cpu_operators_text(simulation.network, simulation.inference))
        sections.append("\n".join(f"{printable(path)}: {size:,} bytes" for path, size in self.files.items()))
        return "\n\n".join(sections)
