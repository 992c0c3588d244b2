"""Recomputed forms: the few ways to cut a network into tiles, or to make its skips again, that hold fewest bytes.

Plans decide on the segment and the number of tiles, by their bytes alone. A plan of the whole network without cycles takes some hundredths
of a second. Segments begin at the network's first part. Two segments are tried for each new smallest size of their remainder: the first,
which recomputes least, and the last, which leaves the fewest parts to hold whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.column_spans import ColumnSpan, segment
from cascader.ethosu.forms.layouts import dense_layouts, denser_layouts
from cascader.ethosu.forms.skips_again import skips_again
from cascader.ethosu.forms.tiles import tiled
from cascader.ethosu.network.homes import homed_forms
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.rows import row_graph
from cascader.ethosu.network.wanted_homes import Wanted
from cascader.ethosu.options import DEFAULT_OPTIONS
from cascader.graph.cascader_graph import TensorKind
from cascader.plan.depth_first import DepthFirstScheduler
from cascader.plan.group_costs import JobTimes, KnownCosts
from cascader.plan.plans import Planner, PlanOptions
from cascader.plan.proposals import smallest_limit
from npu_model.accelerator import Accelerator

_MOST_TILES = 8
"""Tiles at most. One more may gain where the last one gained nothing, as borders move to where kernels may part."""
_ENDS = 2
"""Segments, of those that hold fewest bytes in two tiles, that are tried in more."""
_SKIPS = 3
"""Skips that are made again in one form at most."""
_SMALL = 16
"""Part of a network's bytes below which a tensor is too small to be made again for them."""
MOST_PARTS = 256
"""Parts of a form at most: to plan one for each way to cut a network would take long."""
WORTHWHILE = Fraction(99, 100)
"""Part of the bytes of a network that a form of it may hold at most."""


class _NoCosts:
    """A device on which nothing takes any time: plans of it differ in their bytes alone."""

    def times(self, part: int, _start: int, _end: int) -> JobTimes:
        return JobTimes(part, 1, 1, 0, 0, 1, 0, 0, 0)

    def hidden(self, _part: int, _start: int, _end: int) -> int:
        return 0

    def constant_bytes(self, _part: int) -> int:
        return 0

    def transfer_cycles(self, _part: int) -> int:
        return 0

    def same_constants(self, part: int) -> int:
        return part


_BY_BYTES = PlanOptions(stripe_rows=(1, 2), staging=(0,))


def planned_bytes(network: Network, homes: Sequence[Wanted] = ()) -> int:
    """Bytes of the arena that some plans of a network hold at least, of few rows and without copies of constants.

    Its tensors are as dense as forms store them, in the one of two layouts that holds less, and live where ``homes`` want them.
    """
    layouts = dense_layouts(network, DEFAULT_OPTIONS.dense), denser_layouts(network)
    different = layouts[:1] if layouts[1].graph == layouts[0].graph else layouts
    return min(planned_limit(next(homed_forms([dense], homes), dense)) for dense in different)


def planned_limit(placed: Network) -> int:
    """Bytes as :func:`planned_bytes` of a network whose tensors are where they live."""
    graph, costs = row_graph(placed), _NoCosts()
    known = KnownCosts.alike(costs, [part.rows for part in graph.parts])
    return smallest_limit(Planner(DepthFirstScheduler(graph), costs, _BY_BYTES, known).table())


class _Found(Struct, frozen=True):
    """A form, the bytes that its plans hold, and its multiply-accumulates."""

    size: int
    macs: int
    network: Network


