"""Kept kernels: what lowering a network's schedules has worked out, for schedules of the same network that are lowered later.

A search changes a schedule at one place at a time: most jobs become the kernels that they became before, behind the same ones. Many
others become these kernels at other addresses. A replay asks next to nothing of addresses, so that kernels are known by what they were made
of and where they lie, and made at their addresses only if somebody asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import count

from msgspec import Struct, field

from cascader.ethosu.codegen.feature_maps import rebase
from cascader.ethosu.cost.blockdep import block_count, block_distance, is_settled, look_back
from cascader.ethosu.network.network import ARENA, CONSTANTS
from cascader.ethosu.schedule.staging import weight_ranges, with_staged_weights
from npu_model.accelerator import Accelerator
from npu_model.brief import Brief
from npu_model.command_stream.counted import WordCounter, bases_of, kernel_form
from npu_model.program import (
    MOVED_WEIGHTS,
    ByteRange,
    Control,
    DmaOperation,
    DmaWait,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Moved,
)
from npu_model.program.alignment import ALIGNMENT

MOST = 12_000
"""Kernels that are kept before all are forgotten: some 60 megabytes."""

_Ranges = tuple[ByteRange, ...]
_Span = tuple[int, int, int]
Addresses = tuple[int | None, int, int | None]
"""Addresses of the tensors that a kernel's IFM, OFM and IFM2 are of, each in its region; None for a constant, and where there is none."""

_UNMOVED = 3
"""In place of the number of a tensor for an address that stays as it is."""


def _span(feature_map: FeatureMap | None) -> _Span | None:
    """First and last (exclusive) byte of a map, and its region; None for a constant, and if there is none."""
    if feature_map is None or feature_map.region == CONSTANTS:
        return None
    ranges = feature_map.byte_ranges()
    return ranges[0].start, max(one.end for one in ranges), feature_map.region


def _at(feature_map: FeatureMap, address: int | None) -> FeatureMap:
    return rebase(feature_map, address) if address else feature_map


class _Template:
    """A kernel whose maps lie at the beginning of their regions and whose weights are at home, and what was made of it."""

    __slots__ = ("bases", "blocks", "home", "kinds", "origins", "placed", "read", "second", "written")

    def __init__(self, home: KernelOperation) -> None:
        self.home = home
        self.blocks = block_count(home)
        self.read, self.written, self.second = map(_span, (home.ifm, home.ofm, home.ifm2))
        self.bases = tuple(_moving(home))
        self.placed: dict[tuple[Addresses, int | None], Placed] = {}
        self.kinds: dict[bool, int] = {}
        self.origins: dict[int | None, tuple[KernelOperation, int]] = {}


def _moving(home: KernelOperation) -> list[tuple[int, int]]:
    """Each address of a kernel's feature maps, and the tensor that it moves with: 0 to 2, or :data:`_UNMOVED`."""
    found = []
    for number, one in enumerate((home.ifm, home.ofm, home.ifm2)):
        if one is not None:
            moved = rebase(one, ALIGNMENT).tiles.bases
            found += [(base, _UNMOVED if base == other else number) for base, other in zip(one.tiles.bases, moved, strict=True)]
    return found


class Placed:
    """A kernel at the addresses of its tensors, its weights at home or ``staged`` at an address."""

    __slots__ = ("addresses", "issued", "operation", "staged", "template")

    def __init__(self, template: _Template, addresses: Addresses, staged: int | None) -> None:
        self.template = template
        self.addresses = addresses
        self.staged = staged
        self.operation: KernelOperation | None = None
        self.issued: dict[int, Issued] = {}


class Issued:
    """A kernel with its BLOCKDEP."""

    __slots__ = ("blockdep", "operation", "placed", "replayed")

    def __init__(self, placed: Placed, blockdep: int) -> None:
        self.placed = placed
        self.blockdep = blockdep
        self.operation: KernelOperation | None = None
        self.replayed: KernelOperation | None = None


IssuedOperation = Issued | DmaOperation | KernelWait | DmaWait | Control


class _Replayed(Struct, frozen=True):
    """A kernel that replays like others; it is one of :class:`npu_model.program.Moved`."""

    kernel: KernelOperation
    origin: KernelOperation
    home: KernelOperation


