"""Counted words are those of the stream, whatever was counted before."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from operation_strategies import OPERATIONS, elementwise_operations, windowed_operations
from scheduling import legalised

from npu_model.command_stream import counted as module
from npu_model.command_stream.counted import changed_words, word_counter
from npu_model.command_stream.encode import encode_operations
from npu_model.errors import InputError
from npu_model.program import ByteRange, Control, ControlKind, DmaWait, FeatureMap, KernelOperation, KernelWait, Operation

WAITS = st.builds(DmaWait, st.integers(0, 15)) | st.builds(KernelWait, st.integers(0, 15))


def words(operations: list[Operation]) -> tuple[int, ...]:
    return encode_operations(operations, checked=False)[1]


@settings(max_examples=100)
@given(st.lists(OPERATIONS, min_size=1, max_size=5), st.data())
def test_words_are_those_of_the_stream_in_any_order_of_operations_that_come_again(some: list[Operation], data: st.DataObject) -> None:
    counter = word_counter()
    kept = [one for one in some if not isinstance(one, Control)]
    again = (st.sampled_from(kept) | WAITS) if kept else WAITS
    for _ in range(3):
        operations = data.draw(st.lists(again, max_size=12))
        assert counter.words(operations) == words(operations)


KERNELS = windowed_operations() | elementwise_operations()
PLACES = st.sampled_from([0, 16, 1 << 20, (1 << 40) - 16])


def moved(kernel: KernelOperation, data: st.DataObject) -> KernelOperation:
    """The kernel at other addresses."""

    def map_at(one: FeatureMap) -> FeatureMap:
        return replace(one, tiles=replace(one.tiles, bases=tuple(data.draw(PLACES) for _ in one.tiles.bases)))

    def range_at(one: ByteRange) -> ByteRange:
        start = data.draw(PLACES)
        return ByteRange(one.region, start, start + one.length)

    maps = {name: map_at(one) for name in ("ifm", "ofm", "ifm2") if (one := getattr(kernel, name)) is not None}
    ranges = {name: tuple(map(range_at, getattr(kernel, name))) for name in ("weights", "scales")}
    return kernel.having(**maps, **ranges)


@settings(max_examples=100)
@given(st.lists(KERNELS, min_size=1, max_size=2), st.data())
def test_words_of_kernels_at_other_addresses_are_those_of_the_stream(some: list[KernelOperation], data: st.DataObject) -> None:
    counter = word_counter()
    places = [one for kernel in some for one in (kernel, moved(kernel, data))]
    operations: list[Operation] = data.draw(st.lists(st.sampled_from(places), max_size=12))
    assert counter.words(operations) == words(operations)


@given(KERNELS)
def test_an_address_that_no_register_holds_is_refused_behind_a_kernel_at_others_too(kernel: KernelOperation) -> None:
    tiles = replace(kernel.ofm.tiles, bases=(1 << 40, 0, 0, 0))
    beyond = kernel.having(ofm=replace(kernel.ofm, tiles=tiles))
    for operations in ([beyond], [kernel, beyond]):
        with pytest.raises(InputError, match=r"OFM_BASE0"):
            word_counter().words(operations)


def test_words_of_a_network_are_those_of_its_stream() -> None:
    counter = word_counter()
    for program in legalised("tiny_residual").programs:
        operations = list(program.operations)
        assert isinstance(operations[-1], Control)
        assert operations[-1].kind is ControlKind.STOP
        assert counter.words(operations) == counter.words(operations) == words(operations)


NUMBERS = st.integers(0x100, 0x1FF) | st.integers(0x4000, 0x40FF)
ASKED = st.dictionaries(NUMBERS, st.integers(0, 3) | st.integers(0, (1 << 48) - 1), max_size=8)


@pytest.mark.skipif(module._CORE is None, reason="the core was not built")
@given(st.lists(ASKED, max_size=12))
def test_the_core_counts_what_its_python_form_counts(asked: list[dict[int, int]]) -> None:
    flat = [array("q", [one for pair in settings.items() for one in pair]) for settings in asked]
    found = list(changed_words(flat))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CORE", None)
        assert found == list(changed_words(flat))
