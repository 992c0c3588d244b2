"""The outcome of ``npu-testbed schedule``."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from msgspec import UNSET

from cascader.ethosu.codegen.flash import flash_bytes
from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.search.task import Choice
from cascader.ethosu.striped.choice import StripedPoint
from npu_model.compiled.layouts import layout_sentences
from npu_model.compiled.network import CompiledNetwork
from npu_model.front import later
from npu_model.printable import printable
from npu_testbed.cpu_time.estimate import inference_json, inference_sentence
from npu_testbed.devices.timing import timing_json
from npu_testbed.documents.document import extended, given
from npu_testbed.documents.schedule import ScheduleDocument
from npu_testbed.findings import Finding
from npu_testbed.ground.versions import legaliser_remark
from npu_testbed.outcomes.replayed import ReplayedOutcome
from npu_testbed.replays.scheduling import write_schedule
from npu_testbed.replays.simulation import Simulation
from npu_testbed.reports.bounds import bounds_text
from npu_testbed.reports.carried import carried_bytes, carried_text
from npu_testbed.reports.cpu_operators import cpu_operators_json, cpu_operators_text
from npu_testbed.reports.findings import findings_text
from npu_testbed.reports.headline import Rival, rival_sentence
from npu_testbed.reports.inputs_outputs import inputs_outputs_json, inputs_outputs_text
from npu_testbed.reports.macs import macs_of, macs_text
from npu_testbed.reports.tables import layers_text
from npu_testbed.reports.tolerance import tolerance_text
from npu_testbed.reports.unseen import unseen_text
from npu_testbed.runtimes.runtime_use import RuntimeUse, of_schedule
from npu_testbed.runtimes.runtime_words import homes_warning, runtimes_json, runtimes_text
from npu_testbed.views.arena_map import arena_map
from npu_testbed.views.sram_map import sram_map_svg
from validation.layout import filled

with later():
    from npu_testbed.reports import stripe_plans  # most schedules are of rows


_AXES = "A stripe is images x rows x columns x channels; of five numbers images x rows x bricks x columns x channels of a brick."


def _flash_text(compiled: CompiledNetwork, whole: int | None) -> str:
    """A sentence on the bytes of flash, and on how many more they are than ``whole``, those of Vela's kernels layer by layer.

    It is empty if these are not known or as many.
    """
    taken = flash_bytes(compiled)
    if whole is None or taken == whole:
        return ""
    change = f"{abs(taken - whole):,} {'more' if taken > whole else 'fewer'}"
    return f"Its weights and commands take {taken:,} bytes of flash, {change} than Vela's kernels layer by layer."


class ScheduleOutcome(ReplayedOutcome, frozen=True):
    """A schedule with its replay, its proofs and its findings.

    ``findings`` is None if not requested, ``stopped`` the reason why the search ended early (empty: it did not), ``output`` the written
    file (empty: none). Layers below ``min_percent`` of the cycles share one row of the text. ``striped`` are the stripe plans that it
    executes, if requested. ``rival`` is Vela's schedule, if the report compares with it.
    """

    choice: Choice
    simulation: Simulation
    findings: Sequence[Finding] | None
    cascaded: bool = True
    stopped: str = ""
    output: str = ""
    min_percent: float = 1.0
    cpu_operations: bool = False
    striped: StripedPoint | None = None
    rival: Rival | None = None

    @property
    def replayed(self) -> Simulation:
        """The replay."""
        return self.simulation

    @property
    def schedule(self) -> Schedule:
        """The schedule: jobs, buffers with addresses, copies, blocks."""
        return self.choice.point.schedule

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena to set aside."""
        return self.schedule.arena_size

    @property
    def runtimes(self) -> tuple[RuntimeUse, ...]:
        """The bytes that each runtime sets aside for the schedule, and the cycles there."""
        return of_schedule(self.schedule, self.simulation.network, self.cycles)

    def save(self, path: str | Path) -> None:
        """Write the schedule file; InputError if that is impossible."""
        write_schedule(self.schedule, path)

    def svg(self) -> str:
        """The arena over the cycles, as a picture."""
        return sram_map_svg(arena_map(self.schedule, self.simulation.replay))

    def document(self) -> ScheduleDocument:
        """The schedule's figures, bounds and findings."""
        plan = self.schedule
        return extended(
            ScheduleDocument,
            self,
            model=plan.provenance.model,
            accelerator=plan.accelerator,
            memory_system=plan.provenance.memory_system.name if plan.provenance.memory_system else "",
            timing=timing_json(plan.provenance.timing),
            parts=len(plan.network.graph.parts),
            jobs=len(plan.jobs),
            mended=plan.network.mended,
            inputs_outputs=inputs_outputs_json(self.simulation.network, self.simulation.system),
            carried_bytes=carried_bytes(self.simulation.network),
            tools=dict(plan.provenance.tools),
            inference=inference_json(self.simulation.inference),
            runtimes=runtimes_json(self.runtimes),
            macs=macs_of(self.simulation.network),
            recomputed_macs=plan.network.recomputed_macs,
            flash_bytes=flash_bytes(self.simulation.network),
            flash_bytes_layer_by_layer=given(self.choice.whole_flash),
            groups=UNSET if self.striped is None else stripe_plans.staging_groups_json(self.striped.graph, self.striped.plans),
            least_cycles_of_search=given(self.choice.least_cycles),
            least_bytes_of_search=given(self.choice.least_bytes),
            fastest=given(self.choice.fastest),
            smaller=given(self.choice.smaller),
            proof=given(self.choice.proof),
            cpu_operations=cpu_operators_json(self.simulation.network) if self.cpu_operations else UNSET,
            findings=given(self.findings),
        )

    def text(self) -> str:
        """The schedule in a sentence, its layers, and the findings."""
        planned = [] if self.striped is None else [f"{stripe_plans.groups_text(self.striped.graph, self.striped.plans)}\n{_AXES}"]
        sections = ["\n".join(map(filled, self._said())), *planned, layers_text(self.simulation.replay, self.min_percent)]
        sections.append(runtimes_text(self.runtimes))
        if self.cpu_operations:
            sections.append(cpu_operators_text(self.simulation.network, self.simulation.inference))
        if self.findings is not None:
            sections.append(findings_text(self.findings, self.simulation))
        return "\n\n".join(sections)

    def _said(self) -> list[str]:
        plan = self.schedule
        parts, jobs = len(plan.network.graph.parts), len(plan.jobs)
        how = f"{parts} parts in {jobs} stripe jobs" if self.cascaded else f"{parts} parts layer by layer"
        file = f" Its schedule is in {printable(self.output)}." if self.output else ""
        said = [self.headline, *([] if self.rival is None else [rival_sentence(self.rival, self.simulation.system.clock_hz)])]
        said += [f"The network runs as {how} in an arena of {plan.arena_size:,} bytes.{file}"]
        if plan.network.homes:
            said.append(f"{inputs_outputs_text(self.simulation.network, self.simulation.system, plan.arena_size)}.")
            said += [text] if (text := homes_warning(self.runtimes[0], self.cycles)) else []
        said += layout_sentences(self.simulation.network.nhwc, self.simulation.network.inputs, self.simulation.network.outputs)
        if text := carried_text(self.simulation.network):
            said.append(f"{text}.")
        if remark := legaliser_remark(plan.provenance.tools):
            said.append(remark)
        if error := unseen_text(plan.accelerator, self.simulation.system, self.simulation.timing):
            said.append(f"Its cycles may be off by {error}.")
        said.append(macs_text(self.simulation.network, plan.network.recomputed_macs))
        said += [text] if (text := _flash_text(self.simulation.network, self.choice.whole_flash)) else []
        if (inference := self.simulation.inference).operators:
            said.append(inference_sentence(inference))
        said += [" ".join(bounds)] if (bounds := bounds_text(self.choice, self.cycles)) else []
        said += [text] if (text := tolerance_text(self.choice)) else []
        if self.stopped:
            said.append(f"The search was ended by {self.stopped}: another run may find another schedule.")
        return said

    def _repr_html_(self) -> str:
        """The arena over the cycles, and the report."""
        return f"{self.svg()}<pre>{escape(self.text())}</pre>"
