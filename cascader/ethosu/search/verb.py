"""The verb of the cascader: a network scheduled for a device, in a budget of memory or along its whole frontier."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from cascader.ethosu.network.network import Network
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.schedule import Provenance
from cascader.ethosu.search.choice import Aim, choose
from cascader.ethosu.search.frontier import FoundFrontier, frontier_of
from cascader.ethosu.search.search import explore, search
from cascader.ethosu.search.task import Choice, Replay, Seen, Show, Task, silent, unseen
from cascader.ethosu.search.wish import EVERYTHING
from cascader.search.workers import workers
from npu_model.memory.system import MemorySystem


class How(Struct, frozen=True):
    """Settings by which a network is scheduled.

    - ``smallest``: the schedule of fewest bytes in place of the fastest.
    - ``thorough``: every memory limit is searched to its end, which takes some times longer.
    - ``options``: the search, each choice a switch.
    - ``provenance``: where the network is from; the schedules carry it.
    - ``processes``: how many share the work; no answer depends on it.
    - ``show``: told what is being done; ``seen``: told of each better schedule. Either may raise, which ends the search.
    """

    smallest: bool = False
    thorough: bool = False
    options: CascadeOptions = field(default_factory=CascadeOptions)
    provenance: Provenance = field(default_factory=Provenance)
    processes: int = 1
    show: Show = silent
    seen: Seen = unseen


DEFAULT = How()


def _task(network: Network, device: str, memory: MemorySystem, replay: Replay, how: How) -> Task:
    return Task(network, device, memory, replay, how.provenance, how.options)


def schedule(network: Network, device: str, memory: MemorySystem, budget: int | None, replay: Replay, how: How = DEFAULT) -> Choice:
    """The fastest schedule that is found in ``budget`` bytes (None: any number) of arena, with its replayed cycles and a bound of them.

    ``replay`` gives the cycles of a lowered network; with more processes than one it is pickled. InputError if the device is unknown, or
    nothing fits.

    >>> from functools import partial
    >>> from cascader import schedule
    >>> from cascader.frontends.vela import import_network
    >>> from validation.zoo import build
    >>> from npu_model.memory.timing_adapter import profile
    >>> from sim import quick_cycles
    >>> memory = profile("u55_high_end").memory_system()
    >>> network = import_network(build("tiny_residual"), "ethos-u55-128")
    >>> found = schedule(network, "ethos-u55-128", memory, 8192, partial(quick_cycles, system=memory))
    >>> found.point.memory <= 8192, found.least_cycles <= found.point.cycles
    (True, True)
    """
    with workers(how.processes, takes_part=True) as executor:
        return choose(_task(network, device, memory, replay, how), Aim(budget, how.smallest, how.thorough), executor, how.show, how.seen)


def frontier(network: Network, device: str, memory: MemorySystem, replay: Replay, how: How = DEFAULT) -> FoundFrontier:
    """The schedules that no other one beats in bytes and replayed cycles, by ascending bytes, with bounds of both.

    The arguments are those of :func:`schedule`. InputError if the device is unknown.
    """
    task = _task(network, device, memory, replay, how)
    with workers(how.processes, takes_part=True) as executor:
        wish = replace(EVERYTHING, thorough=how.thorough)
        return frontier_of(task, search(explore(task, executor, how.show), wish, executor, how.show), executor, show=how.show)
