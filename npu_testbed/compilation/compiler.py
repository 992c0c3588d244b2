"""From a network to the compiled file: scheduled, replayed and compared with Vela's, encoded, with Vela's reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Schedule
from cascader.ethosu.schedule.file import to_json
from cascader.ethosu.search.request import ModelSource, Request, Run
from cascader.ethosu.search.task import Task
from cascader.frontends.vela.compiler import VelaFailedError
from cascader.frontends.vela.result import NOTHING_KNOWN, Known
from npu_model.brief import Brief
from npu_model.command_stream import COP_FORMATS
from npu_model.compiled.lost_inputs import lost_inputs
from npu_model.compiled.network import CompiledNetwork, read_compiled
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.outer_arena import has_outer_arena
from npu_model.program.region_numbers import ARENA
from npu_model.tflite.model import TfliteModel, model_of
from npu_testbed.compilation.compile_options import Target, network_name
from npu_testbed.compilation.layers_csv import COLUMNS, Row, layer_table
from npu_testbed.compilation.peer import Peer, PeerFigures, vela_peer
from npu_testbed.compilation.promise import best_schedule, described, fits, shortfall
from npu_testbed.compilation.summary_csv import summary_row
from npu_testbed.compilation.vela_rows import vela_rows
from npu_testbed.compilation.verdict import Verdict
from npu_testbed.ground.csv_file import csv_file
from npu_testbed.ground.endings import VelaStatusError
from npu_testbed.ground.progress import Progress
from npu_testbed.models.legalise import load_task
from npu_testbed.models.te_models import refuse_te
from npu_testbed.replays.exports import ExportTerms, export
from npu_testbed.replays.memory_use import sram_bytes
from npu_testbed.replays.scheduling import whole_layers
from npu_testbed.replays.separate_regions import EndPorts, end_ports
from npu_testbed.replays.simulation import Simulation, simulate_schedule
from npu_testbed.runtimes.chosen_runtime import planned_room
from sim import quick_cycles

with later():
    from npu_testbed.compilation import debug_xml  # written with --enable-debug-db alone


class Reports(Struct, frozen=True):
    """Figures of the written file: the columns of Vela's summary, the rows of its table of layers, and its debug database as a text."""

    summary: dict[str, object]
    layers: tuple[Row, ...]
    database: Callable[[], str]


class Compilation(Brief, frozen=True):
    """A compiled network: its replay, and files by name, the compiled ``NAME_vela.tflite`` or ``.npz`` first.

    ``schedule`` is None if Vela's own was written; ``verdict`` says why.
    """

    unshown = ("schedule", "simulation", "files", "reports")

    name: str
    schedule: Schedule | None
    simulation: Simulation
    files: dict[str, bytes]
    verdict: Verdict
    reports: Reports


class _Ours(Struct, frozen=True):
    """Our schedule with its file, and the figures of that file in replay."""

    schedule: Schedule
    files: dict[str, bytes]
    simulation: Simulation
    figures: PeerFigures


def _require_aligned(network: CompiledNetwork, alignment: int) -> None:
    """InputError if a tensor of a CPU or custom operator lies at an address that is not a multiple of ``alignment``."""
    bindings = [*network.inputs, *network.outputs, *(one for step in network.steps for one in (*step.inputs, *step.outputs))]
    astray = next((one for one in bindings if one.region == ARENA and one.byte_range.start % alignment), None)
    if astray is not None:
        raise InputError(f"Tensor {astray.name!r} lies at byte {astray.byte_range.start}, no multiple of {alignment}.")


def _run_alike(one: CompiledNetwork, other: CompiledNetwork) -> bool:
    """Whether two networks have the same operations, in the same words, on the same constants. Their replays are then the same."""

    def runs(network: CompiledNetwork) -> list[tuple[object, ...]]:
        constants = [tuple(region for region in program.regions if region.content) for program in network.programs]
        pairs = zip(network.programs, constants, strict=True)
        return [(program.accelerator, program.words, program.operations, regions) for program, regions in pairs]

    return runs(one) == runs(other)


def _ours(task: Task, request: Request, target: Target, vela: PeerFigures | None, run: Run) -> _Ours:
    """Our schedule as a written file, and its figures in replay; InputError if there is none."""
    source = _model(request)
    plan = best_schedule(task, request, target.aim, vela, run) if request.cascade else whole_layers(task, request)
    simulation = simulate_schedule(plan, progress=run.show)
    run.show(f"Encoding {network_name(source.name)}")
    parted = has_outer_arena(request.memory)
    options = ExportTerms(fast_scratch=parted, outer_alignment=target.cpu_tensor_alignment)
    # The replayed schedule is the one that is written; a fast scratch needs the schedule's homes.
    made = plan if parted else simulation.network
    files = export(made, target.output_format, name=f"{network_name(source.name)}_vela", model=source.data, options=options)
    # The content of the file counts, not its intention. A raw file holds the same Programs.
    network = simulation.network if target.output_format == "raw" else read_compiled(next(iter(files.values())))
    _require_aligned(network, target.cpu_tensor_alignment)
    is_replayed = not parted and request.timing == simulation.timing and _run_alike(network, simulation.network)
    system = request.memory if parted else simulation.system
    cycles = simulation.replay.cycles if is_replayed else quick_cycles(network, system, request.timing)
    figures = PeerFigures(sram_bytes(network), cycles)
    return _Ours(plan, files, replace(simulation, model=source.name), figures)


def _model(request: Request) -> ModelSource:
    source = request.source
    if not isinstance(source, ModelSource):
        raise refuse_te(source.name)
    return source