class _Tiler:
    """Cuts one network into tiles that do at most ``most`` multiply-accumulates."""

    def __init__(self, network: Network, most: int, homes: Sequence[Wanted], accelerator: Accelerator, sources: Sources) -> None:
        self.network, self.most, self._homes = network, most, homes
        self._outside = {home.tensor for placed in homed_forms([network], homes) for home in placed.homes}
        self._device = accelerator, sources
        self._macs = network.macs

    def _again(self, cut: ColumnSpan, count: int) -> int | None:
        """The multiply-accumulates with a segment in some tiles; None if it cannot be cut so."""
        inside, whole = cut.macs(self.network, count), cut.macs(self.network, 1)
        return None if inside is None or whole is None else self._macs - whole + inside

    def _held(self, names: Iterable[str]) -> int:
        """Bytes of some tensors in the arena."""
        tensors = (self.network.graph.tensor(name) for name in names if name not in self._outside)
        return sum(tensor.size for tensor in tensors if tensor.kind is not TensorKind.CONSTANT)

    def segments(self, least: int) -> Iterator[ColumnSpan]:
        """The segments worth a try, if plans of less than ``least`` bytes are looked for."""
        ends: dict[int, list[ColumnSpan]] = {}
        fewest = least
        for last in range(1, len(self.network.graph.parts)):
            cut = segment(self.network, 0, last)
            if cut is None:
                break  # what cannot be cut is in every longer segment, too
            again, size = self._again(cut, 2), self._held(cut.results)
            # When the second tile begins, all that is read is there, and about half of what is left.
            there = self._held(cut.reads(self.network)) + size // 2
            if cut.inside and again is not None and again <= self.most and size <= fewest and there < least:
                ends[size] = [*ends.get(size, [])[:1], cut]
                fewest = size
        for cuts in ends.values():
            yield from cuts

    def found(self, cut: ColumnSpan, count: int) -> _Found | None:
        """A segment in some tiles; None if that does too much again, has too many parts, or is not possible."""
        parts = len(self.network.graph.parts) + (cut.last - cut.first + 1) * (count - 1)
        again = self._again(cut, count) if parts <= MOST_PARTS else None
        made = tiled(self.network, cut, count, *self._device) if again is not None and again <= self.most else None
        return None if made is None else _Found(planned_bytes(made, self._homes), made.macs, made)


def _smallest(found: Iterable[_Found | None]) -> list[_Found]:
    """Sort what was found by its bytes, and then by what it does."""
    return sorted((one for one in found if one is not None), key=lambda one: (one.size, one.macs))


def _in_more(tiler: _Tiler, cut: ColumnSpan) -> Iterator[_Found]:
    """A segment in any number of tiles above two, up to the first one that is not possible."""
    for count in range(3, _MOST_TILES + 1):
        made = tiler.found(cut, count)
        if made is None:
            return
        yield made


def _in_tiles(tiler: _Tiler, least: int) -> list[_Found]:
    """The form of fewest bytes in two tiles, and the one in any number of them."""
    pairs = [(cut, tiler.found(cut, 2)) for cut in tiler.segments(least)]
    good = sorted((one.size, number) for number, (_, one) in enumerate(pairs) if one is not None and one.size < least * WORTHWHILE)
    more = [one for _, number in good[:_ENDS] for one in _in_more(tiler, pairs[number][0])]
    two = [one for _, number in good[:1] if (one := pairs[number][1]) is not None]
    return [*two, *(one for one in _smallest(more)[:1] if not two or one.size < two[0].size * WORTHWHILE)]


def _with_skips_again(network: Network, most: int, homes: Sequence[Wanted], least: int) -> Iterator[_Found]:
    """The network with one recomputed skip, and one more as long as that holds fewer bytes; ``least`` are the bytes of the network."""
    for _ in range(_SKIPS):
        made = (one for one in skips_again(network, least // _SMALL) if one.macs <= most and len(one.graph.parts) <= MOST_PARTS)
        best = next(iter(_smallest(_Found(planned_bytes(one, homes), one.macs, one) for one in made)), None)
        if best is None or best.size >= least * WORTHWHILE:
            return
        network, least = best.network, best.size
        yield best


def recomputed(network: Network, most: Fraction, accelerator: Accelerator, sources: Sources, homes: Sequence[Wanted] = ()) -> list[Network]:
    """The forms that do at most ``most`` times the multiply-accumulates of a network and hold less than it: three at most.

    The network with the skips recomputed that save most, whole, in two tiles and in more. A variant is left out if another holds no more
    bytes and computes no more. The network lies in the arena; its forms are chosen for tensors that live where ``homes`` want them.
    """
    bound, least = int(network.macs * most), planned_bytes(network, homes)
    skip = list(_with_skips_again(network, bound, homes, least))[-1:]
    found = list(skip)
    for base in (network, *(one.network for one in skip)):
        found += _in_tiles(_Tiler(base, bound, homes, accelerator, sources), least)
    kept = list(_worth_it(_smallest(found)))
    chosen = kept[:1] + [one for one in kept[1:] if one in skip]
    chosen += sorted((one for one in kept[1:] if one not in chosen), key=lambda one: one.macs)[:1]
    return [one.network for one in chosen]


def _worth_it(found: Iterable[_Found]) -> Iterator[_Found]:
    """Those, sorted by their bytes, that do less than all before them."""
    fewest: int | None = None
    for one in found:
        if fewest is None or one.macs < fewest:
            fewest = one.macs
            yield one
