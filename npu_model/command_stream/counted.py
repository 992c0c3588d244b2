"""Counted words: the length of the command stream of each of some operations, without the stream.

Registers are sticky: an operation SETs those alone whose values are others. What it asks of the registers, and what of that it SETs behind
another operation, is kept for those who count the words of the same operations in many orders.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter

from npu_model.command_stream.decode import MAX_STREAM_BYTES
from npu_model.command_stream.encode import length_error, set_registers
from npu_model.command_stream.registers import ADDRESS_BITS, MAP_REGISTERS, PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.writer import RegisterWriter
from npu_model.program import DmaOperation, DmaWait, FeatureMap, KernelOperation, KernelWait, Operation

_Settings = dict[int, object]
"""Values of registers; the numbers of those that take two words have the bit of commands with a payload."""

_NOTHING: _Settings = {}
"""The values that are known to be set before the first operation: none."""

_Held = tuple[bool, bool, bool]
"""Whether IFM2_IB_START and OFM_SCALE have a value, and PARALLEL_MODE one that is not 0: what an operation SETs depends on that, too."""

_SECOND, _SCALE, _CORES = Cmd0.IFM2_IB_START.value, PAYLOAD_BIT | Cmd1.OFM_SCALE.value, Cmd0.PARALLEL_MODE.value

_PLACED = ("ifm", "ofm", "ifm2", "weights", "scales")
_CUT = ("padding", "block", "shram")
_handed_on = attrgetter(*(field.name for field in fields(KernelOperation) if field.name not in _PLACED + _CUT))
_cut = attrgetter(*_CUT)
_MAP_BASES = tuple(tuple(PAYLOAD_BIT | base.value for base in MAP_REGISTERS[name].bases) for name in ("IFM", "OFM", "IFM2"))
_RANGE_BASES = tuple(tuple(PAYLOAD_BIT | Cmd1[f"{name}{core}_BASE"].value for core in ("", "1")) for name in ("WEIGHT", "SCALE"))
_ADDRESSES = range(1 << ADDRESS_BITS)

_UNKNOWN = -1
"""In place of a value that a register has and no operation asks for."""


class WordCounter:
    """Counts words; it knows kernels by their identity, and so keeps every kernel that it has counted."""

    def __init__(self) -> None:
        self._settings: dict[tuple[int, _Held], _Settings] = {}
        self._forms: dict[object, _Settings] = {}
        self._kernels: dict[int, KernelOperation] = {}
        self._changes: dict[tuple[int, int], int | None] = {}

    def words(self, operations: Iterable[Operation]) -> tuple[int, ...]:
        """The words of :func:`npu_model.command_stream.encode.encode_operations` without ``checked``."""
        counts: list[int] = []
        registers: _Settings = {}
        waits, newest = 0, _NOTHING
        for operation in operations:
            if isinstance(operation, (DmaWait, KernelWait)):
                waits += 1
                continue
            changed = 0
            if isinstance(operation, KernelOperation):
                settings = self._kernel(operation, registers)
                changed = self._changed(newest, settings, registers)
                newest = settings
            elif isinstance(operation, DmaOperation):
                settings = _asked(operation)
                changed = _words(settings, registers)
                registers.update(settings)
            # The SETs of an operation stand before the waits that it needs.
            counts += [changed + 1, *[1] * waits]
            waits = 0
        counts += [1] * waits
        size = 4 * sum(counts)
        if size >= MAX_STREAM_BYTES:
            raise length_error(size)
        return tuple(counts)

    def _kernel(self, operation: KernelOperation, registers: _Settings) -> _Settings:
        """The values that a kernel asks of the registers; some of them ask for something only where they have a value."""
        held = (_SECOND in registers, _SCALE in registers, bool(registers.get(_CORES)))
        found = self._settings.get((id(operation), held))
        if found is None:
            self._kernels[id(operation)] = operation
            found = self._settings[id(operation), held] = self._at_addresses(operation, held)
        return found

    def _at_addresses(self, operation: KernelOperation, held: _Held) -> _Settings:
        """As :func:`_asked`; of kernels that differ by addresses alone those are taken over another one's."""
        key = _form(operation), held
        form = self._forms.get(key)
        bases = _bases(operation)
        if form is None or not all(base in _ADDRESSES for _, base in bases):
            form = self._forms[key] = _asked(operation, held)
            return form
        return form | {number: (base >> 32, base & 0xFFFFFFFF) for number, base in bases if number in form}

    def _changed(self, newest: _Settings, settings: _Settings, registers: _Settings) -> int:
        """Words of what is SET of some settings, which the registers have afterwards; ``newest`` are those of the kernel before."""
        key = id(newest), id(settings)
        if key not in self._changes:
            # Else it depends on kernels before that one.
            self._changes[key] = _words(settings, newest) if settings.keys() <= newest.keys() else None
        known = self._changes[key]
        words = _words(settings, registers) if known is None else known
        registers.update(settings)
        return words


def _map_form(feature_map: FeatureMap | None) -> object:
    if feature_map is None:
        return None
    one, shape, tiles, strides = feature_map, feature_map.shape, feature_map.tiles, feature_map.strides
    return (
        *(one.region, shape.height, shape.width, shape.depth, id(one.dtype), id(one.layout), one.zero_point),
        *(tiles.height0, tiles.height1, tiles.width0, strides.y, strides.x, strides.c),
    )


def _form(operation: KernelOperation) -> object:
    """Everything of a kernel but its addresses; who keeps it keeps the kernel.

    Stripes of a part are made of the part's operation: what they all have is known by its identity, which takes a tenth of the time.
    """
    ranges = tuple((one.region, one.length) for one in (*operation.weights, *operation.scales))
    maps = _map_form(operation.ifm), _map_form(operation.ofm), _map_form(operation.ifm2)
    return tuple(map(id, _handed_on(operation))), _cut(operation), maps, len(operation.weights), ranges


def _bases(operation: KernelOperation) -> list[tuple[int, int]]:
    """Registers for the addresses of a kernel, each with its address; a kernel need not SET all of them."""
    found: list[tuple[int, int]] = []
    for numbers, feature_map in zip(_MAP_BASES, (operation.ifm, operation.ofm, operation.ifm2), strict=True):
        if feature_map is not None:
            found += zip(numbers, feature_map.tiles.bases, strict=True)
    for numbers, ranges in zip(_RANGE_BASES, (operation.weights, operation.scales), strict=True):
        found += [(number, one.start) for number, one in zip(numbers, ranges, strict=False)]
    return found


def _words(settings: _Settings, registers: _Settings) -> int:
    return sum(2 if number & PAYLOAD_BIT else 1 for number, value in settings.items() if registers.get(number) != value)


def _asked(operation: KernelOperation | DmaOperation, held: _Held = (False, False, False)) -> _Settings:
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
    return writer.settings(but=_UNKNOWN)
