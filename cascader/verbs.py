"""Verbs of the cascader: a model or a network scheduled for a device, in a budget of memory or along its whole frontier."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from cascader.ethosu.job.schedule import Provenance
from cascader.ethosu.judge.replay import Cycles
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.search.choice import Aim, choose
from cascader.ethosu.search.effort import STANDARD, THOROUGH, options_of
from cascader.ethosu.search.frontier import FoundFrontier, frontier_of
from cascader.ethosu.search.request import EVERYTHING
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Choice, Price, Seen, Show, Task, silent, unseen
from cascader.frontends.vela import legalised
from cascader.search.workers import processes_for, workers
from cascader.tasks import ModelSource, TaskTerms, network_task, task_of
from npu_model.accelerator import accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters


class Settings(Struct, frozen=True):
    """Settings by which a model is scheduled.

    - ``smallest``: the schedule of fewest bytes in place of the fastest.
    - ``price``: the cheapest that is found in place of the fastest, by a function of its point; it is called in this process.
    - ``effort``: one of :data:`cascader.ethosu.search.effort.EFFORTS`.
    - ``options``: the search, each choice a switch.
    - ``timing``: parameters of the NPU; ``homes``: where tensors live, as pairs WHAT=MEMORY.
    - ``spill``: the memory to which the search may move tensors between layers.
    - ``ignore_ops``: builtin operators of a model that stay on the CPU.
    - ``name`` and ``tools``: those of a model, as its schedules say it; ``provenance`` is that of a network.
    - ``processes``: how many share the work (None: as many as suit it); no answer depends on it.
    - ``show``: told what is being done; ``seen``: told of each better schedule. Either may raise, which ends the search.
    """

    smallest: bool = False
    price: Price | None = None
    effort: str = STANDARD
    options: CascadeOptions = field(default_factory=CascadeOptions)
    timing: TimingParameters = DEFAULT_TIMING
    homes: tuple[str, ...] = ()
    spill: str | None = None
    ignore_ops: tuple[str, ...] = ()
    name: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    provenance: Provenance | None = None
    processes: int | None = 1
    show: Show = silent
    seen: Seen = unseen


DEFAULT = Settings()


def _task(model: bytes | Network, device: str, memory: MemorySystem, cycles: Cycles, settings: Settings) -> Task:
    """The task of a model, which Vela legalises, or of a network."""
    options, timing, one_core = options_of(settings.effort, settings.options), settings.timing, bool(settings.ignore_ops)
    terms = TaskTerms(options, timing, settings.homes, one_core=one_core, spill=settings.spill)
    if not isinstance(model, Network):
        found = legalised(model, accelerator(device).name, settings.ignore_ops)
        return task_of(ModelSource(settings.name, model, settings.tools), found, device, memory, cycles, terms)
    origin = settings.provenance
    return network_task(model, lambda system: origin or Provenance(memory_system=system, timing=timing), device, memory, cycles, terms)


def schedule(
    model: bytes | Network, device: str, memory: MemorySystem, budget: int | None, cycles: Cycles, settings: Settings = DEFAULT
) -> Choice:
    """The fastest schedule that is found in ``budget`` bytes (None: any number) of arena, with its replayed cycles and a bound of them.

    ``model`` are the bytes of a quantised .tflite, of which both of Vela's cores are asked where that may help, or a network. ``cycles``
    gives those of a lowered network; with more processes than one it is pickled. InputError if the device or a name is unknown, the model
    is wrong, or nothing fits.

    >>> from cascader import schedule
    >>> from npu_model.memory.timing_adapter import profile
    >>> from sim import quick_cycles
    >>> from validation.zoo import build
    >>> memory = profile("u55_high_end").memory_system()
    >>> found = schedule(build("tiny_residual"), "ethos-u55-128", memory, 8192, quick_cycles)
    >>> found.point.memory <= 8192, found.least_cycles <= found.point.cycles
    (True, True)
    """
    task = _task(model, device, memory, cycles, settings)
    aim = Aim(budget, settings.smallest, settings.effort == THOROUGH, settings.price)
    with workers(processes_for(len(task.network.graph.parts), settings.processes), takes_part=True) as executor:
        return choose(task, aim, executor, settings.show, settings.seen)


def frontier(model: bytes | Network, device: str, memory: MemorySystem, cycles: Cycles, settings: Settings = DEFAULT) -> FoundFrontier:
    """The schedules that no other one beats in bytes and replayed cycles, by ascending bytes, with bounds of both.

    The arguments are those of :func:`schedule`. InputError if the device is unknown, or the model is wrong.
    """
    task = _task(model, device, memory, cycles, settings)
    with workers(processes_for(len(task.network.graph.parts), settings.processes), takes_part=True) as executor:
        request = replace(EVERYTHING, thorough=settings.effort == THOROUGH)
        found = search(explore(task, executor, settings.show), request, executor, settings.show)
        return frontier_of(task, found, executor, show=settings.show)
