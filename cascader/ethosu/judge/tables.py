"""Tables of a form: its kernels as integers, each made once. From them and a flat draft, the core makes the input of the compiled replay.

The core (cascader/ethosu/native/issue.c) says what the tables still lack for a draft, and is called again once they have it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count

from msgspec import Struct

from cascader.draft.draft import JOB, PLACE, ROW_BYTES, Draft, line
from cascader.ethosu.cost.blockdep import block_distance
from cascader.ethosu.job.staging import weight_ranges, with_staged_weights
from cascader.ethosu.job.stripes import BufferPlace, form, in_block, stripe
from cascader.ethosu.judge.numbers import Numbers
from cascader.ethosu.judge.replay import FlatReplay
from cascader.ethosu.judge.templates import SHRAM, Offsets, place, template
from cascader.ethosu.network.network import CONSTANTS, LUT_SLOT, EthosuPart, Network, ethosu_part
from npu_model.accelerator import Accelerator
from npu_model.command_stream.registers import PAYLOAD_BIT, Cmd0, Cmd1
from npu_model.command_stream.u55.encode import SHRAM_DESTINATION
from npu_model.native import native
from npu_model.program import FeatureMap, KernelOperation, Shram
from npu_model.shapes import Shape3D

_NATIVE = native("cascader.ethosu")
HAS_CORE = _NATIVE is not None
"""Whether tables can be used at all."""
MOST = 12_000
"""The most kernels that are kept, some 60 megabytes; beyond it all are dropped."""
_DONE, _KERNELS_MISSING, _PAIRS_MISSING, _NO_ANSWER = range(4)
_REGIONS = 8
_KERNEL_KEY, _PAIR_KEY, _WORK_KEY = 12, 4, 2
_DISTANCES = 4
"""Number of values of BLOCKDEP: the number of a pair has it in its lowest bits."""


class Issued(Struct, frozen=True):
    """The operations of one Program in rows, and the works of its kernels."""

    rows: array[int]
    works: list[memoryview]


class Works:
    """The works of a form's kernels for one flat replay, as long as its tables know these kernels."""

    def __init__(self, network: Network, accelerator: Accelerator, replay: FlatReplay) -> None:
        self.replay = replay
        self.device = array("q", _device_numbers(accelerator, replay, len(network.segments)))
        self._constants = network.constants
        self._kernels: object = None
        self.forget(None)

    def forget(self, kernels: object) -> None:
        """Drop the works of all other kernels."""
        if self._kernels is not kernels or kernels is None:
            self._kernels = kernels
            self.numbers, self.found = Numbers(_WORK_KEY), list[memoryview]()

    def add(self, template_at: int, staged: int, unstaged: KernelOperation) -> None:
        """Compute the work of a kernel with weights at home (-1), or at an address."""
        key = array("q", (template_at, staged))
        if key not in self.numbers:
            operation = unstaged if staged < 0 else with_staged_weights(unstaged, staged)
            self.numbers.add(key, len(self.found))
            self.found.append(self.replay.work(operation, unstaged, self._constants))


_NO_WORKS = Numbers(_WORK_KEY)


