"""``npu-testbed check``: a schedule is held to a budget or to a baseline, for continuous integration."""

# No `from __future__ import annotations`: fields of Asks are read as values.
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from npu_model.errors import InputError
from npu_testbed.asked import kinds
from npu_testbed.asked.ask import OneSearch
from npu_testbed.asked.option import Option, given, leave_out
from npu_testbed.asked.readers import byte_count, cycle_count, per_cent

if TYPE_CHECKING:
    from npu_testbed.differences.bars import Baseline
    from npu_testbed.ground.progress import Progress
    from npu_testbed.outcomes.differences import CheckOutcome
    from npu_testbed.replays.simulation import Simulation
    from npu_testbed.runtimes.runtime_use import RuntimeUse


class CheckOptions(OneSearch["CheckOutcome"], frozen=True, kw_only=True):
    """The options of ``check``."""

    default_device: ClassVar[str] = "ethos-u55-256"

    accelerator_config: Annotated[
        str | None,
        Option(
            "ethos-u55-32, ethos-u55-64, ethos-u55-128, ethos-u55-256, ethos-u65-256 or ethos-u65-512 (default: ethos-u55-256, as Vela's)",
            "NAME",
        ),
    ] = None
    max_cycles: Annotated[int | None, Option("limit of NPU cycles", "N", cycle_count)] = None
    max_bytes: Annotated[int | str | None, Option("limit of the SRAM to set aside", "N", byte_count)] = None
    against: Annotated[str | None, Option("output of an earlier `check --json`: the limit of cycles and bytes", "BASELINE.json")] = None
    tolerance: Annotated[
        Fraction | float | str | None, Option("allowed increase over the baseline in per cent (default: 0)", "PERCENT", per_cent)
    ] = None
    update: Annotated[bool, Option("overwrite the file of --against with the new figures, without comparing them to the old ones")] = False
    sram_map: Annotated[kinds.PathText | None, Option("draw the arena over the cycles, tensor by tensor", "M.svg", writes="picture")] = None
    markdown: Annotated[bool, Option("print a summary in Markdown, for a pull request")] = False
    optimise: kinds.Optimise = None
    runtime: Annotated[
        Literal["tflm", "executorch", "bare"] | None,
        Option("hold the bytes that an application sets aside for this runtime, and the cycles there, to the limits (default: the arena)"),
    ] = None


