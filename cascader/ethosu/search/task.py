"""The task of a search: a network for a device with its memories, and the replay that judges its schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from cascader.ethosu.codegen.lowering import lower
from cascader.ethosu.forms import FormsInTurn, FormTerms, MadeForm, is_flat
from cascader.ethosu.forms.constant_places import best_places, may_gain
from cascader.ethosu.forms.spread import Spread, Thunk, one_by_one
from cascader.ethosu.job.schedule import Provenance, Schedule
from cascader.ethosu.judge.replay import Replay as Replay  # noqa: PLC0414  # what a task is judged by
from cascader.ethosu.judge.replay import decides
from cascader.ethosu.network.homes import homed_forms, in_arena
from cascader.ethosu.network.network import CONSTANTS, Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import CascadeOptions
from cascader.ethosu.schedule.layer_by_layer import schedule_layer_by_layer
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.brief import Brief
from npu_model.front import later
from npu_model.memory.system import MemorySystem

with later():
    from cascader.ethosu.spill import spills as spilling  # few searches move tensors out of the arena
    from cascader.ethosu.spill import staged_ends as staging

Progress = Callable[[str], None]
"""Callback for each step of the work."""


def silent(_doing: str) -> None:
    """A listener that ignores all events."""


def idle() -> None:
    """Do nothing while others work."""


def ignored(*_made: object) -> None:
    """A listener that waits for no draft and no point on the way."""


class Point(Brief, frozen=True):
    """A replayed schedule: ``memory`` is its arena in bytes, ``cycles`` the replay's result, ``estimate`` the search's expectation."""

    unshown = ("schedule",)

    memory: int
    cycles: int
    estimate: int
    schedule: Schedule


Price = Callable[[Point], float]
"""The price of a replayed schedule; the lowest price wins. The searching process computes it, once for each schedule."""


class Proof(Struct, frozen=True):
    """The result of an exhaustive search: the schedules of its class, those ``replayed``, those ``tried``, and whether these are all.

    No schedule of the class takes fewer than ``least_cycles``. They are the cycles of the answer if the search is complete.
    """

    members: int
    replayed: int
    tried: int
    least_cycles: int
    complete: bool


class Size(Struct, frozen=True):
    """Bytes of a schedule's arena, and its replayed cycles."""

    memory: int
    cycles: int


class Choice(Struct, frozen=True):
    """A schedule, and the fewest cycles of all schedules that the search can make (None: not known yet).

    ``least_bytes`` is the arena bytes that each of them takes (None: unknown, or too few to be useful). ``proof`` is the result of an
    exhaustive search (None: there was none). ``fastest`` is the fastest schedule if a slower one with fewer bytes was requested.
    ``smaller`` is a little slower and needs far fewer bytes; it is named only if the search came upon it. ``whole_flash`` is the bytes of
    constants and commands of the network layer by layer (None: not computed).
    """

    point: Point
    least_cycles: int | None
    proof: Proof | None = None
    least_bytes: int | None = None
    fastest: Size | None = None
    smaller: Size | None = None
    whole_flash: int | None = None

    @property
    def gap(self) -> float | None:
        """Cycles of the schedule above ``least_cycles``, relative to ``least_cycles``; None if these are unknown."""
        return None if not self.least_cycles else self.point.cycles / self.least_cycles - 1


OnPoint = Callable[[Choice], None]
"""Callback for each schedule that is better than all earlier ones, before it is checked. It may raise, which ends the search."""


class Origin(Brief, frozen=True):
    """A network and its origin. A ``smaller`` network is searched only if it holds fewer bytes than the others.

    ``name`` is the name of its form, for listeners.
    """

    unshown = ("network",)

    network: Network
    provenance: Provenance
    smaller: bool = False
    name: str = ""


MakeForms = Callable[[], tuple[Origin, ...]]
"""Makes further forms of a task when they are asked for."""

MakeSmallForms = Callable[[int | None], tuple[Origin, ...]]
"""Makes forms whose plans hold fewer bytes than a number (None: than the network's)."""


