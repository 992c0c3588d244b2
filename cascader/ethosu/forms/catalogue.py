"""The forms of a network that are searched: other layouts, rows, block depths and pieces of the same mathematics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Generic, Protocol, TypeVar

from cascader.ethosu.cost.memory_path import Sources
from cascader.ethosu.forms.columns import column_stripes
from cascader.ethosu.forms.fold import folded
from cascader.ethosu.forms.layouts import dense_layouts, quick_layouts
from cascader.ethosu.forms.long_steps import with_long_steps
from cascader.ethosu.forms.ordered import ordered
from cascader.ethosu.forms.phases import in_phases
from cascader.ethosu.forms.reblock import reblocked, recoded
from cascader.ethosu.forms.recomputed import MOST_PARTS, planned_bytes, recomputed
from cascader.ethosu.forms.row_shapes import in_row_shapes
from cascader.ethosu.forms.slices import LARGEST, sliced
from cascader.ethosu.forms.spared_copies import with_transfers, without_copies
from cascader.ethosu.forms.streamed_pools import with_streamed_pools
from cascader.ethosu.forms.table_slots import with_table_slots
from cascader.ethosu.forms.trimmed import trimmed
from cascader.ethosu.forms.turned import turned, turned_in_place
from cascader.ethosu.forms.wide_copies import with_wide_copies
from cascader.ethosu.network.homes import Wanted
from cascader.ethosu.network.network import Network
from cascader.ethosu.options import DEFAULT_OPTIONS, CascadeOptions
from npu_model.accelerator import Accelerator
from npu_model.accelerator import accelerator as find_accelerator
from npu_model.memory.system import MemorySystem
from npu_model.timing import DEFAULT_TIMING, TimingParameters
from npu_model.values import dataclass

T = TypeVar("T")

_PIECES = (12, 24, 40, 100)
"""Pieces of equal size into which all weights of a network are thought to be cut to find finer sizes of slices."""
_FINER = Fraction(3, 4)
"""Largest part of the next larger size that a size may have: closer sizes hardly differ."""
_SMALLEST_PIECE = 2 * 1024
_LARGE = 30_000
"""Parts times rows of all parts above which a network is searched in two forms only, as each search takes long."""
_SMALL = 12_000
"""Parts times rows of all parts up to which a network is small."""
_PIECES_OF_LARGE = (40, 100)
"""As ``_PIECES``, for a large network: the first of these that gives pieces that are finer."""
_FLAT_PIECE, _FLAT_PIECES = LARGEST // 4, 16
"""Bytes of weights of a piece, and pieces of a layer at most, in networks that are cut along the columns."""


def _rows(network: Network) -> list[int]:
    """The rows of each kernel."""
    return [kernel.axis.extent(kernel.operation.ofm.shape) for kernel in network.kernels.values()]


def _work(network: Network) -> int:
    """Parts times rows of all parts: how long a search takes, roughly."""
    rows = _rows(network)
    return len(rows) * sum(rows)


def is_small(network: Network) -> bool:
    """Whether there is time to ask its groups for ``CascadeOptions.fine_rows`` too."""
    return _work(network) <= _SMALL


def is_flat(network: Network) -> bool:
    """Whether most tensors are one row high, as in an unrolled recurrent network: such a network is searched quickly."""
    rows = _rows(network)
    return sum(rows) <= 2 * len(rows)


def _piece_sizes(network: Network, options: CascadeOptions) -> tuple[int, ...]:
    """Bytes of weights above which layers are cut, coarse and finer; 0 for not at all."""
    if not options.slices:
        return (0,)
    total = sum(span.length for kernel in network.kernels.values() for span in kernel.operation.weights)
    large = _work(network) > _LARGE
    sizes = [LARGEST]
    for pieces in (_PIECES_OF_LARGE if large else _PIECES) if options.fine_slices else ():
        size = max(_SMALLEST_PIECE, total // pieces)
        sizes += [size] if size <= sizes[-1] * _FINER else []
    return tuple(sizes[:2] if large else sizes)


def _reads_longer_than_it_computes(network: Network, direct: Sources, accelerator: Accelerator) -> bool:
    """Whether the weights of a small network take longer to be read at home than its MACs take at full rate."""
    if not is_small(network):
        return False
    operations = [kernel.operation for kernel in network.kernels.values()]
    read = sum(span.length for operation in operations for span in operation.weights) * direct.constants.rate
    return read * accelerator.macs_per_cycle > sum(operation.macs for operation in operations)


def _flat_forms(base: Network, accelerator: Accelerator, options: CascadeOptions) -> list[Network]:
    """Forms of a network that is one row high, none of another: cut along the columns, and in pieces in the densest layout.

    Every stripe of columns reads the weights of its kernels anew, while a piece of a layer needs all columns of its input. So
    either all layers are cut along the columns; or those of many weights are, and the others into small pieces; or those
    without a window, which need no other columns than they make, and the others into pieces.
    """
    flat = [form for form in _each(column_stripes(base, depth) for depth in options.layouts) if form is not base] if options.columns else []
    found = []
    for form in flat:
        found.append(form)
        if options.slices and options.fine_slices:
            found.append(sliced(form, accelerator, _FLAT_PIECE, _FLAT_PIECES))
            found.append(sliced(form, accelerator, LARGEST // 2, pointwise=False))
    return found


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes forms for one device, its constants read in the arena or at home."""

    device: Accelerator
    staged: Sources
    direct: Sources
    options: CascadeOptions

    def plain(self, network: Network) -> Network:
        """The network as all of its forms begin: kernels and tables that are better for any budget."""
        options = self.options
        network = with_long_steps(network, self.device, self.staged) if options.long_steps else network
        is_cut = options.slices and not is_flat(network)
        network = recoded(network, self.device, LARGEST if is_cut else None) if options.recode else network
        network = trimmed(network) if options.trim else network
        network = with_table_slots(network, self.device) if options.table_slots else network
        network = in_row_shapes(network, self.device) if options.row_shapes else network
        network = with_transfers(network, self.device, self.staged) if options.transfers else network
        network = with_wide_copies(network, self.device, self.staged) if options.wide_copies else network
        network = in_phases(network, self.device, self.staged) if options.phases else network
        return folded(network, self.device, self.staged) if options.fold else network

    def encoded(self, form: Network, *sources: Sources) -> Network:
        """The form in the block depths that are best whichever of some sources its constants are read from."""
        return reblocked(form, self.device, sources) if self.options.reblock else form

    def base(self, form: Network) -> Network:
        """The form encoded for weights from anywhere."""
        return self.encoded(form, self.direct, self.staged)

    def coarse(self, base: Network, size: int, depth: int) -> Network:
        """A form with its largest layers cut, above ``size`` bytes of weights (0: none), and tensors of up to ``depth`` channels dense.

        What pieces write is dense, too: no access of theirs begins at a tensor's first byte, so that they are cut afterwards.
        """
        dense = dense_layouts(base, depth)
        return sliced(dense, self.device, size, early=True) if size else dense

    def whole(self, plain: Network, base: Network) -> list[Network]:
        """A form with small layers in no pieces, in the blocks that the network came with, if its units mostly wait for weights.

        Neither the first 16 channels on their own nor shallow blocks gain there what the other forms have them for.
        """
        if not self.options.slices or not (is_flat(base) or _reads_longer_than_it_computes(base, self.direct, self.device)):
            return []
        return [dense_layouts(sliced(plain, self.device, LARGEST // 2), self.options.layouts[-1])]

    def pieces(self, form: Network, size: int) -> Network:
        """A form in pieces of ``size`` bytes of weights, encoded for staged ones, in the densest layout that takes no more cycles."""
        depth = self.options.layouts[-1]
        cut = self.encoded(sliced(form, self.device, size, early=True), self.staged)
        return quick_layouts(cut, depth, self.device, self.staged) if self.options.quick_layouts else dense_layouts(cut, depth)

    def streamed(self, plain: Network, coarse: int, fine: Sequence[int]) -> list[Network]:
        """The forms with global pools through which rows stream, whole and in the largest finer pieces; none without such pools."""
        made = with_streamed_pools(plain, self.device, self.staged) if self.options.streamed_pools else plain
        if made is plain:
            return []
        base = self.base(made)
        flat = _flat_forms(base, self.device, self.options)[:1]
        return flat or [self.coarse(base, coarse, self.options.layouts[-1]), *(self.pieces(made, size) for size in fine[:1])]

    def recomputed(self, plain: Network, coarse: int, fine: Sequence[int], homes: Sequence[Wanted]) -> list[Network]:
        """The forms in tiles and with skips made again; the one that holds fewest bytes in the largest finer pieces, too."""
        if self.options.recompute <= 1 or is_flat(plain) or len(plain.graph.parts) > MOST_PARTS:
            return []
        streamed = with_streamed_pools(plain, self.device, self.staged) if self.options.streamed_pools else plain
        base = min((plain, streamed), key=lambda form: planned_bytes(form, homes))
        found = recomputed(base, self.options.recompute, self.device, self.staged, homes)
        made = [self.coarse(self.base(form), coarse, self.options.layouts[-1]) for form in found]
        return made + [self.pieces(form, size) for form in found[:1] for size in fine[:1]]

    def across(self, plain: Network, coarse: int, fine: Sequence[int]) -> list[Network]:
        """The forms with kernels turned, none if that gains nothing: stored turned, in place, and in the largest of the finer pieces."""
        stored = turned(plain, self.device, self.staged) if self.options.turn else plain
        if stored is plain:
            return []
        found = [stored, turned_in_place(plain, self.device, self.staged)]
        return [self.coarse(self.base(form), coarse, self.options.layouts[-1]) for form in found] + [
            self.pieces(stored, size) for size in fine[:1]
        ]


@dataclass(frozen=True, slots=True)
class Thunk(Generic[T]):
    """Something that is still to be made, as a form is; it can be pickled.

    What waits for nothing else is made ``beside`` what others wait for.
    """

    make: Callable[[], T]
    beside: bool = False

    def __call__(self) -> T:
        """Make it."""
        return self.make()

    def homes(self, processes: int) -> range:
        """Numbers of the processes that may make it: the first one makes what others wait for."""
        return range(min(1, processes - 1), processes) if self.beside else range(processes)


class Spread(Protocol):
    """Makes some things, in this process or in others; they come in their order."""

    def __call__(self, thunks: Sequence[Thunk[T]], /) -> Iterable[T]:
        """All of them."""


def one_by_one(thunks: Sequence[Thunk[T]], /) -> Iterator[T]:
    """Make some things in this process."""
    return (thunk() for thunk in thunks)


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of a network: those that are searched, and those that are searched if they hold fewer bytes than these at least."""

    always: tuple[Network, ...]
    smaller: tuple[Network, ...] = ()


def forms(  # noqa: PLR0913  # a network is rewritten for a device, its memories and its timing, and tensors live somewhere
    network: Network,
    accelerator: str,
    system: MemorySystem,
    options: CascadeOptions = DEFAULT_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
    spread: Spread = one_by_one,
    homes: Sequence[Wanted] = (),
) -> Forms:
    """The network as it is searched: once per layout, axis and size of slices, those left out that do not differ from others.

    ``spread`` makes those forms that take the most time; no form depends on it. All tensors are in the arena; forms that are there for
    their bytes are those for tensors that live where ``homes`` want them.
    """
    make = _Maker(find_accelerator(accelerator), Sources.staged(system, timing), Sources.direct(system, timing), options)
    copying = without_copies(network, shifted=True) if options.spare_copies else network
    network = without_copies(copying) if options.spare_copies else network
    plain = make.plain(network)
    coarse, *fine = _piece_sizes(network, options)
    layouts = options.layouts[-1:] if fine and _work(network) > _LARGE else options.layouts
    # In one layout only: where small pieces and layouts each gain anything, they hardly gain more together.
    in_pieces = spread([Thunk(partial(make.pieces, plain, size), beside=True) for size in fine])
    base = make.base(plain)
    made = [*spread([Thunk(partial(make.coarse, base, coarse, depth)) for depth in layouts])]
    more = make.across(plain, coarse, fine) + make.whole(plain, base) + _flat_forms(base, make.device, options)
    found = [*made, *in_pieces, *more]
    if is_small(network):
        # A depth that does for constants from anywhere need not be the best for staged ones.
        found.append(make.coarse(make.encoded(plain, make.staged), coarse, layouts[0]))
    # Another order of the parts saves memory only, as do copies that turn a tensor: the densest layout and coarse pieces do for both.
    others = (ordered(network) if options.order else network, copying)
    always = _each(found + [make.coarse(make.base(make.plain(other)), coarse, options.layouts[-1]) for other in others if other != network])
    smaller = (*make.streamed(plain, coarse, fine), *make.recomputed(plain, coarse, fine, homes))
    return Forms(always, tuple(form for form in smaller if form not in always))


def variants(
    network: Network,
    accelerator: str,
    system: MemorySystem,
    options: CascadeOptions = DEFAULT_OPTIONS,
    timing: TimingParameters = DEFAULT_TIMING,
) -> tuple[Network, ...]:
    """All forms of a network (see :func:`forms`)."""
    made = forms(network, accelerator, system, options, timing)
    return made.always + made.smaller


def _each(networks: Iterable[Network]) -> tuple[Network, ...]:
    """The networks without those that are equal to earlier ones."""
    seen: list[Network] = []
    for network in networks:
        if network not in seen:
            seen.append(network)
    return tuple(seen)
