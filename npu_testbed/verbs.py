"""The verbs of the Python API: each is a command, with its options as keyword arguments, and returns its outcome.

A verb goes through the parser of its command, so that both have the same options, defaults, checks and sentences.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cascader.ethosu.job.schedule import Schedule
from cascader.frontends.folders import own_folder
from npu_model.errors import InputError
from npu_testbed import costs
from npu_testbed.cli import build_parser
from npu_testbed.endings import memory_sentence, system_sentence
from npu_testbed.progress import Progress, silent
from npu_testbed.scheduling import write_schedule
from npu_testbed.te_models import is_graph, source_of
from npu_testbed.vela_timeout import vela_timeout

if TYPE_CHECKING:
    from cascader.frontends.te.graph import Graph
    from npu_testbed.outcomes import Outcome, TextOutcome
    from npu_testbed.outcomes.comparison import ComparisonOutcome
    from npu_testbed.outcomes.compilation import CompilationOutcome
    from npu_testbed.outcomes.frontier import FrontierOutcome
    from npu_testbed.outcomes.replay import ReplayOutcome
    from npu_testbed.outcomes.schedule import ScheduleOutcome

    Source: TypeAlias = str | PathLike[str] | bytes | Schedule | ScheduleOutcome | Graph
    """A path, ``zoo:NAME``, ``portfolio:NAME`` or ``GRAPH.py:FUNCTION``, the bytes of a model, or a schedule or a graph that is at hand."""

Error = InputError
"""The one error that a verb raises: a sentence with the value, the bound and the remedy."""

Given = Mapping[str, Any]
"""Arguments by their names."""

_NOTHING: Given = MappingProxyType({})

Figures = costs.Figures
"""Argument of a cost function."""

_NOT_OPTIONS = {"help", "version", "json", "list_configs", "list_config_files", "supported_ops_report"}
"""Options that only a command line has."""


def _parser(command: Sequence[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = build_parser()
    for name in command:
        parser = next(action.choices[name] for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001  # argparse has no public way down
    return parser


def _spelled(action: argparse.Action) -> str:
    """An option as Python spells it: ``arena_cache_size`` for ``--arena-cache-size``."""
    return action.option_strings[-1].lstrip("-").replace("-", "_")


def _options(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    found = {_spelled(action): action for action in parser._actions if action.option_strings}  # noqa: SLF001  # argparse has no public list
    return {name: action for name, action in found.items() if name not in _NOT_OPTIONS}


def _words(name: str, action: argparse.Action, value: object) -> list[str]:
    """An option and its value as a command line has them.

    >>> _words("jobs", argparse.ArgumentParser().add_argument("--jobs"), 2)
    ['--jobs=2']
    """
    option = action.option_strings[-1]
    if value is None or value is False:
        return []
    if action.nargs == 0 or value is True:
        if value is not True or action.nargs not in {0, "?"}:
            kind = "is a switch, give True or False" if action.nargs == 0 else "takes a value, give one"
            raise Error(f"{name}={value!r} cannot be: {name} {kind}.")
        return [option]
    if isinstance(value, Mapping):
        value = [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        each = [str(one) for one in value]
        return [f"{option}={one}" for one in each] if isinstance(action, argparse._AppendAction) else [f"{option}={','.join(each)}"]  # noqa: SLF001  # argparse has no public name for it
    return [f"{option}={fspath(value) if isinstance(value, PathLike) else value}"]


@contextmanager
def _files(sources: Sequence[Source]) -> Iterator[list[str]]:
    """The sources as a command line names them; what is at hand only lies in a file within."""
    with own_folder() as folder:
        names = []
        for number, source in enumerate(sources):
            if isinstance(source, (str, PathLike)):
                names.append(fspath(source))
                continue
            if is_graph(source):
                names.append(source_of(source))
                continue
            if isinstance(source, bytes):
                path = folder / f"network{number}.tflite"
                path.write_bytes(source)
            else:
                path = folder / f"schedule{number}.json"
                write_schedule(source if isinstance(source, Schedule) else cast("ScheduleOutcome", source).schedule, path)
            names.append(str(path))
        yield names


def ask(command: str, *sources: Source, progress: Progress | None = None, beside: Given = _NOTHING, **options: Any) -> Any:
    """Do the work of a command, such as "simulate vela", with its options by keyword, and return its outcome.

    ``beside`` are arguments that no command line can have. ``progress`` is told in words what is being done. Error for whatever the
    command would refuse with exit status 2.
    """
    words = command.split()
    parser = _parser(words)
    known = _options(parser)
    given: list[str] = []
    for name, given_value in options.items():
        value = source_of(given_value) if is_graph(given_value) else given_value
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(known))}."
            raise Error(f"{command} has no option {name}: {meant}")
        given += _words(name, known[name], value)
    for action in known.values():
        # A schedule need not be written to a file to be had.
        action.required = action.required and command != "schedule"
    with _files(sources) as names:
        arguments = parser.parse_args([*given, "--", *names])
        vars(arguments).update(beside)
        try:
            with vela_timeout(arguments):
                return arguments.run.answer(arguments, silent if progress is None else progress)
        except MemoryError:
            raise Error(memory_sentence()) from None
        except OSError as error:
            raise Error(system_sentence(error)) from error


def schedule(model: Source, *, cost: costs.Cost | None = None, **options: Any) -> ScheduleOutcome:
    """Schedule a network: ``schedule("zoo:ds_cnn", arena_cache_size=16384)``. Options: those of ``npu-testbed schedule --help``.

    With a ``cost`` the schedule of the least cost is chosen in place of the fastest: a function of :class:`npu_testbed.Figures` that
    returns a number. It is called in this process, once for each schedule that is replayed.
    """
    found: ScheduleOutcome = ask("schedule", model, beside={"cost": cost}, **options)
    return found


def simulate_schedule(plan: Source, **options: Any) -> ReplayOutcome:
    """Replay a schedule, a file or one that is at hand. Options: those of ``npu-testbed simulate schedule --help``."""
    found: ReplayOutcome = ask("simulate schedule", plan, **options)
    return found


def simulate_vela(model: Source, **options: Any) -> ReplayOutcome:
    """Replay Vela's own schedule of a network. Options: those of ``npu-testbed simulate vela --help``."""
    found: ReplayOutcome = ask("simulate vela", model, **options)
    return found


