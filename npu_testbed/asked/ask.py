"""Ask: the words of a user to one command. Each field is an option. Parser, Python function and documentation follow from it."""

# No `from __future__ import annotations`: fields of Asks are read as values.
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Optional, TypeVar

from msgspec import Struct

from npu_testbed.asked import kinds
from npu_testbed.asked.option import Option, declared, said_by

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from npu_testbed.ground.progress import Progress

R_co = TypeVar("R_co", covariant=True)


class Ask(Struct, Generic[R_co], frozen=True, kw_only=True):
    """The base of all Asks, and what every command takes."""

    more: ClassVar[str] = ""
    """A further paragraph of the description."""
    examples: ClassVar[tuple[str, ...]] = ()
    """Command lines that the help text ends with."""
    has_document: ClassVar[bool] = True
    """Whether ``--json`` prints a document."""
    is_search: ClassVar[bool] = False
    """Whether the command searches for schedules."""
    goes_on_from: ClassVar[tuple[str, ...]] = ("results", "schedules")
    """Fields with a folder from which the same command goes on after an interrupt."""

    json: kinds.Json = False
    progress: Annotated[Optional["Callable[[str], None]"], Option("called with what is being done", only="values")] = None

    def answer(self, show: "Progress") -> R_co:  # noqa: ARG002  # each command has its own
        """Do the work and write the requested files; print nothing."""
        raise AssertionError(f"{type(self).__name__} has no answer.")

    @classmethod
    def take(cls, said: "Mapping[str, Any]") -> None:
        """Read the arguments that :meth:`extend` added; InputError for an argument that cannot be followed."""

    @classmethod
    def extend(cls, parser: "ArgumentParser") -> None:
        """Give the command's parser arguments that are not fields."""


class OfModels(Ask[R_co], frozen=True, kw_only=True):
    """An Ask about models that are read."""

    input_shape: kinds.InputShapes = ()
    layout: kinds.Layouts = ()
    vela_timeout: kinds.VelaTimeout = None


class Search(OfModels[R_co], frozen=True, kw_only=True):
    """An Ask for a search: where tensors live, what may be recomputed, and how hard the search works."""

    is_search: ClassVar[bool] = True

    home: kinds.Homes = ()
    spill: kinds.Spill = None
    keep: kinds.Keep = None
    recompute: kinds.Recompute = None
    no_recompute: kinds.NoRecompute = False
    ignore_ops: kinds.IgnoreOps = ()
    effort: kinds.Effort = None
    deadline: kinds.Deadline = None
    jobs: kinds.Jobs = None


class OnMemory(Search[R_co], frozen=True, kw_only=True):
    """A search on one memory system."""

    chip: kinds.Chip = None
    timing_adapter: kinds.TimingAdapter = None
    system_config: kinds.SystemConfig = None
    memory_mode: kinds.MemoryMode = None
    config: kinds.Config = None
    set: kinds.Settings = ()
    timing: kinds.Timing = None


class OneSearch(OnMemory[R_co], frozen=True, kw_only=True):
    """A search for one device on one memory system, in one budget."""

    default_device: ClassVar[str] = "ethos-u55-128"

    accelerator_config: kinds.Accelerator = None
    arena_cache_size: kinds.Budget = None
    within: kinds.Within = None

    def schedule_command(self, model: str) -> str:
        """The command line that schedules a model as this search did; its budget and its file are still missing.

        A quick search replays fewer schedules for one budget than for a frontier. One budget then takes the standard effort.
        """
        said = {one: value for one, value in said_by(self) if one.name in _OF_A_SCHEDULE and (one.name, value) != ("effort", "quick")}
        return shlex.join(("npu-testbed", "schedule", model, *(word for one, value in said.items() for word in one.words(value))))


_OF_A_SCHEDULE = {one.name for one in declared(OneSearch)} - {
    *("json", "progress", "vela_timeout", "jobs", "deadline", "arena_cache_size", "within")
}
"""Options of a search that decide what a schedule is, besides its budget."""