def _vela_files(name: str, peer: Peer, target: Target) -> dict[str, bytes]:
    """The file of Vela's own schedule."""
    if target.output_format == "raw":
        return export(peer.simulation.network, "raw", name=f"{name}_vela")
    return {f"{name}_vela.tflite": peer.result.compiled}


def _tried_vela(request: Request, target: Target, ends: EndPorts | None, progress: Progress, known: Known) -> Peer | InputError:
    """Vela's compilation, or the reason why there is no valid one.

    With layer by layer requested, Vela does not compile and nothing is said.
    """
    if not request.cascade:
        return InputError("")
    progress(f"Compiling {request.source.name} with Vela")
    try:
        peer = vela_peer(_model(request), request, target, ends, progress, known)
    except InputError as error:
        return error
    lost = lost_inputs(peer.simulation.network) if request.keep_inputs else ()
    return InputError(f"{lost[0].text} Its schedule does not keep inputs, as --keep input asks.") if lost else peer


_PLAIN, _ALONE = Target(), Run(None)


def compile_model(
    request: Request, target: Target = _PLAIN, run: Run = _ALONE, known: Known = NOTHING_KNOWN, task: Task | None = None
) -> Compilation:
    """Compile the model of a request; write nothing.

    Runs of Vela that are ``known`` are not repeated, nor is the making of the request's ``task`` (None: it is made here). Both schedules
    are replayed, ours from its file. If ours breaks the promise or is missing, Vela's own file is the answer. InputError if nothing fits,
    or if the network cannot be exported, and Vela's own schedule does not keep to the arena size either; VelaStatusError if Vela does not
    compile the network either.
    """
    target.check(request)
    source = _model(request)
    try:
        parsed = model_of(source.data)
    except InputError as error:
        raise VelaStatusError(str(error)) from None
    name = network_name(source.name)
    # Only the network tells which tensors live outside the arena, and an impossible home is refused at once.
    needs_room = target.runtime is not None and request.budget is not None
    homed = load_task(request, run.show, known=known) if request.homes or needs_room else None
    request = request if homed is None else planned_room(target.runtime, request, homed)
    ends = None if homed is None or not request.homes else end_ports(homed.network)
    peer = _tried_vela(request, target, ends, run.show, known)
    vela = peer.figures if isinstance(peer, Peer) else None
    ours: _Ours | InputError
    try:
        ours = _ours(homed or task or load_task(request, run.show, known=known), request, target, vela, run)
    except InputError as error:
        ours = error
    verdict = _verdict(ours, peer, request, target.aim, separate=ends is not None)
    if isinstance(ours, _Ours) and not verdict.reason:
        plan, simulation, files = ours.schedule, ours.simulation, ours.files
    else:
        assert isinstance(peer, Peer)  # noqa: S101  # the verdict is about one of both
        plan, simulation, files = None, peer.simulation, _vela_files(name, peer, target)
    reports = _reports(simulation, parsed, peer if isinstance(peer, Peer) else None, request, verdict.written)
    return Compilation(name, plan, simulation, files | _tables(name, request, reports), verdict, reports)


def _verdict(ours: _Ours | InputError, peer: Peer | InputError, request: Request, aim: str, *, separate: bool) -> Verdict:
    """The choice between both schedules, and its reason; InputError if neither is possible."""
    vela = peer.figures if isinstance(peer, Peer) else None
    promise = described(request, aim, vela)
    if isinstance(ours, InputError):
        if isinstance(peer, VelaFailedError):
            raise VelaStatusError(str(peer)) from None
        if not isinstance(peer, Peer) or not fits(peer.figures, request.budget):
            raise ours
        return Verdict(promise, None, vela, str(ours))
    if not isinstance(peer, Peer):
        return Verdict(promise, ours.figures, None, without_vela=str(peer))
    clause = shortfall(ours.figures, peer.figures, request, aim)
    cop2 = f" Its payload is {COP_FORMATS[1]}, which Arm's core driver of November 2025 refuses." if separate else ""
    return Verdict(promise, ours.figures, vela, f"Ours {clause}.{cop2}" if clause else "")


def _reports(simulation: Simulation, model: TfliteModel, peer: Peer | None, request: Request, written: str) -> Reports:
    """The reports on the ``written`` schedule, ours or Vela's."""
    name, database = network_name(simulation.model), "" if peer is None else peer.result.database
    table = tuple(layer_table(simulation, model, vela_rows(database, model)))
    names = request.names
    row = summary_row(simulation, model, name, (names.system_config, names.memory_mode), request.budget, len(table))
    of_vela = written == "vela"
    return Reports(row, table, partial(_database, simulation, model, name, database if of_vela else ""))


def _database(simulation: Simulation, model: TfliteModel, name: str, of_vela: str) -> str:
    """The debug database: Vela's own if Vela's schedule was written, else ours from the simulation."""
    return debug_xml.of_vela(name, of_vela) if of_vela else debug_xml.debug_xml(simulation, model, name)


def _tables(name: str, request: Request, reports: Reports) -> dict[str, bytes]:
    """Vela's summary and its table of layers as files."""
    row = reports.summary
    return {
        f"{name}_summary_{request.names.system_config}.csv": csv_file([list(row), list(row.values())]),
        f"{name}_per-layer.csv": csv_file([list(COLUMNS), *map(list, reports.layers)]),
    }


def debug_files(compilation: Compilation) -> dict[str, bytes]:
    """Vela's debug database of the written schedule. If the schedule is ours, also the schedule file with all decisions."""
    found = {f"{compilation.name}_debug.xml": compilation.reports.database().encode("utf-8")}
    if compilation.schedule is not None:
        found[f"{compilation.name}_schedule.json"] = to_json(compilation.schedule).encode("ascii")
    return found