def frontier(model: Source, **options: Any) -> FrontierOutcome:
    """Find the schedules that no other one beats in bytes and cycles. Options: those of ``npu-testbed frontier --help``."""
    found: FrontierOutcome = ask("frontier", model, **options)
    return found


def compare(*models: Source, **options: Any) -> ComparisonOutcome:
    """Set the frontiers of networks beside Vela's schedules. Options: those of ``npu-testbed compare --help``."""
    found: ComparisonOutcome = ask("compare", *models, **options)
    return found


def compile(model: Source, **options: Any) -> CompilationOutcome:  # noqa: A001  # the command's name
    """Compile a network in Vela's place. Options: those of ``npu-testbed compile --help``."""
    found: CompilationOutcome = ask("compile", model, **options)
    return found


def check(file: Source, **options: Any) -> Outcome:
    """Hold a schedule to a budget or a baseline. Options: those of ``npu-testbed check --help``."""
    found: Outcome = ask("check", file, **options)
    return found


def device_run(firmware: str | PathLike[str], **options: Any) -> Outcome:
    """Run firmware on an emulated core with the NPU. Options: those of ``npu-testbed device run --help``."""
    found: Outcome = ask("device run", firmware, **options)
    return found


def diff(before: Source, after: Source | None = None, **options: Any) -> Outcome:
    """Say what moved between two schedules or configurations. Options: those of ``npu-testbed diff --help``."""
    found: Outcome = ask("diff", before, *([] if after is None else [after]), **options)
    return found


def sweep(*models: Source, **options: Any) -> Outcome:
    """Schedule networks on every combination of MACs, memories and budgets. Options: those of ``npu-testbed sweep --help``."""
    found: Outcome = ask("sweep", *models, **options)
    return found


def verify(file: Source, **options: Any) -> Outcome:
    """Run a schedule bit by bit beside its references. Options: those of ``npu-testbed verify --help``."""
    found: Outcome = ask("verify", file, **options)
    return found


def export(file: Source, output: str | PathLike[str], **options: Any) -> Outcome:
    """Write a schedule for stock software of the NPU. Options: those of ``npu-testbed export --help``."""
    found: Outcome = ask("export", file, output=output, **options)
    return found


def inspect(file: Source, **options: Any) -> TextOutcome:
    """The NPU programs of a file as text. Options: those of ``npu-testbed inspect --help``."""
    found: TextOutcome = ask("inspect", file, **options)
    return found


def validate(peer: str, *models: Source, **options: Any) -> Outcome:
    """Hold the simulator to a peer, such as "fvp", or to all. Options: those of ``npu-testbed validate PEER --help``."""
    found: Outcome = ask(f"validate {peer}", *models, **options)
    return found


def calibrate(task: str, *files: str | PathLike[str], **options: Any) -> Outcome:
    """Fit the timing model to measurements ("fit"), or check a fit ("check"). Options: those of ``npu-testbed calibrate TASK --help``."""
    found: Outcome = ask(f"calibrate {task}", *files, **options)
    return found
