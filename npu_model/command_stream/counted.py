"""Counted words: the length of the command stream of each of some operations, without the stream.

Registers are sticky: an operation SETs those alone whose values are others. What it asks of the registers, and what of that it SETs behind
another operation, is kept for those who count the words of the same operations in many orders.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Generic, TypeVar

from msgspec import Struct

from npu_model.command_stream.decode import MAX_STREAM_BYTES
from npu_model.command_stream.encode import length_error, set_registers
from npu_model.command_stream.registers import ADDRESS_BITS, MAP_REGISTERS, PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.writer import RegisterWriter
from npu_model.native import native
from npu_model.program import ByteRange, Control, DmaOperation, DmaWait, FeatureMap, KernelOperation, KernelWait

K = TypeVar("K")

_CORE = native("npu_model")
"""The compiled core that counts; None as :func:`npu_model.native.native` says."""

_Held = tuple[bool, bool, bool]
"""Whether IFM2_IB_START and OFM_SCALE have a value, and PARALLEL_MODE one that is not 0: what an operation SETs depends on that, too."""

_SECOND, _SCALE, _CORES = Cmd0.IFM2_IB_START.value, PAYLOAD_BIT | Cmd1.OFM_SCALE.value, Cmd0.PARALLEL_MODE.value

_PLACED = ("ifm", "ofm", "ifm2", "weights", "scales")
_CUT = ("padding", "block", "shram")
_handed_on = attrgetter(*(name for name in KernelOperation.__struct_fields__ if name not in _PLACED + _CUT))
_cut = attrgetter(*_CUT)
_MAP_BASES = tuple(tuple(PAYLOAD_BIT | base.value for base in MAP_REGISTERS[name].bases) for name in ("IFM", "OFM", "IFM2"))
_RANGE_BASES = tuple(tuple(PAYLOAD_BIT | Cmd1[f"{name}{core}_BASE"].value for core in ("", "1")) for name in ("WEIGHT", "SCALE"))
_MOST_RANGES = 2
"""Ranges of weights, and of scales, that have registers: one for each core."""

_END = 1 << ADDRESS_BITS
"""The address behind the last one that a register holds."""

_UNKNOWN = -1
"""In place of a value that a register has and no operation asks for."""


class _Asked(Struct, frozen=True):
    """The registers that an operation asks for: ``flat`` has the number of each and its value, the 48 bits of a register of two words.

    The numbers of those have the bit of commands with a payload.
    """

    flat: array[int]
    second: bool
    scale: bool
    cores: int | None

    def held(self, before: _Held) -> _Held:
        """Registers as they are held behind the operation."""
        second, scale, cores = before
        return self.second or second, self.scale or scale, cores if self.cores is None else bool(self.cores)


_NOTHING = _Asked(array("q"), second=False, scale=False, cores=None)


def changed_words(asked: list[array[int]]) -> Sequence[int]:
    """The words of what each of some operations SETs behind the ones before."""
    if _CORE is not None:
        return memoryview(_CORE.changed_words(asked)).cast("q")
    registers: dict[int, int] = {}
    found = []
    for flat in asked:
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        found.append(sum(2 if number & PAYLOAD_BIT else 1 for number, value in pairs if registers.get(number) != value))
        registers.update(pairs)
    return found


class WordCounter(Generic[K]):
    """Counts words; it knows kernels and transfers by their identity, and so keeps each that it has counted.

    ``form`` gives what a kernel is but for its addresses, a key that means the same as long as the counter is there. ``bases`` gives its
    addresses in the order of their registers, and ``whole`` the operation: kernels may be something else that stands for one.
    """

    def __init__(self, form: Callable[[K], object], bases: Callable[[K], list[int]], whole: Callable[[K], KernelOperation]) -> None:
        self._form, self._bases, self._whole = form, bases, whole
        self._forms: dict[object, tuple[_Asked, tuple[int, ...]]] = {}
        self.forget_kernels()

    def forget_kernels(self) -> None:
        """Keep what is known of forms alone."""
        self._kernels: dict[tuple[int, _Held], tuple[tuple[_Asked, _Held], K]] = {}
        self._transfers: dict[int, tuple[_Asked, DmaOperation]] = {}

    def words(self, operations: Iterable[K | DmaOperation | DmaWait | KernelWait | Control]) -> tuple[int, ...]:
        """The words of :func:`npu_model.command_stream.encode.encode_operations` without ``checked``."""
        flat: list[array[int]] = []
        before: list[int] = []
        held: _Held = (False, False, False)
        waits = 0
        for operation in operations:
            if isinstance(operation, (DmaWait, KernelWait)):
                waits += 1
                continue
            if isinstance(operation, DmaOperation):
                asked = self._transfer(operation)
            elif isinstance(operation, Control):
                asked = _NOTHING
            else:
                asked, held = self._kernel(operation, held)
            flat.append(asked.flat)
            before.append(waits)
            waits = 0
        counts: list[int] = []
        for changed, earlier in zip(changed_words(flat), before, strict=True):
            # The SETs of an operation stand before the waits that it needs.
            counts.append(changed + 1)
            if earlier:
                counts += [1] * earlier
        counts += [1] * waits
        size = 4 * sum(counts)
        if size >= MAX_STREAM_BYTES:
            raise length_error(size)
        return tuple(counts)

    def _transfer(self, operation: DmaOperation) -> _Asked:
        found = self._transfers.get(id(operation))
        if found is None:
            found = self._transfers[id(operation)] = _asked(operation), operation
        return found[0]

    def _kernel(self, kernel: K, held: _Held) -> tuple[_Asked, _Held]:
        """The values that a kernel asks of the registers, some of them only where these have one, and which have one behind it."""
        found = self._kernels.get((id(kernel), held))
        if found is None:
            asked = self._at_addresses(kernel, held)
            found = self._kernels[id(kernel), held] = (asked, asked.held(held)), kernel
        return found[0]

    def _at_addresses(self, kernel: K, held: _Held) -> _Asked:
        """As :func:`_asked`; of kernels that differ by addresses alone those are taken over another one's."""
        key = self._form(kernel), held
        known = self._forms.get(key)
        bases = self._bases(kernel)
        if known is None or min(bases) < 0 or max(bases) >= _END:
            operation = self._whole(kernel)
            made = _asked(operation, held)
            places = {number: 2 * place + 1 for place, number in enumerate(made.flat[::2])}
            self._forms[key] = made, tuple(places.get(number, -1) for number in _registers(operation))
            return made
        form, at = known
        flat = form.flat[:]
        for place, base in zip(at, bases, strict=True):
            if place >= 0:
                flat[place] = base
        return _Asked(flat, form.second, form.scale, form.cores)


