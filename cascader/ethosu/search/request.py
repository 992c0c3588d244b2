"""Request: the question to a search, with every name looked up; and Run: its execution, on which no answer depends."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.search.effort import STANDARD, THOROUGH, options_of, require_effort
from npu_model.brief import Brief
from npu_model.errors import InputError
from npu_model.front import later
from npu_model.memory.system import MemorySystem
from npu_model.memory.vela_names import DEFAULT_MEMORY_MODE, DEFAULT_SYSTEM_CONFIG
from npu_model.printable import text_of
from npu_model.timing import DEFAULT_TIMING, TimingParameters

# A request is made before the search is imported, which happens while Vela runs.
with later():
    from cascader.ethosu import options as search_switches
    from cascader.ethosu.job import schedule as schedules
    from cascader.ethosu.network import network as networks
    from cascader.ethosu.search import task as tasks
    from npu_model.compiled import network as compiled

OPTIMISE = PERFORMANCE, SIZE = "Performance", "Size"
"""Aims of a schedule, as Vela spells them: the fewest cycles within the budget, or the fewest bytes."""


class Source(Brief, frozen=True):
    """The source of a network. Each kind says how its task is made (:func:`cascader.frontends.tasks.task_of`)."""

    name: str


class ModelSource(Source, frozen=True):
    """A quantised model: its name, its bytes, and the names and versions of the tools other than Vela."""

    unshown = ("data",)

    data: bytes
    tools: tuple[tuple[str, str], ...] = ()

    @property
    def sha256(self) -> str:
        """The digest of the bytes."""
        return sha256(self.data).hexdigest()


class NetworkSource(Source, frozen=True):
    """A network that exists already; ``origin`` is the origin that its schedules record (None: none)."""

    unshown = ("network",)

    network: networks.Network
    origin: schedules.Provenance | None = None


class ScheduleSource(Source, frozen=True):
    """A schedule, for a replay; no search is needed."""

    unshown = ("plan",)

    plan: schedules.Schedule


class CompiledSource(Source, frozen=True):
    """A compiled network, for a replay."""

    unshown = ("network",)

    network: compiled.CompiledNetwork


class MemoryNames(Struct, frozen=True):
    """Names of the memories in Vela's configuration, for which Vela compiles: a system config, a memory mode, and their file.

    Without a ``config`` both are in the ``vela.ini`` that Vela ships. ``settings`` are the changed values.
    """

    system_config: str = DEFAULT_SYSTEM_CONFIG
    memory_mode: str = DEFAULT_MEMORY_MODE
    config: Path | None = None
    settings: tuple[tuple[str, str], ...] = ()


class Request(Struct, frozen=True):
    """The question to a search. A sweep is a set of requests, and a kept answer is named by its request.

    - ``source``: the model or the network; ``device``: the accelerator's name; ``memory``: the memories behind its ports.
    - ``budget``: the most bytes of the arena (None: any number).
    - ``optimise``: one of :data:`OPTIMISE`. With ``cascade`` False every layer runs whole, and there is nothing to search.
    - ``effort``: one of :data:`cascader.ethosu.search.effort.EFFORTS`; ``rungs``: memory limits that a frontier tries (None: the search's
      own); ``recompute``: the bound of multiply-accumulates as a multiple of the network's (None: the search's own).
    - ``within``: the share of the fastest schedule's cycles that the smallest arena within it may cost; ``most_cycles``: cycles that it may
      not exceed (None: any number), which a tolerance alone asks for.
    - ``homes``: where tensors live outside the arena, as pairs WHAT=MEMORY.
    - ``spill``: the memory to which the search may move tensors between layers (None: no tensor moves).
    - ``keep_inputs``: whether every input keeps its bytes until the run ends.
    - ``ignore_ops``: builtin operators of the model that stay on the CPU.
    - ``timing``: parameters of the NPU; ``names``: those by which Vela knows the memories.
    - ``switches``: the search, each choice a switch (None: all as they are by default).
    """

    source: Source
    device: str
    memory: MemorySystem
    budget: int | None = None
    optimise: str = PERFORMANCE
    cascade: bool = True
    effort: str = STANDARD
    rungs: int | None = None
    recompute: Fraction | None = None
    homes: tuple[str, ...] = ()
    spill: str | None = None
    ignore_ops: tuple[str, ...] = ()
    timing: TimingParameters = DEFAULT_TIMING
    names: MemoryNames = MemoryNames()
    switches: search_switches.CascadeOptions | None = None
    within: Fraction = Fraction(0)
    most_cycles: int | None = None
    keep_inputs: bool = False

    @property
    def smallest(self) -> bool:
        """Whether the schedule with the fewest bytes is wanted instead of the fastest."""
        return self.optimise == SIZE

    @property
    def thorough(self) -> bool:
        """Whether every limit is searched to its end."""
        return self.effort == THOROUGH

    @property
    def search_options(self) -> search_switches.CascadeOptions:
        """The search's switches for the effort; InputError for an unknown effort."""
        plain = search_switches.CascadeOptions() if self.switches is None else self.switches
        asked = {"rungs": self.rungs, "recompute": self.recompute}
        given = {name: value for name, value in asked.items() if value is not None}
        return options_of(self.effort, replace(plain, **given))

    @property
    def record(self) -> schedules.RequestRecord | None:
        """The fields that a schedule's provenance records; None if all have their defaults."""
        names = self.names
        found = schedules.RequestRecord(
            budget=self.budget,
            optimise="" if self.optimise == PERFORMANCE else self.optimise,
            cascade=self.cascade,
            effort="" if self.effort == STANDARD else self.effort,
            rungs=self.rungs,
            recompute=self.recompute,
            within=self.within or None,
            homes=self.homes,
            spill=self.spill,
            keep_inputs=self.keep_inputs,
            ignore_ops=self.ignore_ops,
            system_config="" if names.system_config == DEFAULT_SYSTEM_CONFIG else names.system_config,
            memory_mode="" if names.memory_mode == DEFAULT_MEMORY_MODE else names.memory_mode,
            config="" if names.config is None else text_of(names.config.name),
            settings=names.settings,
        )
        return None if found == schedules.RequestRecord() else found

    def check(self) -> None:
        """Check a request; InputError for an impossible budget, aim or effort."""
        if self.budget is not None and self.budget < 1:
            raise InputError(f"--arena-cache-size {self.budget} is below 1: give a number of bytes.")
        if self.optimise not in OPTIMISE:
            raise InputError(f"--optimise {self.optimise!r} is unknown: choose {' or '.join(OPTIMISE)}.")
        if self.smallest and self.within:
            raise InputError(
                f"--within {float(self.within * 100):g} cannot be combined with --optimise {SIZE}, which takes the smallest arena "
                "however slow it is: drop one of them."
            )
        require_effort(self.effort)


def silent(_doing: str) -> None:
    """A listener that ignores all events."""


def unseen(_choice: tasks.Choice) -> None:
    """A listener that waits for nothing before the end."""


class Run(Struct, frozen=True):
    """The way in which a search is carried out.

    - ``processes``: how many share the work (None: the number that suits it).
    - ``show``: called with each step of the work; ``seen``: called with each better schedule. Either may raise, which ends the search.
    - ``price``: the cheapest schedule is chosen instead of the fastest, by a function of its point that this process calls.
    - ``bounds``: whether lower bounds are computed, too.
    """

    processes: int | None = 1
    show: tasks.Progress = silent
    seen: tasks.OnPoint = unseen
    price: tasks.Price | None = None
    bounds: bool = True
