"""Kept kernels: what lowering a network's schedules has worked out, for schedules of the same network that are lowered later.

A search changes a schedule at one place at a time: most jobs become the kernels that they became before, behind the same ones. Many
others become these kernels at other addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from itertools import count

from cascader.ethosu.codegen.feature_maps import rebase
from cascader.ethosu.cost.blockdep import block_distance, is_settled, look_back
from cascader.ethosu.network.network import ARENA
from cascader.ethosu.schedule.staging import with_staged_weights
from npu_model.accelerator import Accelerator
from npu_model.command_stream.counted import WordCounter, kernel_form
from npu_model.program import MOVED_WEIGHTS, ByteRange, DmaOperation, FeatureMap, KernelOperation, Moved, Operation
from npu_model.program.alignment import ALIGNMENT
from npu_model.values import dataclass

MOST = 12_000
"""Kernels that are kept before all are forgotten: some 60 megabytes."""

_Ranges = tuple[ByteRange, ...]
_Span = tuple[int, int]
Addresses = tuple[int | None, int, int | None]
"""Addresses of the tensors that a kernel's IFM, OFM and IFM2 are of; None where there is none in the arena."""


def _span(feature_map: FeatureMap | None) -> _Span | None:
    """First and last (exclusive) byte of a map in the arena, None if there is none."""
    if feature_map is None or feature_map.region != ARENA:
        return None
    ranges = feature_map.byte_ranges()
    return ranges[0].start, max(one.end for one in ranges)


_At = tuple[Addresses, int | None]
"""Addresses of the tensors of a kernel, and of the copy of its weights if it reads one."""


class _Template:
    """A kernel whose tensors begin at address 0 and whose weights are at home, and what was made of it."""

    __slots__ = ("at", "home", "kinds", "read", "second", "written")

    def __init__(self, home: KernelOperation) -> None:
        self.home = home
        self.at: dict[_At, KernelOperation] = {}
        self.kinds: dict[bool, int] = {}
        self.read, self.written, self.second = map(_span, (home.ifm, home.ofm, home.ifm2))


def _at(feature_map: FeatureMap, address: int | None) -> FeatureMap:
    return rebase(feature_map, address) if address else feature_map


_Made = tuple[KernelOperation, _Template, _At]
"""A kernel, and what it was made of."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A kernel that was issued; it is one of :class:`npu_model.program.Moved`."""

    kernel: KernelOperation
    origin: KernelOperation
    kind: int


def _offset(written: _Span | None, ofm: int, read: _Span | None, ifm: int | None) -> int | None:
    """Bytes that a written tensor lies behind one that is read, if the spans of both meet; else None."""
    if written is None or read is None or ifm is None:
        return None
    offset = ofm - ifm
    return offset if written[0] + offset < read[1] and read[0] < written[1] + offset else None


def _may_touch(made: _Made, transfer: DmaOperation) -> bool:
    """Whether the spans of a kernel's maps, or its weights, meet what a transfer writes; or the transfer reads the arena."""
    if transfer.to_shram or transfer.destination_region != ARENA or transfer.source.region == ARENA:
        return True
    start, end = transfer.destination, transfer.destination + transfer.length
    kernel, template, (addresses, staged) = made
    for span, address in zip((template.read, template.written, template.second), addresses, strict=True):
        if span is not None and span[0] + (address or 0) < end and start < span[1] + (address or 0):
            return True
    return staged is not None and any(one.start < end and start < one.end for one in (*kernel.weights, *kernel.scales))


@dataclass(frozen=True, slots=True)
class Located:
    """A part's templates by what of a job they depend on, and the addresses of its tensors.

    ``kernels`` are those that were made at these addresses, by the address of their weights and what they depend on.
    """

    addresses: Addresses
    templates: dict[object, _Template] = field(repr=False)
    kernels: dict[tuple[int | None, object], KernelOperation] = field(default_factory=dict, repr=False)