class Task(Brief, frozen=True):
    """The task of a search. ``replay`` gives the cycles that count, on the memories of ``system`` and in the provenance's timing.

    ``others`` are equivalent networks from another legaliser, which are searched, too. ``homes`` are the homes of tensors outside the
    arena; ``network`` has them, the others need not. ``spills`` are permitted as well (None: no tensor leaves the arena). ``begun`` are
    forms that are made already.
    """

    unshown = ("network", "begun")

    network: Network
    accelerator: str
    system: MemorySystem
    replay: Replay
    provenance: Provenance = field(default_factory=Provenance)
    options: CascadeOptions = field(default_factory=CascadeOptions)
    others: tuple[Origin, ...] = ()
    homes: tuple[Wanted, ...] = ()
    spills: spilling.Spills | None = None
    begun: tuple[FormsInTurn, ...] = ()

    def with_usual_forms(self) -> Task:
        """The task with the forms that may save cycles, made in this process, which then need not be made again."""
        made = tuple(self._in_turn(origin, one_by_one, silent) for origin in (Origin(self.network, self.provenance), *self.others))
        for one in made:
            one.usual()
        return replace(self, begun=made)

    def variants(self, spread: Spread = one_by_one, show: Progress = silent) -> tuple[Origin, ...]:
        """Every network in the form that is searched; ``spread`` makes some forms in other processes."""
        usual, smaller, again = self.variants_in_turn(spread, show)
        return (*usual, *smaller(), *again(None))

    def variants_in_turn(
        self, spread: Spread = one_by_one, show: Progress = silent
    ) -> tuple[tuple[Origin, ...], MakeForms, MakeSmallForms]:
        """The forms to search that may save cycles, and functions that make the forms that only save bytes.

        The second function makes the forms that recompute work. If tensors spill, all forms are made at once.
        """
        origins = (Origin(self.network, self.provenance), *self.others)
        terms = [(origin, self._in_turn(origin, spread, show)) for origin in origins]
        usual = tuple(form for origin, made in terms for form in self._forms(origin, made, spread))

        def later(make: Callable[[FormsInTurn], tuple[MadeForm, ...]]) -> tuple[Origin, ...]:
            some = ((origin, form) for origin, made in terms for form in (() if self.spills is not None else make(made)))
            return tuple(self._smaller(origin, form.name, placed) for origin, form in some for placed in self._homed(form))

        return usual, partial(later, FormsInTurn.smaller), lambda below: later(lambda made: made.again(below))

    def _in_turn(self, origin: Origin, spread: Spread, show: Progress) -> FormsInTurn:
        # Rewrites need tensors in the arena; tensors with other homes are moved there afterwards.
        terms = FormTerms(self.accelerator, self.system, self.options, origin.provenance.timing, self.homes)
        network = in_arena(origin.network)
        return next((one for one in self.begun if one.are_of(network, terms)), None) or FormsInTurn(network, terms, spread, show)

    def _homed(self, form: MadeForm) -> Iterable[Network]:
        return homed_forms([form.network], self.homes)

    @staticmethod
    def _smaller(origin: Origin, name: str, network: Network) -> Origin:
        return replace(origin, network=network, smaller=True, name=name)

    def _forms(self, origin: Origin, in_turn: FormsInTurn, spread: Spread) -> Iterator[Origin]:
        made = in_turn.usual() if self.spills is None else (*in_turn.usual(), *in_turn.smaller(), *in_turn.again())
        homed = [(form, placed) for form in made for placed in self._homed(form)]
        named = [(form.name, placed) for form, placed in homed if not form.smaller]
        if not named and origin.network is self.network:
            named = [("as it came", self.network)]  # Each rewrite has lost a tensor that is named.
        yield from (replace(origin, network=form, name=name) for name, form in named)
        always = [form for _, form in named]
        plain = next((form.network for form in made if not form.smaller), None)
        if self.homes and plain is not None and always:
            ends = staging.staged_ends(plain, self.homes, self.system, find_accelerator(self.accelerator))
            yield from (replace(origin, network=form, name="staged ends") for form in ends)
        moves = self.options.constant_places and is_flat(origin.network)
        gaining = [form for form in always if may_gain(form)] if moves else []
        placed = self._placed(gaining, spread) if gaining else None
        if placed is not None:
            yield replace(origin, network=placed, name="constants moved")
        device, forms = find_accelerator(self.accelerator), [form.network for form in made]
        if self.spills is not None:
            left = spilling.left_forms(forms, self.homes, self.spills, device)
            yield from (replace(origin, network=form, name="left outside") for form in left)
        yield from (self._smaller(origin, form.name, placed) for form, placed in homed if form.smaller)
        if self.spills is not None:
            found = spilling.spilled_forms(forms, self.homes, self.spills, device)
            yield from (self._smaller(origin, "spilled", form) for form in found)

    @property
    def decides_by_replays(self) -> bool:
        """Whether replays compare drafts; if not, estimates compare them, and only the answer is replayed."""
        return decides(self.replay, self.accelerator)

    def settled(self, point: Point) -> Point:
        """A point of the answer, with the cycles of its replay."""
        if self.decides_by_replays:
            return point
        return replace(point, cycles=self.replay(lower(point.schedule, checked=False)))

    def within(self, budget: int | None, *, smallest: bool) -> Task:
        """The task for an aim: the fastest schedule in a budget of bytes (None: in any number of bytes), or the smallest one."""
        return self if self.spills is None else replace(self, spills=self.spills.within(budget, smallest=smallest))

    def _placed(self, forms: Sequence[Network], spread: Spread) -> Network | None:
        """The form that is fastest layer by layer, with its constants at the best addresses for it. None if no address gains anything."""
        cycles = list(spread([Thunk(partial(_cycles_layer_by_layer, form, self.accelerator, self.replay)) for form in forms]))
        plain = schedule_layer_by_layer(forms[cycles.index(min(cycles))], self.accelerator, checked=False)
        burst = self.system.ports[self.system.port_of(CONSTANTS)].burst_bytes
        return best_places(plain.network, burst, lambda form: lower(replace(plain, network=form), checked=False), self.replay)


def _cycles_layer_by_layer(form: Network, accelerator: str, replay: Replay) -> int:
    return replay(lower(schedule_layer_by_layer(form, accelerator, checked=False), checked=False))