class Tables:
    """The tables of one network on one device."""

    def __init__(self, network: Network, accelerator: Accelerator) -> None:
        self._network = network
        self.accelerator = accelerator
        self._payloads = [ethosu_part(part) for part in network.graph.parts]
        self._names = [tensor.name for tensor in network.placed_tensors]
        self._sizes = [tensor.size for tensor in network.placed_tensors]
        self._device = array("q", _device_numbers(accelerator, None, len(network.segments)))
        self._parts, self._ranges = self._part_numbers()
        # Numbers of dropped pairs are not used again, because other tables may still hold them.
        self._numbers = count()
        self._forget()

    def _forget(self) -> None:
        self._templates, self._kernels = array("q"), array("q")
        self._known: dict[object, tuple[int, Offsets]] = {}
        self._operations: dict[int, tuple[KernelOperation, Offsets]] = {}
        self._shrams: dict[Shram, int] = {}
        self._by_kernel, self._by_pair = Numbers(_KERNEL_KEY), Numbers(_PAIR_KEY)

    def _part_numbers(self) -> tuple[array[int], array[int]]:
        """``Part`` of the core for each part, and the ranges of constants that copies take."""
        numbers = {name: number for number, name in enumerate(self._names)}
        segments = {name: number for number, segment in enumerate(self._network.segments) for name in segment.parts}
        flat, ranges = array("q"), array("q")
        for part, payload in zip(self._network.graph.parts, self._payloads, strict=True):
            copied = weight_ranges(payload.operation) if payload else ()
            flat.extend(_part(payload, numbers))
            flat.extend((len(ranges), len(copied), segments[part.name]))
            ranges.extend(chain.from_iterable((span.start, span.end) for span in copied))
        return flat, ranges

    def issued(self, draft: Draft, works: Works) -> list[Issued] | None:
        """The operations of each Program of a draft; None if only the lowering can name the draft's fault."""
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        found = self._answered(_NATIVE.issue, draft, works)
        if found is None:
            return None
        count, made = found[0], []
        at_row, at_work = 1 + 2 * count, 1 + 2 * count + 7 * sum(found[1 : 1 + 2 * count : 2])
        for rows, kernels in zip(found[1 : 1 + 2 * count : 2], found[2 : 2 + 2 * count : 2], strict=True):
            used = [works.found[number] for number in found[at_work : at_work + kernels]]
            made.append(Issued(array("q", found[at_row : at_row + 7 * rows].tobytes()), used))  # an array copies bytes alone at once
            at_row, at_work = at_row + 7 * rows, at_work + kernels
        return made

    def pairs(self, draft: Draft) -> Sequence[int]:
        """A number for each job's kernel and its predecessor, -1 if either is missing; equal pairs have the same number.

        A pair is two kernels, and the distance between the bytes that the first one writes and the bytes that the second one reads.
        """
        assert _NATIVE is not None  # noqa: S101  # whoever calls knows
        found = self._answered(_NATIVE.pairs, draft, None)
        assert found is not None  # noqa: S101  # pairs have always an answer
        return found

    def _answered(self, core: Callable[..., bytes], draft: Draft, works: Works | None) -> memoryview | None:
        """The core's words once nothing is missing, after the first number of its answer."""
        if len(self._known) > MOST:
            self._forget()
        if works is not None:
            works.forget(self._operations)
        columns = [memoryview(column).cast("q") for column in (draft.places, draft.jobs, draft.copies)]
        device, by_work = (self._device, _NO_WORKS) if works is None else (works.device, works.numbers)
        while True:
            tables = self._templates, self._kernels, self._by_kernel.table, self._by_pair.table, by_work.table
            raw = core(device, self._parts, self._ranges, *tables, *columns)
            found = memoryview(raw).cast("q")
            if found[0] == _KERNELS_MISSING:
                for step in found[1:]:
                    self._add_kernel(draft, step)
            elif found[0] == _PAIRS_MISSING:
                middle = 2 + found[1]
                for at in range(2, middle, _PAIR_KEY + 3):
                    self._add_pair(*found[at : at + _PAIR_KEY + 3])
                for at in range(middle, len(found), _WORK_KEY):
                    one, staged = found[at : at + _WORK_KEY]
                    assert works is not None  # noqa: S101  # without works the core asks for none
                    works.add(one, staged, self._operations[one][0])
            else:
                return None if found[0] == _NO_ANSWER else found[1:]

    def _add_kernel(self, draft: Draft, step: int) -> None:
        """The kernel of a job; an equal kernel may have come before it."""
        part, start, end, *block = job = line(draft.jobs, JOB, step)
        payload = self._payloads[part]
        assert payload is not None  # noqa: S101  # the core asks for kernels alone
        rolls: list[int] = []
        places: dict[str, BufferPlace] = {}
        for tensor in self._parts[_PART * part : _PART * part + 3]:
            _, rows, row_bytes = line(draft.places, PLACE, tensor)[: ROW_BYTES + 1] if tensor >= 0 else (0, 0, 0)
            rolls += (rows, row_bytes)
            if tensor >= 0:
                places[self._names[tensor]] = BufferPlace(0, rows or 1, row_bytes if rows else self._sizes[tensor])
        key = array("q", (*job, *rolls))
        if key not in self._by_kernel:
            first, last = (start, end) if end >= 0 else (0, payload.axis.extent(payload.operation.ofm.shape))
            number = len(self._kernels) // 4
            self._kernels.extend(self._kernel(part, payload, (first, last), Shape3D(*block) if block[0] else None, places))
            self._by_kernel.add(key, number)

    def _kernel(
        self, number: int, part: EthosuPart, rows: tuple[int, int], block: Shape3D | None, places: dict[str, BufferPlace]
    ) -> tuple[int, int, int, int]:
        """The position of a kernel's template, and the kernel's offsets.

        Kernels share it if they differ only in the offsets of IFM, OFM and IFM2.
        """
        key, offsets = form(part, *rows, places)
        block = None if block == part.operation.block else block
        same = number, key, block
        if same not in self._known:
            name = self._network.graph.parts[number].name
            operation = in_block(stripe(part, *rows, places), name, block, self.accelerator)
            shram = self._shrams.setdefault(operation.shram, len(self._shrams))
            at = len(self._templates)
            self._templates += template(operation, offsets, is_transfer=part.transfer)
            self._templates[at + SHRAM] = shram
            self._known[same], self._operations[at] = (at, offsets), (operation, offsets)
        return (self._known[same][0], *offsets)

    def _add_pair(self, one: int, two: int, first: int, second: int, at: int, ifm: int, ifm2: int) -> None:  # noqa: PLR0913  # as the core has them
        """Two consecutive kernels by their templates.

        The kernels are as far apart as kernels whose OFM, IFM and IFM2 are moved ``at`` some addresses.
        """
        key = array("q", (one, two, first, second))
        if key not in self._by_pair:
            (before, begin), (after, offsets) = self._operations[one], self._operations[two]
            before = before.having(ofm=_moved(before.ofm, at - begin[1]))
            after = after.having(ifm=_moved(after.ifm, ifm - offsets[0]), ifm2=after.ifm2 and _moved(after.ifm2, ifm2 - offsets[2]))
            distance = block_distance(before, after, self.accelerator)
            self._by_pair.add(key, _DISTANCES * next(self._numbers) + distance)


