"""Choice by the peak: the block that holds the most bytes is cut into ever finer stripes of channels, then the next such block.

Depthwise convolutions at the peak write over dead rows if that holds fewer bytes, because it recomputes nothing. Then a block at the peak
gets the next cut of :data:`CUTS` that can hold less, within the limit of multiply-accumulates. If no block at the peak can be cut, the
first parts are cut into tiles in another way: the way that holds the fewest bytes with the current cuts of blocks.

Plans know no gaps between buffers. Where addresses of many parts reach above the plans, the choice goes on at the peak of the addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.channel_stripes import Block, Stripes, blocks, in_channel_stripes
from cascader.ethosu.forms.dead_rows import depthwise_over_dead_rows, over_dead_rows
from cascader.ethosu.forms.placed import placed_within
from cascader.ethosu.forms.planned import Peak, Peaks, planned_within
from cascader.ethosu.network.network import Network
from cascader.ethosu.network.wanted_homes import Wanted
from npu_model.accelerator import Accelerator

CUTS = tuple(Stripes(rows, depth) for rows, depth in ((4, 32), (2, 32), (2, 16), (1, 32), (1, 16)))
"""Cuts of a block, from the cut that recomputes least to the one that holds the fewest bytes."""
MOST_STRIPED = 1000
"""The most parts of a form in stripes of channels: a search with more parts takes minutes."""
_PATIENCE = 8
"""The choice ends after this many changes in a row without a gain. Several blocks may hold the peak together."""

_ALONE = 8
"""Convolutions that are tried alone over dead rows if all of those at the peak together save nothing."""


class Candidate(Struct, frozen=True):
    """A form, the bytes that its plans hold, and its multiply-accumulates.

    ``over_dead_rows`` says whether some of its convolutions write over dead rows.
    """

    size: int
    macs: int
    network: Network
    over_dead_rows: bool = False


class TiledForm(Struct, frozen=True):
    """A form in tiles, with the bytes of plans for its tiles alone."""

    front: int
    form: Candidate


State = tuple[int, frozenset[tuple[str, int]], frozenset[str]]
"""A network, perhaps in tiles, by its identity, the cuts of its blocks, and the convolutions that write over dead rows."""


class KnownForms(Struct, frozen=True):
    """Forms that choices have made from the same networks, and the peaks of their plans. A network is None if it cannot be made."""

    networks: dict[State, Network | None] = field(default_factory=dict)
    peaks: Peaks = field(default_factory=lambda: Peaks(planned_within))


class PeakTerms(Struct, frozen=True):
    """Terms of a choice: the limit of multiply-accumulates, the device, and the homes of tensors."""

    most: int
    device: Accelerator
    sources: Sources
    homes: Sequence[Wanted]
    dead_rows: bool = True
    """Whether depthwise convolutions may write over dead rows: a choice may take another way without."""
    known: KnownForms = field(default_factory=KnownForms)
    """Results of other choices, of the same networks for the same homes."""


class PeakChoice:
    """A form under construction: a network, perhaps in tiles, and the cuts of its blocks by the names of their first parts."""

    def __init__(self, base: Network, tiles: Sequence[TiledForm], terms: PeakTerms) -> None:
        self.base, self.now, self._tiles, self._terms = base, base, tiles, terms
        self._peaks = terms.known.peaks
        self._cuts: dict[str, int] = {}
        self._known = {id(base)}
        self._shared: frozenset[str] = frozenset()
        self._kept_apart: set[str] = set()

    def _networks(self, base: Network) -> Network | None:
        terms, found = self._terms, {block.expansion.name: block for block in blocks(base)}
        cuts = {name: CUTS[number] for name, number in self._cuts.items() if name in found}
        more = sum(found[name].count(cut) for name, cut in cuts.items())
        macs = base.macs + sum(found[name].macs(cut) for name, cut in cuts.items())
        if macs > terms.most or len(base.graph.parts) + more > MOST_STRIPED:
            return None
        state, known = self._state(base), terms.known.networks
        if state not in known:
            striped = in_channel_stripes(base, cuts, terms.device, terms.sources)
            made = None if striped is None else over_dead_rows(striped, self._shared, terms.device, terms.sources)
            known[state] = None if made is None or len(made.graph.parts) > MOST_STRIPED else made
        return known[state]

    def _state(self, base: Network) -> State:
        return id(base), frozenset(self._cuts.items()), self._shared

    @property
    def state(self) -> State:
        """The form as a hashable value, because two choices may reach the same form."""
        return self._state(self.base)

    def candidate(self, size: int) -> Candidate:
        """The last form that could be made, which has ``size`` bytes."""
        return Candidate(size, self.now.macs, self.now, bool(self._shared))

    def made(self) -> Network | None:
        """The current form; None if it recomputes too much or has too many parts."""
        return self._networks(self.base)

    def count_addresses(self) -> None:
        """From now on, a peak is what the addresses of plans reach."""
        self._peaks = Peaks(placed_within)
        self._kept_apart.clear()

    def peak(self, about: int | None = None) -> Peak:
        """The peak of the last form that could be made; it is found in less time if it has at most ``about`` bytes."""
        return self._peaks.of(self.now, self._terms.homes, about)

    def changed(self, peak: Peak) -> bool:
        """Change the form at its peak; returns whether a form without too much recomputed work or too many parts was found."""
        before = self.base, dict(self._cuts), self._shared
        made = self.made() if self.share(peak) or self.refine(peak) else None
        if made is None:
            self.base, self._cuts, self._shared = before
            return False
        self.now = made
        return True

    def _next_cut(self, block: Block, size: int) -> int | None:
        """The next cut of a block that may hold fewer bytes than ``size``."""
        ends = [self.base.graph.tensor(name) for name in block.ends]
        homes = {home.what for home in self._terms.homes}
        beside = max(0 if end.name in homes else end.size for end in ends)
        begin = self._cuts.get(block.expansion.name, -1) + 1
        small = (number for number in range(begin, len(CUTS)) if block.between(CUTS[number]) + beside // 2 < size)
        return next(small, None)

    def share(self, peak: Peak) -> bool:
        """Let depthwise convolutions at the peak of the form write over dead rows; returns whether that holds fewer bytes.

        All of them do, or the one that saves most: rows that are shared are a little longer at every step. Nothing is recomputed.
        """
        able = depthwise_over_dead_rows(self.now, self._terms.device) if self._terms.dead_rows else ()
        names = {one.name for one in able if one.name in peak.parts} - self._kept_apart
        before = self._shared
        for some in ([names], [{name} for name in sorted(names)[:_ALONE]] if len(names) > 1 else []):
            peaks = ((self._peak_with(before | new, peak.size), sorted(new)) for new in some if new)
            found = [(one.size, len(one.parts), new) for one, new in peaks if one is not None]
            size, count, chosen = min(found, default=(peak.size, len(peak.parts), []))
            if (size, count) < (peak.size, len(peak.parts)):
                self._shared = before.union(chosen)
                return True
        self._kept_apart |= names
        return False

    def _peak_with(self, shared: frozenset[str], most: int) -> Peak | None:
        """The peak with other convolutions over dead rows; None if that form has too many parts, or holds more than ``most`` bytes."""
        before, self._shared = self._shared, shared
        made = self.made()
        self._shared = before
        return None if made is None else self._peaks.within(made, self._terms.homes, most)

    def refine(self, peak: Peak) -> bool:
        """Cut the blocks at the peak finer, or take other tiles; returns whether that was possible."""
        at, inside = {name.split("/stripe")[0] for name in peak.parts}, any("/tile" in name for name in peak.parts)
        if inside and self._other_tiles(peak.size):
            return True
        found, candidates = False, list(blocks(self.base))
        for block in candidates:
            if at & block.names and "/tile" not in block.expansion.name:
                # The projection of one block may be the expansion of the next. Then only one of the two can be cut.
                taken = any(block.names & other.names for other in candidates if other is not block and other.expansion.name in self._cuts)
                number = None if taken else self._next_cut(block, peak.size)
                if number is not None:
                    self._cuts[block.expansion.name] = number
                    found = True
        return found

    def _other_tiles(self, size: int) -> bool:
        """Take the tiles that recompute least among those with fewer bytes than ``size``; returns whether there are any."""
        fewer = [one for one in self._tiles if one.front < size and id(one.form.network) not in self._known]
        for tiles in sorted(fewer, key=lambda one: (one.form.macs, one.front)):
            if self._networks(tiles.form.network) is not None:
                self.base = tiles.form.network
                self._known.add(id(self.base))
                return True
        return False


def by_peak(choice: PeakChoice, worthwhile: Callable[[int, int], bool], seen: set[State], about: int | None = None) -> Iterator[Candidate]:
    """Ever smaller forms of a network with blocks in stripes of channels, beginning with the network or some of its tiles.

    ``worthwhile`` says whether a form with the first number of bytes is worth having next to one with the second. The choice ends at a form
    that an earlier choice has ``seen``, because it would continue in the same way. The first one holds ``about`` so many bytes.
    """
    yield from _ever_smaller(choice, choice.peak(about), worthwhile, seen)


def by_addresses(choice: PeakChoice, worthwhile: Callable[[int, int], bool]) -> Iterator[Candidate]:
    """The form at which a choice ended, and ever smaller ones, counted by the bytes that addresses of their plans reach."""
    choice.count_addresses()
    peak = choice.peak()
    yield choice.candidate(peak.size)
    yield from _ever_smaller(choice, peak, worthwhile, {choice.state})


def _ever_smaller(choice: PeakChoice, peak: Peak, worthwhile: Callable[[int, int], bool], seen: set[State]) -> Iterator[Candidate]:
    least, waits = peak.size, 0
    while waits < _PATIENCE and choice.changed(peak) and choice.state not in seen:
        seen.add(choice.state)
        peak, waits = choice.peak(least), waits + 1
        if worthwhile(peak.size, least):
            least, waits = peak.size, 0
            yield choice.candidate(peak.size)