class Check(CheckOptions, frozen=True):
    """Hold a schedule to limits or to a baseline, for continuous integration.

    Replay a schedule file, a *_vela.tflite, or what `npu-testbed compile` would make of a network with the same options. Its cycles and
    its SRAM must keep to limits, or to the figures that another check printed with --json. The exit status is 0 if all bars are met and 1
    if one is missed.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "npu-testbed check network.json --max-cycles 100000 --max-bytes 65536",
        "npu-testbed check network.tflite --deadline 10 --chip alif-e7-hp",
        "npu-testbed check network_vela.tflite --max-bytes 65536 --runtime tflm",
        "npu-testbed check network.json --against baseline.json --update",
        "npu-testbed check network.json --against baseline.json --tolerance 1 --markdown",
    )

    file: Annotated[kinds.Source, Option(kinds.ANY_FILE, "FILE", source=True)]

    def answer(self, show: "Progress") -> "CheckOutcome":
        """Replay and compare; status 1 if a bar is missed."""
        from npu_testbed.asked.replays import is_scheduled
        from npu_testbed.differences.bars import bars
        from npu_testbed.differences.summary import update_text
        from npu_testbed.outcomes.differences import CheckOutcome

        _require_together(self)
        baseline = _baseline(self)
        unasked = self.json or self.update
        wants_bar = not unasked and not given(self, ("max_cycles", "max_bytes", "deadline")) and baseline is None
        if wants_bar and not is_scheduled(_source(self)) and _bound(self) is None:
            # It is said before the network is compiled.
            raise InputError(_NO_BAR)
        simulation = _replayed(self, show)
        baseline = _comparable(self, baseline, simulation)
        held = None if self.update else baseline
        limits = _most_cycles(self, simulation), None if self.max_bytes is None else int(self.max_bytes)
        found = bars(simulation, *limits, held, Fraction(self.tolerance or 0), _in_runtime(self, simulation))
        if wants_bar and not found:
            raise InputError(_NO_BAR)
        said = update_text(str(self.against), simulation, baseline) if self.update else ""
        outcome = CheckOutcome(simulation, found, baseline, self.markdown, said)
        _write(self, outcome, simulation)
        return outcome


_NO_BAR = "No bar was given: give --max-cycles, --max-bytes, --deadline or --against, or --json to write a baseline."

_COMPILING = (
    *("accelerator_config", "optimise", "arena_cache_size", "effort", "ignore_ops", "recompute", "no_recompute"),
    *("input_shape", "layout"),
    *("home", "spill", "keep", "within"),
)
"""Options that apply only to a network that is not compiled yet."""


def _source(ask: Check) -> str:
    from npu_testbed.asked.request import shaped

    return shaped(ask.file, ask)


def _bound(ask: Check) -> "int | None":
    """The limit of the arena of a network to be compiled; None without a limit."""
    from npu_testbed.asked.request import device_of
    from npu_testbed.devices.device_memory import arena_bound

    return arena_bound(device_of(ask), ask, None if ask.arena_cache_size is None else int(ask.arena_cache_size))


def _most_cycles(ask: Check, simulation: "Simulation") -> "int | None":
    """The limits of cycles: ``--max-cycles``, and the cycles until the deadline at the clock."""
    limits = [] if ask.max_cycles is None else [ask.max_cycles]
    if ask.deadline is not None:
        limits.append(int(Fraction(ask.deadline) * simulation.system.clock_hz / 1000))
    return min(limits, default=None)


def _in_runtime(ask: Check, simulation: "Simulation") -> "RuntimeUse | None":
    """The network in the runtime that the limits are for; None without one. InputError if the runtime cannot run it."""
    from npu_testbed.runtimes.chosen_runtime import require_runs
    from npu_testbed.runtimes.runtime_use import placements

    if ask.runtime is None:
        return None
    uses = placements(simulation.network, simulation.system, simulation.replay.cycles, simulation.timing)
    require_runs(ask.runtime, uses)
    return next(use for use in uses if use.runtime == ask.runtime)


def _require_together(ask: "Check") -> None:
    """InputError for options that exclude or need each other, and for files that cannot be written."""
    from npu_testbed.asked.outputs import require_outputs
    from npu_testbed.ground.files import require_writable

    if ask.json and ask.markdown:
        raise InputError("--json cannot be combined with --markdown, because each prints a document: leave one of them out.")
    for option in ("tolerance", "update"):
        if getattr(ask, option) not in (None, False) and ask.against is None:
            raise InputError(f"--{option} was given without --against, whose baseline it is for: give both, or leave it out.")
    if ask.update and ask.tolerance is not None:
        raise InputError("--tolerance cannot be combined with --update, which holds nothing to the baseline: leave one of them out.")
    if ask.update:
        require_writable(str(ask.against), ask.file)
    require_outputs(ask, *([] if ask.against is None else [ask.against]))


def _baseline(ask: "Check") -> "Baseline | None":
    """The given baseline; None with --update if it does not exist, or has another version."""
    from npu_testbed.differences.bars import earlier_baseline, read_baseline

    if ask.against is None:
        return None
    return earlier_baseline(ask.against) if ask.update else read_baseline(ask.against)


def _comparable(ask: "Check", baseline: "Baseline | None", simulation: "Simulation") -> "Baseline | None":
    """The baseline if it is of the same accelerator, memory system and timing; InputError if not, but None with --update."""
    from npu_testbed.differences.bars import require_comparable

    if baseline is None:
        return None
    try:
        require_comparable(baseline, simulation, str(ask.against))
    except InputError:
        if ask.update:
            return None
        raise
    return baseline


def _write(ask: "Check", outcome: "CheckOutcome", simulation: "Simulation") -> None:
    """Write the requested files, all or none."""
    from npu_testbed.ground.files import asked_files, write_files
    from npu_testbed.views.program_map import program_map
    from npu_testbed.views.sram_map import sram_map_svg

    files = asked_files(
        (ask.against if ask.update else None, lambda: outcome.to_json().encode("utf-8")),
        (ask.sram_map, lambda: sram_map_svg(program_map(simulation)).encode("utf-8")),
    )
    write_files(files)


def _replayed(ask: Check, show: "Progress") -> "Simulation":
    """The replay of a scheduled file, or of the result of `compile` for a network."""
    from npu_testbed.asked.replays import is_scheduled, replay_of
    from npu_testbed.asked.request import request_of, run_of
    from npu_testbed.compilation.compiler import compile_model
    from npu_testbed.ground.endings import VelaStatusError
    from npu_testbed.replays.simulation import simulate

    source = _source(ask)
    if not is_scheduled(source):
        try:
            return compile_model(request_of(ask, str(ask.file), show), run=run_of(ask, show)).simulation
        except VelaStatusError as error:
            raise InputError(str(error)) from None  # a status of 1 says that a limit is missed
    if names := given(ask, _COMPILING):
        raise InputError(f"{ask.file!s} is scheduled already, so that {' and '.join(names)} cannot change it: {leave_out(names)}.")
    return simulate(replay_of(ask, source, show), progress=show)
