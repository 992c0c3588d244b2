"""Recomputed forms: the few ways to cut a network into tiles or channel stripes, or to recompute its skips, that hold the fewest bytes.

Plans choose the segment and the number of tiles by their bytes alone: without cycles, a plan of the whole network takes some hundredths of
a second. Segments begin at the network's first part. A segment is tried if every shorter one leaves more bytes after it. If several leave
equally few, two are tried: the first, which recomputes least, and the last, after which the fewest parts hold whole rows. From the smallest
form, and from the form with the fewest multiply-accumulates, blocks at the peak are then cut into stripes of channels. More than two tiles,
and two, are also tried in the widths of :mod:`cascader.ethosu.forms.tile_widths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.by_peak import Candidate, KnownForms, PeakChoice, PeakTerms, State, TiledForm, by_addresses, by_peak
from cascader.ethosu.forms.column_spans import ColumnSpan, Tiling, segment
from cascader.ethosu.forms.placed import MANY_PARTS, placed_peak
from cascader.ethosu.forms.planned import planned_bytes, planned_front
from cascader.ethosu.forms.recomputed_skips import recomputed_skips
from cascader.ethosu.forms.sizes import MOST_PARTS
from cascader.ethosu.forms.tile_widths import TileWidths
from cascader.ethosu.forms.tiles import tiled
from cascader.ethosu.network.homes import homed_forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.graph.cascader_graph import TensorKind
from npu_model.accelerator import Accelerator

_MOST_TILES = 12
"""The most tiles. One more tile may gain where the last one gained nothing, because borders move to columns where kernels may part."""
_THERE = (Fraction(0), Fraction(1, 2), Fraction(1))
"""Parts of the results that may be there at the peak of the first tile: plans decide which of the three holds the fewest bytes."""
_ENDS = 2
"""Number of segments that are tried in more than two tiles: those with the fewest bytes in two tiles."""
_SKIPS = 3
"""The most recomputed skips in one form."""
_SMALL = 16
"""A tensor with a smaller part of a network's bytes than this is not recomputed."""
_NEAR = Fraction(11, 10)
"""Multiple of the bytes of the smallest form up to which another form's addresses may be smaller."""
_MOST_PLACED = 16
"""The most forms of many parts whose addresses are searched for."""
_NO_BYTES_KNOWN = 1 << 60
"""Stands for the fewest bytes of addresses while none are known."""
_FORMS = 3
"""The most forms: the smallest one, the one that recomputes least, and one between them."""
WORTHWHILE = Fraction(99, 100)
"""The largest part of a network's bytes that a form of it may hold."""


class _Tiler:
    """Cuts one network into tiles that do at most ``most`` multiply-accumulates, to hold fewer bytes than ``below``."""

    def __init__(  # a network, two limits, and what it runs on
        self, network: Network, most: int, below: int, homes: Sequence[Wanted], accelerator: Accelerator, sources: Sources
    ) -> None:
        self.network, self.most, self._below, self._homes = network, most, below, homes
        self._outside = {home.tensor for placed in homed_forms([network], homes) for home in placed.homes}
        self._device = accelerator, sources
        self._macs = network.macs

    def _again(self, cut: ColumnSpan, tiling: Tiling) -> int | None:
        """The multiply-accumulates with a segment in tiles; None if it cannot be cut like this."""
        inside, whole = cut.macs(self.network, tiling), cut.macs(self.network, Tiling(1))
        return None if inside is None or whole is None else self._macs - whole + inside

    def _held(self, names: Iterable[str]) -> int:
        """Bytes of some tensors in the arena."""
        tensors = (self.network.graph.tensor(name) for name in names if name not in self._outside)
        return sum(tensor.size for tensor in tensors if tensor.kind is not TensorKind.CONSTANT)

    def segments(self, least: int) -> Iterator[ColumnSpan]:
        """The segments worth a try if plans must hold less than ``least`` bytes."""
        ends: dict[int, list[ColumnSpan]] = {}
        fewest = least
        for last in range(1, len(self.network.graph.parts)):
            cut = segment(self.network, 0, last)
            if cut is None:
                break  # A part that cannot be cut is in every longer segment, too.
            again, size = self._again(cut, Tiling(2)), self._held(cut.results)
            # When the second tile begins, all inputs are there, and about half of the results.
            there = self._held(cut.reads(self.network)) + size // 2
            if cut.inside and again is not None and again <= self.most and size <= fewest and there < least:
                ends[size] = [*ends.get(size, [])[:1], cut]
                fewest = size
        for cuts in ends.values():
            yield from cuts

    def found(self, cut: ColumnSpan, tiling: Tiling) -> Candidate | None:
        """A segment in some tiles; None if it recomputes too much, has too many parts, or is impossible.

        A size of ``below`` bytes stands for that many or more.
        """
        parts = len(self.network.graph.parts) + (cut.last - cut.first + 1) * (tiling.count - 1)
        again = self._again(cut, tiling) if parts <= MOST_PARTS else None
        made = tiled(self.network, cut, tiling, *self._device) if again is not None and again <= self.most else None
        return None if made is None else Candidate(planned_bytes(made, self._homes, self._below), made.macs, made)

    def widths(self, cut: ColumnSpan, front: int) -> TileWidths:
        """The widths of a segment's tiles. ``front`` is the bytes of plans for two equal ones."""
        return TileWidths(self.network, cut, front, self._held(cut.results), self._held(cut.reads(self.network)))

    def front(self, cut: ColumnSpan, made: Candidate) -> TiledForm:
        """A segment in tiles with the bytes that they hold."""
        behind = len(self.network.graph.parts) - cut.last - 1
        return TiledForm(planned_front(made.network, len(made.network.graph.parts) - behind, self._homes, self._below), made)