def _offset(written: _Span | None, ofm: int, read: _Span | None, ifm: int | None) -> int | None:
    """Bytes that a written tensor lies behind one that is read, if the spans of both meet; else None."""
    if written is None or read is None or ifm is None or written[2] != read[2]:
        return None
    offset = ofm - ifm
    return offset if written[0] + offset < read[1] and read[0] < written[1] + offset else None


class Looked(Struct, frozen=True):
    """A kernel by its form: ``make`` makes one for tensors at the addresses that are 0 less the ``offsets`` of its IFM, OFM and IFM2."""

    form: Hashable
    offsets: tuple[int, int, int]
    make: Callable[[], KernelOperation]


class Located(Brief, frozen=True):
    """A part's templates by what of a job they depend on, with offsets of IFM, OFM and IFM2, and the addresses of its tensors.

    ``kernels`` are those that were made at these addresses, by the address of their weights and what they depend on.
    """

    unshown = ("templates", "kernels")

    addresses: Addresses
    templates: dict[object, tuple[_Template, tuple[int, int, int]]]
    kernels: dict[tuple[int | None, object], Placed] = field(default_factory=dict)


class KeptKernels:
    """The kernels of the schedules of one network on one device; it knows them by their identity, and so keeps them all."""

    def __init__(self) -> None:
        self._numbers = count()
        self._forget()

    def _forget(self) -> None:
        self._templates: dict[object, _Template] = {}
        self._of_parts: dict[object, dict[object, tuple[_Template, tuple[int, int, int]]]] = {}
        self._count = 0
        # Of all pairs that there ever were no two have the same number.
        self._pairs: dict[object, int] = {}
        self._kinds: dict[object, int] = {}
        self._origins: dict[tuple[int, int, int], KernelOperation] = {}
        self._replayed: dict[tuple[int, int], KernelOperation] = {}
        self._moved: dict[int, _Replayed] = {}
        self._staged: dict[tuple[int, int, int], tuple[KernelOperation, _Ranges, _Ranges]] = {}
        self._relative: dict[int, int] = {}
        self._copied: dict[int, tuple[KernelOperation, _Ranges]] = {}
        self._counter = WordCounter(self._form, self._bases, self.issued_operation)
        self._forget_placed()

    def _forget_placed(self) -> None:
        for template in self._templates.values():
            template.placed.clear()
        self._placed = 0
        self._located: dict[object, Located] = {}
        self._paired: dict[tuple[Placed, Placed], int] = {}
        self.behind: dict[tuple[Issued, Placed], Issued] = {}
        """By a kernel that was issued and the next one, that one as it is issued, where nothing before the two matters."""
        self._transfers: dict[tuple[int, int], tuple[DmaOperation, ByteRange]] = {}
        self._touching: dict[tuple[Placed, int], tuple[bool, DmaOperation]] = {}
        self._counter.forget_kernels()

    def make_room(self) -> None:
        """Forget what is too much; kernels that were asked for before are not to be handed in any more."""
        if self._count > MOST:
            self._forget()
        elif self._placed > 2 * MOST:
            self._forget_placed()

    @property
    def moved(self) -> Mapping[int, Moved]:
        """By the identity of each kernel that replays like others what it was made of."""
        return self._moved

    def located(self, where: Hashable, look: Callable[[], tuple[object, Addresses]]) -> Located:
        """A part ``where`` its tensors lie; ``look`` says by which key its templates are known, and the addresses of its tensors."""
        found = self._located.get(where)
        if found is None:
            key, addresses = look()
            found = self._located[where] = Located(addresses, self._of_parts.setdefault(key, {}))
        return found

    def kernel(self, located: Located, key: object, staged: int | None, look: Callable[[], Looked]) -> Placed:
        """The kernel of a job of a part, its weights at home or ``staged``; it is looked at once for each ``key``."""
        found = located.kernels.get((staged, key))
        if found is None:
            known = located.templates.get(key)
            if known is None:
                known = located.templates[key] = self._template(look())
            template, (to_ifm, to_ofm, to_ifm2) = known
            ifm, ofm, ifm2 = located.addresses
            addresses = None if ifm is None else ifm + to_ifm, ofm + to_ofm, None if ifm2 is None else ifm2 + to_ifm2
            found = located.kernels[staged, key] = self._at(template, addresses, staged)
        return found

    def _template(self, looked: Looked) -> tuple[_Template, tuple[int, int, int]]:
        self._count += 1
        template = self._templates.get(looked.form)
        if template is None:
            template = self._templates[looked.form] = _Template(looked.make())
        return template, looked.offsets

    def _at(self, template: _Template, addresses: Addresses, staged: int | None) -> Placed:
        found = template.placed.get((addresses, staged))
        if found is None:
            found = template.placed[addresses, staged] = Placed(template, addresses, staged)
            self._placed += 1
        return found

    def _weights(self, home: KernelOperation, staged: int | None) -> tuple[_Ranges, _Ranges]:
        """Weights and scales at home, or copied to an address: the same objects for all stripes of a part."""
        if staged is None:
            return home.weights, home.scales
        key = id(home.weights), id(home.scales), staged
        known = self._staged.get(key)
        if known is None:
            moved = with_staged_weights(home, staged)
            known = self._staged[key] = home, moved.weights, moved.scales
        return known[1:]

    def operation(self, placed: Placed) -> KernelOperation:
        """A kernel at its addresses, with the BLOCKDEP of its part's."""
        if placed.operation is None:
            home, (ifm, ofm, ifm2) = placed.template.home, placed.addresses
            weights, scales = self._weights(home, placed.staged)
            second = home.ifm2 and _at(home.ifm2, ifm2)
            placed.operation = home.having(ifm=_at(home.ifm, ifm), ofm=_at(home.ofm, ofm), ifm2=second, weights=weights, scales=scales)
        return placed.operation

    def issued_operation(self, issued: Issued) -> KernelOperation:
        """A kernel at its addresses, as it was issued."""
        if issued.operation is None:
            issued.operation = self.operation(issued.placed).having(blockdep=issued.blockdep)
        return issued.operation

    def replayed(self, issued: Issued) -> KernelOperation:
        """A kernel that replays like an issued one: the same for all that differ by addresses which no replay asks for."""
        if issued.replayed is None:
            placed = issued.placed
            if any(address and address % ALIGNMENT for address in placed.addresses):
                issued.replayed = self.issued_operation(issued)
            else:
                issued.replayed = self._like(self._origin(placed)[0], placed.template.home, issued.blockdep)
        return issued.replayed

    def _like(self, origin: KernelOperation, home: KernelOperation, blockdep: int) -> KernelOperation:
        found = self._replayed.get((id(origin), blockdep))
        if found is None:
            found = self._replayed[id(origin), blockdep] = origin.having(blockdep=blockdep)
            self._moved[id(found)] = _Replayed(found, origin, home)
        return found

    def _origin(self, placed: Placed) -> tuple[KernelOperation, int]:
        """A kernel that differs from another one by addresses that no replay asks for, and the number of its kind."""
        template, staged = placed.template, None if placed.staged is None else placed.staged % MOVED_WEIGHTS
        found = template.origins.get(staged)
        if found is None:
            weights, scales = self._weights(template.home, staged)
            kind = self._kind(template, weights, scales, is_home=staged is None)
            key = kind, id(weights), id(scales)
            origin = self._origins.get(key)
            if origin is None:
                origin = self._origins[key] = template.home.having(weights=weights, scales=scales)
            found = template.origins[staged] = origin, kind
        return found

    def _kind(self, template: _Template, weights: _Ranges, scales: _Ranges, *, is_home: bool) -> int:
        """The number of all that a kernel is but for its addresses, of which what is left modulo 16 counts for its feature maps."""
        found = template.kinds.get(is_home)
        if found is None:
            home = template.home
            bases = tuple(base % ALIGNMENT for one in (home.ifm, home.ofm, home.ifm2) if one is not None for base in one.tiles.bases)
            kind = kernel_form(home.having(weights=weights, scales=scales)), bases
            found = template.kinds[is_home] = self._kinds.setdefault(kind, len(self._kinds))
        return found

    def issued(self, earlier: Sequence[Issued], kernel: Placed, accelerator: Accelerator) -> Issued:
        """A kernel with its BLOCKDEP after the ``earlier`` ones, the newest last."""
        if not earlier:
            return _with_blockdep(kernel, 0)
        previous = earlier[-1]
        value = self._distance(previous.placed, kernel, accelerator)
        if is_settled(value, previous.blockdep, previous.placed.template.blocks):
            found = self.behind[previous, kernel] = _with_blockdep(kernel, value)
            return found
        # As each kernel has a block at least, no more than so many count.
        newest = [self.issued_operation(one) for one in earlier[-value:]]
        return _with_blockdep(kernel, look_back(value, self.operation(kernel), newest))

    def _distance(self, previous: Placed, kernel: Placed, accelerator: Accelerator) -> int:
        """As :func:`block_distance`."""
        pair = self.pair(previous, kernel)
        found = self._relative.get(pair)
        if found is None:
            found = self._relative[pair] = block_distance(self.operation(previous), self.operation(kernel), accelerator)
        return found

    def pair(self, previous: Placed, kernel: Placed) -> int:
        """Number of two kernels in a row: of the two, and of how far apart what the first one writes and what the second one reads lie.

        It decides how the second depends on the first, and is the same for kernels that differ by other addresses alone.
        """
        found = self._paired.get((previous, kernel))
        if found is None:
            (_, at, _), (first, _, second) = previous.addresses, kernel.addresses
            writer, reader = previous.template, kernel.template
            key = writer, reader, _offset(writer.written, at, reader.read, first), _offset(writer.written, at, reader.second, second)
            if key not in self._pairs:
                self._pairs[key] = next(self._numbers)
            found = self._paired[previous, kernel] = self._pairs[key]
        return found

    def copied(self, operation: KernelOperation) -> _Ranges:
        """The ranges of the constants that a copy of an operation's weights and scales takes."""
        known = self._copied.get(id(operation))
        if known is None:
            known = self._copied[id(operation)] = operation, weight_ranges(operation)
        return known[1]

    def transfer(self, span: ByteRange, address: int) -> DmaOperation:
        """The transfer of a range of the constants to an address of the arena."""
        known = self._transfers.get((id(span), address))
        if known is None:
            known = self._transfers[id(span), address] = DmaOperation(span, address, ARENA), span
        return known[0]

    def touches(self, kernel: Placed, transfer: DmaOperation) -> bool:
        """Whether the kernel reads or writes a byte that the transfer writes, or writes one that it reads."""
        known = self._touching.get((kernel, id(transfer)))
        if known is None:
            known = self._touching[kernel, id(transfer)] = self._touches(kernel, transfer), transfer
        return known[0]

    def _touches(self, kernel: Placed, transfer: DmaOperation) -> bool:
        if not self._may_touch(kernel, transfer):
            return False
        operation = self.operation(kernel)
        written = operation.writes()
        over = any(span.overlaps(target) for target in transfer.writes() for span in (*operation.reads(), *written))
        return over or any(span.overlaps(source) for source in transfer.reads() for span in written)

    def _may_touch(self, kernel: Placed, transfer: DmaOperation) -> bool:
        """Whether the spans of a kernel's maps, or its weights, meet what a transfer writes; or the transfer reads the arena."""
        if transfer.to_shram or transfer.destination_region != ARENA or transfer.source.region == ARENA:
            return True
        start, end = transfer.destination, transfer.destination + transfer.length
        template = kernel.template
        for span, address in zip((template.read, template.written, template.second), kernel.addresses, strict=True):
            if span is not None and span[2] == ARENA and span[0] + (address or 0) < end and start < span[1] + (address or 0):
                return True
        staged = () if kernel.staged is None else self._weights(template.home, kernel.staged)
        return any(one.start < end and start < one.end for ranges in staged for one in ranges)

    def _form(self, issued: Issued) -> object:
        """The form of a kernel: wherever its tensors and its staged weights lie it is the same."""
        return self._origin(issued.placed)[1], issued.blockdep

    def _bases(self, issued: Issued) -> list[int]:
        """As :func:`bases_of` of the kernel at its addresses."""
        placed = issued.placed
        ifm, ofm, ifm2 = placed.addresses
        at = ifm or 0, ofm, ifm2 or 0, 0
        return [base + at[number] for base, number in placed.template.bases] + bases_of(*self._weights(placed.template.home, placed.staged))

    def words(self, operations: Iterable[IssuedOperation]) -> tuple[int, ...]:
        """The words of the command stream from the end of one operation to the end of the next."""
        return self._counter.words(operations)


def _with_blockdep(kernel: Placed, value: int) -> Issued:
    return kernel.issued.get(value) or kernel.issued.setdefault(value, Issued(kernel, value))