def word_counter() -> WordCounter[KernelOperation]:
    """A counter of the words of operations."""
    return WordCounter(kernel_form, _bases, lambda operation: operation)


def _map_form(feature_map: FeatureMap | None) -> object:
    if feature_map is None:
        return None
    one, shape, tiles, strides = feature_map, feature_map.shape, feature_map.tiles, feature_map.strides
    return (
        *(one.region, shape.height, shape.width, shape.depth, id(one.dtype), id(one.layout), one.zero_point),
        *(tiles.height0, tiles.height1, tiles.width0, strides.y, strides.x, strides.c),
    )


def kernel_form(operation: KernelOperation) -> object:
    """Everything of a kernel but its addresses; who keeps it keeps the kernel.

    Stripes of a part are made of the part's operation: what they all have is known by its identity, which takes a tenth of the time.
    """
    ranges = tuple((one.region, one.length) for one in (*operation.weights, *operation.scales))
    maps = _map_form(operation.ifm), _map_form(operation.ofm), _map_form(operation.ifm2)
    return tuple(map(id, _handed_on(operation))), _cut(operation), maps, len(operation.weights), ranges


def _registers(operation: KernelOperation) -> list[int]:
    """Registers for the addresses of a kernel; a kernel need not SET all of them."""
    found: list[int] = []
    for numbers, feature_map in zip(_MAP_BASES, (operation.ifm, operation.ofm, operation.ifm2), strict=True):
        found += numbers if feature_map is not None else ()
    for numbers, ranges in zip(_RANGE_BASES, (operation.weights, operation.scales), strict=True):
        found += numbers[: len(ranges)]
    return found


def bases_of(weights: Sequence[ByteRange], scales: Sequence[ByteRange]) -> list[int]:
    """The addresses of ranges that have registers."""
    return [one.start for one in (*weights[:_MOST_RANGES], *scales[:_MOST_RANGES])]


def _bases(operation: KernelOperation) -> list[int]:
    """The addresses of a kernel, in the order of :func:`_registers`."""
    second = () if operation.ifm2 is None else operation.ifm2.tiles.bases
    return [*operation.ifm.tiles.bases, *operation.ofm.tiles.bases, *second, *bases_of(operation.weights, operation.scales)]


def _asked(operation: KernelOperation | DmaOperation, held: _Held = (False, False, False)) -> _Asked:
    """The registers that an operation asks for behind those that have ``held`` a value."""
    writer = RegisterWriter()
    writer.where = f"A {type(operation).__name__}"
    second, scale, cores = held
    if second:
        writer.registers.set_short(Cmd0.IFM2_IB_START, _UNKNOWN)
    if scale:
        writer.registers.set_long(Cmd1.OFM_SCALE, _UNKNOWN, _UNKNOWN)
    if cores:
        writer.registers.set_short(Cmd0.PARALLEL_MODE, _UNKNOWN)
    set_registers(writer, operation)
    settings = writer.settings(but=_UNKNOWN)
    flat = array("q", chain.from_iterable(settings.items()))
    return _Asked(flat, _SECOND in settings, _SCALE in settings, settings.get(_CORES))