def _smallest(found: Iterable[Candidate | None]) -> list[Candidate]:
    """Sort the segments by their bytes, and then by their multiply-accumulates."""
    return sorted((one for one in found if one is not None), key=lambda one: (one.size, one.macs))


def _in_more(tiler: _Tiler, cut: ColumnSpan, two: TiledForm) -> Iterator[TiledForm]:
    """A segment in two or more tiles of different widths, up to the first number that is impossible; ``two`` has two equal tiles."""
    widths, known = tiler.widths(cut, two.front), {Tiling(2)}
    before = {there: widths.size(Tiling(2), there=there) for there in _THERE}
    for count in range(2, _MOST_TILES + 1):
        for there, least in before.items():
            tiling = widths.best(count, there=there)
            size = widths.size(tiling, there=there)
            if tiling in known or (size is not None and least is not None and size >= least):
                continue
            known.add(tiling)
            made = tiler.found(cut, tiling)
            if made is None:
                return
            before[there] = size
            yield tiler.front(cut, made)


def _in_tiles(tiler: _Tiler, least: int) -> tuple[list[Candidate], list[TiledForm]]:
    """The form with the fewest bytes in two tiles, the one in any number of tiles, and all that were tried."""
    pairs = [(cut, tiler.front(cut, one)) for cut in tiler.segments(least) if (one := tiler.found(cut, Tiling(2))) is not None]
    good = sorted((one.form.size, number) for number, (_, one) in enumerate(pairs) if one.form.size < least * WORTHWHILE)
    fronts = sorted((one.front, number) for number, (_, one) in enumerate(pairs))
    chosen = dict.fromkeys(number for _, number in (*good[:_ENDS], *fronts[:_ENDS]))
    made = {number: list(_in_more(tiler, *pairs[number])) for number in chosen}
    tiles = [*(one for _, one in pairs), *(one for some in made.values() for one in some)]
    more = [one.form for _, number in good[:_ENDS] for one in made[number]]
    both = [one.form for _, number in good[:1] for one in (pairs[number][1], *made[number])]
    two = _smallest(one for one in both if len(one.network.graph.parts) == len(both[0].network.graph.parts))[:1]
    best = [*two, *(one for one in _smallest(more)[:1] if not two or one.size < two[0].size * WORTHWHILE)]
    return best, tiles