_PART = 11
"""Integers of a part: ``Part`` of cascader/ethosu/native/issue.c."""


def _device_numbers(device: Accelerator, replay: FlatReplay | None, segments: int) -> Iterator[int]:
    """``Device`` of the core; without a replay no operation has a row."""
    yield from (device.max_outstanding_kernels, device.max_outstanding_dma, device.reserved_lut_banks, device.lut_address, LUT_SLOT)
    yield from (replay.word, replay.is_aligned) if replay else (1, 0)
    yield from (SHRAM_DESTINATION, place(Cmd0.PARALLEL_MODE.value), segments)
    shorts, longs = (Cmd0.DMA0_SRC_REGION, Cmd0.DMA0_DST_REGION), (Cmd1.DMA0_SRC, Cmd1.DMA0_DST, Cmd1.DMA0_LEN)
    source_region, target_region = (place(one.value) for one in shorts)
    source, target, length = (place(PAYLOAD_BIT | one.value) for one in longs)
    yield from (source_region, source, target_region, target, length)
    ports = list(replay.ports)[:_REGIONS] if replay else []
    yield from (len(ports), *ports, *[0] * (_REGIONS - len(ports)))


def _part(payload: EthosuPart | None, numbers: dict[str, int]) -> tuple[int, ...]:
    """The tensors of IFM, OFM and IFM2 (-1: none, or a constant), whether the part is a kernel and a transfer, and its table (-1: none)."""
    if payload is None:
        return (-1, -1, -1, 0, 0, 0, 0, -1)
    operation, table = payload.operation, payload.lut
    pairs = (payload.ifm, operation.ifm), (payload.ofm, operation.ofm), (payload.ifm2, operation.ifm2)
    tensors = (-1 if name is None or one is None or one.region == CONSTANTS else numbers[name] for name, one in pairs)
    loaded = (0, 0, -1) if table is None else (table.source.start, table.source.end, table.destination)
    return (*tensors, 1, payload.transfer, *loaded)


def _moved(feature_map: FeatureMap, delta: int) -> FeatureMap:
    return feature_map if feature_map.region == CONSTANTS else feature_map.moved(delta)
