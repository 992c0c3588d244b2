"""Verbs: an Ask as a function of Python, with the Ask's fields as its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import NODEFAULT
from msgspec.structs import replace

from cascader.frontends.folders import own_folder
from npu_model.errors import InputError, did_you_mean
from npu_model.front import later
from npu_testbed.asked.ask import Ask
from npu_testbed.asked.commands import command_of
from npu_testbed.asked.making import description, fill, made
from npu_testbed.asked.option import Declared, as_said, declared
from npu_testbed.asked.parser import Parser
from npu_testbed.asked.vela_timeout import vela_timeout
from npu_testbed.ground.endings import memory_sentence, system_sentence
from npu_testbed.ground.progress import silent
from npu_testbed.models.te_models import is_graph, source_of

with later():
    from cascader.ethosu.job import schedule as schedules  # Few verbs get a schedule object.
    from npu_testbed.replays import scheduling

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def _text_of(sources: Sequence[Any]) -> Iterator[list[str]]:
    """The sources as a command line names them. A value in memory gets a file for the duration of the block."""
    with own_folder() as folder:
        names = []
        for number, source in enumerate(sources):
            if isinstance(source, (str, PathLike)):
                names.append(fspath(source))
            elif is_graph(source):
                names.append(source_of(source))
            elif isinstance(source, bytes):
                path = folder / f"network{number}.tflite"
                path.write_bytes(source)
                names.append(str(path))
            else:
                plan = getattr(source, "schedule", source)
                if not isinstance(plan, schedules.Schedule):
                    raise InputError(f"{as_said(source)} is not a model: give a path, zoo:NAME, the bytes of a .tflite, or a schedule.")
                path = folder / f"schedule{number}.json"
                scheduling.write_schedule(plan, path)
                names.append(str(path))
        yield names


def _positional(ask: type[Ask[Any]], values: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names; InputError for an unknown or a missing argument."""
    name = command_of(ask).name
    order = ask.__match_args__
    known = {one.name: one for one in declared(ask)}
    if len(order) == 1 and known[order[0]].is_plural and len(values) > 1:
        values = [list(values)]
    if len(values) > len(order):
        raise InputError(f"{name} was given {len(values)} arguments without a name: it takes {len(order)}, name the others.")
    found = dict(zip(order, values, strict=False))
    for field, value in given.items():
        if field not in known or known[field].option.only == "words":
            near = did_you_mean(field, known) or f", only {', '.join(sorted(known))}"
            raise InputError(f"{name} has no option {field}{near}: leave it out.")
        if field in found:
            raise InputError(f"{name} was given {field} twice: give it once.")
        found[field] = value
        if known[field].option.only == "values" and value is not None and not callable(value):
            raise InputError(f"{field}={as_said(value)} cannot be: give a function.")
    for field in order:
        if field not in found and known[field].default is NODEFAULT:
            raise InputError(f"{name} was given no {field}: give {known[field].option.metavar or field}.")
    return found


def _words(found: dict[str, Any], known: dict[str, Declared]) -> tuple[list[str], list[Any]]:
    """The options as words, and the sources in the order of their fields."""
    words: list[str] = []
    sources: list[Any] = []
    for one in known.values():
        value = found.get(one.name)
        if value is None or one.is_value(value):
            continue
        if not one.option.source:
            words += one.words(source_of(value) if is_graph(value) else value)
        elif one.is_plural and isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            sources += value
        else:
            sources.append(value)
    return words, sources


def _answered(ask: type[Ask[R]], found: dict[str, Any]) -> R:
    """The answer to an Ask whose arguments are Python values; they pass through the parser of the command."""
    parser = Parser(prog=f"npu-testbed {command_of(ask).words}")
    fill(parser, ask, is_needed=False)
    known = {one.name: one for one in declared(ask)}
    values = {name: value for name, value in found.items() if known[name].is_value(value)}
    words, sources = _words(found, known)
    with _text_of(sources) as names:
        asked = replace(made(ask, vars(parser.parse_args([*words, "--", *names]))), **values)
        try:
            with vela_timeout(asked):
                return asked.answer(silent if asked.progress is None else asked.progress)
        except MemoryError:
            raise InputError(memory_sentence()) from None
        except OSError as error:
            raise InputError(system_sentence(error)) from error


def verb(ask: Callable[P, Ask[R]]) -> Callable[P, R]:
    """The Ask as a function with its fields as parameters, which returns the answer.

    InputError for anything that the command would refuse with exit status 2.
    """
    kind = cast("type[Ask[R]]", ask)

    def call(*values: Any, **given: Any) -> Any:
        return _answered(kind, _positional(kind, values, given))

    call.__name__ = call.__qualname__ = command_of(kind).name
    call.__doc__ = _documentation(kind)
    call.__module__ = "npu_testbed"
    call.__signature__ = _signature(kind)  # type: ignore[attr-defined]  # what inspect reads
    return cast("Callable[P, R]", call)


def _signature(ask: type[Ask[Any]]) -> inspect.Signature:
    """The parameters of a verb. msgspec's own signature would import every module that the field types name."""
    positional = ask.__match_args__
    known = {one.name: one for one in declared(ask) if one.option.only != "words"}
    kinds = dict.fromkeys(positional, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    order = [*positional, *(name for name in known if name not in positional)]
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                kinds.get(name, inspect.Parameter.KEYWORD_ONLY),
                default=inspect.Parameter.empty if known[name].default is NODEFAULT else known[name].default,
                annotation=known[name].kind,
            )
            for name in order
        ]
    )


def _documentation(ask: type[Ask[Any]]) -> str:
    """The description of the command, and its options with their help."""
    lines = [description(ask), "", f"The command is `npu-testbed {command_of(ask).words}`. Arguments:", ""]
    lines += [f"- {one.name}: {one.option.help}" for one in declared(ask) if one.option.only != "words"]
    return "\n".join(lines)