def _with_recomputed_skips(network: Network, most: int, homes: Sequence[Wanted], least: int) -> Iterator[Candidate]:
    """The network with one recomputed skip, then one more as long as that holds fewer bytes; ``least`` is the bytes of the network."""
    for _ in range(_SKIPS):
        made = (one for one in recomputed_skips(network, least // _SMALL) if one.macs <= most and len(one.graph.parts) <= MOST_PARTS)
        below = ceil(least * WORTHWHILE)
        best = next(iter(_smallest(Candidate(planned_bytes(one, homes, below), one.macs, one) for one in made)), None)
        if best is None or best.size >= below:
            return
        network, least = best.network, best.size
        yield best


class _Start(Struct, frozen=True):
    """A start of a choice by the peak: a network, the tiles that may replace it, and the limits of the choice."""

    network: Network
    tiles: Sequence[TiledForm]
    most: int
    dead_rows: bool
    about: int
    """The bytes of its plans, or a guess."""


class _End(Struct, frozen=True):
    """The end of a choice by the peak: the bytes that its last plans hold, and whether it might use dead rows."""

    size: int
    dead_rows: bool
    choice: PeakChoice


def _starts(base: Network, best: Sequence[Candidate], tiles: Sequence[TiledForm], most: int, least: int) -> Iterator[_Start]:
    """The starts among a network of ``least`` bytes and its forms in tiles, each without dead rows and with them."""
    # Blocks in stripes may gain more than tiles by the same multiply-accumulates, so a few tiles are a start, too.
    few = min((one.form for one in tiles), key=lambda one: one.macs, default=None)
    chosen = {id(one.network): (one.network, one.size) for one in (*_smallest(best)[:1], *([few] if few else []))}
    if chosen:
        # Dead rows need no multiply-accumulates, so they may gain without tiles.
        yield _Start(base, (), base.macs, dead_rows=True, about=least)
    for (network, size), dead_rows in product(chosen.values() or [(base, least)], (False, True)):
        yield _Start(network, tiles, most, dead_rows, about=size)


def _worthwhile(size: int, least: int) -> bool:
    return size < least * WORTHWHILE


def recomputed(
    network: Network,
    most: Fraction,
    accelerator: Accelerator,
    sources: Sources,
    homes: Sequence[Wanted] = (),
    below: int | None = None,
) -> list[Network]:
    """At most three forms that do at most ``most`` times the multiply-accumulates of a network and hold fewer bytes than it.

    The network with the recomputed skips that save most, whole, in two tiles and in more. If ``most`` is 1, only dead rows remain. A
    variant is left out if another holds no more bytes and computes no more. The network lies in the arena; its forms are chosen for tensors
    in their ``homes``. None is worth having if the plans of each hold ``below`` bytes or more.
    """
    bound, least = int(network.macs * most), planned_bytes(network, homes)
    # Work without multiply-accumulates would be recomputed, too.
    skip = list(_with_recomputed_skips(network, bound, homes, least))[-1:] if most > 1 else []
    found, ends = list(skip), list[_End]()
    for base in (network, *(one.network for one in skip)):
        best, tiles = _in_tiles(_Tiler(base, bound, ceil(least * WORTHWHILE), homes, accelerator, sources), least) if most > 1 else ([], [])
        found += best
        # A choice that may use dead rows goes on in another way from a form that one without them has seen.
        seen, known = {False: set[State](), True: set[State]()}, KnownForms()
        for start in _starts(base, best, tiles, bound, least):
            terms = PeakTerms(start.most, accelerator, sources, homes, start.dead_rows, known)
            choice = PeakChoice(start.network, start.tiles, terms)
            made = list(by_peak(choice, _worthwhile, seen[start.dead_rows], start.about))
            found += made
            ends += [_End(made[-1].size, start.dead_rows, choice)] if made else []
    if below is not None and all(one.size >= below for one in found):
        return []
    placed = [one for end in _closest(ends) for one in by_addresses(end.choice, _worthwhile)]
    placed += _placed(found, placed, homes)
    return [one.network for one in _chosen(found, placed, skip, least)]


def _closest(ends: Sequence[_End]) -> list[_End]:
    """The smallest form of many parts without dead rows, and the smallest one with them, if they are about as small."""
    many = sorted((one for one in ends if len(one.choice.now.graph.parts) > MANY_PARTS), key=lambda one: one.size)
    firsts = {one.dead_rows: one for one in reversed(many)}
    return [one for one in firsts.values() if one.size < many[0].size * _NEAR]


def _placed(found: Sequence[Candidate], placed: Sequence[Candidate], homes: Sequence[Wanted]) -> Iterator[Candidate]:
    """The forms of many parts by the bytes that their addresses reach, from the fewest planned bytes on.

    Addresses reach at least the plans' bytes, so the first form whose plans hold as many as a placed one reaches ends the search.
    """
    few = [one for one in found if len(one.network.graph.parts) <= MANY_PARTS]
    least = min((one.size for one in (*placed, *few)), default=_NO_BYTES_KNOWN)
    known = {id(one.network) for one in placed}
    others = [one for one in _smallest(found) if len(one.network.graph.parts) > MANY_PARTS and id(one.network) not in known]
    for one in others[:_MOST_PLACED]:
        if one.size >= least:
            return
        size = placed_peak(one.network, homes).size
        yield replace(one, size=size)
        least = min(least, size)


def _chosen(found: Sequence[Candidate], placed: Sequence[Candidate], skip: Sequence[Candidate], least: int) -> list[Candidate]:
    """At most three of the forms: the smallest, a smallest one without dead rows, the ``skip`` alone, and some that recompute less.

    Of forms of many parts, plans say less than addresses, so the smallest one of those ``placed`` comes first. ``least`` is the network's
    bytes.
    """
    kept = list(_worth_it(_smallest(one for one in found if _worthwhile(one.size, least) or one in skip)))
    # Addresses of dead rows may reach further above their plans, so the smallest form without them stays, if it is about as small.
    plain = _smallest(one for one in found if not one.over_dead_rows)
    apart = [one for one in plain[:1] if kept and one is not kept[0] and one.size < kept[0].size * _NEAR]
    chosen = kept[:1] + apart + [one for one in kept[1:] if one in skip and one not in apart]
    others = sorted((one for one in kept[1:] if one not in chosen), key=lambda one: one.macs)
    chosen += (others[:1] + others[len(others) // 2 : len(others) // 2 + 1])[: _FORMS - len(chosen)] if len(others) > 1 else others
    few = [one for one in found if len(one.network.graph.parts) <= MANY_PARTS]
    first = [one for one in _smallest([*placed, *few])[:1] if placed and all(one.network is not other.network for other in chosen)]
    return (first + chosen)[:_FORMS]


def _worth_it(found: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates, sorted by their bytes, that compute less than all candidates before them."""
    fewest: int | None = None
    for one in found:
        if fewest is None or one.macs < fewest:
            fewest = one.macs
            yield one
