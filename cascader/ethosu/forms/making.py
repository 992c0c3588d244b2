"""Makes the forms of a network from the table. Passes that several forms begin with run once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.own_forms import own_recipes, pass_of
from cascader.ethosu.forms.passes import AGAIN, PassTerms, with_recomputed
from cascader.ethosu.forms.sizes import fine_sizes
from cascader.ethosu.forms.spread import Spread, Thunk, one_by_one
from cascader.ethosu.forms.table import BEGIN, FORMS, PLAIN, FormFacts, Recipe
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.errors import InputError
from npu_model.memory.outer_arena import is_scheduled_in_fast_scratch
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters


class MadeForm(Struct, frozen=True):
    """A form of a network by its name in the table. A ``smaller`` form is searched only if it holds fewer bytes than the others."""

    name: str
    network: Network
    smaller: bool = False


class FormTerms(Struct, frozen=True):
    """Terms of a network's forms: the device, its memories, the options and the timing, and the ``homes`` of tensors."""

    accelerator: str
    system: MemorySystem
    options: CascadeOptions = DEFAULT_OPTIONS
    timing: TimingParameters = DEFAULT_TIMING
    homes: tuple[Wanted, ...] = ()


class _Maker:
    """Runs passes on networks, each pass once for each network."""

    def __init__(self, terms: PassTerms) -> None:
        self.terms = terms
        self._done: dict[tuple[int, str], Network] = {}
        self._again: dict[int, list[Network]] = {}
        self._held: list[Network] = []

    def done(self, network: Network, name: str) -> Network:
        """The network after one pass; the same network if the pass finds nothing to do."""
        key = id(network), name
        if key not in self._done:
            self._held.append(network)  # As long as the network is held here, no other network has its identity.
            self._done[key] = self._numbered(network, name) if name.startswith(AGAIN) else pass_of(name)(network, self.terms)
        return self._done[key]

    def _numbered(self, network: Network, name: str) -> Network:
        if id(network) not in self._again:
            self._again[id(network)] = with_recomputed(network, self.terms)
        number = int(name.removeprefix(AGAIN))
        return next(iter(self._again[id(network)][number - 1 :]), network)

    def behind(self, network: Network, passes: Iterable[str]) -> Network:
        """The network after some passes, one after the other."""
        for name in passes:
            network = self.done(network, name)
        return network

    def exists(self, form: Recipe, network: Network, facts: FormFacts) -> bool:
        """Whether a network has a form."""
        if not form.when(facts):
            return False
        if not form.needs:
            return True
        passes = (*form.begins, *form.passes)
        before = passes[: passes.index(form.needs)] if form.needs in passes else form.begins
        at = self.behind(network, before)
        return self.done(at, form.needs) is not at


def _behind(network: Network, passes: Sequence[str], terms: PassTerms) -> Network:
    """Like :meth:`_Maker.behind`, in any process."""
    return _Maker(terms).behind(network, passes)


_SHARED = ("bricks", "dense")
"""Forms that all processes make at once, after the pass that they share."""


def _terms(network: Network, asked: FormTerms) -> PassTerms:
    device, system, options = find_accelerator(asked.accelerator), asked.system, asked.options
    sources = Sources.staged(system, asked.timing, device=device), Sources.direct(system, asked.timing, device=device)
    fine = fine_sizes(network) if options.slices and options.fine_slices else ()
    return PassTerms(device, *sources, options, fine=fine, copied=is_scheduled_in_fast_scratch(system))


_MOST_ROWS = 1 << 16
"""The most rows of a feature map: its height register has 16 bits (Vela 5.2, `IFM_HEIGHT0_M1`)."""

_CUT_ROWS = 4
"""Rows of the pools into which Vela 5.2 cuts a pool of more than :data:`_MOST_ROWS` rows."""

MOST_PARTS = _MOST_ROWS // _CUT_ROWS
"""The most parts, after merging kernels, of a network that is searched. Each network that Vela cuts for its rows has more.

An ARG_MAX of 256x256 positions is one pool of 65,536 rows. An ARG_MAX of 258x256 becomes 16,512 pools, and nothing joins these. A search
of 32,775 parts did not end in 500 seconds. Layer by layer such a network is scheduled in a quarter of a minute.
"""


def _require_few(network: Network) -> None:
    """InputError if a network has so many parts that a search would hardly end."""
    count = len(network.graph.parts)
    if count > MOST_PARTS:
        raise InputError(
            f"The network has {count} kernels, and one of at most {MOST_PARTS} is searched: run every layer whole (--no-cascade; compile: "
            "--disable-cascading)."
        )


