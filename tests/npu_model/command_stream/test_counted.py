"""Counted words are those of the stream, whatever was counted before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from operation_strategies import OPERATIONS
from scheduling import legalised

from npu_model.command_stream.counted import WordCounter
from npu_model.command_stream.encode import encode_operations
from npu_model.program import Control, ControlKind, DmaWait, KernelWait, Operation

WAITS = st.builds(DmaWait, st.integers(0, 15)) | st.builds(KernelWait, st.integers(0, 15))


def words(operations: list[Operation]) -> tuple[int, ...]:
    return encode_operations(operations, checked=False)[1]


@settings(max_examples=100)
@given(st.lists(OPERATIONS, min_size=1, max_size=5), st.data())
def test_words_are_those_of_the_stream_in_any_order_of_operations_that_come_again(some: list[Operation], data: st.DataObject) -> None:
    counter = WordCounter()
    kept = [one for one in some if not isinstance(one, Control)]
    again = (st.sampled_from(kept) | WAITS) if kept else WAITS
    for _ in range(3):
        operations = data.draw(st.lists(again, max_size=12))
        assert counter.words(operations) == words(operations)


def test_words_of_a_network_are_those_of_its_stream() -> None:
    counter = WordCounter()
    for program in legalised("tiny_residual").programs:
        operations = list(program.operations)
        assert isinstance(operations[-1], Control)
        assert operations[-1].kind is ControlKind.STOP
        assert counter.words(operations) == counter.words(operations) == words(operations)