class KeptKernels:
    """The kernels of the schedules of one network on one device; it knows them by their identity, and so keeps them all."""

    def __init__(self) -> None:
        self._numbers = count()
        self._forget()

    def _forget(self) -> None:
        self._templates: dict[object, dict[object, _Template]] = {}
        self._count = 0
        # Of all pairs that there ever were none have the same number.
        self._pairs: dict[object, int] = {}
        self._kinds: dict[object, int] = {}
        self._origins: dict[tuple[int, int, int], KernelOperation] = {}
        self._staged: dict[tuple[int, int, int], tuple[KernelOperation, _Ranges, _Ranges]] = {}
        self._relative: dict[object, int] = {}
        self._counter = WordCounter(self._form)
        self._forget_placed()

    def _forget_placed(self) -> None:
        for templates in self._templates.values():
            for template in templates.values():
                template.at.clear()
        self._made: dict[int, _Made] = {}
        self._placed: dict[int, _Placed] = {}
        self._ranges: dict[int, tuple[KernelOperation, _Ranges, _Ranges]] = {}
        self._distances: dict[tuple[int, int], int] = {}
        self._issued: dict[tuple[int, int], tuple[KernelOperation, KernelOperation]] = {}
        self._located: dict[object, Located] = {}
        self._paired: dict[tuple[int, int], int] = {}
        self._behind: dict[tuple[int, int], KernelOperation] = {}
        self._transfers: dict[tuple[int, int], tuple[DmaOperation, ByteRange]] = {}
        self._touching: dict[tuple[int, int], tuple[bool, KernelOperation, DmaOperation]] = {}
        self._counter.forget_kernels()

    def make_room(self) -> None:
        """Forget what is too much; kernels that were asked for before are not to be handed in any more."""
        if self._count > MOST:
            self._forget()
        elif len(self._made) > 2 * MOST:
            self._forget_placed()

    @property
    def moved(self) -> Mapping[int, Moved]:
        """By the identity of each kernel what it was made of."""
        return self._placed

    def located(self, where: Hashable, look: Callable[[], tuple[object, Addresses]]) -> Located:
        """A part ``where`` its tensors lie; ``look`` says by which key its templates are known, and the addresses of its tensors."""
        found = self._located.get(where)
        if found is None:
            key, addresses = look()
            found = self._located[where] = Located(addresses, self._templates.setdefault(key, {}))
        return found

    def kernel(self, located: Located, key: object, staged: int | None, make: Callable[[], KernelOperation]) -> KernelOperation:
        """The kernel of a job of a part, its weights at home or ``staged``; ``make`` makes it for addresses 0, once for each ``key``."""
        found = located.kernels.get((staged, key))
        if found is None:
            found = located.kernels[staged, key] = self._kernel(located, key, staged, make)
        return found

    def _kernel(self, located: Located, key: object, staged: int | None, make: Callable[[], KernelOperation]) -> KernelOperation:
        template = located.templates.get(key)
        if template is None:
            template = located.templates[key] = _Template(make())
            self._count += 1
        at = located.addresses, staged
        found = template.at.get(at)
        if found is None:
            home, (ifm, ofm, ifm2) = template.home, located.addresses
            weights, scales = (home.weights, home.scales) if staged is None else self._staged_ranges(home, staged)
            second = home.ifm2 and _at(home.ifm2, ifm2)
            found = home.having(ifm=_at(home.ifm, ifm), ofm=_at(home.ofm, ofm), ifm2=second, weights=weights, scales=scales)
            template.at[at] = found
            self._made[id(found)] = found, template, at
        return found

    def _staged_ranges(self, home: KernelOperation, staged: int) -> tuple[_Ranges, _Ranges]:
        """Weights and scales that were copied to an address: the same objects for all stripes of a part."""
        key = id(home.weights), id(home.scales), staged
        known = self._staged.get(key)
        if known is None:
            moved = with_staged_weights(home, staged)
            known = self._staged[key] = home, moved.weights, moved.scales
        return known[1:]

    def _place(self, kernel: KernelOperation, template: _Template, at: _At) -> None:
        """Note an issued kernel."""
        self._made[id(kernel)] = kernel, template, at
        addresses, staged = at
        if any(address and address % ALIGNMENT for address in addresses):
            return
        home = template.home
        weights, scales = (home.weights, home.scales) if staged is None else self._staged_ranges(home, staged % MOVED_WEIGHTS)
        kind = self._kind(template, weights, scales, is_home=staged is None)
        key = kind, id(weights), id(scales)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = home.having(weights=weights, scales=scales)
        self._placed[id(kernel)] = _Placed(kernel, origin, kind)

    def _kind(self, template: _Template, weights: _Ranges, scales: _Ranges, *, is_home: bool) -> int:
        """The number of all that a kernel is but for its addresses, of which what is left modulo 16 counts for its feature maps."""
        found = template.kinds.get(is_home)
        if found is None:
            home = template.home
            bases = tuple(base % ALIGNMENT for one in (home.ifm, home.ofm, home.ifm2) if one is not None for base in one.tiles.bases)
            kind = kernel_form(home.having(weights=weights, scales=scales)), bases
            found = template.kinds[is_home] = self._kinds.setdefault(kind, len(self._kinds))
        return found

    def issued(self, earlier: Sequence[KernelOperation], kernel: KernelOperation, accelerator: Accelerator) -> KernelOperation:
        """A kernel with its BLOCKDEP after the ``earlier`` ones, the newest last; these were issued here."""
        if not earlier:
            return self._with_blockdep(kernel, 0)
        pair = id(earlier[-1]), id(kernel)
        known = self._behind.get(pair)
        if known is None:
            found = self._distances.get(pair)
            if found is None:
                found = self._distances[pair] = self._distance(earlier[-1], kernel, accelerator)
            known = self._with_blockdep(kernel, look_back(found, kernel, earlier))
            if is_settled(found, earlier[-1]):
                self._behind[pair] = known
        return known

    def _with_blockdep(self, kernel: KernelOperation, value: int) -> KernelOperation:
        known = self._issued.get((id(kernel), value))
        if known is None:
            known = self._issued[id(kernel), value] = kernel, kernel.having(blockdep=value)
            made = self._made.get(id(kernel))
            if made is not None:
                self._place(known[1], made[1], made[2])
        return known[1]

    def _distance(self, previous: KernelOperation, kernel: KernelOperation, accelerator: Accelerator) -> int:
        """As :func:`block_distance`."""
        pair = self.pair(previous, kernel)
        if pair is None:
            return block_distance(previous, kernel, accelerator)
        found = self._relative.get(pair)
        if found is None:
            found = self._relative[pair] = block_distance(previous, kernel, accelerator)
        return found

    def pair(self, previous: KernelOperation, kernel: KernelOperation) -> int | None:
        """Number of two kernels in a row: of the two, and of how far apart what the first one writes and what the second one reads lie.

        It decides how the second depends on the first, and is the same for kernels that differ by other addresses alone. None if they were
        not made here.
        """
        at = id(previous), id(kernel)
        found = self._paired.get(at)
        if found is None:
            made = self._made_pair(previous, kernel)
            if made is not None:
                found = self._paired[at] = self._pairs[made] if made in self._pairs else self._pairs.setdefault(made, next(self._numbers))
        return found

    def _made_pair(self, previous: KernelOperation, kernel: KernelOperation) -> Hashable:
        one, two = self._made.get(id(previous)), self._made.get(id(kernel))
        if one is None or two is None:
            return None
        (_, writer, ((_, at, _), _)), (_, reader, ((first, _, second), _)) = one, two
        return writer, reader, _offset(writer.written, at, reader.read, first), _offset(writer.written, at, reader.second, second)

    def transfer(self, span: ByteRange, address: int) -> DmaOperation:
        """The transfer of a range of the constants to an address of the arena."""
        known = self._transfers.get((id(span), address))
        if known is None:
            known = self._transfers[id(span), address] = DmaOperation(span, address, ARENA), span
        return known[0]

    def touches(self, kernel: KernelOperation, transfer: DmaOperation) -> bool:
        """Whether the kernel reads or writes a byte that the transfer writes, or writes one that it reads."""
        known = self._touching.get((id(kernel), id(transfer)))
        if known is None:
            known = self._touching[id(kernel), id(transfer)] = self._touches(kernel, transfer), kernel, transfer
        return known[0]

    def _touches(self, kernel: KernelOperation, transfer: DmaOperation) -> bool:
        made = self._made.get(id(kernel))
        if made is not None and not _may_touch(made, transfer):
            return False
        known = self._ranges.get(id(kernel))
        if known is None:
            writes = kernel.writes()
            known = self._ranges[id(kernel)] = kernel, kernel.reads() + writes, writes
        _, spans, written = known
        over = any(span.overlaps(target) for target in transfer.writes() for span in spans)
        return over or any(span.overlaps(source) for source in transfer.reads() for span in written)

    def _form(self, kernel: KernelOperation) -> object:
        """The form of a kernel: wherever its tensors and its staged weights lie it is the same."""
        placed = self._placed.get(id(kernel))
        if placed is None:
            return kernel_form(kernel)
        return placed.kind, kernel.blockdep

    def words(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        """The words of the command stream from the end of one operation to the end of the next."""
        return self._counter.words(operations)