def _unwatched(_doing: str) -> None:
    """A progress callback that does nothing."""


class FormsInTurn:
    """The forms of one network; forms that only save bytes come last. Passes that several forms begin with run once."""

    def __init__(self, network: Network, asked: FormTerms, spread: Spread = one_by_one, show: Callable[[str], None] = _unwatched) -> None:
        """Like :func:`forms`."""
        self._network, self._asked, self._spread, self._show = network, asked, spread, show
        self._maker = maker = _Maker(_terms(network, asked))
        few, options = maker.behind(network, BEGIN), asked.options
        maker.terms = terms = replace(_terms(few, asked), homes=asked.homes)
        self._plain = maker.behind(few, PLAIN)
        _require_few(self._plain)
        self._facts = FormFacts.of(few, self._plain, terms, copies_turn=few is not maker.behind(network, BEGIN[:1]))
        every = (*FORMS, *own_recipes()) if options.own_forms else FORMS
        self._table = [form for form in every if (form.common or not options.few_forms) and (options.small_forms or not form.smaller)]
        self._seen: list[Network] = []
        self._usual: tuple[MadeForm, ...] | None = None

    def are_of(self, network: Network, asked: FormTerms) -> bool:
        """Whether these are the forms of a network for some terms."""
        return self._network is network and self._asked == asked

    def usual(self) -> tuple[MadeForm, ...]:
        """The forms that may save cycles, made once."""
        if self._usual is None:
            self._usual = self._all_usual()
        return self._usual

    def _all_usual(self) -> tuple[MadeForm, ...]:
        maker, facts, plain = self._maker, self._facts, self._plain
        table = [form for form in self._table if not form.smaller]
        beside = [form for form in table if form.beside and form.when(facts)]
        elsewhere = self._spread([Thunk(partial(_behind, plain, form.passes, maker.terms), beside=True) for form in beside])
        shared = [form for form in table if form.name in _SHARED and form.when(facts)]
        ahead = maker.done(plain, shared[0].passes[0])
        same_time = self._spread([Thunk(partial(_behind, ahead, form.passes[1:], maker.terms)) for form in shared])
        made = dict(zip((form.name for form in shared), same_time, strict=True))
        made |= self._made(form for form in table if form.name not in made and not form.beside)
        made |= zip((form.name for form in beside), elsewhere, strict=True)
        return self._new(table, made)

    def smaller(self) -> tuple[MadeForm, ...]:
        """The forms that only save bytes and recompute nothing, after the usual ones."""
        return self._later(form for form in self._table if form.smaller and not form.works_again)

    def again(self, below: int | None = None) -> tuple[MadeForm, ...]:
        """The forms that recompute work, after all others; none if the plans of all of them hold ``below`` bytes or more."""
        self._maker.terms = replace(self._maker.terms, below=below)
        return self._later(form for form in self._table if form.works_again)

    def _later(self, recipes: Iterable[Recipe]) -> tuple[MadeForm, ...]:
        table = tuple(recipes)
        return self._new(table, self._made(table))

    def _made(self, table: Iterable[Recipe]) -> dict[str, Network]:
        made: dict[str, Network] = {}
        for form in table:
            self._show(f"Rewriting the network of {len(self._network.graph.parts)} parts: form {form.name}")
            if self._maker.exists(form, self._network, self._facts):
                made[form.name] = self._maker.behind(self._network, (*form.begins, *form.passes))
        return made

    def _new(self, table: Iterable[Recipe], made: Mapping[str, Network]) -> tuple[MadeForm, ...]:
        """The forms, without those that equal earlier ones."""
        found: list[MadeForm] = []
        for form in table:
            if form.name in made and made[form.name] not in self._seen:
                self._seen.append(made[form.name])
                found.append(MadeForm(form.name, made[form.name], form.smaller))
        return tuple(found)


def forms(
    network: Network, asked: FormTerms, spread: Spread = one_by_one, show: Callable[[str], None] = _unwatched
) -> tuple[MadeForm, ...]:
    """The forms of a network in the order of the table, without those that do not differ from others.

    ``spread`` makes the forms that take most time; no other form depends on them. All tensors are in the arena. Forms that only save bytes
    are chosen for tensors in their ``homes``. ``show`` is told of each step.
    """
    made = FormsInTurn(network, asked, spread, show)
    return (*made.usual(), *made.smaller(), *made.again())
